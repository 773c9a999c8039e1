#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# weirrun: a rank fails; what is reported, what happens to the others, what is left.
# timeout: 120
. "$(dirname "$0")/weirrun_lib.bash"

# the first that failed is reported once, the others are ended
expect 3 "$W" -n 4 sh -c "[ \$WEIR_JOB_RANK = 2 ] && exit 3; exec sleep $mark"
err_has "^weirrun: rank 2 on host $(uname -n) exited with code 3; the other ranks are ended$"
[ "$(wc -l <"$dir/err")" -eq 1 ] || fail "more than the first failure is reported"
none_left "after a failure"

# signals
for sig in KILL SEGV TERM; do
    expect $((128 + $(kill -l $sig))) "$W" -n 3 sh -c "[ \$WEIR_JOB_RANK = 1 ] && kill -$sig \$\$; exec sleep $mark"
    err_has "rank 1 on host .* was killed by SIG$sig"
done
none_left "after a killed rank"

# a rank that does not listen to SIGTERM is killed after the grace, with its whole group and what left the group
start=$(date +%s%N)
expect 5 "$W" -n 2 --grace 300ms bash -c "trap '' TERM; [ \$WEIR_JOB_RANK = 1 ] && sleep 0.3 && exit 5
    sleep $mark & setsid sleep $mark & while :; do sleep $mark; done"
ms=$((($(date +%s%N) - start) / 1000000))
[ $ms -ge 500 ] || fail "the grace was not kept: $ms ms"
[ $ms -lt 9000 ] || [ -n "${TEST_TIME_FACTOR:-}" ] || fail "the grace did not end: $ms ms"
none_left "after the grace"

# one that does listen is not hurried
expect 5 "$W" -n 2 --grace 20s bash -c "trap 'echo saved; exit 0' TERM; [ \$WEIR_JOB_RANK = 1 ] && sleep 0.3 && exit 5
    while :; do sleep 0.05; done"
out_is saved

# the others go on; each failure is reported; the exit code is that of the first
expect 4 "$W" -n 3 --on-failure continue sh -c \
    'case $WEIR_JOB_RANK in 0) exit 4;; 1) sleep 0.5; exit 6;; 2) sleep 1; echo done;; esac'
out_is done
err_has "rank 0 .* exited with code 4$"
err_has "rank 1 .* exited with code 6$"

# --timeout
expect 124 "$W" -n 4 --timeout 500ms sh -c "[ \$WEIR_JOB_RANK = 1 ] || exec sleep $mark"
err_has "ended after 500.*ms.*still running: ranks 0,2-3$"
expect 0 "$W" -n 2 --timeout 60 true
none_left "after the timeout"

# what ranks leave behind does not live on, and does not keep weirrun
expect 0 timeout 20 "$W" -n 2 sh -c "sleep $mark & setsid sleep $mark & (sleep $mark &) ; exit 0"
none_left "after a good end"
# but what is about to finish its work may do so
expect 0 "$W" -n 1 bash -c 'exec > >(sleep 0.1; cat); echo late'
out_is late
finish
