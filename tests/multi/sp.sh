#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 120
# Attention over divided sequences against plain attention.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
export OPENBLAS_NUM_THREADS=1
t="$B/tests/multi/sp_test"
for n in 1 2 3; do
    run "$n ranks" timeout 100 "$weirrun" -n $n "$t"
done
run "4 ranks on 2 nodes" timeout 100 "$weirrun" -n 4 --nodes 2 "$t"
run "3 ranks on 2 nodes" timeout 100 "$weirrun" -n 3 --nodes 2 "$t"
finish
