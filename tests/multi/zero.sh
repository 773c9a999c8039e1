#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 300
# The ZeRO engine against the loop of one process: stages, rules, types, orders, on several ranks and nodes. And that the
# comparison finds what it is there for.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
t="$B/tests/multi/zero_test"
export OPENBLAS_NUM_THREADS=1
run "one rank" "$weirrun" -n 1 "$t" stages rules types orders
run "2 ranks" "$weirrun" -n 2 "$t" stages types orders
run "3 ranks" "$weirrun" -n 3 "$t" stages rules
run "4 ranks in groups" "$weirrun" -n 4 "$t" groups
run "5 ranks" "$weirrun" -n 5 "$t" brief
run "6 ranks on 3 nodes" "$weirrun" -n 6 --nodes 3 "$t" brief
run "3 ranks on 2 nodes" "$weirrun" -n 3 --nodes 2 "$t" orders
found() { # the test finds what is wrong
    output=$("$weirrun" -n 2 "$t" "$1" 2>&1) && { echo "nothing was found"; return 1; }
    grep -q 'FAIL rank' <<<"$output" || { printf '%s\n' "$output"; return 1; }
}
for mutant in lost mean stale; do
    run "mutant $mutant" found "mutant-$mutant"
done
finish
