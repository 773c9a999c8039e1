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
# A process that is killed leaves its memory behind, and the next one of that number finds it: libfabric takes its owner for alive.
if command -v python3 >/dev/null; then
    export WEIR_OFI_PROVIDER=shm
    "$t" -t ofi -n 2 -T -r 100000000 >/dev/null 2>&1 &
    dead=$!
    for _ in $(seq 100); do [ ! -s /dev/shm/$dead:0:0 ] || break; sleep 0.05; done
    kill -9 $dead
    wait $dead 2>/dev/null
    # shellcheck disable=SC2016 # for the inner shell
    run "after a killed process of the same number" bash -c 'python3 - $$ "$1" <<END || exit 77
import struct, sys
number, dead = int(sys.argv[1]), int(sys.argv[2])
memory = bytearray(open(f"/dev/shm/{dead}:0:0", "rb").read())
for at in range(0, 256, 4):
    if struct.unpack_from("<i", memory, at)[0] == dead:
        struct.pack_into("<i", memory, at, number)
open(f"/dev/shm/{number}:0:0", "wb").write(memory)
END
    exec "${@:2}"' bash $dead "$t" -t ofi -n 2 -T -b 64K -r 5
    rm -f /dev/shm/$dead:*
    unset WEIR_OFI_PROVIDER
fi
if [ -e /sys/class/net/eth0 ]; then
    for provider in net 'tcp;ofi_rxm'; do
        run "ofi over $provider, two rails" env WEIR_OFI_PROVIDER="$provider" WEIR_NIC=eth0,lo "$t" -t ofi -n 3 -b 4M -r 20
    done
fi
finish
