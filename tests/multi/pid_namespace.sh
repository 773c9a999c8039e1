#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 120
# Ranks of one host in different process namespaces, as in containers that share a network: process numbers mean nothing
# to each other, and shared memory, staged copies and the news of a death work all the same.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
unshare --pid --fork --kill-child --mount-proc true 2>/dev/null || { echo "process namespaces are not allowed here"; exit 77; }

# Each rank but 0 runs in a namespace of its own, where all have the same number; not the first, which its own signals could
# not kill.
# shellcheck disable=SC2016 # for the shell of the rank
apart='[ "$WEIR_JOB_RANK" = 0 ] || exec unshare --pid --fork --kill-child --mount-proc sh -c "\"\$@\"; exit \$?" sh "$@"
exec "$@"'
export WEIR_TRANSPORT=shm
# shellcheck disable=SC2016
run "the same number" "$weirrun" -n 3 sh -c "$apart" sh sh -c '[ "$WEIR_JOB_RANK" = 0 ] || [ $$ -eq 2 ]'
run "registered memory" "$weirrun" -n 3 sh -c "$apart" sh "$B/tests/multi/mem_test"
run "messages" "$weirrun" -n 3 sh -c "$apart" sh "$B/tests/multi/p2p_test" -r 100
out=$(timeout 60 "$weirrun" -n 3 --on-failure continue sh -c "$apart" sh "$B/tests/fault/lost_peer" recv 2>&1)
case $out in
*FAIL*) run "a death" false ;;
*PASS*) passed=$((passed + 1)) ;;
*) run "a death" false ;;
esac
[ $failed -eq 0 ] || printf '%s\n' "$out" | tail -n 20
finish
