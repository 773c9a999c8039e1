#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 150
# Messages with tags: on the node, between virtual nodes, over each network, with little room for unexpected ones.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
t="$B/tests/multi/p2p_test"
for n in 1 2 5; do
    run "$n ranks" "$weirrun" -n $n "$t"
done
run "staged copies" env WEIR_SHM_CMA=off "$weirrun" -n 2 "$t"
run "little room" env WEIR_UNEXPECTED_LIMIT=1K "$weirrun" -n 3 "$t"
# rank 0's limit holds for all: senders and receivers count by it
run "limits that differ" "$weirrun" -n 2 sh -c 'limit=64M; [ "$WEIR_JOB_RANK" = 0 ] || limit=1K; WEIR_UNEXPECTED_LIMIT=$limit exec "$@"' \
    sh "$t" -r 100
for net in $(networks); do
    run "$net between nodes" env WEIR_NETWORK=$net "$weirrun" -n 4 --nodes 2 --placement cyclic "$t" -r 200
    run "$net alone" env WEIR_TRANSPORT=$net "$weirrun" -n 3 "$t" -r 200
done
for net in $(networks); do
    run "$net, contrary" env WEIR_NETWORK=$net WEIR_CONTRARY=yes "$weirrun" -n 3 --nodes 3 "$t" -b 100000 -r 50
    run "$net, delays" env WEIR_TRANSPORT=$net WEIR_FAULT='delay=am:300us:0.2' "$weirrun" -n 2 "$t" -b 100000 -r 50
done
# what cannot be is refused by a sentence
out=$(WEIR_TRANSPORT=shm "$weirrun" -n 2 --nodes 2 "$t" 2>&1) && { echo "FAIL: shm between two nodes was not refused"; failed=1; }
case $out in
*"serves one node only"*) ;;
*) echo "FAIL: no reason is given: $out"; failed=$((failed + 1)) ;;
esac
finish
