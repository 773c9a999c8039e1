#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 200
# Broken plans in the executor (mutants_test.c), and many puts in a row (puts_test.c): on one node, and on three, over one network as it is and the other at its worst.
# usage: mutants.sh [SEED [MUTANTS]]: of each algorithm
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
t="$B/tests/multi/mutants_test"
seed=${1:-1} number=${2:-5}
board=$(mktemp) || exit 99
trap 'rm -f "$board"' EXIT
run "one node" timeout 60 "$weirrun" -n 3 "$t" -s "$seed" -k "$number" "$board"
run "one node, heap, in place" timeout 60 "$weirrun" -n 3 "$t" -s "$seed" -k "$number" -h -i "$board"
worst=no
for net in $(networks); do
    run "three nodes, $net, contrary $worst" env WEIR_NETWORK="$net" WEIR_CONTRARY=$worst timeout 60 \
        "$weirrun" -n 4 --nodes 3 --placement list:0,1,1,2 "$t" -s "$seed" -k "$number" "$board"
    worst=yes
    # signals that are sent many at a time, over the network at its worst
    run "puts in a row, $net" env WEIR_NETWORK="$net" WEIR_CONTRARY=yes timeout 60 "$weirrun" -n 3 --nodes 3 \
        "$B/tests/multi/puts_test"
done
finish
