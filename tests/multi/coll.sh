#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 240
# Collectives against a plain reference: on the node, between virtual nodes, over each network and algorithm.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
t="$B/tests/multi/coll_test"
for n in 1 2 3 5; do
    run "$n ranks" timeout 60 "$weirrun" -n $n "$t" -r 40 -s $n
done
for net in $(networks); do
    run "$net, two nodes" env WEIR_NETWORK=$net timeout 60 "$weirrun" -n 4 --nodes 2 "$t" -r 12
    run "$net alone" env WEIR_TRANSPORT=$net timeout 60 "$weirrun" -n 3 "$t" -r 4 -s 4
    run "$net, unequal nodes" env WEIR_NETWORK=$net timeout 60 "$weirrun" -n 5 --nodes 3 --placement list:0,1,0,0,2 "$t" -r 8 -s 5
done
run "rings" env WEIR_ALGO=allreduce:ring,allgather:ring,reduce_scatter:ring,bcast:chain timeout 60 "$weirrun" -n 4 --nodes 2 --placement cyclic "$t" -r 8
run "circulants" env WEIR_ALGO=allreduce:bruck,allgather:bruck,reduce_scatter:bruck,bcast:binomial timeout 60 "$weirrun" -n 3 --nodes 3 "$t" -r 8 -b 5000
run "hierarchical" env WEIR_ALGO=allreduce:hier,allgather:hier,reduce_scatter:hier timeout 60 "$weirrun" -n 6 --nodes 2 "$t" -r 6 -s 3
run "awkward network" env WEIR_CONTRARY=yes timeout 60 "$weirrun" -n 3 --nodes 3 "$t" -r 5 -s 7
out=$(WEIR_ALGO=allreduce:nonsense "$weirrun" -n 2 "$t" -r 1 2>&1) && { echo "FAIL: an unknown algorithm was taken"; failed=1; }
case $out in
*"no algorithm 'nonsense' for allreduce; there are direct, hier_put, hier, "*) ;;
*) echo "FAIL: no reason is given: $out"; failed=$((failed + 1)) ;;
esac
out=$(WEIR_ALGO=all_reduce:ring "$weirrun" -n 2 "$t" -r 1 2>&1) && { echo "FAIL: an unknown collective was taken"; failed=1; }
case $out in
*"'all_reduce:ring' does not begin with a collective; there are barrier, "*) ;;
*) echo "FAIL: no reason is given: $out"; failed=$((failed + 1)) ;;
esac
finish
