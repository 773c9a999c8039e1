#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 200
# Parameters and gradients that travel as int8, and secondary groups: how large the error is, that training goes on as without, bytes
# and memory beside the formulas, one rank whose gradient is not finite.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
t="$B/tests/multi/zero_quant_test"
run "2 ranks" "$weirrun" -n 2 "$t" params grads losses
run "4 ranks on 2 nodes" "$weirrun" -n 4 --nodes 2 "$t" params grads losses traffic secondary memory refused
run "5 ranks on 3 nodes" "$weirrun" -n 5 --nodes 3 "$t" params grads secondary
run "2 ranks on 2 nodes" "$weirrun" -n 2 --nodes 2 "$t" grads memory
finish
