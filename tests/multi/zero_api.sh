#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 300
# The ZeRO engine: PyTorch's numbers, states that move between engines, memory and traffic beside the formulas, gathering ahead.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
t="$B/tests/multi/zero_api_test"
for n in 1 2 4 6; do
    run "PyTorch, $n ranks" "$weirrun" -n $n "$B/tests/multi/zero_torch_test" "$top_srcdir/tests/fixtures/zero/torch.txt"
done
run "PyTorch, 3 ranks on 2 nodes" "$weirrun" -n 3 --nodes 2 "$B/tests/multi/zero_torch_test" "$top_srcdir/tests/fixtures/zero/torch.txt"
for n in 1 3; do
    run "states, $n ranks" "$weirrun" -n $n "$t" state
    run "refusals, $n ranks" "$weirrun" -n $n "$t" refused
done
for stage in 0 1 2 3 "2 once" "3 shared"; do
    # shellcheck disable=SC2086
    run "formulas, stage $stage" "$weirrun" -n 2 "$t" formulas $stage
done
run "gathering ahead" env WEIR_FAULT='delay=get:20ms' "$weirrun" -n 2 "$t" ahead
survivors() { # those that are not killed all end
    output=$(timeout 60 "$weirrun" -n 3 --on-failure continue "$t" lost "$1" 2>&1)
    printf '%s\n' "$output" | grep -q FAIL && { printf '%s\n' "$output"; return 1; }
    [ "$(printf '%s\n' "$output" | grep -c 'PASS: rank')" -eq 2 ] || { printf '%s\n' "$output"; return 1; }
}
for stage in 0 3; do
    run "a rank is killed, stage $stage" survivors $stage
done
shows() { # weir-zero: lines that match
    [ "$("${@:3}" 2>&1 | grep -cE "$1")" -eq "$2" ]
}
json='^\{"stage": [0-3], "ranks": 2, "params": 2097152, .*"mem_peak": [0-9]+, "mem_formula": [0-9]+, .*\}$'
run "weir-zero" shows "$json" 4 "$weirrun" -n 2 "$B/perf/weir-zero" -p 2100K -l 4 -n 1 --json
files() { # a trace for each stage, reports of all steps, what a step takes alone
    dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT
    shows '"alone_ms": [0-9.]+, "exposed_part": -?[0-9.]+' 4 "$weirrun" -n 2 "$B/perf/weir-zero" -p 2100K -l 4 -n 1 -d -x -c 10 --trace "$dir/t" \
        --report "$dir/r" --json && [ "$(grep -c '"step_ms"' "$dir/r")" -eq 12 ] && [ "$(cat "$dir"/t.[0-3] | grep -c '"backward layer3"')" -eq 8 ]
}
run "weir-zero --trace --report --exposed --reproducible" files
[ ! -x /usr/bin/python3 ] || run "weir-zero-torch" shows 'PyTorch' 1 "$B/perf/weir-zero-torch" --params 2100K --layers 2 --steps 1
run "weir-zero --estimate" shows '^ +[0-3]( +[0-9.]+){8}$' 4 "$B/perf/weir-zero" --estimate 64 --params 7G --bf16
run "weir-zero, arguments" shows 'not understood' 1 "$B/perf/weir-zero" --stage 4
finish
