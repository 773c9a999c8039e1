#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 180
# The trainer: grids of every kind give the losses of one process, to the last bit with --reproducible; a run that was stopped goes on as
# if it had not been, on another grid, too; what cannot be is said in one sentence, and every rank ends.
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

# bits LABEL RANKS OPTIONS...: with --reproducible, as one process to the last bit
bits() {
    label="reproducible, $2 ranks $1"
    train bits "$2" --reproducible $exact "${@:3}" && cmp <(numbers bits) <(numbers exact) && [ "$(numbers bits | wc -l)" -eq 5 ]
}

run "one process" train alone 1 --zero 0
for zero in 0 1 2 3; do
    run "zero $zero" grid "zero $zero" 2 --zero $zero
done
run "micro-batches" grid "micro-batches" 2 --microbatches 2 --accumulate 2 --zero 3
run "pipeline of two" grid "pp 2" 2 --pp 2 --microbatches 4
run "pipeline of three, uneven" grid "pp 3" 3 --pp 3 --microbatches 4 --cut parameters --zero 1
run "pipeline cut by time" grid "pp 2 cut by time" 4 --pp 2 --tp 2 --microbatches 4 --cut time --zero 1
run "pipeline and zero 3" grid "pp 2 x dp 2" 4 --pp 2 --microbatches 4 --zero 3
run "pipeline and zero 0" grid "pp 2 x dp 2" 4 --pp 2 --microbatches 2 --accumulate 2 --zero 0
for schedule in gpipe interleaved looped-bfs zb-h1 zb-h2 zb-v; do
    run "$schedule" grid "$schedule" 2 --pp 2 --microbatches 4 --schedule $schedule
done
run "recomputing" grid "recompute" 2 --pp 2 --microbatches 4 --recompute 1
run "recomputing half" grid "recompute" 1 --microbatches 2 --recompute 2
run "tp 2" grid "tp 2" 2 --tp 2
run "pipeline and tp" grid "pp 2 x tp 2" 4 --pp 2 --tp 2 --microbatches 4 --schedule zb-h1
run "tp 2, rows divided" grid "tp 2 sequence" 2 --tp 2 --tp-sequence
run "pipeline and tp, rows divided" grid "pp 2 x tp 2 sequence" 4 --pp 2 --tp 2 --tp-sequence --microbatches 4 --schedule zb-h1 --zero 3
run "sp and tp, rows divided" grid "sp 2 x tp 2 sequence" 4 --sp 2 --tp 2 --tp-sequence --zero 1 --sp-method ring --recompute 1
run "dp and tp" grid "dp 2 x tp 2" 4 --tp 2 --zero 3 --microbatches 2 --recompute 1
run "sp and tp" grid "sp 2 x tp 2" 4 --sp 2 --tp 2 --zero 1 --sp-method ring
run "one process with three heads" train odd 1 --width 18 --heads 3 --dropout 0.1
reference=odd run "tp 2, uneven" grid "tp 2 uneven" 2 --width 18 --heads 3 --dropout 0.1 --tp 2
reference=odd run "tp 3, rows divided" grid "tp 3 sequence" 3 --width 18 --heads 3 --dropout 0.1 --tp 3 --tp-sequence --zero 0 --sample 3
reference=odd run "tp 3" grid "tp 3" 3 --width 18 --heads 3 --dropout 0.1 --tp 3 --zero 0
for method in ulysses ring; do
    run "sp 2, $method" grid "sp 2 $method" 2 --sp 2 --sp-method $method
done
run "sp 3, uneven" grid "sp 3 ring" 3 --sp 3 --sp-method ring --zero 1
run "pipeline and sp" grid "pp 2 x sp 2" 4 --pp 2 --sp 2 --microbatches 4 --zero 2
run "dp and sp" grid "dp 2 x sp 2" 4 --sp 2 --sp-method ring --zero 3 --microbatches 2
run "one process with dropout" train dropped 1 --dropout 0.2
for method in ulysses ring; do
    reference=dropped run "dropout, sp 2, $method" grid "dropout, sp 2 $method" 2 --dropout 0.2 --sp 2 --sp-method $method
