#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 180
# Checkpoints: saved by some ranks and read by others, refused where ranks do not fit together, left whole by a rank that is killed, and
# what weir-ckpt makes of them, compared by a reader that is not weir's.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
t="$B/tests/multi/ckpt_test" tool="$B/tools/weir-ckpt"
[ -x "$tool" ] || { echo "missing: jansson or xxhash when weir was built"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python=$(command -v python3) && reader="$python ${top_srcdir:-.}/tests/fixtures/ckpt/read.py"

for n in 1 3 4; do
    run "$n ranks save" "$weirrun" -n $n "$t" "$dir/by$n" save 1$n
done
run "two nodes save in the background" "$weirrun" -n 4 --nodes 2 "$t" "$dir/by4" background 15
run "2 read what 1 saved" "$weirrun" -n 2 "$t" "$dir/by1" load 11
run "1 reads what 3 saved" "$weirrun" -n 1 "$t" "$dir/by3" load 13
run "5 read what 4 saved" "$weirrun" -n 5 --nodes 2 "$t" "$dir/by4" load 15
run "what cannot be" "$weirrun" -n 3 "$t" "$dir/refused" refuse

# lost OPERATION: the last rank dies at one of its writes and syncs; the others hear of it, and step 14 stays
lost() {
    output=$(timeout 60 "$weirrun" -n 3 --on-failure continue "$t" "$dir/by4" lost "$1" 2>&1)
    printf '%s\n' "$output" | grep -q FAIL && { printf '%s\n' "$output"; return 1; }
    [ "$(printf '%s\n' "$output" | grep -c 'PASS: rank')" -eq 2 ] || { printf '%s\n' "$output"; return 1; }
    "$tool" verify "$dir/by4" | grep -q 'step 15 is whole'
}
for operation in 1 4 5 6; do
    run "a rank is killed at operation $operation" lost $operation
done
run "and then it goes on" "$weirrun" -n 2 "$t" "$dir/by4" save 16

same() { # two lists that are not empty
    [ -s "$1" ] && cmp "$1" "$2"
}
others_read() {
    local checkpoint
    checkpoint=$(echo "$dir"/by3/ckpt-*)
    "$tool" merge "$dir/by3" "$dir/whole.safetensors" >/dev/null || return 1
    $reader "$checkpoint" >"$dir/a" && $reader "$dir/whole.safetensors" >"$dir/b" && same "$dir/a" "$dir/b" || return 1
    grep -q '^layer.weight BF16 77x1001 ' "$dir/a" || return 1
    "$tool" convert "$dir/whole.safetensors" "$dir/again" --as-step 13 >/dev/null || return 1
    $reader "$(echo "$dir"/again/ckpt-*)" >"$dir/c" && same "$dir/a" "$dir/c"
}
if [ -n "$python" ]; then
    run "a reader that is not weir's" others_read
else
    echo "SKIP: python3 is missing"
fi

says() { # says STATUS TEXT COMMAND...
    local status=$1 text=$2 out code
    shift 2
    out=$("$@" 2>&1)
    code=$?
    [ $code -eq "$status" ] && grep -qE "$text" <<<"$out" || { echo "$* gave $code: $out"; return 1; }
}
run "list" says 0 'ckpt-00000001-step-13 +13 .* committed' "$tool" list "$dir/by3"
run "list of tensors" says 0 'exp_avg +F64 +200001' "$tool" list "$dir/by3" --tensors
run "list as JSON" says 0 '"data/2": \{' "$tool" list "$dir/by3" --tensors --json
run "verify" says 0 'step 13 is whole' "$tool" verify "$dir/by3" --step 13
run "verify as JSON" says 0 '"checked": [1-9]' "$tool" verify "$dir/by3" --json
run "no such step" says 1 'no committed checkpoint of step 99; ' "$tool" verify "$dir/by3" --step 99
run "no such command" says 2 "'what' is no command" "$tool" what x
run "one path is missing" says 2 'wants two paths' "$tool" merge "$dir/by3"
run "as another type" says 0 'written' "$tool" merge "$dir/by3" "$dir/half.safetensors" --prefix embedding. --replace e/ --dtype BF16
run "its tensors" says 0 'e/weight +BF16 +1000x333' "$tool" list "$dir/half.safetensors"
full() { # a limit of sizes stands for a full disk: a sentence, and no half file
    (ulimit -f 100; says 1 'whole2.safetensors.tmp: File too large' "$tool" merge "$dir/by3" "$dir/whole2.safetensors") || return 1
    [ -z "$(ls "$dir" | grep whole2)" ]
}
run "a full disk" full
altered() {
    local shard
    shard=$(ls "$dir"/by3/ckpt-*/shard-00001*)
    printf 'x' | dd of="$shard" bs=1 seek=500000 conv=notrunc status=none
    says 1 'altered: the checksum of its bytes' "$tool" verify "$dir/by3"
}
run "an altered byte" altered
finish
