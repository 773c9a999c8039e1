#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 180
# The ZeRO engine is stopped and goes on with other ranks, stages and partitions, and its model goes to another program and back.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
t="$B/tests/multi/zero_ckpt_test" tool="$B/tools/weir-ckpt"
[ -x "$tool" ] || { echo "missing: jansson or xxhash when weir was built"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

run "4 ranks, stage 3" "$weirrun" -n 4 --nodes 2 "$t" "$dir/a" train 3 flat adamw
run "go on: 2 ranks, stage 1" "$weirrun" -n 2 "$t" "$dir/a" resume 1 flat adamw
run "go on: 3 ranks, stage 2, whole tensors" "$weirrun" -n 3 "$t" "$dir/a" resume 2 whole adamw
run "go on: 1 rank, stage 0" "$weirrun" -n 1 "$t" "$dir/a" resume 0 flat adamw
run "1 rank, stage 0" "$weirrun" -n 1 "$t" "$dir/b" train 0 flat adafactor
run "go on: 4 ranks, stage 3" "$weirrun" -n 4 "$t" "$dir/b" resume 3 flat adafactor
run "another model" "$weirrun" -n 2 "$t" "$dir/a" other 1 flat adamw
export TEST_BF16=1
run "2 ranks, stage 2, on disk" env TEST_OFFLOAD="$dir" "$weirrun" -n 2 "$t" "$dir/d" train 2 flat adamw
run "go on: 1 rank, in memory" "$weirrun" -n 1 "$t" "$dir/d" resume 0 flat adamw
run "go on: 3 ranks, stage 3, on disk" env TEST_OFFLOAD="$dir" "$weirrun" -n 3 "$t" "$dir/d" resume 3 flat adamw
run "1 rank, stage 1, in memory" "$weirrun" -n 1 "$t" "$dir/e" train 1 flat adamw
run "go on: 2 ranks, on disk" env TEST_OFFLOAD="$dir" "$weirrun" -n 2 "$t" "$dir/e" resume 1 flat adamw
unset TEST_BF16
away_and_back() {
    "$tool" merge "$dir/a" "$dir/model.safetensors" --prefix param/ --replace '' &&
        "$tool" list "$dir/model.safetensors" | grep -qE '^layer.0.weight +F32 +256x64 ' &&
        "$tool" convert "$dir/model.safetensors" "$dir/c" --prefix '' --replace param/ --as-step 3 &&
        cp "$dir/a/middle" "$dir/c/" && "$weirrun" -n 3 "$t" "$dir/c" model 3 flat adamw
}
run "the model away and back" away_and_back
finish
