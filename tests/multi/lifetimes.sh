#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 200
# Contexts are opened and closed again and again, and nothing stays behind.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
t="$B/tests/multi/lifetimes_test"
run "one rank" env WEIR_BOOT=single "$t" 100 300
run "on the node" "$weirrun" -n 2 "$t" 60 300
for net in $(networks); do # the libraries keep a little
    run "over $net" env WEIR_NETWORK=$net "$weirrun" -n 2 --nodes 2 "$t" 20 500
done
finish
