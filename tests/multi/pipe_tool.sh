#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# weir-pipe: its options, numbers, JSON, pictures, errors and exit codes.
# timeout: 60
pipe=$top_builddir/tools/weir-pipe
fail=0
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
complain() {
    echo "$*"
    fail=1
}
expect() { # code pattern arguments...: exit code and something that the output or the errors must have
    local code=$1 pattern=$2
    shift 2
    out=$("$pipe" "$@" 2>&1)
    local got=$?
    [ $got -eq "$code" ] || complain "$*: exit code $got instead of $code: $out"
    grep -qE -e "$pattern" <<<"$out" || complain "$*: no '$pattern' in: $out"
}
python() { # code file: what must hold for a file, as far as a tool is there that knows
    command -v python3 >/dev/null || return 0
    python3 -c "$1" "$2" || complain "$2: $1"
}

expect 0 '^weir-pipe [0-9]+\.[0-9]+\.[0-9]+$' --version
expect 0 '^usage: weir-pipe SCHEDULE' --help
expect 0 '^zb-v +backward split' --list

# one sentence and exit code 2 for each misuse
small=(--stages 2 --microbatches 4)
expect 2 'which schedule\?' "${small[@]}"
expect 2 "there is no schedule '2f2b'; it is one of gpipe, 1f1b" 2f2b "${small[@]}"
expect 2 'is one schedule too many' gpipe 1f1b "${small[@]}"
expect 2 '--stages and --microbatches are needed' gpipe --stages 2
expect 2 '--stages 0 is not a number' gpipe --stages 0 --microbatches 4
expect 2 '--microbatches few is not a number' gpipe --stages 2 --microbatches few
expect 2 '2000 stages are not between' gpipe --stages 2000 --microbatches 4
expect 2 'gpipe has 1 chunk a stage, not 3' gpipe "${small[@]}" --chunks 3
expect 2 'on stage 0, and 3 are the limit' gpipe "${small[@]}" --limit 3
expect 2 'with 1 buffer a channel: stage [0-3], .* in a deadlock with stage [0-3], .*; give each channel 3 or more' \
    interleaved --stages 4 --microbatches 11 --buffers 1
expect 2 'no ZeRO stage 4' gpipe "${small[@]}" --zero 4
expect 2 'too few numbers' gpipe "${small[@]}" --costs 1,2,3
expect 2 'too many numbers' gpipe "${small[@]}" --costs 1,2,3,4,5,6,7
expect 2 "has 'x,1' where" gpipe "${small[@]}" --costs 1,1,x,1
expect 2 "where a number is expected" gpipe "${small[@]}" --costs 1,1,-1,1
expect 2 'all cost nothing' gpipe "${small[@]}" --costs 0,0,0,1
expect 2 'show one schedule, not all' all "${small[@]}" --json
expect 2 "'weir-pipe --help' lists the options" --nonsense
expect 1 'No such file' gpipe "${small[@]}" --svg "$tmp/none/a.svg"
expect 1 'would show nothing' gpipe --stages 64 --microbatches 2000 --svg "$tmp/a.svg"
"$pipe" gpipe "${small[@]}" >/dev/full 2>/dev/null && complain "a full disk went unnoticed"

# numbers
expect 0 '^bubble 0\.2727: ' gpipe --stages 4 --microbatches 8
expect 0 '^bubble 0\.1579: ' interleaved --stages 4 --microbatches 8
expect 0 '^bubble 0\.1111: ' zb-h1 --stages 4 --microbatches 8
expect 0 'barrier between steps the bubble is 0\.1111' zb-h2 --stages 4 --microbatches 8
expect 0 '^bubble 0\.0000: ' zb-v --stages 4 --microbatches 8
expect 0 '^ +3 +[0-9]+ +4 ' zb-h1 --stages 4 --microbatches 8
expect 0 '^time 57, ' gpipe --stages 4 --microbatches 8 --costs 1,2,2,0.25,9,0.5 --zero 0
expect 0 '^zb-h2 .* - .*the limit$|^zb-h2 +1 ' all --stages 4 --microbatches 8 --limit 5
expect 0 '^gpipe +- .*and 5 are the limit$' all --stages 4 --microbatches 8 --limit 5
expect 0 'RECV_GRAD of micro-batch 3, chunk 0, from stage 1$' 1f1b "${small[@]}" --print
expect 0 'UNSHARD of chunk 1$' looped-bfs "${small[@]}" --zero 3 --unsharded 1 --print
for schedule in $("$pipe" --list | awk '{ print $1 }'); do
    expect 0 '^proven: ' "$schedule" --stages 3 --microbatches 7 --zero 3
    expect 0 '^proven: ' "$schedule" --stages 1 --microbatches 1
done

# JSON and picture
"$pipe" zb-v --stages 4 --microbatches 8 --costs 1,1,1,0.5,2,1 --zero 1 --print --json --svg "$tmp/p.svg" >"$tmp/o.json" ||
    complain "a picture and JSON: exit code $?"
python 'import json, sys
o = json.load(open(sys.argv[1]))
assert o["schedule"] == "zb-v" and o["chunks"] == 2 and o["placement"] == "v" and o["work"] == 48 and o["costs"]["comm"] == 0.5
assert abs(o["bubble"] - (1 - o["work"] / o["span"])) < 1e-9 and o["peak_activations"] == 8
assert len(o["stage"]) == 4 and all(len(s["list"]) == s["instructions"] for s in o["stage"])
assert sum(i["op"] == "W" for s in o["stage"] for i in s["list"]) == 64' "$tmp/o.json"
python 'import sys, xml.dom.minidom as m
d = m.parse(sys.argv[1])
bars = [(r.getAttribute("class") or "none").split()[0] for r in d.getElementsByTagName("rect")]
assert bars.count("F") == bars.count("I") == bars.count("W") == 64 + 1 and bars.count("UNSHARD") == 8 + 1
assert len([l for l in d.getElementsByTagName("line") if l.getAttribute("class") in ("act", "grad")]) == 96
assert any("stage 3" == t.firstChild.data for t in d.getElementsByTagName("text"))' "$tmp/p.svg"
exit $fail
