#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 180
# The ZeRO engine with states on disk and with delayed updates: the same bits as a loop of one process that does the same.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
t="$B/tests/multi/zero_offload_test"
dir=$(mktemp -d "$PWD/zero-offload-XXXXXX")
trap 'rm -rf "$dir"' EXIT
run "one rank" "$weirrun" -n 1 "$t" "$dir" now offload params delay state refused
run "3 ranks on 2 nodes" "$weirrun" -n 3 --nodes 2 "$t" "$dir" offload params delay state refused
run "2 ranks, threads" env WEIR_IO=thread "$weirrun" -n 2 "$t" "$dir" offload params
shows() {
    "$weirrun" -n 2 "$B/perf/weir-zero" -p 2100K -l 4 -n 1 -s 2 --bf16 --offload "$dir" --sub-group 1M "$@" --json |
        grep -qE '^\{"offload": true, "disk_bytes": [1-9][0-9]+, "update_ms": [0-9.]+, "disk_ms": [0-9.]+, "ratio": [0-9.]+\}$'
}
run "weir-zero --offload" shows
run "weir-zero --offload --delayed" shows --delayed
[ -z "$(ls -A "$dir")" ] || { echo "something is left in $dir"; exit 1; }
finish
