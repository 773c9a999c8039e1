#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# weirrun: signals are forwarded, end the job, and the second one at once.
# timeout: 120
. "$(dirname "$0")/weirrun_lib.bash"
set -m # so that background jobs do not ignore SIGINT

# start SCRIPT [OPTION...]: runs it on two ranks in the background; each writes "up" when its traps are set.
start() {
    local script=$1
    shift
    : >"$dir/out"
    "$W" -n 2 "$@" bash -c "$script" >"$dir/out" 2>"$dir/err" </dev/null &
    pid=$!
    until_true 20 has_lines up 2 || fail "the ranks did not start: $script"
}
has_lines() {
    [ "$(grep -cx "$1" "$dir/out")" -eq "$2" ]
}
ends_with() {
    wait $pid
    local got=$?
    [ $got -eq "$1" ] || {
        fail "exit code $got instead of $1: $2"
        sed 's/^/    /' "$dir/out" "$dir/err"
    }
}

for sig in INT TERM HUP; do
    start "echo up; sleep $mark"
    kill -$sig $pid
    ends_with $((128 + $(kill -l $sig))) "SIG$sig"
    err_has "^weirrun: SIG$sig: ending the job$"
    [ "$(wc -l <"$dir/err")" -eq 1 ] || fail "SIG$sig: too many words"
done
none_left "after signals"

# a rank that ends well by itself decides the exit code
start "trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.05; done" --grace 20s
kill -TERM $pid
ends_with 0 "handled SIGTERM"
has_lines saved 2 || fail "ranks did not save"

# USR1 and USR2 arrive and end nothing
start "trap 'echo usr1' USR1; trap 'echo usr2; exit 7' USR2; echo up; while :; do sleep 0.05; done"
kill -USR1 $pid
until_true 20 has_lines usr1 2 || fail "SIGUSR1 did not arrive"
kill -USR2 $pid
ends_with 7 "SIGUSR2"

# the second SIGINT does not wait for the grace
start "trap '' INT TERM; echo up; while :; do sleep $mark; done" --grace 1h
kill -INT $pid
until_true 20 grep -q SIGINT "$dir/err" || fail "the first SIGINT"
kill -INT $pid
ends_with 137 "second SIGINT"
none_left "after the second SIGINT"

# stop and continue
state_is() {
    local p
    for p in $(pgrep -f "^sleep $mark"); do
        [ "$(sed 's/.*) //' "/proc/$p/stat" | cut -c 1)" = "$1" ] || return 1
    done
}
start "echo up; exec sleep $mark" --grace 1h
until_true 20 sleepers_are 2
kill -TSTP $pid
until_true 20 state_is T || fail "SIGTSTP did not stop the ranks"
kill -CONT $pid
until_true 20 state_is S || fail "SIGCONT did not continue the ranks"
pkill -STOP -f "^sleep $mark"
until_true 20 state_is T
kill -TERM $pid
ends_with 143 "the end of stopped ranks"

# a signal that was ignored at the start stays so
nohup "$W" -n 1 bash -c 'echo up; sleep 1; echo on' >"$dir/out" 2>"$dir/err" </dev/null &
pid=$!
until_true 20 has_lines up 1
kill -HUP $pid
ends_with 0 "SIGHUP under nohup"
has_lines on 1 || fail "SIGHUP under nohup reached the rank"
finish
