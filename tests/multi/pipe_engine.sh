#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 120
# The pipeline engine: on the node, between virtual nodes, over each network, with puts out of order, and when a stage fails.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
t="$B/tests/multi/pipe_engine_test"
for n in 1 2 4; do
    run "$n stages" "$weirrun" -n $n "$t" run
done
run "two pipelines" "$weirrun" -n 4 "$t" twins
run "puts in pieces and out of order" env WEIR_CONTRARY=yes "$weirrun" -n 3 "$t" run
run "a stage that fails" "$weirrun" -n 3 "$t" fail
run "two stages, one fails" "$weirrun" -n 2 "$t" fail
run "ranks that do not agree" "$weirrun" -n 3 "$t" different
run "one rank that cannot" "$weirrun" -n 2 "$t" refused
for net in $(networks); do
    run "$net between nodes" env WEIR_NETWORK=$net "$weirrun" -n 2 --nodes 2 "$t" run
done
survivors() { # those that are not killed all end
    output=$(timeout 60 "$weirrun" -n 4 --on-failure continue "$t" lost 2>&1)
    printf '%s\n' "$output" | grep -q FAIL && { printf '%s\n' "$output"; return 1; }
    [ "$(printf '%s\n' "$output" | grep -c 'PASS: rank')" -eq 3 ] || { printf '%s\n' "$output"; return 1; }
}
run "a stage is killed" survivors
finish
