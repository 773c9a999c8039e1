#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 120
# The optimizer of a pipeline is stopped and goes on with other ranks and stages: from files, and from bytes.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
t="$B/tests/multi/pipe_ckpt_test"
[ -x "$t" ] || { echo "missing: jansson or xxhash when weir was built"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

run "one process" "$weirrun" -n 1 "$t" "$dir/one" train 1 0
run "two stages of two ranks" "$weirrun" -n 4 --nodes 2 "$t" "$dir/two" train 2 3
run "one process goes on" "$weirrun" -n 1 "$t" "$dir/two" resume 1 0
run "three stages go on" "$weirrun" -n 3 "$t" "$dir/two" resume 3 1
run "three stages" "$weirrun" -n 3 "$t" "$dir/three" train 3 2
run "two stages of two ranks go on" "$weirrun" -n 4 "$t" "$dir/three" resume 2 3
run "two stages go on with what one process saved" "$weirrun" -n 2 "$t" "$dir/one" resume 2 2
run "bytes of two stages of two ranks" "$weirrun" -n 4 "$t" "$dir/none" bytes 2 3
run "bytes of three stages" "$weirrun" -n 3 "$t" "$dir/none" bytes 3 1
finish
