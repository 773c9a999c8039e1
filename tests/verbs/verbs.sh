#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 1200
# Real verbs without a device: emulated machines with Debian's stock kernel and soft-RoCE, whose root is this one's root,
# read-only. Runs the rules of the transports and programs of several ranks over libfabric's verbs and UCX's rc and ud,
# in one machine and between two. Usage: verbs.sh [JOB...], all of "one two" without.
set -uo pipefail
top_srcdir=$(cd "${top_srcdir:-$(dirname "$0")/../..}" && pwd)
top_builddir=$(cd "${top_builddir:-.}" && pwd)
kernel=$top_builddir/tests/verbs/kernel
patience=500 # seconds; the longest that a machine may run

skip() {
    echo "$*" >&2
    exit 77
}

[ "$(uname -m)" = x86_64 ] || skip "the emulated machine has the processor of x86-64 only"
case $top_srcdir:$top_builddir in
*[[:space:]]*) skip "a folder with spaces cannot be named on a kernel's command line: $top_srcdir $top_builddir" ;;
/run/* | /dev/* | *:/run/* | *:/dev/*) skip "the emulated machine has its own /run and /dev: $top_srcdir $top_builddir" ;;
esac
busybox=$(command -v busybox) || skip "missing: busybox-static"
! ldd "$busybox" >/dev/null 2>&1 || skip "missing: busybox-static (the busybox here needs shared libraries)"
for need in qemu-system-x86_64:qemu-system-x86 apt-get:apt dpkg-deb:dpkg xz:xz-utils rdma:iproute2 pgrep:procps \
    setpriv:util-linux; do
    command -v "${need%:*}" >/dev/null || skip "missing: ${need#*:}"
done
ls /usr/lib/*/libibverbs/librxe-*.so >/dev/null 2>&1 || skip "missing: ibverbs-providers"

scratch=$(mktemp -d "${TMPDIR:-/tmp}/weir-verbs.XXXXXX")
machines=()
stop_machines() {
    local pid
    for pid in "${machines[@]}"; do
        kill "$pid" 2>/dev/null
    done
    for pid in "${machines[@]}"; do
        wait "$pid" 2>/dev/null
    done
    machines=()
}
trap 'stop_machines; rm -rf "$scratch"' EXIT
trap 'exit 143' TERM INT HUP

. "$top_srcdir/tests/verbs/kernel.sh"
make_kernel

# No KVM even where there is a /dev/kvm: a nested one can fail in the middle of the guest's boot.
khz=$(awk -F: '/^cpu MHz/{print int($2 * 1000); exit}' /proc/cpuinfo)
quiet="console=ttyS0 reboot=t quiet loglevel=4 panic=-1 mitigations=off nokaslr rcupdate.rcu_expedited=1"
clock="random.trust_cpu=on tsc=reliable tsc_early_khz=${khz:-2000000} no_timer_check"

# machine NUMBER JOB DEVICE [QEMU-ARGUMENTS]: starts one; its output goes to $scratch/NUMBER.log. Of one core: with more of
# them emulated, ranks that poll keep those from running that they wait for.
machine() {
    local number=$1 job=$2 device=$3
    shift 3
    timeout -k 5 $patience qemu-system-x86_64 -M microvm,isa-serial=on -accel tcg,thread=multi -cpu max -m 1G \
        -nodefaults -no-user-config -display none -no-reboot -serial stdio \
        -kernel "$kernel/image" -initrd "$kernel/initrd" -append "$quiet $clock weir_machine=$number weir_job=$job \
weir_device=$device weir_source=$top_srcdir weir_build=$top_builddir" \
        -fsdev local,id=host,path=/,security_model=none,readonly=on,multidevs=remap \
        -device virtio-9p-device,fsdev=host,mount_tag=host "$@" </dev/null >"$scratch/$number.log" 2>&1 &
    machines+=($!)
}

# outcome NUMBER: waits for the machine, shows what it said
outcome() {
    local status
    wait "${machines[$1 - 1]}"
    tr -d '\r' <"$scratch/$1.log"
    status=$(tr -d '\r' <"$scratch/$1.log" | sed -n 's/^weir-status //p')
    [ "$status" = 0 ] || [ "$status" = 77 ] || echo "FAIL: machine $1 ended with status ${status:-unknown}"
    [ "$status" != 77 ] || status=0 # neither of the libraries is built in
    return "${status:-1}"
}

failed=0
[ $# -gt 0 ] || set -- one two
for job; do
    case $job in
    one)
        machine 1 one dummy0
        outcome 1 || failed=1
        ;;
    two)
        link=virtio-net-device,netdev=link,host_mtu=4500,mac=52:54:00:00:00
        machine 1 two eth0 -netdev stream,id=link,server=on,addr.type=unix,addr.path="$scratch/link" \
            -device "$link:01"
        for ((i = 0; i < 100; i++)); do
            [ ! -S "$scratch/link" ] || break
            sleep 0.1
        done
        machine 2 agent eth0 -netdev stream,id=link,server=off,addr.type=unix,addr.path="$scratch/link" \
            -device "$link:02"
        outcome 1 || failed=1
        ;;
    *)
        echo "verbs.sh: there is no job $job" >&2
        exit 2
        ;;
    esac
    stop_machines
done
echo "$SECONDS s"
exit $failed
