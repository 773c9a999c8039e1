#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 150
# Small collectives on a node: results, the same bits as by plans, ranks that do not agree, a lost rank.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
t="$B/tests/multi/fast_test"
plans=barrier:dissemination,bcast:direct,allreduce:direct,reduce_scatter:direct,allgather:direct
hash_of() { # COMMAND...: what it prints
    "$@" 2>&1 | tee "$scratch" | sed -n 's/^HASH //p'
}
scratch=$(mktemp) || exit 99
trap 'rm -f "$scratch"' EXIT
for n in 2 3 6; do
    fast=$(hash_of timeout 60 "$weirrun" -n $n "$t" data)
    [ -n "$fast" ] || { failed=$((failed + 1)); echo "FAIL $n ranks:"; tail -n 5 "$scratch"; continue; }
    planned=$(hash_of env WEIR_ALGO=$plans timeout 60 "$weirrun" -n $n "$t" data)
    if [ "$fast" = "$planned" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $n ranks: results $fast, and by plans ${planned:-none:}"
        tail -n 5 "$scratch"
    fi
done
run "two roots" timeout 60 "$weirrun" -n 3 "$t" root
run "two orders" timeout 60 "$weirrun" -n 3 "$t" order
for form in "" started; do
    # shellcheck disable=SC2086
    timeout 60 "$weirrun" -n 4 --on-failure continue "$t" lost $form >"$scratch" 2>&1
    if [ "$(grep -c '^PASS' "$scratch")" -eq 3 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL a lost rank:"
        tail -n 12 "$scratch"
    fi
done
finish
