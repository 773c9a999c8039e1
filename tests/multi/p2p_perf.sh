#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 200
# weir-p2p measures, with and without a launcher; its table and its JSON can be read; what cannot be is said.
p2p=$top_builddir/perf/weir-p2p
weirrun=$top_builddir/tools/weirrun
fail=0
complain() {
    echo "$*"
    fail=1
}
unset "${!WEIR_@}"
for wrong in "--nonsense" "--op send" "-b 0" "-b 8 -e 4" "-f 1" "-e 1X" "--time 0" "extra" "--part"; do
    # shellcheck disable=SC2086
    "$p2p" $wrong >/dev/null 2>&1
    [ $? -eq 2 ] || complain "$wrong is not exit code 2"
done
out=$("$p2p" --help) || complain "--help: exit code $?"
for option in $(grep -oE -- '--[a-z-]+' <<<"$out" | sort -u); do
    tr -d '\\' <"${top_srcdir:-.}/doc/man/weir-p2p.1" | grep -qE "Fl -?${option#-}( |$)|Fl [a-z] , -${option#--}( |$)" ||
        complain "the manual page lacks $option"
done
short="-b 8 -e 64K -f 128 --time 0.005"
# shellcheck disable=SC2086
out=$("$p2p" $short --transport shm 2>&1) || complain "exit code $?: $out"
for op in message put get; do
    for bytes in 8 1024; do
        grep -qE "^shm +memfd +$bytes +$op +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +flag, memcpy$" <<<"$out" ||
            complain "no line for $op of $bytes bytes: $out"
    done
done
# under a launcher: ranks 1 (this node) and 2 (the other) are measured, 3 waits
net=
grep -q '^#define HAVE_UCX 1' "$top_builddir/config.h" && net=ucx
grep -q '^#define HAVE_LIBFABRIC 1' "$top_builddir/config.h" && net=ofi
out=$("$weirrun" -n 4 --nodes 2 --env WEIR_NETWORK=${net:-auto} "$p2p" -e 8 --time 0.005 --json 2>&1) || complain "four ranks: exit code $?: $out"
if command -v python3 >/dev/null; then
    python3 -c '
import json, sys
net = sys.argv[1]
rows = json.load(sys.stdin)["results"]
want = sorted((t, o) for t in ("shm", net) for o in ("message", "put", "get"))
assert sorted((r["transport"], r["operation"]) for r in rows) == want, rows
for r in rows:
    assert r["bytes"] == 8 and 0 < r["latency_us"] <= r["latency_p99_us"] and r["bandwidth_gb_s"] > 0, r
    if r["transport"] == "shm":
        assert abs(r["latency_ratio"] * r["reference_latency_us"] / r["latency_us"] - 1) < 0.01, r
    else:
        assert net == "ucx" or "fi_pingpong" in r["reference"], r' "$net" <<<"$out" || complain "the JSON is not right: $out"
fi
# one kind and one operation, without references
out=$("$p2p" -e 8 --time 0.005 --op put,latency --no-reference --transport shm 2>&1) || complain "--op: exit code $?: $out"
grep -qE "^shm +memfd +8 +put +[0-9.]+ +[0-9.]+ +- +- +- +- +-" <<<"$out" || complain "--op put,latency: $out"
[ "$(grep -c '^shm' <<<"$out")" -eq 1 ] || complain "--op put,latency gives more: $out"
# a tool that is not there is named
if [ -n "$net" ]; then
    mkdir -p "$PWD/empty.$$"
    ln -s "$(command -v sh)" "$PWD/empty.$$/sh"
    out=$(PATH=$PWD/empty.$$ "$p2p" -e 8 --time 0.005 --op put,latency --transport $net 2>&1) || complain "without tools: exit code $?: $out"
    grep -qE "^$net .* no (fi_pingpong|ucx_perftest) here$" <<<"$out" || complain "the missing tool is not named: $out"
    rm -r "$PWD/empty.$$"
fi
# what cannot be measured is said, and is a failure when it was asked for
out=$("$p2p" -e 8 --time 0.005 --transport shm,ofi:nosuch 2>&1) && complain "an unknown provider went unnoticed: $out"
grep -q '^shm .* message' <<<"$out" || complain "the others are not measured: $out"
grep -q '^# ofi:nosuch: not measured' <<<"$out" || complain "no word on what was not measured: $out"
out=$("$p2p" --weirrun /nonexistent/weirrun --transport shm 2>&1) && complain "a missing weirrun went unnoticed"
grep -q 'nonexistent/weirrun: No such file' <<<"$out" || complain "no sentence on a missing weirrun: $out"
exit $fail
