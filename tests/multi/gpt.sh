#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 180
# The trainer: grids of every kind give the losses of one process; a run that was stopped goes on as if it had not been, on another
# grid, too; what cannot be is said in one sentence, and every rank ends.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
gpt="$B/examples/gpt/weir-gpt"
export OPENBLAS_NUM_THREADS=1
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
# Text with a pattern, so that there is something to learn.
mkdir "$tmp/text"
awk 'BEGIN { for (i = 0; i < 400; i++) printf "%d and %d make %d;\n", i % 7, i % 5, i % 7 + i % 5 }' >"$tmp/text/sums"
awk 'BEGIN { for (i = 0; i < 300; i++) printf "the %s of %d\n", i % 3 ? "square" : "root", i % 9 }' >"$tmp/text/words"
model="--layers 4 --width 16 --heads 2 --context 16 --batch 8 --steps 8 --warmup 2 --lr 0.01 --log-every 1 --eval-every 0 --threads 1"

# train NAME RANKS OPTIONS...: its lines go to $tmp/NAME
train() {
    local name=$1 ranks=$2
    shift 2
    # shellcheck disable=SC2086
    timeout 100 "$weirrun" -n $ranks "$gpt" $model --json "$@" "$tmp/text" >"$tmp/$name" 2>"$tmp/$name.err" ||
        { cat "$tmp/$name.err"; return 1; }
}
# numbers NAME: kind, step, loss and norm (or perplexity) of each line
numbers() {
    sed -nE 's/.*"event": "(step|validation)", "step": ([0-9]+), "loss": ([0-9.e+-]+), "(norm|perplexity)": ([0-9.e+-]+).*/\1-\2 \3 \5/p' "$tmp/$1"
}
# same NAME OTHER TOLERANCE: all numbers of the second run are those of the first one, which learns
same() {
    awk -v near="$3" '
        function far(a, b) { return a - b > near * a || b - a > near * a }
        FNR == NR { loss[$1] = $2; norm[$1] = $3; next }
        { n++ }
        !($1 in loss) || far(loss[$1], $2) || far(norm[$1], $3) { print $1 ": " $2 " " $3 " instead of " loss[$1] " " norm[$1]; bad = 1 }
        END {
            if (n < 4) { print n " lines"; exit 1 }
            if (!(loss["step-8"] < loss["step-1"] - 0.3)) { print "it does not learn: " loss["step-8"]; exit 1 }
            exit bad
        }' <(numbers "$1") <(numbers "$2")
}
# grid LABEL RANKS OPTIONS...: as one process
grid() {
    label="$2 ranks $1"
    train grid "$2" "${@:3}" && same "${reference:-alone}" grid 1e-5
}

run "one process" train alone 1 --zero 0
for zero in 0 1 2 3; do
    run "zero $zero" grid "zero $zero" 2 --zero $zero
done
run "micro-batches" grid "micro-batches" 2 --microbatches 2 --accumulate 2 --zero 3
run "pipeline of two" grid "pp 2" 2 --pp 2 --microbatches 4
run "pipeline of three, uneven" grid "pp 3" 3 --pp 3 --microbatches 4 --cut parameters --zero 1
run "pipeline and zero 3" grid "pp 2 x dp 2" 4 --pp 2 --microbatches 4 --zero 3
run "pipeline and zero 0" grid "pp 2 x dp 2" 4 --pp 2 --microbatches 2 --accumulate 2 --zero 0
for schedule in gpipe interleaved looped-bfs zb-h1 zb-h2 zb-v; do
    run "$schedule" grid "$schedule" 2 --pp 2 --microbatches 4 --schedule $schedule
