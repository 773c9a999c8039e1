#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 120
# The ZeRO engine beside its loop: given gradients, shards, replicas, bytes, reports and traces.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
t="$B/tests/multi/zero_state_test"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
run "1 rank" "$weirrun" -n 1 "$t"
run "3 ranks on 2 nodes" "$weirrun" -n 3 --nodes 2 "$t"

# what people and programs read
reads() {
    "$weirrun" -n 4 --nodes 2 "$t" "$dir" >"$dir/out" || return 1
    grep -o '{.*' "$dir/out" >"$dir/reports"
    [ "$(grep -c '"gather_level_bytes": {"node": [0-9]*, "world": [0-9]*}.*"mem_peak": [0-9]*, "mem_formula": [0-9]*' "$dir/reports")" -eq 4 ] || return 1
    command -v python3 >/dev/null || return 0
    python3 - "$dir" <<'END'
import json, sys
for line in open(sys.argv[1] + "/reports"):
    r = json.loads(line)
    assert r["step"] == 3 and not r["skipped"] and r["loss"] is None and r["norm"] > 0, r
    assert sum(r["reduce_level_bytes"].values()) == r["reduce_bytes"], r
for stage in range(4):
    events = json.load(open("%s/stage%d.json" % (sys.argv[1], stage)))["traceEvents"]
    ranks = {e["pid"] for e in events}
    assert ranks == {0, 1, 2, 3}, ranks
    for rank in ranks:
        mine = [e for e in events if e["pid"] == rank]
        steps = sorted((e["ts"], e["dur"]) for e in mine if e["name"] == "step")
        assert len(steps) == 3 and all(a[0] + a[1] <= b[0] for a, b in zip(steps, steps[1:])), steps
        assert len([e for e in mine if e["name"] == 'forward layer "1"\\']) == 3, stage
        assert len([e for e in mine if e["name"].startswith("backward ")]) == 24, stage
        began = sorted(e["id"] for e in mine if e["ph"] == "b")
        assert began and began == sorted(e["id"] for e in mine if e["ph"] == "e"), stage
        kind = "gather " if stage == 3 else "parameters " if stage else "reduce "
        assert any(e["name"].startswith(kind) and e["args"]["bytes"] > 0 for e in mine if e["ph"] == "b"), stage
    starts = [min(e["ts"] for e in events if e["pid"] == r and e["name"] == "step") for r in ranks]
    assert max(starts) - min(starts) < 10e6, starts  # microseconds
END
}
run "reports and traces" reads
finish
