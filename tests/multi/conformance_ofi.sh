#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 240
# The rules of the transports over libfabric's software providers: as threads, over two rails, with awkward hardware above.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
t="$B/tests/multi/transport_conformance"
for provider in net 'tcp;ofi_rxm' shm; do
    run "ofi over $provider, threads" env WEIR_OFI_PROVIDER="$provider" "$t" -t ofi -n 4 -T -b 300K -r 20
    run "ofi over $provider, contrary" env WEIR_OFI_PROVIDER="$provider" "$t" -t ofi -n 2 -l contrary -b 300K -r 20
    run "ofi over $provider, lifetimes" env WEIR_OFI_PROVIDER="$provider" "$t" -t ofi -n 2 -L 100
done
if [ -e /sys/class/net/eth0 ]; then
    for provider in net 'tcp;ofi_rxm'; do
        run "ofi over $provider, two rails" env WEIR_OFI_PROVIDER="$provider" WEIR_NIC=eth0,lo "$t" -t ofi -n 3 -b 4M -r 20
    done
fi
finish
