#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 120
# A rank that comes late to a collective: one warning that tells who it is and what it called last, or an error at all others.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
t="$B/tests/multi/overdue_test"
late="timeout 60 $weirrun -n 3"

# warned LABEL OPTIONS...: one line in all ranks' logs, which names the late rank and its last call
warned() {
    label=$1
    shift
    output=$(TEST_LOG=1 WEIR_WARN_AFTER=0.2s "$@" 2>&1)
    if [ "$(printf '%s\n' "$output" | grep -c 'rank 2 on host .*allreduce of 1 int32.*has not come')" -eq 1 ] &&
        printf '%s\n' "$output" | grep -q '^PASS' && ! printf '%s\n' "$output" | grep -q '^FAIL'; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $label:"
        printf '%s\n' "$output" | tail -n 20 | sed 's/^/    /'
    fi
}

for what in barrier any first; do
    warned "warning, $what, on a node" $late "$t" warn $what 0.9
    warned "warning, $what, over a network" $late --nodes 3 "$t" warn $what 0.9
done
for what in barrier ibarrier any first ifirst; do
    run "error, $what, on a node" env WEIR_TIMEOUT=0.3s $late "$t" error $what 1.2
done
for what in barrier ibarrier any ifirst alloc; do
    run "error, $what, over a network" env WEIR_TIMEOUT=0.3s $late --nodes 3 "$t" error $what 1.2
done
output=$(TEST_LOG=1 WEIR_WARN_AFTER=10s $late "$t" warn barrier 0.5 2>&1)
case $output in
*"has not come"*) failed=$((failed + 1)); echo "FAIL: a short wait was warned of: $output" ;;
*) passed=$((passed + 1)) ;;
esac
finish
