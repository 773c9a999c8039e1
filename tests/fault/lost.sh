#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 150
# A killed rank becomes an error at every rank that waits for it, on the node and over each network.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
t="$B/tests/fault/lost_peer"
survive() { # LABEL COMMAND...: the job ends with the victim's code; the survivors' verdict is in the output
    label=$1
    shift
    output=$("$@" 2>&1)
    if printf '%s\n' "$output" | grep -q '^PASS' && ! printf '%s\n' "$output" | grep -q '^FAIL'; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $label:"
        printf '%s\n' "$output" | tail -n 20 | sed 's/^/    /'
    fi
}
for how in recv any send signal compute; do
    survive "$how on the node" timeout 60 "$weirrun" -n 4 --on-failure continue "$t" $how
    for net in $(networks); do
        survive "$how over $net" env WEIR_NETWORK=$net timeout 60 "$weirrun" -n 4 --nodes 2 --placement cyclic --on-failure continue "$t" $how
    done
done
finish