done
reference=dropped run "dropout, sp 2 and tp 2" grid "dropout, sp 2 x tp 2" 4 --dropout 0.2 --sp 2 --tp 2 --sp-method ring
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
# Each stage, schedule and cut once, some with dropout's and validation's numbers; 8 micro-batches in all.
exact="--steps 4 --dropout 0.1"
run "one process, reproducible" train exact 1 --zero 0 --reproducible $exact
run "one process, zero 3" bits "zero 3" 1 --zero 3
for zero in 0 1 2 3; do
    run "reproducible, zero $zero" bits "zero $zero" $((zero < 2 ? 2 : 4)) --zero $zero
done
run "reproducible, passes" bits "accumulate 2" 2 --zero 3 --accumulate 2
run "reproducible, gpipe" bits "pp 2 gpipe" 2 --pp 2 --zero 1 --schedule gpipe
run "reproducible, 1f1b" bits "pp 4 1f1b" 4 --pp 4 --zero 0 --accumulate 4
run "reproducible, interleaved" bits "pp 2 x dp 2 interleaved" 4 --pp 2 --zero 2 --schedule interleaved
run "reproducible, looped-bfs" bits "pp 2 looped-bfs" 2 --pp 2 --zero 3 --schedule looped-bfs --recompute 1
run "reproducible, zb-h1" bits "pp 3 uneven zb-h1" 3 --pp 3 --zero 1 --cut parameters --schedule zb-h1
run "reproducible, zb-h2" bits "pp 4 zb-h2" 4 --pp 4 --zero 3 --accumulate 8 --schedule zb-h2
run "reproducible, zb-v" bits "pp 2 x dp 2 zb-v" 4 --pp 2 --zero 3 --accumulate 2 --schedule zb-v
exact_resume() { # saved by four ranks, gone on with by one and by three stages
    local exact="$exact --lr-schedule constant --warmup 0"
    train bits 4 --reproducible $exact --pp 2 --zero 3 --steps 2 --save "$tmp/ckpt-exact" || return 1
    train whole 1 --zero 0 --reproducible $exact || return 1
    train one 1 --zero 0 --reproducible $exact --resume "$tmp/ckpt-exact" &&
        train three 3 --pp 3 --reproducible $exact --resume "$tmp/ckpt-exact" &&
        cmp <(numbers whole | tail -n 3) <(numbers one) && cmp <(numbers one) <(numbers three) && [ "$(numbers one | wc -l)" -eq 3 ]
}
run "reproducible, resumed" exact_resume

