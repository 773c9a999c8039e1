#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 150
# A killed rank becomes an error at every rank that waits for it, on the node and over each network.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
t="$B/tests/fault/lost_peer"
for how in recv any send signal compute sent; do
    survive "$how on the node" timeout 60 "$weirrun" -n 4 --on-failure continue "$t" $how
    for net in $(networks); do
        survive "$how over $net" env WEIR_NETWORK=$net timeout 60 "$weirrun" -n 4 --nodes 2 --placement cyclic --on-failure continue "$t" $how
    done
done
finish
