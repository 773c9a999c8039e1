#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# weirrun: output in whole lines, tags, standard input, readers that are slow or go away.
# timeout: 120
. "$(dirname "$0")/weirrun_lib.bash"

# 8 ranks write 20000 lines each, in pieces that do not end at line ends
writer='awk -v r=$WEIR_JOB_RANK "BEGIN { for (i = 0; i < 20000; i++) printf \"%d %d abcdefghijklmnopqrstuvwxyz\\n\", r, i }"'
expect 0 "$W" -n 8 sh -c "$writer | dd bs=1021 2>/dev/null"
[ "$(wc -l <"$dir/out")" -eq 160000 ] || fail "$(wc -l <"$dir/out") lines instead of 160000"
grep -vcE '^[0-7] [0-9]+ abcdefghijklmnopqrstuvwxyz$' "$dir/out" >"$dir/torn"
[ "$(cat "$dir/torn")" -eq 0 ] || fail "$(cat "$dir/torn") lines are torn"
for r in 0 7; do
    grep "^$r " "$dir/out" | awk '$2 != NR - 1 { exit 1 }' || fail "the lines of rank $r are out of order"
done

# tags, on both outputs; a last line without an end gets one
expect 0 "$W" -n 2 --tag-output sh -c 'printf "a\n\nb"; echo e >&2'
[ "$(sort "$dir/out" | tr '\n' '|')" = "[0] |[0] a|[0] b|[1] |[1] a|[1] b|" ] || fail "tags: $(cat "$dir/out")"
[ "$(sort "$dir/err" | tr '\n' '|')" = "[0] e|[1] e|" ] || fail "tags of the standard error"

# without tags every byte comes through, and a line longer than the buffer
head -c 300000 /dev/urandom >"$dir/bytes"
expect 0 "$W" -n 1 cat "$dir/bytes"
cmp -s "$dir/bytes" "$dir/out" || fail "bytes were changed"
tr -d '\n' <"$dir/bytes" >"$dir/line"
expect 0 "$W" -n 2 sh -c "[ \$WEIR_JOB_RANK = 1 ] || cat '$dir/line'"
cmp -s "$dir/line" "$dir/out" || fail "a long line was changed"

# standard input goes to rank 0, all of it, and its end; the others have none
"$W" -n 3 sh -c 'echo $WEIR_JOB_RANK $(wc -c)' <"$dir/bytes" | sort >"$dir/out"
out_is "0 300000
1 0
2 0"
"$W" -n 2 --tag-output cat <"$dir/bytes" >/dev/null || fail "cat with two ranks"
# rank 0 need not read it
yes | timeout 20 "$W" -n 2 sh -c 'exec <&-; sleep 0.2'
[ "${PIPESTATUS[1]}" -eq 0 ] || fail "standard input that nobody reads"
# what it does not read yet is not hoarded
yes | "$W" -n 2 sh -c '[ $WEIR_JOB_RANK = 1 ] || { sleep 0.7; awk "/VmHWM/ { print \$2 }" /proc/$(ps -o ppid= -p $PPID | tr -d " ")/status; }' >"$dir/out"
[ "$(cat "$dir/out")" -lt 40000 ] || [ -n "${TEST_TIME_FACTOR:-}" ] || fail "weirrun holds $(cat "$dir/out") KiB of input"
# closed descriptors
timeout 20 "$W" -n 2 true <&- >&- 2>&- || fail "without standard descriptors"

# a reader that goes away ends the ranks by SIGPIPE, without words
timeout 20 "$W" -n 2 yes 2>"$dir/err" | head -n 1 >/dev/null
[ "${PIPESTATUS[0]}" -eq 141 ] || fail "exit code ${PIPESTATUS[0]} after the reader went away"
[ ! -s "$dir/err" ] || fail "words about SIGPIPE: $(cat "$dir/err")"

# a slow reader gets all; meanwhile memory stays small and other things work
mkfifo "$dir/fifo"
"$W" -n 2 --on-failure continue sh -c 'seq 1 3000000; [ $WEIR_JOB_RANK = 0 ] || exit 9' >"$dir/fifo" 2>"$dir/err" &
pid=$!
exec 5<"$dir/fifo"
sleep 0.5
rss=$(awk '/VmHWM/ { print $2 }' /proc/$pid/status)
[ "$rss" -lt 25000 ] || [ -n "${TEST_TIME_FACTOR:-}" ] || fail "weirrun holds $rss KiB for a slow reader"
[ "$(cat <&5 | wc -l)" -eq 6000000 ] || fail "the slow reader lost lines"
exec 5<&-
wait $pid
[ $? -eq 9 ] || fail "the exit code with a slow reader"

# a reader that never reads does not keep --timeout or signals from working
mkfifo "$dir/fifo2"
timeout 60 "$W" -n 2 --timeout 1 --grace 200ms yes >"$dir/fifo2" 2>"$dir/err" &
pid=$!
exec 5<"$dir/fifo2"
wait $pid
[ $? -eq 124 ] || fail "the timeout with a reader that does not read"
exec 5<&-
finish
