#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# weir-doctor as several ranks: what differs between nodes and ranks is said with them, what is equal once.
# timeout: 300
doctor=$top_builddir/tools/weir-doctor
weirrun=$top_builddir/tools/weirrun
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
fail=0
complain() {
    echo "$*"
    fail=1
}
unset "${!WEIR_@}"

# shellcheck disable=SC2016 # the ranks expand it
out=$("$weirrun" -n 4 --nodes 2 sh -c 'case $WEIR_JOB_RANK in 2 | 3) ulimit -n 50 ;; esac; exec "$0"' "$doctor" 2>&1)
code=$?
[ $code -eq 1 ] || complain "exit code $code when the ranks of a node lack open files: $out"
[ "$(grep -c '^weir-doctor ' <<<"$out")" -eq 1 ] || complain "not one report: $out"
grep -qE '^  PROBLEM .*node 1 on host .*: limited to 50; ' <<<"$out" || complain "the node with the PROBLEM is not named: $out"
[ "$(grep -c ' cross-memory ' <<<"$out")" -eq 1 ] || complain "equal findings of two nodes are not merged: $out"
grep -qE '^  ok +clocks +the nodes. clocks agree within ' <<<"$out" || complain "the clocks of one host do not agree: $out"
grep -q ' 4 ranks, started by weirrun' <<<"$out" || complain "the launcher is not named: $out"

# shellcheck disable=SC2016
out=$("$weirrun" -n 3 sh -c '[ $WEIR_JOB_RANK -ne 1 ] || ulimit -n 50; exec "$0"' "$doctor" 2>&1)
grep -qE '^  PROBLEM +open files +rank 1 on host .*: limited to 50; ' <<<"$out" || grep -qE '^  PROBLEM .*rank 1 on host .*: limited to 50; ' <<<"$out" ||
    complain "the rank with the PROBLEM is not named: $out"

# a node whose clock is three seconds ahead
if ! grep -q 'fsanitize' "$top_builddir/Makefile"; then
    cat >"$tmp/clock.c" <<'END'
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *t)
{
    long rc = syscall(SYS_clock_gettime, id, t);
    if (id == CLOCK_REALTIME)
        t->tv_sec += 3;
    return (int)rc;
}
END
    # shellcheck disable=SC2086 # CC may be two words
    if ${CC:-cc} -shared -fPIC -o "$tmp/clock.so" "$tmp/clock.c"; then
        # shellcheck disable=SC2016
        out=$("$weirrun" -n 2 --nodes 2 sh -c '[ $WEIR_JOB_RANK -eq 0 ] || export LD_PRELOAD=$1; exec "$0"' "$doctor" "$tmp/clock.so" 2>&1)
        grep -qE "^  WARNING +clocks +the clock of node 1 is ahead of rank 0's by at least [23]\.?[0-9]* s" <<<"$out" ||
            complain "a clock that is three seconds ahead went unnoticed: $out"
    fi
fi
exit $fail
