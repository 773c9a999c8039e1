#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# weir-plan: its options, proofs, times, JSON, pictures and traces, errors and exit codes.
# timeout: 120
plan=$top_builddir/tools/weir-plan
fail=0
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
complain() {
    echo "$*"
    fail=1
}
expect() { # code pattern command...: exit code and something that the output or the errors must have
    local code=$1 pattern=$2
    shift 2
    out=$("$@" 2>&1)
    local got=$?
    [ $got -eq "$code" ] || complain "$*: exit code $got instead of $code: $out"
    grep -qE -e "$pattern" <<<"$out" || complain "$*: no '$pattern' in: $out"
}
python() { # code file: what must hold for a file, as far as a tool is there that knows
    command -v python3 >/dev/null || return 0
    python3 -c "$1" "$2" || complain "$2: $1"
}

expect 0 '^weir-plan [0-9]+\.[0-9]+\.[0-9]+$' "$plan" --version
expect 0 '^usage: weir-plan COLL' "$plan" --help
expect 0 '^allgather .*hier_put.* ring' "$plan" --list
expect 0 '^latency +1500 ' "$plan" --cost list
expect 0 '^latency +9 ' "$plan" --cost latency=9 --cost list

# one sentence and exit code 2 for each misuse
small=(--nodes 2 --ppn 2 --bytes 4K)
expect 2 'which collective\?' "$plan" "${small[@]}"
expect 2 "there is no collective 'gossip'" "$plan" gossip "${small[@]}"
expect 2 "'bcast' is one collective too many|'allgather' is one collective too many" "$plan" allgather bcast "${small[@]}"
expect 2 '--nodes and --ppn are needed' "$plan" allgather --bytes 4K
expect 2 '--bytes is needed' "$plan" allgather --nodes 2 --ppn 2
expect 2 '--nodes 0 is not a number' "$plan" allgather --nodes 0 --ppn 2 --bytes 4K
expect 2 "--ppn has 'x'" "$plan" allgather --nodes 2 --ppn x --bytes 4K
expect 2 '--bytes much is not' "$plan" allgather --nodes 2 --ppn 2 --bytes much
expect 2 'there is no --type fp8' "$plan" allgather "${small[@]}" --type fp8
expect 2 'there is no --placement up' "$plan" allgather "${small[@]}" --placement up
expect 2 'has no algorithm' "$plan" allgather "${small[@]}" --algo magic
expect 2 'serves this call' "$plan" allgather "${small[@]}" --algo direct
expect 2 'serves this call' "$plan" allreduce --nodes 4096 --ppn 32 --bytes 1M --algo linear
expect 2 '--root 4 is not one of 4 ranks' "$plan" bcast "${small[@]}" --root 4
expect 2 'does not divide 2 nodes' "$plan" allgather "${small[@]}" --levels switch:3
expect 2 "rope" "$plan" allgather "${small[@]}" --levels rope:2
expect 2 'there is no cost speed=3' "$plan" allgather "${small[@]}" --cost speed=3
expect 0 'in full: all 4099 ranks were run' "$plan" bcast --nodes 4099 --ppn 1 --bytes 1K --algo binomial --verify
expect 0 'by symmetry: 1 class of 8192 ranks each.* 8192 of 8192 programs' "$plan" barrier --nodes 8192 --ppn 1 --algo dissemination --verify
expect 0 'by symmetry: 3 classes of 1500 ranks each.* 4500 of 4500 programs' "$plan" allgather --nodes 3000 --ppn 2,1 --bytes 18K --algo bruck --verify
expect 1 'do not fall into classes, and the .* steps.*no smaller machine' "$plan" reduce_scatter --nodes 4099 --ppn 2,1 --bytes 32K --algo ring --verify
expect 2 "'weir-plan --help' lists the options" "$plan" --nonsense
expect 1 'No such file' "$plan" allgather "${small[@]}" --svg "$tmp/none/a.svg"
expect 1 'would show nothing' "$plan" allgather --nodes 600 --ppn 1 --bytes 1M --algo hier --simulate --svg "$tmp/a.svg"
"$plan" allgather "${small[@]}" >/dev/full 2>/dev/null && complain "a full disk went unnoticed"

# proofs and times
expect 0 '^proven: hier: .*no node receives more than it must$' "$plan" allgather --nodes 4 --ppn 1,3 --bytes 64K --mapped
expect 0 '^proven: hier: .*no node sends more than it must$' \
    "$plan" reduce_scatter --nodes 5 --ppn 2,1 --bytes 64K --type bf16 --placement random:9
expect 0 '^hier .*all 16 ranks$' "$plan" allreduce --nodes 4 --ppn 4 --bytes 1M --placement cyclic --levels switch:2 --simulate
grep -q '^proven' <<<"$out" && complain "--simulate alone proves"
grep -qE 'in-switch +across' <<<"$out" || complain "no columns for the levels: $out"
expect 0 '^proven: ' "$plan" bcast "${small[@]}" --root 3 --verify
grep -q '^algorithm' <<<"$out" && complain "--verify alone simulates"
for coll in barrier bcast reduce allreduce reduce_scatter allgather gather scatter alltoall scan exscan; do
    expect 0 '^proven: .* steps' "$plan" $coll --nodes 3 --ppn 2 --bytes 10K --chunk 512 --rails 1
done
expect 0 'closed form|by classes' "$plan" allgather --nodes 1024 --ppn 16 --bytes 1G --mapped --algo hier
expect 0 '^hier +[0-9.]+ m?s .*by classes: 1 of 2048 nodes' "$plan" reduce_scatter --nodes 2048 --ppn 64 --bytes 128M --mapped --algo hier

# JSON, trace and picture
"$plan" allgather --nodes 4 --ppn 2 --bytes 1M --mapped --json --levels 'switch:2' --svg "$tmp/p.svg" --trace "$tmp/p.json" >"$tmp/o.json" ||
    complain "a picture, a trace and JSON: exit code $?"
python 'import json, sys
o = json.load(open(sys.argv[1]))
assert o["ranks"] == 8 and o["levels"] == ["switch"] and o["bytes"] == 1 << 20
for a in o["algorithms"]:
    assert a["proven"] and a["simulation"]["time_us"] >= a["simulation"]["bound_us"] > 0
    assert sum(a["simulation"]["bytes"][1:]) == a["proof"]["network_bytes"]
    assert a["simulation"]["bytes"][0] == a["proof"]["local_bytes"]
h = [a for a in o["algorithms"] if a["name"] == "hier"][0]
assert all(n["ingress"] == n["ingress_bound"] == 768 << 10 for n in h["proof"]["nodes"])' "$tmp/o.json"
python 'import json, sys
e = json.load(open(sys.argv[1]))["traceEvents"]
assert {x["ph"] for x in e} >= {"M", "X", "b", "e"} and all(x.get("dur", 0) >= 0 for x in e)
assert len([x for x in e if x["ph"] == "b"]) == len([x for x in e if x["ph"] == "e"])' "$tmp/p.json"
python 'import sys, xml.dom.minidom as m
d = m.parse(sys.argv[1])
assert len(d.getElementsByTagName("line")) > 20 and len(d.getElementsByTagName("rect")) > 20
assert any("rank 7" == t.firstChild.data for t in d.getElementsByTagName("text"))' "$tmp/p.svg"
grep -q '</svg>' "$tmp/p.svg" || complain "the picture has no end"
exit $fail
