# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Sourced by tests that need several hosts: makes them from namespaces of the kernel. A host has a network, a host name,
# IPC, mounts, /dev/shm, /sys and a boot id of its own, so nothing can mistake two of them for one machine. All hosts
# hang on one bridge; addresses are 10.77.0.1, 10.77.0.2, ... and names h0, h1, ...
#
# Everything lives in a process namespace that ends with the test, whatever happens to it, and in anonymous network
# namespaces: any number of tests can do this at once, and nothing is left behind.
#
#   hosts_enter "$@"      first thing in the script: runs the rest of it inside the namespaces. Sets $scratch, a folder
#                         that is removed in the end and that all hosts see. Ends with 77 where this is not allowed.
#   hosts_up N            makes h0..h(N-1); sets host_pid[i]
#   on hI COMMAND...      runs a command on a host; with $on_limit set, for so many seconds at most
#   $scratch/rsh          an ssh stand-in: rsh HOST COMMAND...

hosts_enter() {
    if [ -n "${HOSTS_SCRATCH:-}" ] && [ $$ -eq 1 ]; then
        scratch=$HOSTS_SCRATCH
        unset HOSTS_SCRATCH
        trap 'exit 143' TERM INT
        mount --make-rprivate /
        return
    fi
    local need status
    [ "$(id -u)" -eq 0 ] || { echo "needs root to make network namespaces"; exit 77; }
    for need in unshare nsenter ip mount; do
        command -v $need >/dev/null || { echo "missing: $need"; exit 77; }
    done
    unshare --mount --uts --ipc --net --pid --fork --mount-proc true 2>/dev/null ||
        { echo "this kernel or container does not allow namespaces"; exit 77; }
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/weir-hosts.XXXXXX") || exit 99
    chmod 755 "$scratch"
    trap 'rm -rf "$scratch"' EXIT
    trap 'exit 143' TERM INT
    HOSTS_SCRATCH=$scratch unshare --mount --pid --fork --kill-child=KILL --mount-proc bash "$0" "$@" &
    wait $!
    status=$?
    # A signal ended the wait: the namespaces end with their first process.
    kill -KILL $! 2>/dev/null && wait $! 2>/dev/null
    exit $status
}

declare -a host_pid
# Runs inside the new namespaces of one host; ends by sleeping.
host_main() {
    local i=$1 dir=$scratch/host$1
    hostname "h$i"
    ip link set lo up
    mount --rbind /sys/fs/cgroup "$dir/cgroup"
    mount -t sysfs sysfs /sys
    mount --rbind "$dir/cgroup" /sys/fs/cgroup
    mount -t tmpfs -o size=1g,mode=1777 shm /dev/shm
    mount --bind "$scratch/etc-hosts" /etc/hosts
    mount --bind "$dir/boot_id" /proc/sys/kernel/random/boot_id
    [ ! -e /etc/machine-id ] || mount --bind "$dir/machine-id" /etc/machine-id
    touch "$dir/ready"
    exec sleep infinity
}
export -f host_main

hosts_up() {
    local n=$1 i try
    printf '127.0.0.1 localhost\n' >"$scratch/etc-hosts"
    for ((i = 0; i < n; i++)); do
        echo "10.77.0.$((i + 1)) h$i" >>"$scratch/etc-hosts"
        mkdir -p "$scratch/host$i/cgroup"
        cat /proc/sys/kernel/random/uuid >"$scratch/host$i/boot_id"
        tr -d - </proc/sys/kernel/random/uuid >"$scratch/host$i/machine-id"
    done
    unshare --net sleep infinity &
    switch_pid=$!
    for ((i = 0; i < n; i++)); do
        scratch=$scratch unshare --net --uts --ipc --mount --propagation private bash -c "host_main $i" \
            </dev/null >"$scratch/host$i/log" 2>&1 &
        host_pid[i]=$!
    done
    for ((i = 0; i < n; i++)); do
        for ((try = 0; try < 500; try++)); do
            [ ! -e "$scratch/host$i/ready" ] || break
            sleep 0.02
        done
        [ -e "$scratch/host$i/ready" ] || { echo "host h$i did not come up:"; cat "$scratch/host$i/log"; exit 1; }
        echo "${host_pid[i]}" >"$scratch/host$i/pid"
    done
    {
        in_switch ip link add br0 type bridge && in_switch ip link set br0 up
        for ((i = 0; i < n; i++)); do
            in_switch ip link add "port$i" type veth peer name eth0 netns "${host_pid[i]}" &&
                in_switch ip link set "port$i" master br0 up &&
                nsenter -t "${host_pid[i]}" -n ip addr add "10.77.0.$((i + 1))/24" dev eth0 &&
                nsenter -t "${host_pid[i]}" -n ip link set eth0 up
        done
    } || { echo "this kernel has no bridges or veth devices"; exit 77; }
    cat >"$scratch/rsh" <<END
#!/bin/bash
# rsh [-options] HOST COMMAND...: as ssh does, the words are joined and given to a shell; nothing of the caller's
# environment comes along but PATH.
while [[ \$1 == -* ]]; do shift; done
host=\$1
shift
pid=\$(cat "$scratch/host\${host#h}/pid" 2>/dev/null) || { echo "rsh: no host \$host" >&2; exit 255; }
exec env -i PATH="\$PATH" HOME=/root nsenter -t "\$pid" -m -u -i -n -- sh -c "cd /; \$*"
END
    chmod +x "$scratch/rsh"
}

in_switch() {
    nsenter -t "$switch_pid" -n "$@"
}

on() {
    local host=$1
    shift
    # shellcheck disable=SC2016
    nsenter -t "${host_pid[${host#h}]}" -m -u -i -n -- sh -c 'cd "$0" && exec "$@"' "$PWD" \
        ${on_limit:+timeout -k 2 "$on_limit"} "$@"
}
