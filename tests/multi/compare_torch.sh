#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 120
# weir-compare-torch: it says what is missing or wrong; with PyTorch both train a small model to the same losses.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
compare="$B/perf/weir-compare-torch"
[ -x "$B/examples/gpt/weir-gpt" ] || { echo "there is no weir-gpt in this build"; exit 77; }
[ "$(nproc)" -ge 2 ] || { echo "this machine has one core"; exit 77; }
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
refused() { # CODE WORDS ARGUMENTS...
    local code=$1 words=$2 status
    shift 2
    "$compare" "$@" >"$tmp/out" 2>"$tmp/err"
    status=$?
    [ $status -eq "$code" ] && [ "$(wc -l <"$tmp/err")" -eq 1 ] && grep -q "^weir-compare-torch: .*$words" "$tmp/err" ||
        { echo "exit code $status"; cat "$tmp/err"; return 1; }
}
printf '#!/bin/sh\nexit 1\n' >"$tmp/python"
chmod +x "$tmp/python"
run "no PyTorch" refused 1 "has no PyTorch" --python "$tmp/python"
run "no such option" refused 2 "is not an option" --nonsense
run "bad number" refused 2 "number from 1" --steps x
run "bad variant" refused 2 "variants" --variants torch:ddp,tf
tokens() { # the most frequent words have the first numbers, the rest the last one
    printf 'a b a c a b d' >"$tmp/text"
    python3 "$B/perf/compare-torch-tokens" 4 "$tmp/tokens" "$tmp/text" >/dev/null || return 1
    [ "$(od -An -v -tu2 -w26 "$tmp/tokens" | tr -s ' ')" = " 0 1 0 2 0 1 0 3 0 1 0 2 0 3" ] || od -An -v -tu2 -w26 "$tmp/tokens"
}
both() {
    local small=(--layers 2 --width 32 --heads 2 --context 16 --vocabulary 300 --steps 4 --launches 1 --batches 2)
    python3 -c 'import torch' 2>/dev/null || /usr/bin/python3 -c 'import torch' 2>/dev/null || { echo "there is no PyTorch"; return 77; }
    "$compare" "${small[@]}" --variants torch:ddp-zero,weir:zero-0,weir:zero-3,weir:zero-3-bf16 --quiet --output "$tmp/both" >"$tmp/table" || return 1
    [ "$(grep -cE '^(torch:ddp-zero|weir:zero-[03](-bf16)?) ' "$tmp/table")" -eq 4 ] && [ "$(wc -l <"$tmp/both/summary.jsonl")" -eq 4 ]
}
run "PyTorch's losses" both
finish
