#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 180
# Communicators made from communicators; and the tests of messages, memory and collectives on such.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
m="$B/tests/multi"
for n in 1 2 5; do
    run "$n ranks" timeout 60 "$weirrun" -n $n "$m/comm_test"
done
for net in $(networks); do
    run "$net, two nodes" env WEIR_NETWORK=$net timeout 60 "$weirrun" -n 4 --nodes 2 --placement cyclic "$m/comm_test"
    run "$net, unequal nodes" env WEIR_NETWORK=$net timeout 60 "$weirrun" -n 5 --nodes 3 --placement list:0,1,0,0,2 "$m/comm_test"
done
how="dup reverse halves"
[ -z "${TEST_TIME_FACTOR:-}" ] || how=reverse # the code below is the same
for how in $how; do
    run "collectives, $how" env TEST_COMM=$how timeout 60 "$weirrun" -n 5 --nodes 2 "$m/coll_test" -r 6 -b 5000
    run "messages, $how" env TEST_COMM=$how timeout 60 "$weirrun" -n 4 "$m/p2p_test"
    run "memory, $how" env TEST_COMM=$how timeout 60 "$weirrun" -n 4 --nodes 2 "$m/mem_test"
done
finish
