#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 120
# A rank that is in weir_finalize still answers those who contact it, whether by puts and gets or by messages.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
t="$B/tests/multi/parting_test"
run "on the node" env WEIR_TRANSPORT=shm timeout 60 "$weirrun" -n 8 "$t"
for net in $(networks); do
    export WEIR_TRANSPORT=$net
    run "over $net" timeout 60 "$weirrun" -n 8 "$t"
    run "over $net, by messages" env WEIR_FAULT='refuse=reg' timeout 60 "$weirrun" -n 8 "$t"
done
finish
