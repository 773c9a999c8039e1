#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 200
# weir_explain() and WEIR_LOG=plan; all-reduce is not slower than reduce and broadcast; no number of ranks is far slower than both of
# its neighbours.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
export WEIR_TUNING_FILE=off
t="$B/tests/multi/explain_test"
complain() {
    echo "FAIL: $*"
    failed=$((failed + 1))
}
for n in 1 2 4; do
    run "$n ranks" timeout 60 "$weirrun" -n $n "$t"
    printf '%s\n' "$output"
done
net=
for n in $(networks); do net=$n; done
if [ -n "$net" ]; then
    run "two nodes" env WEIR_NETWORK=$net timeout 60 "$weirrun" -n 4 --nodes 2 "$t"
    printf '%s\n' "$output"
    run "asked for" env WEIR_NETWORK=$net WEIR_ALGO=allreduce:ring timeout 60 "$weirrun" -n 2 --nodes 2 "$t" ring
fi
out=$(TEST_LOG=1 WEIR_LOG=plan timeout 60 "$weirrun" -n 2 "$t" 2>&1)
grep -qE 'rank 0\] info plan: allreduce of 1048576 fp32, sum \(root 0\) on 2 ranks, 1 node: [a-z]+.*; predicted [0-9.]+ [mu]s, limit' <<<"$out" ||
    complain "WEIR_LOG=plan says nothing: $out"
grep -q 'rank 1\] info plan:.*predicted' <<<"$out" && complain "WEIR_LOG=plan: rank 1 repeats it"
out=$(TEST_LOG=1 WEIR_LOG=plan:debug timeout 60 "$weirrun" -n 2 "$t" 2>&1)
grep -qE 'debug plan: allreduce of 1048576 fp32.*took .*of [0-9]+, [0-9]+ % of the limit' <<<"$out" || complain "WEIR_LOG=plan:debug says nothing of times: $out"
[ -n "${TEST_TIME_FACTOR:-}" ] && finish # times under a sanitizer say nothing
# a cliff: much slower than with one rank less and with one rank more; what else runs here disturbs, so it must show again
time_of() {
    timeout 60 "$weirrun" -n "$1" "$t" --time
}
declare -a time
for n in $(seq 1 9); do
    time[n]=$(time_of "$n") || complain "$n ranks fail"
done
echo "all-reduce of 256 KiB, 1 to 9 ranks: ${time[*]} us"
for n in $(seq 2 8); do
    for attempt in 1 2 3 4; do
        cliff=$(awk -v a="${time[n - 1]}" -v b="${time[n]}" -v c="${time[n + 1]}" 'BEGIN { print (b > 3 * (a > c ? a : c) + 100) }')
        [ "$cliff" = 0 ] && break
        [ $attempt -eq 4 ] && complain "$n ranks take ${time[n]} us, $((n - 1)) and $((n + 1)) ranks ${time[n - 1]} and ${time[n + 1]}"
        for k in $((n - 1)) $n $((n + 1)); do time[k]=$(time_of $k); done
    done
done
finish
