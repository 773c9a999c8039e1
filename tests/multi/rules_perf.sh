#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 120
# weir-rules measures every rule; its table and its JSON can be read; what cannot be is said.
tool=$top_builddir/perf/weir-rules
fail=0
complain() {
    echo "$*"
    fail=1
}
export OPENBLAS_NUM_THREADS=1
for wrong in "--nonsense" "-r adamx" "-r " "-n 0" "-n 1X" "--time 0" "extra"; do
    # shellcheck disable=SC2086
    "$tool" $wrong >/dev/null 2>&1
    [ $? -eq 2 ] || complain "$wrong is not exit code 2"
done
"$tool" --isa mmx >/dev/null 2>&1
[ $? -eq 1 ] || complain "kernels that do not exist are not exit code 1"
out=$("$tool" --help) || complain "--help: exit code $?"
for option in $(grep -oE -- '--[a-z-]+' <<<"$out" | sort -u); do
    tr -d '\\' <"${top_srcdir:-.}/doc/man/weir-rules.1" | grep -qE "Fl -?${option#-}( |$)|Fl [a-z] , -${option#--}( |$)" ||
        complain "the manual page lacks $option"
done
rules="sgd adagrad adam adamw adamw8 lion lamb lars adafactor"
! grep -q '^#define HAVE_OPENBLAS 1' "$top_builddir/config.h" || rules+=" muon"
out=$("$tool" -n 20K --time 0.001) || complain "exit code $?: $out"
for rule in $rules; do
    grep -qE "^$rule(\+momentum)? +(fp32|bf16|fp16) +(none|bf16|fp16) +[0-9]+ +[0-9]+( +[0-9.]+){6,7}$" <<<"$out" || complain "no line for $rule: $out"
done
grep -q '^# features: [a-z]' <<<"$out" || complain "no features of the processor: $out"
grep -qE 'kernels for [a-z0-9]+; OpenBLAS core ' <<<"$out" || complain "neither kernels nor OpenBLAS's core are named: $out"
out=$("$tool" -n 5000 --time 0.001 -r adamw,lion --isa generic --json) || complain "--json: exit code $?: $out"
if command -v python3 >/dev/null; then
    python3 -c '
import json, sys
all = json.load(sys.stdin)
rows = all["results"]
assert all["kernels"] == "generic" and all["features"] and "openblas" in all, all
assert [r["rule"] for r in rows] == ["adamw"] * 4 + ["lion"], rows
assert [r["bytes"] for r in rows] == [28, 30, 28, 28, 20], rows
for r in rows:
    assert r["min_ns"] > 0 and r["ratio"] > 0 and r["stream_median_ns"] > 0 and r["samples"] >= 3, r
' <<<"$out" || complain "JSON: $out"
fi
exit $fail
