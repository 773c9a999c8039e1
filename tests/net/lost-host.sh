#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck source-path=SCRIPTDIR/../..
# A host is cut off the network, without a word: all ranks that wait for its ranks learn of it within WEIR_PEER_TIMEOUT.
# timeout: 120
. "$top_srcdir/tests/net/hosts.sh"
hosts_enter "$@"
. "$top_srcdir/tests/slurm/expect.sh"
hosts_up 3
timeout_s=2
limit_s=$((timeout_s + ${TEST_TIME_FACTOR:-1}))

# Waits for the ranks to be at work, cuts the last host off, and says when.
cut_when_ready() {
    local try
    for ((try = 0; try < 1000; try++)); do
        [ ! -e "$scratch/ready.0" ] || [ ! -e "$scratch/ready.1" ] || [ ! -e "$scratch/ready.2" ] ||
            [ ! -e "$scratch/ready.3" ] || break
        sleep 0.02
    done
    in_switch ip link set port2 down
    touch "$scratch/gone"
}

for network in ofi ucx; do
    case $network in
    ofi) grep -q '^#define HAVE_LIBFABRIC 1' "$top_builddir/config.h" || continue ;;
    ucx) grep -q '^#define HAVE_UCX 1' "$top_builddir/config.h" || continue ;;
    esac
    rm -f "$scratch"/ready.* "$scratch/gone" "$scratch"/gone.*
    in_switch ip link set port2 up
    cut_when_ready &
    cutter=$!
    run "over $network" on h0 "$top_builddir/tools/weirrun" -n 4 --host h0:1,h1:1,h2:2 --rsh "$scratch/rsh" \
        --on-failure continue --env WEIR_NETWORK=$network --env WEIR_PEER_TIMEOUT=${timeout_s}s \
        --env "LSAN_OPTIONS=${LSAN_OPTIONS:-}" --env "ASAN_OPTIONS=${ASAN_OPTIONS:-}" \
        "$top_builddir/tests/fault/lost_host" $limit_s "$scratch/ready" "$scratch/gone"
    wait $cutter
    [ "$(grep -c '^lost: ' <<<"$out")" -eq 8 ] || complain "not all of four ranks saw the loss of both on the other side"
    [ "$(grep -c '^left: ' <<<"$out")" -ge 2 ] || complain "the survivors did not leave in time"
    [ -z "${SHOW:-}" ] || echo "$out"
done
[ $checks -gt 0 ] || { echo "needs libfabric or UCX"; exit 77; }
verdict
