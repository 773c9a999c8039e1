#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 120
# Registered memory and one-sided operations: on the node, between virtual nodes, over each network.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
t="$B/tests/multi/mem_test"
for n in 1 2 4; do
    run "$n ranks" "$weirrun" -n $n "$t"
done
run "staged copies" env WEIR_SHM_CMA=off "$weirrun" -n 2 "$t"
run "a limit" env WEIR_MEM_LIMIT=1M "$weirrun" -n 3 "$t" limit
for net in $(networks); do
    run "$net between nodes" env WEIR_NETWORK=$net "$weirrun" -n 5 --nodes 2 --placement list:0,1,0,0,1 "$t"
    run "$net alone" env WEIR_TRANSPORT=$net "$weirrun" -n 3 "$t"
    # a rank alone on its node has no shared memory, and still is reached by puts of the network
    trace=$(mktemp -d)
    run "$net, one alone" env WEIR_NETWORK=$net WEIR_TRACE="$trace/%r.%t" "$weirrun" -n 3 --nodes 2 --placement list:0,0,1 "$t"
    grep -q ' put' "$trace/0.$net" && grep -q ' put' "$trace/2.$net" || { echo "FAIL: $net was not used for puts"; failed=$((failed + 1)); }
    rm -rf "$trace"
done
finish
