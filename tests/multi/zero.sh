#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 180
# The ZeRO engine against the loop of one process: stages, rules, types, orders, on several ranks and nodes.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
t="$B/tests/multi/zero_test"
export OPENBLAS_NUM_THREADS=1
run "one rank" "$weirrun" -n 1 "$t" stages rules types orders
for n in 2 3; do
    run "$n ranks" "$weirrun" -n $n "$t" stages rules types orders
done
run "4 ranks in groups" "$weirrun" -n 4 "$t" groups
run "5 ranks" "$weirrun" -n 5 "$t" orders
run "6 ranks on 3 nodes" "$weirrun" -n 6 --nodes 3 "$t" stages
run "3 ranks on 2 nodes" "$weirrun" -n 3 --nodes 2 "$t" orders rules
finish
