#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 120
# weir-overlap: its lines, its JSON, its arguments. How much is hidden depends on the machine.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
t="$B/perf/weir-overlap"
expect() { # LABEL PATTERN COUNT COMMAND...: lines of the output that match
    label=$1 pattern=$2 count=$3
    shift 3
    output=$("$@" 2>&1)
    if [ "$(printf '%s\n' "$output" | grep -cE "$pattern")" -eq "$count" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $label:"
        printf '%s\n' "$output" | tail -n 10 | sed 's/^/    /'
    fi
}
json='^\{"coll": "[a-z_]+", "bytes": [0-9]+, "ranks": 2, "tests": [0-9]+, "coll_us": [0-9.]+, "compute_us": [0-9.]+, "both_us": [0-9.]+, "hidden": (0\.[0-9]+|1\.000)\}$'
expect "lines" '^ +[0-9]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+%$' 2 timeout 60 "$weirrun" -n 2 "$t" -b 1K -e 4K -i 3
for coll in allreduce allgather reduce_scatter; do
    expect "$coll" "$json" 1 timeout 60 "$weirrun" -n 2 "$t" -b 64K -e 64K -i 3 -t 4 --json $coll
done
expect "a thread" "$json" 1 env WEIR_PROGRESS=thread timeout 60 "$weirrun" -n 2 --nodes 2 "$t" -b 64K -e 64K -i 3 --json
expect "arguments" 'not understood' 1 "$t" nonsense
finish
