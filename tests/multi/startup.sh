#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# weir-startup measures weir under weirrun, and whatever else is here, and its JSON is JSON.
# timeout: 240
startup=$top_builddir/perf/weir-startup
fail=0
complain() {
    echo "$*"
    fail=1
}
unset "${!WEIR_@}"
"$startup" --nonsense 2>/dev/null
[ $? -eq 2 ] || complain "a wrong option is not exit code 2"
"$startup" --max 0 2>/dev/null
[ $? -eq 2 ] || complain "--max 0 is not exit code 2"
out=$("$startup" --max 2 --launches 1 --no-srun 2>&1) || complain "exit code $?: $out"
for ranks in 1 2; do
    grep -qE "^ +$ranks  weir +weirrun +[0-9.]+ +[0-9.]+ +[0-9.]+ +-?[0-9.]+$" <<<"$out" || complain "no line for $ranks ranks: $out"
done
out=$("$startup" --max 1 --launches 2 --no-srun --json 2>/dev/null) || complain "--json: exit code $?"
if command -v python3 >/dev/null; then
    python3 -c '
import json, sys
r = [x for x in json.load(sys.stdin)["results"] if x["library"] == "weir"]
assert len(r) == 1 and r[0]["launches"] == 2 and r[0]["ranks"] == 1 and 0 < r[0]["init_ms"] <= r[0]["launch_ms"], r' <<<"$out" ||
        complain "the JSON is not right: $out"
fi
# weir that cannot be started is said, and is a failure
out=$("$startup" --max 1 --launches 1 --no-srun --weirrun /nonexistent/weirrun 2>&1) && complain "a missing weirrun went unnoticed"
grep -q 'weir by weirrun with 1 ranks: .*No such file' <<<"$out" || complain "no sentence on a missing weirrun: $out"
exit $fail