# A file in DeepSpeed's words is as good as options, which come first.
cat >"$tmp/ds.json" <<'END'
{"train_batch_size": 8, "gradient_accumulation_steps": 2, "gradient_clipping": 1, "zero_optimization": {"stage": 2},
 "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "betas": [0.9, 0.99], "weight_decay": 0.1}},
 "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 2, "total_num_steps": 8, "warmup_type": "linear"}}}
END
config() {
    local options="--layers 4 --width 16 --heads 2 --context 16 --steps 8 --log-every 1 --eval-every 0 --threads 1 --reproducible --json"
    # shellcheck disable=SC2086
    "$weirrun" -n 2 "$gpt" $options --config "$tmp/ds.json" "$tmp/text" >"$tmp/file" 2>"$tmp/file.err" &&
        "$weirrun" -n 2 "$gpt" $options --config "$tmp/ds.json" --clip 0.5 --zero 3 "$tmp/text" >"$tmp/line" 2>"$tmp/line.err" || return 1
    train options 2 --zero 2 --microbatches 2 --lr-schedule linear --final-lr 0 --reproducible && cmp <(numbers file) <(numbers options) &&
        grep -q '"zero": 2, .*"batch": 8,' "$tmp/file" && [ ! -s "$tmp/file.err" ] && grep -q '"zero": 3,' "$tmp/line" &&
        grep -qx "weir-gpt: --zero 3 takes the place of 2, which 'zero_optimization.stage' is in $tmp/ds.json" "$tmp/line.err" &&
        [ "$(grep -c 'takes the place' "$tmp/line.err")" -eq 2 ] && ! cmp -s <(numbers file) <(numbers line)
}
if grep -q '^#define HAVE_JANSSON 1' "$B/config.h"; then run "configuration" config; fi
trace() { # every instruction of every rank
    train traced 4 --pp 2 --zero 3 --microbatches 2 --steps 4 --trace "$tmp/trace" --trace-steps 3 || return 1
    [ "$(grep -c '"cat": "F", "pid": 3,' "$tmp/trace")" -eq 6 ] && [ "$(grep -c '"cat": "RECV_ACT"' "$tmp/trace")" -eq 12 ] &&
        [ "$(grep -c '"name": "step ' "$tmp/trace")" -eq 12 ] && grep -q '"name": "gather h.3"' "$tmp/trace" && grep -q '"name": "reduce ' "$tmp/trace" &&
        grep -q '"name": "update ' "$tmp/trace" && grep -q '"name": "rank 2: pp 1 dp 0 ' "$tmp/trace" || return 1
    ! command -v python3 >/dev/null || python3 -m json.tool "$tmp/trace" >/dev/null
}
run "trace" trace

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
    start dead --lr-schedule constant --warmup 0 --reproducible --save "$tmp/ckpt-dead" --save-every 2
    until_true compgen -G "$tmp/ckpt-dead/*/COMMITTED" || return 1
    sleep "0.0$((RANDOM % 10))"
    kill -KILL "$(pgrep -P $pid | tail -n 1)"
    wait $pid && { echo "the launcher takes it for a success"; return 1; }
    last=$(for c in "$tmp"/ckpt-dead/*/COMMITTED; do c=${c%/COMMITTED}; echo "${c##*step-}"; done | sort -n | tail -n 1)
    train whole 1 --zero 0 --lr-schedule constant --warmup 0 --reproducible --steps $((last + 4)) &&
        train rest 2 --zero 2 --lr-schedule constant --warmup 0 --reproducible --steps $((last + 4)) --resume "$tmp/ckpt-dead" &&
        cmp <(numbers whole | tail -n 5) <(numbers rest) && [ "$(numbers rest | wc -l)" -eq 5 ]
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
    rm -f "$tmp/codes"
    # shellcheck disable=SC2016
    timeout 60 "$weirrun" -n 2 --on-failure continue sh -c '"$@"; s=$?; echo $s >>"$0"; exit $s' "$tmp/codes" "$gpt" "$@" >"$tmp/out" 2>"$tmp/err"
    status=$?
    [ $status -eq "$code" ] && [ "$(grep -cx "$code" "$tmp/codes")" -eq 2 ] ||
        { echo "exit code $status, of the ranks $(tr '\n' ' ' <"$tmp/codes")"; cat "$tmp/err"; return 1; }
    [ "$(grep -c '^weir-gpt: ' "$tmp/err")" -eq 1 ] || { echo "not one sentence:"; cat "$tmp/err"; return 1; }
    grep -q "^weir-gpt: .*$words" "$tmp/err" || { cat "$tmp/err"; return 1; }
}
damaged() { # a byte of the data is another
    local shard
    cp -r "$tmp/ckpt" "$tmp/damaged"
    for shard in "$tmp"/damaged/*/*.safetensors; do printf 'X' | dd of="$shard" bs=1 seek=$(($(stat -c %s "$shard") - 3)) conv=notrunc status=none; done
    # shellcheck disable=SC2086
    refused "was altered" 1 $model --resume "$tmp/damaged" "$tmp/text"
}
full() { # a disk that has room for one checkpoint: the second one is not saved, and the first one is there as before
    mount -t tmpfs -o size=300k none "$tmp/disk" || return 77
    # shellcheck disable=SC2086
    refused "no space left\|No space left\|is full" 1 $model --lr-schedule constant --save "$tmp/disk/ckpt" --save-every 3 --steps 6 "$tmp/text" &&
        grep -q '^step' <(sed 's/^ *//' "$tmp/out") && train resumed 2 --lr-schedule constant --resume "$tmp/disk/ckpt" --steps 5 && numbers resumed | grep -q '^step-4 '
}
full_disk() { # in a namespace of its own, where it may be mounted
    mkdir "$tmp/disk"
    export -f full refused train numbers
    export tmp weirrun gpt model
    unshare --mount true 2>/dev/null || { echo "file systems cannot be mounted here"; return 77; }
    unshare --mount bash -c full
}
run "full disk" full_disk
run "no file" refused "name files" 2
run "unknown option" refused "no option --nonsense" 2 --nonsense "$tmp/text"
run "bad number" refused "steps takes an integer" 2 --steps 1x "$tmp/text"
run "missing value" refused "needs a value" 2 "$tmp/text" --steps
run "missing file" refused "cannot be opened" 1 "$tmp/nothing"
run "empty file" refused "is empty" 1 "$tmp/text" "$tmp/empty"
run "short file" refused "too few" 1 "$tmp/short"
run "folder without files" refused "has no file" 1 "$tmp/folder"
run "grid" refused "do not divide the 2 ranks" 1 --pp 3 "$tmp/text"
run "too few heads for tp" refused "as many heads" 1 --heads 1 --tp 2 "$tmp/text"
run "experts" refused "expert parallelism is not supported" 2 --ep 2 "$tmp/text"
run "rule of whole tensors" refused "looks at whole tensors" 1 --tp 2 --rule lamb "$tmp/text"
run "sequences too short" refused "cannot be divided" 1 --context 1 --sp 2 "$tmp/text"
run "too few heads" refused "heads cannot be divided" 1 --heads 1 --sp 2 "$tmp/text"
run "type" refused "fp32 or bf16" 2 --dtype fp16 "$tmp/text"
run "method" refused "ulysses or ring" 2 --sp-method tree "$tmp/text"
run "cut" refused "uniform, parameters or time" 2 --cut random "$tmp/text"
run "batch" refused "must be a multiple" 1 --batch 9 "$tmp/text"
run "reproducible with tp" refused "is for grids of pp and dp" 2 --reproducible --tp 2 "$tmp/text"
run "micro-batches that are no power of two" refused "power of two" 1 --reproducible --batch 6 --microbatches 3 "$tmp/text"
if grep -q '^#define HAVE_JANSSON 1' "$B/config.h"; then
    echo '{"train_batch_size": 8, "optimiser": {}}' >"$tmp/typo.json"
    echo '{"train_batch_size": 8, "train_micro_batch_size_per_gpu": 3}' >"$tmp/batch.json"
    run "unknown key" refused "optimiser" 1 --config "$tmp/typo.json" "$tmp/text"
    run "batch sizes that do not agree" refused "train_batch_size 8 is not" 1 --config "$tmp/batch.json" "$tmp/text"
    run "optimizer of both" refused "give --rule, too" 1 --config "$tmp/ds.json" --beta2 0.9 "$tmp/text"
fi
run "trace" refused "trace .* cannot be written" 1 --steps 1 --trace "$tmp/none/trace" "$tmp/text"
run "schedule" refused "no schedule 'none'" 1 --pp 2 --schedule none "$tmp/text"
run "no checkpoint" refused "cannot find" 1 --resume "$tmp/nothing" "$tmp/text"
run "a file that is no model" refused "is no safetensors file" 1 --import "$tmp/text/sums" "$tmp/text"
run "checkpoint of another model" refused "another model" 1 --resume "$tmp/ckpt" "$tmp/text"
run "damaged checkpoint" damaged
run "rule" refused "no update rule" 1 --rule none "$tmp/text"
run "recomputing halves" refused "divide the backward pass" 1 --pp 2 --schedule zb-h1 --recompute 1 "$tmp/text"
run "too few layers" refused "cannot be cut" 1 --pp 2 --layers 1 "$tmp/text"
measured() { # a step takes longer than its products, of which there are some
    train measured 1 --zero 0 --measure 3 && sed -n 's/.*"event": "measure", "step_s": \([0-9.e-]*\), "products_s": \([0-9.e-]*\), "update_s": \([0-9.e-]*\).*/\1 \2 \3/p' "$tmp/measured" |
        awk '{ n++; good = $1 > $2 && $2 > 0 && $3 > 0 } END { exit !(n == 1 && good) }'
}
run "measured" measured
memory() { # both numbers are there, and growth is at least what the engine and the activations say
    local held
    held=$(sed -n 's/.*"event": "end".*"memory": \([0-9]*\), .*/\1/p' "$tmp/measured")
    sed -n 's/.*"event": "memory", "start": \([0-9]*\), "growth": \([0-9]*\).*/\1 \2/p' "$tmp/measured" |
        awk -v held="$held" '{ n++; good = $1 > 0 && $2 > held } END { exit !(n == 1 && good) }'
}
run "memory" memory
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
