#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# weirrun: ranks on other hosts, through a stand-in for ssh that runs the command here.
# timeout: 120
. "$(dirname "$0")/weirrun_lib.bash"

# Like sshd: a session of its own, little environment, another directory; login messages come first.
cat >"$dir/rsh" <<EOT
#!/bin/sh
echo "\$@" >>'$dir/commands'
host=\$1
shift
[ "\$host" != down ] || { echo "no route to host" >&2; exit 255; }
echo "Welcome to \$host"
cd /
exec env -i HOME=/ PATH="\$PATH" REMOTE="\$host" ASAN_OPTIONS="\${ASAN_OPTIONS:-}" TSAN_OPTIONS="\${TSAN_OPTIONS:-}" \
    LSAN_OPTIONS="\${LSAN_OPTIONS:-}" setsid -w sh -c "\$*"
EOT
chmod +x "$dir/rsh"
remote=("$W" --rsh "$dir/rsh" --iface 127.0.0.1)

# ranks in the order of the hosts; the directory and weir's variables travel, others only with --env
cd "$dir" || exit 99
export MINE=1 ASKED='a "b" $c' WEIR_BOOT_TIMEOUT=33s
expect 0 "${remote[@]}" --host alpha:2,beta:1,localhost:1 --env ASKED --env 'GIVEN=x y' --nodes 2 \
    sh -c 'echo "$WEIR_JOB_RANK/$WEIR_JOB_SIZE $WEIR_JOB_NODE ${REMOTE:-here} ${MINE:-none} $ASKED $GIVEN $WEIR_BOOT_TIMEOUT $WEIR_NODES $PWD"'
[ "$(sort "$dir/out")" = "0/4 0 alpha none $ASKED x y 33s 2 $dir
1/4 0 alpha none $ASKED x y 33s 2 $dir
2/4 1 beta none $ASKED x y 33s 2 $dir
3/4 2 here 1 $ASKED x y 33s 2 $dir" ] || fail "ranks on hosts: $(cat "$dir/out" "$dir/err")"

# other placements on hosts, which are no virtual nodes
expect 0 "${remote[@]}" --host alpha:2,beta:2,localhost:1 --placement cyclic -n 5 sh -c 'echo "$WEIR_JOB_RANK $WEIR_JOB_NODE ${WEIR_PLACEMENT:-none}"'
[ "$(sort "$dir/out" | tr '\n' '|')" = "0 0 none|1 1 none|2 2 none|3 0 none|4 1 none|" ] || fail "cyclic on hosts: $(cat "$dir/out" "$dir/err")"
expect 6 "${remote[@]}" --host alpha:2,beta:2 --placement list:1,0,0,1 sh -c "[ \$WEIR_JOB_RANK = 2 ] && exit 6; exec sleep $mark"
err_has "rank 2 on host alpha exited with code 6"
seq 1 5 | "${remote[@]}" --host alpha:2,beta:2 --placement list:1,0,0,1 sh -c 'wc -l' >"$dir/out" 2>"$dir/err"
[ "$(sort "$dir/out" | tr -d '\n')" = 0005 ] || fail "standard input of rank 0 on the second host: $(cat "$dir/out")"
expect 2 "${remote[@]}" --host alpha:1,beta:3 --placement cyclic true
err_has "gives host alpha 2 ranks, and --host 1 slots"
expect 2 "${remote[@]}" --host alpha:1,beta:3 --placement list:0,1,2,1 true
err_has "does not fit 2 hosts"

# nothing secret on a command line
grep -qF -- "--agent" "$dir/commands" || fail "the stand-in did not run an agent"
expect 0 "${remote[@]}" --host alpha:1,beta:1 \
    bash -c "$see_secret"
[ "$(sort -u "$dir/out")" = 0 ] || fail "the secret can be seen on a command line"

# fewer ranks than slots: the last hosts get none
: >"$dir/commands"
expect 0 "${remote[@]}" -n 2 --host alpha:2,down:2 true
grep -q '^down' "$dir/commands" && fail "a host without ranks was used"

# standard input, output of both kinds, exit codes and signals
seq 1 50000 | "${remote[@]}" --host alpha:1,beta:1 --tag-output sh -c 'wc -l; echo e >&2' >"$dir/out" 2>"$dir/err"
[ "$(sort "$dir/out" | tr '\n' '|')" = "[0] 50000|[1] 0|" ] || fail "standard input of a remote rank: $(cat "$dir/out")"
[ "$(sort "$dir/err" | tr '\n' '|')" = "[0] e|[1] e|" ] || fail "standard error of remote ranks: $(cat "$dir/err")"
expect 6 "${remote[@]}" --host alpha:1,beta:2 sh -c "[ \$WEIR_JOB_RANK = 1 ] && exit 6; exec sleep $mark"
err_has "rank 1 on host beta exited with code 6"
expect 139 "${remote[@]}" --host alpha:1,beta:2 sh -c "[ \$WEIR_JOB_RANK = 2 ] && kill -SEGV \$\$; exec sleep $mark"
err_has "rank 2 on host beta was killed by SIGSEGV"
expect 127 "${remote[@]}" --host alpha:1 nothing-of-this-name
err_has "rank 0 on host alpha: cannot execute"
expect 124 "${remote[@]}" --timeout 1 --host alpha:1,beta:1 sleep "$mark"
none_left "remote ranks"

# hosts that cannot be reached, agents that are not there or not ours
expect 1 "${remote[@]}" --host alpha:1,down:1 sleep "$mark"
err_has "host down cannot be reached: .* exited with code 255"
err_has "no route to host"
expect 1 "${remote[@]}" --agent-path "$dir/nowhere" --host alpha:1 true
err_has "host alpha cannot be reached: .* exited with code 127"
printf '#!/bin/sh\necho weir-agent/1 0.0.0\ncat >/dev/null\n' >"$dir/old"
chmod +x "$dir/old"
expect 1 "${remote[@]}" --agent-path "$dir/old" --host alpha:1 true
err_has "host alpha has weirrun 0.0.0, and this is"
expect 1 "$W" --rsh "$dir/no-rsh" --iface 127.0.0.1 --host alpha:1 true
err_has "cannot execute the remote shell"
printf '#!/bin/sh\nexec sleep 60\n' >"$dir/silent"
chmod +x "$dir/silent"
WEIR_BOOT_TIMEOUT=1s expect 1 "$W" --rsh "$dir/silent" --iface 127.0.0.1 --host alpha:1 true
err_has "did not answer"
expect 2 "$W" --iface no-such-interface --host alpha:1 true
err_has "--iface no-such-interface"

# weirrun is killed: the ranks elsewhere die too; so they do with their agent
start() {
    "${remote[@]}" --host alpha:2,beta:1 sh -c "sleep $mark & setsid sleep $mark & exec sleep $mark" \
        >"$dir/out" 2>"$dir/err" </dev/null &
    pid=$!
    until_true 20 sleepers_are 9 || fail "the remote ranks did not start"
}
start
kill -KILL $pid
wait $pid 2>/dev/null
none_left "weirrun was killed"
start
guards=$(pgrep -d, -P "$(pgrep -d, -P $pid)" weir-guard)
kill -KILL "$(pgrep -P "$guards" weir-agent | head -n 1)"
wait $pid
[ $? -eq 1 ] || fail "the exit code after an agent was killed"
err_has "host (alpha|beta) was lost"
none_left "an agent was killed"
finish
