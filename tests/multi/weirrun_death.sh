#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# weirrun is killed with SIGKILL, or its agent: nothing is left, grandchildren and those that left the group included.
# timeout: 120
. "$(dirname "$0")/weirrun_lib.bash"

# Each rank: itself, a child, a child in a session of its own, and an orphan.
family="sleep $mark & setsid sleep $mark & (sleep $mark &); exec sleep $mark"

start() {
    "$W" -n 3 "$@" >"$dir/out" 2>"$dir/err" </dev/null &
    pid=$!
    until_true 20 sleepers_are 12 || fail "the ranks did not start"
}

start sh -c "$family"
kill -KILL $pid
wait $pid 2>/dev/null
none_left "weirrun was killed"

start sh -c "$family"
kill -KILL "$(agent_of $pid)"
wait $pid
[ $? -eq 1 ] || fail "the exit code after the agent was killed"
err_has "the agent of this host was killed by SIGKILL"
none_left "the agent was killed"

# both at once: the ranks die with their parent
start sh -c "$family"
kill -KILL $pid "$(agent_of $pid)"
wait $pid 2>/dev/null
ranks_gone() {
    [ "$(sleepers)" -le 9 ]
}
until_true 10 ranks_gone || fail "both were killed: ranks are left"
pkill -KILL -f "^sleep $mark" # their children, which nobody is left to find

# killed while ranks are started
for ms in 00 01 02 05 10; do
    "$W" -n 40 sh -c "sleep $mark & exec sleep $mark" >/dev/null 2>&1 </dev/null &
    pid=$!
    sleep 0.0$ms
    kill -KILL $pid
    wait $pid 2>/dev/null
    none_left "weirrun was killed $ms ms after its start"
done

# killed while it stands still because nobody reads the output
mkfifo "$dir/fifo"
"$W" -n 2 sh -c "yes '$mark' & exec sleep $mark" >"$dir/fifo" 2>/dev/null </dev/null &
pid=$!
exec 5<"$dir/fifo"
until_true 20 sleepers_are 2
kill -KILL $pid
wait $pid 2>/dev/null
none_left "a blocked weirrun was killed"
writers_gone() {
    ! pgrep -f "^yes $mark" >/dev/null
}
until_true 10 writers_gone || fail "a blocked weirrun was killed: writers are left"
exec 5<&-
finish
