#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 180
# Started calls return at once, whatever the other ranks do, although their plans are still to be made.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
t="$B/tests/multi/setup_test"
go="timeout 60 $weirrun"
for what in order busy many mismatch forms; do
    run "$what, on a node" $go -n 2 "$t" $what
    for net in $(networks); do
        run "$what, two nodes, $net" env WEIR_NETWORK=$net $go -n 2 --nodes 2 "$t" $what
    done
done
for nodes in 1 3; do # the job ends with the code of the rank that is killed
    run "loss, $nodes nodes" grep -c '^PASS' <($go -n 3 --nodes $nodes --on-failure continue "$t" loss 2>&1)
done
run "order, four ranks" $go -n 4 --nodes 2 "$t" order
run "many, three ranks" $go -n 3 "$t" many
run "many, three ranks on two nodes" $go -n 3 --nodes 2 "$t" many
run "progress thread" env WEIR_PROGRESS=thread $go -n 2 "$t" busy
run "an algorithm that does not serve" env WEIR_ALGO=allreduce:nonsense $go -n 2 "$t" error
finish
