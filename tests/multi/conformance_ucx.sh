#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 240
# The rules of the transports over UCX's transports that need no hardware, with its puts and with messages.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
t="$B/tests/multi/transport_conformance"
for tls in tcp self,tcp posix sysv posix,cma; do
    run "ucx over $tls" env UCX_TLS=$tls "$t" -t ucx -n 2 -b 16M
    run "ucx over $tls, threads" env UCX_TLS=$tls "$t" -t ucx -n 4 -T -b 300K -r 20
    run "ucx over $tls, contrary" env UCX_TLS=$tls "$t" -t ucx -n 2 -l contrary -b 300K -r 20
done
run "ucx with its puts over tcp" env UCX_TLS=tcp WEIR_UCX_PUT=rma "$t" -t ucx -n 2 -b 1M
run "ucx with messages over posix" env UCX_TLS=posix WEIR_UCX_PUT=message "$t" -t ucx -n 2 -b 1M
run "ucx over small segments" env UCX_TLS=tcp UCX_TCP_RX_SEG_SIZE=16K "$t" -t ucx -n 2 -b 1M
run "ucx lifetimes" env UCX_TLS=tcp "$t" -t ucx -n 2 -L 100
finish
