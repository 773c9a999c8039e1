# SPDX-License-Identifier: BSD-3-Clause
# In the emulated machine, as root: makes the soft-RoCE device rxe0 and runs a job of this folder. The kernel's command
# line says which, and where source and build are.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
up() { echo "[$(cut -d' ' -f1 /proc/uptime)] $*"; }
argument() { tr ' ' '\n' </proc/cmdline | sed -n "s|^$1=||p"; }
number=$(argument weir_machine)
device=$(argument weir_device)
top_srcdir=$(argument weir_source)
top_builddir=$(argument weir_build)
export top_srcdir top_builddir
hostname "vm$number"
printf '127.0.0.1 localhost\n10.7.0.1 vm1\n10.7.0.2 vm2\n' >/etc/hosts
ip link set lo up
ip link show "$device" >/dev/null 2>&1 || ip link add "$device" type dummy
ip link set "$device" mtu 4500 up
ip addr add "10.7.0.$number/24" dev "$device"
rdma link add rxe0 type rxe netdev "$device" || echo "no rxe device"
# The engine of rxe runs in ksoftirqd; a test that polls would starve it.
for pid in $(pgrep ksoftirqd); do
    chrt -f -p 50 "$pid"
done
up "ready"
# What UCX needs on rxe: the link-local GID, with which ud works, and patience.
export UCX_IB_GID_INDEX=0 UCX_NET_DEVICES=rxe0:1 UCX_UD_TIMEOUT=100s UCX_LOG_LEVEL=error
bash "$top_srcdir/tests/verbs/$(argument weir_job).sh"
echo "weir-status $?"
up "done"
echo b >/proc/sysrq-trigger
sleep 60
