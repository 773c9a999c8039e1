#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Network interfaces in a network namespace, as in a container: its own virtual interface counts, the host's do not, also
# when /sys still shows the host's.
# timeout: 60
set -u
for tool in ip nsenter; do
    command -v $tool >/dev/null || { echo "missing: $tool"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "making network namespaces needs root"; exit 77; }
name=wrtopo$$ outer=wrt$$
ip netns add $name 2>/dev/null || { echo "network namespaces are not allowed here"; exit 77; }
trap 'ip netns del $name; ip link del $outer 2>/dev/null' EXIT
ip link add $outer type veth peer name eth0 netns $name || { echo "virtual cables are not allowed here"; exit 77; }
ip link set $outer up
ip -n $name link set lo up
fail=0
# nics ENTER... : the names of the interfaces that weir sees there
nics() {
    "$@" env -u WEIR_HWLOC_XML -u WEIR_HWLOC_SYNTHETIC "$top_builddir/tools/weir-info" 2>&1 |
        sed -n 's/^ *nic \([^ ,]*\).*/\1/p' | tr '\n' ' '
}
# expect WHAT NAMES: both ways of entering the namespace must show these
expect() {
    local got
    got=$(nics ip netns exec $name)
    [ "$got" = "$2" ] || { echo "$1: '$got' instead of '$2'"; fail=1; }
    got=$(nics nsenter --net=/run/netns/$name)
    [ "$got" = "$2" ] || { echo "$1, the host's /sys: '$got' instead of '$2'"; fail=1; }
}
expect "no interface is up" ""
ip -n $name link set eth0 up
ip -n $name addr add 10.213.9.1/24 dev eth0
expect "one virtual interface" "eth0 "
ip -n $name link set eth0 down
ip -n $name link set eth0 name veth0
ip -n $name link set veth0 up
expect "nothing but one that looks like a cable's end" "veth0 "
exit $fail