done
run "recomputing" grid "recompute" 2 --pp 2 --microbatches 4 --recompute 1
run "recomputing half" grid "recompute" 1 --microbatches 2 --recompute 2
run "tp 2" grid "tp 2" 2 --tp 2
run "pipeline and tp" grid "pp 2 x tp 2" 4 --pp 2 --tp 2 --microbatches 4 --schedule zb-h1
run "dp and tp" grid "dp 2 x tp 2" 4 --tp 2 --zero 3 --microbatches 2 --recompute 1
run "sp and tp" grid "sp 2 x tp 2" 4 --sp 2 --tp 2 --zero 1 --sp-method ring
run "one process with three heads" train odd 1 --width 18 --heads 3 --dropout 0.1
reference=odd run "tp 2, uneven" grid "tp 2 uneven" 2 --width 18 --heads 3 --dropout 0.1 --tp 2
reference=odd run "tp 3" grid "tp 3" 3 --width 18 --heads 3 --dropout 0.1 --tp 3 --zero 0
for method in ulysses ring; do
    run "sp 2, $method" grid "sp 2 $method" 2 --sp 2 --sp-method $method
done
run "sp 3, uneven" grid "sp 3 ring" 3 --sp 3 --sp-method ring --zero 1
run "pipeline and sp" grid "pp 2 x sp 2" 4 --pp 2 --sp 2 --microbatches 4 --zero 2
run "dp and sp" grid "dp 2 x sp 2" 4 --sp 2 --sp-method ring --zero 3 --microbatches 2
run "one process with dropout" train dropped 1 --dropout 0.2
run "dropout is seen" bash -c "! cmp -s $tmp/alone $tmp/dropped"
reference=dropped run "dropout" grid "dropout" 4 --pp 2 --microbatches 4 --dropout 0.2 --schedule zb-h1

# Parameters in bf16: losses and norms are those of fp32 within half a percent.
narrow() { # RANKS OPTIONS...
    label="bf16, $1 ranks"
    train narrow "$1" --dtype bf16 "${@:2}" && same alone narrow 5e-3
}
run "bf16" narrow 1 --zero 0
run "bf16 is seen" bash -c "! cmp -s <(grep '\"step\": 2,' $tmp/alone | cut -d, -f 3) <(grep '\"step\": 2,' $tmp/narrow | cut -d, -f 3)"
run "bf16 and zero 3" narrow 2 --zero 3 --microbatches 2
run "bf16 in a pipeline" narrow 4 --pp 2 --microbatches 4 --schedule zb-h1 --zero 2
run "bf16, tp and sp" narrow 4 --tp 2 --sp 2 --sp-method ring --zero 1

