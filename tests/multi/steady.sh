#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 240
# The steady state on the node: no allocation, and no system call but those of waiting for a rank that has no core now.
t=$top_builddir/tests/multi/steady_test
weirrun=$top_builddir/tools/weirrun
unset "${!WEIR_@}"
out=$("$weirrun" -n 2 --bind core "$t" 2>&1)
status=$?
[ $status -eq 77 ] && { echo "$out"; exit 77; }
[ $status -eq 0 ] || { echo "$out"; exit 1; }
echo "$out"
command -v strace >/dev/null && strace -o /dev/null true 2>/dev/null ||
    { echo "strace is missing or not allowed: system calls were not counted"; exit 0; }
trace=$(mktemp) || exit 99
trap 'rm -f "$trace"' EXIT
rounds=20000
# Two ranks on busy cores do wait: the best of some attempts counts.
for attempt in 1 2 3 4 5; do
    timeout 60 strace -f -qq -e signal=none -o "$trace" "$weirrun" -n 2 --bind core "$t" $rounds >/dev/null 2>&1 ||
        { echo "under strace the test fails, or does not end: attempt $attempt"; continue; }
    if awk -v rounds=$rounds '
        /close\(-7701/ { inside[$1] = 1; phases++; next }
        /close\(-7702/ { inside[$1] = 0; next }
        inside[$1] && $2 ~ /^[a-z_0-9]+\(/ {
            split($2, call, "(")
            n[call[1]]++
            if (call[1] ~ /^(futex|sched_yield|membarrier)$/) waiting++; else others++
        }
        END {
            operations = phases * rounds
            printf "%d rounds; system calls: %d of waiting, %d others:", operations, waiting, others
            for (name in n) printf " %s %d", name, n[name]
            print ""
            exit !(phases >= 10 && others <= operations / 1000 && waiting <= operations / 10)
        }' "$trace"; then
        exit 0
    fi
done
echo "the steady state makes system calls"
exit 1
