# SPDX-License-Identifier: BSD-3-Clause
# Between two machines: messages and registered memory of ranks that weirrun started on both.
. "$top_srcdir/tests/verbs/job_lib.sh"
for ((i = 0; i < 300; i++)); do
    ! busybox nc -w 1 vm2 22 </dev/null >/dev/null 2>&1 || break
    sleep 0.2
done
rsh=/run/rsh
cat >$rsh <<'END'
#!/bin/bash
host=$1
shift
{ printf '%s\n' "$*"; exec cat; } | exec busybox nc "$host" 22
END
chmod +x $rsh
launch=("$weirrun" --rsh "$rsh" --iface 10.7.0.1 --host vm1:1,vm2:1 --agent-path "$weirrun" --env LD_LIBRARY_PATH
    --env UCX_IB_GID_INDEX --env UCX_NET_DEVICES --env UCX_UD_TIMEOUT --env UCX_LOG_LEVEL)
timed "two machines" over any 120 "${launch[@]}" sh -c 'hostname'
for way in $(ways); do
    timed "$way: messages between machines" over "$way" 180 "${launch[@]}" "$p2p" -r 20
    timed "$way: memory between machines" over "$way" 180 "${launch[@]}" "$mem"
    timed "$way: weir-p2p between machines" over "$way" 180 "${launch[@]}" \
        "$B/perf/weir-p2p" -b 8 -e 4K -f 512 --time 0.02 --no-reference
    printf '%s\n' "$output" | grep "^$(transport_of "$way")"
done
finish
