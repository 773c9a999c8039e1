#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 240
# A rank is killed in the middle of all-reduces; the survivors agree on who is left and go on, on one node and on two.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
t="$B/tests/fault/shrink_test"
for how in one leader during two; do
    survive "$how, small, one node" timeout 60 "$weirrun" -n 4 --on-failure continue "$t" $how 10
    survive "$how, large, one node" timeout 60 "$weirrun" -n 4 --on-failure continue "$t" $how 300000
done
for net in $(networks); do
    for how in one during; do
        survive "$how, $net" env WEIR_NETWORK=$net timeout 60 "$weirrun" -n 4 --nodes 2 --placement cyclic --on-failure continue "$t" $how 5000
    done
done
finish
