#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 120
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
finish
