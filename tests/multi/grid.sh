#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 90
# Grids of ranks, on nodes of equal and unequal sizes and every placement.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
t="$B/tests/multi/grid_test"
run "one node" timeout 60 "$weirrun" -n 6 "$t"
run "cyclic" timeout 60 "$weirrun" -n 4 --nodes 2 --placement cyclic "$t"
run "two nodes of three" timeout 60 "$weirrun" -n 6 --nodes 2 --placement cyclic "$t"
run "unequal nodes" timeout 60 "$weirrun" -n 6 --nodes 3 --placement list:0,1,0,1,1,2 "$t"
finish
