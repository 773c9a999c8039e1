#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 240
# The layers on each transport that opens here: on `contrary` the rules hold, and forgetting a fence is noticed; delays
# and traces change nothing.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
t="$B/tests/multi/transport_conformance"

# fails LABEL COMMAND...: the command must end with status 1 (not be skipped, crash or pass).
fails() {
    label=$1
    shift
    output=$("$@" 2>&1)
    status=$?
    if [ $status -eq 77 ]; then
        skipped=$((skipped + 1))
    elif [ $status -eq 1 ] && printf '%s\n' "$output" | grep -q 'came before put'; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAIL %s: a missing fence was not noticed (status %s):\n%s\n' "$label" "$status" "$output"
    fi
}

for net in shm $(networks); do
    for seed in 1 2; do
        run "$net contrary $seed" env WEIR_CONTRARY_SEED=$seed "$t" -t "$net" -n 3 -l contrary -b 300K -r 20
    done
    run "$net contrary threads" "$t" -t "$net" -n 4 -T -l contrary -b 64K -r 10
    fails "$net without fences" "$t" -t "$net" -n 2 -l contrary,nofence -c fence
    run "$net delays" env WEIR_FAULT='delay=any:300us:0.3;delay=get:1ms:0.2' "$t" -t "$net" -n 2 -l fault -b 100K -r 10
done
trace=$(mktemp -d)
run "shm traced" env WEIR_TRACE="$trace/t.json" "$t" -t shm -n 2 -l contrary,trace -b 16K -r 5
if command -v python3 >/dev/null; then
    run "traces are JSON" python3 -c "
import json, sys
for rank in 0, 1:
    events = json.load(open(f'$trace/t.{rank}.shm.json'))
    assert len(events) > 100 and all(e['ph'] == 'X' and e['pid'] == rank for e in events)"
fi
rm -r "$trace"
finish
