# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Sourced by scripts that need several hosts (weir-hosts, and tests): makes them from namespaces of the kernel. A host has
# a network, a host name, IPC, mounts, /dev/shm, /sys and a boot id of its own, so nothing can mistake two of them for one
# machine. All hosts hang on one bridge; addresses are 10.77.0.1, 10.77.0.2, ... and names h0, h1, ...
#
# Everything lives in a process namespace that ends with the script, whatever happens to it, and in anonymous network
# namespaces: any number of scripts can do this at once, and nothing is left behind.
#
#   hosts_enter "$@"      first thing in the script: runs the rest of it inside the namespaces. Sets $scratch, a folder
#                         that is removed in the end and that all hosts see. Ends with $hosts_refused (77) where this is
#                         not allowed, and says why.
#   hosts_up N            makes h0..h(N-1); sets host_pid[i]
#   hosts_rate RATE       from now on each host sends and receives at most so much ("1gbit", as tc(8) has it)
#   on hI COMMAND...      runs a command on a host; with $on_limit set, for so many seconds at most
#   host_bytes hI         bytes that have left the host and have come to it: "SENT RECEIVED"
#   $scratch/rsh          an ssh stand-in: rsh HOST COMMAND...

hosts_refuse() {
    echo "$*"
    exit "${hosts_refused:-77}"
}

hosts_enter() {
    if [ -n "${HOSTS_SCRATCH:-}" ] && [ $$ -eq 1 ]; then
        scratch=$HOSTS_SCRATCH
        unset HOSTS_SCRATCH
        mount --make-rprivate /
        return
    fi
    local need status
    [ "$(id -u)" -eq 0 ] || hosts_refuse "needs root to make network namespaces"
    for need in unshare nsenter setpriv ip mount; do
        command -v $need >/dev/null || hosts_refuse "missing: $need"
    done
    unshare --mount --uts --ipc --net --pid --fork --mount-proc true 2>/dev/null ||
        hosts_refuse "this kernel or container does not allow namespaces"
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/weir-hosts.XXXXXX") || exit 99
    chmod 755 "$scratch"
    trap 'rm -rf "$scratch"' EXIT
    trap : TERM INT HUP
    # unshare dies with this shell, the first process of the namespaces with unshare, and all others with that one
    HOSTS_SCRATCH=$scratch setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child=KILL --mount-proc \
        bash "$0" "$@" &
    wait $!
    status=$?
    kill -KILL $! 2>/dev/null && wait $! 2>/dev/null # a signal ended the wait
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
    } || hosts_refuse "this kernel has no bridges or veth devices"
    cat >"$scratch/rsh" <<END
#!/bin/bash
# rsh [-options] HOST COMMAND...: as ssh does, the words are joined and given to a shell; nothing of the caller's
# environment comes along but PATH and the options of sanitizers.
while [[ \$1 == -* ]]; do shift; done
host=\$1
shift
mapfile -t options < <(env | grep "^[A-Z]*SAN_OPTIONS=")
pid=\$(cat "$scratch/host\${host#h}/pid" 2>/dev/null) || { echo "rsh: no host \$host" >&2; exit 255; }
exec env -i PATH="\$PATH" HOME=/root "\${options[@]}" nsenter -t "\$pid" -m -u -i -n -- sh -c "cd /; \$*"
END
    chmod +x "$scratch/rsh"
}

# Both directions: what leaves the host, and what leaves the switch towards it. A queue of 20 ms, as a switch may have.
hosts_rate() {
    local rate=$1 i
    command -v tc >/dev/null || hosts_refuse "missing: tc"
    for ((i = 0; i < ${#host_pid[@]}; i++)); do
        nsenter -t "${host_pid[i]}" -n tc qdisc replace dev eth0 root tbf rate "$rate" burst 128kb latency 20ms &&
            in_switch tc qdisc replace dev "port$i" root tbf rate "$rate" burst 128kb latency 20ms ||
            hosts_refuse "tc cannot make links of $rate"
    done
}

host_bytes() {
    nsenter -t "${host_pid[${1#h}]}" -n awk '/eth0:/ { sub(/.*:/, ""); print $9, $1 }' /proc/net/dev
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
