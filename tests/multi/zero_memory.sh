#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 180
# What stage 3 is for: four ranks on four virtual nodes, in a memory cgroup that has not enough for four whole models. Stage 0 is killed
# there, stage 3 trains: 12 units, 4 micro-batches.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
skip() {
    echo "$*"
    exit 77
}
[ "$(id -u)" -eq 0 ] || skip "needs root to make a cgroup"

# a group of version 1 or 2, and its files for the limit and the peak
name=weir-zero-$$
for try in "/sys/fs/cgroup/memory limit_in_bytes max_usage_in_bytes" "/sys/fs/cgroup max peak"; do
    read -r root limit peak <<<"$try"
    group=$root/$name
    mkdir "$group" 2>/dev/null && [ -w "$group/memory.$limit" ] && [ -r "$group/memory.$peak" ] && break
    rmdir "$group" 2>/dev/null
    group=
done
[ -n "$group" ] || skip "no memory cgroup can be made here"
# all that was in it has ended, or is about to
trap 'for i in 1 2 3 4 5 6 7 8 9 10; do rmdir "$group" 2>/dev/null && break; sleep 0.2; done' EXIT
[ "$(awk '/^SwapTotal:/ { print $2 }' /proc/meminfo)" -eq 0 ] || skip "there is swap, which a limit of memory lets grow"

# inside COMMAND...: in the group
inside() {
    bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$@"
}
steps() { # STAGE: a few of them; the live parameters are those of three units
    inside "$weirrun" -n 4 --nodes 4 "$B/perf/weir-zero" --stage "$1" --params 6M --layers 12 --micros 4 --steps 1 --live 6M --prefetch 2M --json
}
unlimited=$(cat "$group/memory.$limit")
run "stage 3, without a limit" steps 3
used=$(cat "$group/memory.$peak")
# stage 0 needs 16 bytes a parameter at each rank, stage 3 about a third of that in all: a fifth is enough for what varies
more=$((4 * 16 * 6000000 / 5))
echo $((used + more)) >"$group/memory.$limit" || skip "a limit cannot be set: $unlimited"
echo "stage 3 has used $((used >> 20)) MiB, the limit is $(((used + more) >> 20)) MiB"
killed() { # stage 0: the kernel kills a rank, and the job ends with that
    local out
    out=$(steps 0 2>&1) && { echo "stage 0 has trained within the limit: $out"; return 1; }
    grep -qiE 'kill|signal 9' <<<"$out" || { echo "$out"; return 1; }
}
run "stage 0 is killed" killed
trains() {
    steps 3 | grep -E '^\{"stage": 3, "ranks": 4, .*"micros": 4'
}
run "stage 3 trains" trains
finish
