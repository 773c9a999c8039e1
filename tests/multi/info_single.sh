#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# weir-info as a single process: its options, the configuration, JSON, errors and exit codes.
# timeout: 120
info=$top_builddir/tools/weir-info
fail=0
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
is_json() { # text: valid, as far as a tool is there that knows
    command -v python3 >/dev/null || return 0
    python3 -c 'import json, sys; json.loads(sys.stdin.read())' <<<"$1" || complain "not valid JSON: $1"
}
unset "${!WEIR_@}"

expect 0 '^weir-info [0-9]+\.[0-9]+\.[0-9]+$' "$info" --version
expect 0 '^usage: weir-info' "$info" --help
expect 2 "unexpected argument 'x'" "$info" x
expect 2 'lists the options' "$info" --nonsense

expect 0 '^WEIR_NODES=0$' "$info" --config
grep -q 'int, default 0, allowed 0\.\.1048576' <<<"$out" || complain "type, default and range are missing"
[ "$(grep -c '^WEIR_[A-Z0-9_]*=' <<<"$out")" -eq "$(grep -cE '^ *X\([A-Z]+, [a-z]' "$top_srcdir/base/config_table.h")" ] ||
    complain "not every variable of the table is listed"
expect 0 '^WEIR_NODES=1$' env WEIR_NODES=1 "$info" --config
expect 0 'WEIR_NDOES is set, but there is no such variable; did you mean WEIR_NODES\?' env WEIR_NDOES=1 "$info" --config
expect 0 'WEIR_JOB_SECRET=$' "$info" --config
expect 1 'WEIR_NODES=many is not valid' env WEIR_NODES=many "$info" --config
[ "$(grep -c 'is not valid' <<<"$out")" -eq 1 ] || complain "the sentence comes more than once: $out"
expect 1 'WEIR_NODES=many is not valid' env WEIR_NODES=many "$info" --ranks

expect 0 '^ *rank +node +local +host +pid' "$info" --ranks
grep -qE "^ +0 +0 +0 +$(hostname | cut -c 1-63) +[0-9]+" <<<"$out" || complain "no line for rank 0: $out"
expect 0 'a single process without a launcher' "$info" --launcher
expect 0 'hwloc' "$info" --build
expect 0 'node 0: host' "$info" --topo

if out=$("$info" --json --config --build --launcher --topo --ranks); then
    is_json "$out"
    for member in '"build"' '"config"' '"launcher"' '"topology"' '"ranks"' '"local_rank": 0' '"WEIR_BOOT_TIMEOUT"'; do
        grep -q -- "$member" <<<"$out" || complain "no $member in the JSON"
    done
else
    grep -q 'define HAVE_JANSSON' "$top_builddir/config.h" && complain "--json failed"
    expect 1 'built without jansson' "$info" --json
fi
"$info" --ranks >/dev/full 2>/dev/null && complain "a full disk went unnoticed"
exit $fail