# Stopped, and resumed on other grids.
label="resume"
run "saved" train first 4 --pp 2 --zero 3 --steps 4 --save "$tmp/ckpt" --lr-schedule constant
run "one process, constant rate" train constant 1 --zero 0 --lr-schedule constant
resumed() {
    train resumed "$@" --resume "$tmp/ckpt" --lr-schedule constant && same constant resumed 1e-5 &&
        numbers resumed | grep -q '^step-5 ' && ! numbers resumed | grep -q '^step-4 '
}
run "resumed by two to a layer" resumed 4 --tp 2 --zero 3 --save "$tmp/ckpt4"
divided_save() { # what ranks saved of their parts of each layer
    train resumed 1 --zero 0 --resume "$tmp/ckpt4" --lr-schedule constant --steps 9 && train longer 1 --zero 0 --lr-schedule constant --steps 9 &&
        [ "$(numbers resumed | grep '^step-9 ' | cut -c 1-12)" = "$(numbers longer | grep '^step-9 ' | cut -c 1-12)" ]
}
run "what was saved by two to a layer" divided_save
run "resumed by one process" resumed 1 --zero 0
narrow_save() { # masters are saved: what bf16 saved goes on in fp32
    train resumed 2 --dtype bf16 --zero 3 --steps 4 --lr-schedule constant --save "$tmp/ckpt5" &&
        train resumed 1 --zero 0 --resume "$tmp/ckpt5" --lr-schedule constant && same constant resumed 5e-3
}
run "bf16 saved, fp32 resumed" narrow_save
run "resumed by two" resumed 2 --zero 2
run "resumed by three stages, and exported" resumed 3 --pp 3 --zero 3 --microbatches 4 --schedule zb-h1 --save "$tmp/ckpt2" --export "$tmp/model"
exported() { head -c 4000 "$tmp/model" | grep -a -q '"h.3.mlp.c_proj.weight":{"dtype":"F32","shape":\[64,16\]'; }
run "what was exported" exported
# The model that was exported is that at the end of "constant": its validation loss is the same, and the next step goes down from there.
imported() {
    train imported "$@" --import "$tmp/model" --lr 0 --weight-decay 0 || return 1
    awk -F'[ ,:]+' '/"validation"/ { for (i = 1; i < NF; i++) if ($i == "\"loss\"") print $(i + 1) }' "$tmp/constant" "$tmp/imported" |
        awk '{ l[NR] = $1 } END { d = l[1] - l[2]; exit !(NR == 2 && d < 2e-4 && d > -2e-4) }'
}
run "imported" imported 2 --zero 3
run "imported into a pipeline" imported 2 --pp 2 --zero 1
# A model that weir-gpt exported has the loss that PyTorch recorded of it (tests/fixtures/gpt/load_torch.py).
recorded() {
    local fixtures=${top_srcdir:-.}/tests/fixtures/gpt
    "$gpt" --json --layers 2 --width 8 --heads 2 --context 16 --threads 1 --zero 0 --steps 1 --lr 0 --weight-decay 0 \
        --import "$fixtures/model.safetensors" "$tmp/text/sums" >"$tmp/recorded" || return 1
    sed -n 's/.*"validation", "step": 1, "loss": \([0-9.]*\).*/\1/p' "$tmp/recorded" | cat - "$fixtures/model.loss" |
        awk '{ l[NR] = $1 } END { d = l[1] - l[2]; print l[1] " and " l[2]; exit !(NR == 2 && d < 1e-5 && d > -1e-5) }'
}
run "PyTorch's loss" recorded
# start NAME OPTIONS...: a run without an end, in the background, whose launcher is $pid
start() {
    # shellcheck disable=SC2086
    "$weirrun" -n 2 "$gpt" $model --json --steps 1000000 --seconds 60 --pp 2 "${@:2}" "$tmp/text" >"$tmp/$1" 2>&1 &
    pid=$!
}
# until COMMAND...: waits for it to succeed
until_true() {
    for _ in $(seq 300); do
        "$@" >/dev/null 2>&1 && return
        sleep 0.1
    done
    echo "in vain: $*"
    return 1
}
signalled() { # saves and leaves
    local status
    start long --lr-schedule constant --save "$tmp/ckpt3"
    until_true grep -q '"step": 6,' "$tmp/long" || return 1
    kill -USR1 $pid
    wait $pid
    status=$?
    [ $status -eq 0 ] && grep -q '"reason": "signal"' "$tmp/long" && compgen -G "$tmp/ckpt3/*/COMMITTED" >/dev/null ||
        { echo "exit code $status"; tail -n 5 "$tmp/long"; return 1; }
}
killed() { # at any time: what was committed before is there, and the run goes on from it as if nothing had happened
    local last
    start dead --lr-schedule constant --save "$tmp/ckpt4" --save-every 2
    until_true compgen -G "$tmp/ckpt4/*/COMMITTED" || return 1
    sleep "0.0$((RANDOM % 10))"
    kill -KILL "$(pgrep -P $pid | tail -n 1)"
    wait $pid && { echo "the launcher takes it for a success"; return 1; }
    last=$(for c in "$tmp"/ckpt4/*/COMMITTED; do c=${c%/COMMITTED}; echo "${c##*step-}"; done | sort -n | tail -n 1)
    train whole 1 --zero 0 --lr-schedule constant --steps $((last + 4)) &&
        train rest 2 --zero 2 --lr-schedule constant --steps $((last + 4)) --resume "$tmp/ckpt4" && same whole rest 1e-3 &&
        [ "$(numbers rest | wc -l)" -eq 5 ]
}
run "killed" killed
run "a signal" signalled

# What cannot be: one sentence, once, and an exit code on every rank.
: >"$tmp/empty"
head -c 20 "$tmp/text/sums" >"$tmp/short"
mkdir "$tmp/folder"
refused() { # WORDS CODE ARGUMENTS...
    local words=$1 code=$2 status
    shift 2
    timeout 60 "$weirrun" -n 2 --on-failure continue "$gpt" "$@" >"$tmp/out" 2>"$tmp/err"
    status=$?
    [ $status -eq "$code" ] || { echo "exit code $status"; cat "$tmp/err"; return 1; }
    [ "$(grep -c '^weir-gpt: ' "$tmp/err")" -eq 1 ] || { echo "not one sentence:"; cat "$tmp/err"; return 1; }
    grep -q "^weir-gpt: .*$words" "$tmp/err" || { cat "$tmp/err"; return 1; }
}
damaged() { # a byte of the data is another
    local shard
    cp -r "$tmp/ckpt" "$tmp/damaged"
    for shard in "$tmp"/damaged/*/*.safetensors; do printf 'X' | dd of="$shard" bs=1 seek=$(($(stat -c %s "$shard") - 3)) conv=notrunc status=none; done
    # shellcheck disable=SC2086
    refused "" 1 $model --resume "$tmp/damaged" "$tmp/text"
}
run "no file" refused "name files" 2
run "unknown option" refused "no option --nonsense" 2 --nonsense "$tmp/text"
run "bad number" refused "steps takes an integer" 2 --steps 1x "$tmp/text"
run "missing value" refused "needs a value" 2 "$tmp/text" --steps
run "missing file" refused "cannot be opened" 1 "$tmp/nothing"
run "empty file" refused "is empty" 1 "$tmp/text" "$tmp/empty"
run "short file" refused "too few" 1 "$tmp/short"
run "folder without files" refused "has no file" 1 "$tmp/folder"
run "grid" refused "" 1 --pp 3 "$tmp/text"
run "too few heads for tp" refused "as many heads" 1 --heads 1 --tp 2 "$tmp/text"
run "experts" refused "expert parallelism is not supported" 2 --ep 2 "$tmp/text"
run "rule of whole tensors" refused "looks at whole tensors" 1 --tp 2 --rule lamb "$tmp/text"
run "sequences too short" refused "cannot be divided" 1 --context 1 --sp 2 "$tmp/text"
run "too few heads" refused "heads cannot be divided" 1 --heads 1 --sp 2 "$tmp/text"
run "dropout in divided sequences" refused "dropout" 1 --dropout 0.1 --sp 2 "$tmp/text"
run "type" refused "fp32 or bf16" 2 --dtype fp16 "$tmp/text"
run "method" refused "ulysses or ring" 2 --sp-method tree "$tmp/text"
run "batch" refused "must be a multiple" 1 --batch 9 "$tmp/text"
run "schedule" refused "" 1 --pp 2 --schedule none "$tmp/text"
run "no checkpoint" refused "" 1 --resume "$tmp/nothing" "$tmp/text"
run "a file that is no model" refused "" 1 --import "$tmp/text/sums" "$tmp/text"
run "checkpoint of another model" refused "another model" 1 --resume "$tmp/ckpt" "$tmp/text"
run "damaged checkpoint" damaged
run "rule" refused "no update rule" 1 --rule none "$tmp/text"
run "recomputing halves" refused "divide the backward pass" 1 --pp 2 --schedule zb-h1 --recompute 1 "$tmp/text"
run "too few layers" refused "" 1 --pp 2 --layers 1 "$tmp/text"
run "measure" refused "is for one rank" 1 --measure 2 --zero 0 "$tmp/text"
run "log" refused "cannot be written" 1 --log "$tmp/none/log" "$tmp/text"
run "tokens" refused "has token" 1 --vocabulary 300 "$tmp/text"

"$gpt" --help >"$tmp/help"
options() {
    for option in $(grep -oE '^  --[a-z0-9-]+' "$tmp/help"); do
        tr -d '\\' <"${top_srcdir:-.}/doc/man/weir-gpt.1" | grep -qE -- "$option(\$|[= ])" || { echo "the manual page lacks $option"; return 1; }
    done
    [ "$(grep -cE '^  --' "$tmp/help")" -gt 20 ]
}
run "manual page" options
finish
