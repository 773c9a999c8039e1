#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 300
# Reproducible steps: the same bits for any ranks, nodes, stages and buckets, also when others have begun.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
t="$B/tests/multi/zero_repro_test"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
save=(save "$dir")
[ -x "$B/tools/weir-ckpt" ] || { save=() && echo "without going on from files: jansson or xxhash was missing when weir was built"; }
run "the same bits, 1 rank" "$weirrun" -n 1 "$t"
run "the same bits, 2 ranks" "$weirrun" -n 2 "$t"
run "the same bits, 8 ranks" "$weirrun" -n 8 "$t" brief
run "the same bits, 4 ranks on 2 nodes" "$weirrun" -n 4 --nodes 2 "$t" brief "${save[@]}"
if [ ${#save[@]} -gt 0 ]; then
    run "4 ranks on 2 nodes have begun, 1 rank goes on" "$weirrun" -n 1 "$t" brief resume "$dir"
    run "4 ranks on 2 nodes have begun, 2 ranks go on" "$weirrun" -n 2 --nodes 2 "$t" brief resume "$dir"
    run "4 ranks on 2 nodes have begun, 8 ranks go on" "$weirrun" -n 8 "$t" brief resume "$dir"
fi
finish
