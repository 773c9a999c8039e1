#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 240
# The rules of the transports on each of them and each provider that opens here; ranks as processes and as threads.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
t="$B/tests/multi/transport_conformance"
run "self" "$t" -t self -n 1
run "shm processes" "$t" -t shm -n 2 -b 64M
run "shm threads" "$t" -t shm -n 4 -T
run "shm eight" "$t" -t shm -n 8 -b 64K -r 20
run "shm staged" env WEIR_SHM_CMA=off "$t" -t shm -n 3
run "self lifetimes" "$t" -t self -n 1 -L 1000
run "shm lifetimes" "$t" -t shm -n 2 -L 1000
for net in $(networks); do
    run "$net processes" "$t" -t "$net" -n 2 -b 16M
    run "$net threads" "$t" -t "$net" -n 3 -T -r 20
    run "$net lifetimes" "$t" -t "$net" -n 2 -L 20
done
if networks | grep -q ofi; then
    for provider in net 'tcp;ofi_rxm' shm; do
        run "ofi over $provider" env WEIR_OFI_PROVIDER="$provider" "$t" -t ofi -n 3 -b 1M -r 20
    done
    # Over datagrams libfabric 1.17 itself loses and cuts messages when thousands are in flight on a loaded machine.
    for case in am_sizes am_order put_sizes put_signal bare_signal fence; do
        run "ofi over udp;ofi_rxd, $case" env WEIR_OFI_PROVIDER='udp;ofi_rxd' "$t" -t ofi -n 2 -b 64K -r 10 -c $case
    done
fi
finish
