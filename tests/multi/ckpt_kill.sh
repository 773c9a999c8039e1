#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 180
# A save of three ranks that comes to an end at every write, sync, rename, making and removal of every rank, and some that are killed.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
t="$B/tests/multi/ckpt_kill_test"
[ -x "$B/tools/weir-ckpt" ] || { echo "missing: jansson or xxhash when weir was built"; exit 77; }
base=/dev/shm # the test syncs often
[ -w $base ] || base=${TMPDIR:-/tmp}
dir=$(mktemp -d "$base/weir-ckpt.XXXXXX")
trap 'rm -rf "$dir"' EXIT
run "every operation" "$weirrun" -n 3 "$t" "$dir/every" every
killed() { # RANK OPERATION
    ! "$weirrun" -n 3 "$t" "$dir/$1.$2" kill "$1" "$2" >/dev/null 2>&1 && "$weirrun" -n 3 "$t" "$dir/$1.$2" check
}
for at in "0 2" "0 11" "0 17" "2 3"; do
    # shellcheck disable=SC2086
    run "killed: rank and operation $at" killed $at
done
finish
