#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 200
# Memory that the network refuses to register moves by messages: on all ranks or on one, puts, gets, signals and long
# messages; and one warning says so, which names the limit and what to do.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
mem="$B/tests/multi/mem_test"
p2p="$B/tests/multi/p2p_test"

# warned LABEL COMMAND...: passes when the command warns exactly once.
warned() {
    out=$(env TEST_LOG=1 "${@:2}" 2>&1)
    status=$?
    n=$(printf '%s\n' "$out" | grep -c 'cannot be registered with the network.*RLIMIT_MEMLOCK.*ulimit -l')
    if [ $status -eq 0 ] && [ "$n" -eq 1 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $1: status $status, $n warnings:"
        printf '%s\n' "$out" | tail -n 20 | sed 's/^/    /'
    fi
}

for net in $(networks); do
    export WEIR_TRANSPORT=$net
    warned "$net, all ranks" env WEIR_FAULT='refuse=reg' "$weirrun" -n 3 "$mem"
    warned "$net, one rank" env WEIR_FAULT='rank=1;refuse=reg' "$weirrun" -n 3 "$mem"
    warned "$net, from the fifth on" env WEIR_FAULT='refuse=reg:5' "$weirrun" -n 2 "$mem"
    run "$net, messages, all ranks" env WEIR_FAULT='refuse=reg' "$weirrun" -n 3 "$p2p" -r 100
    run "$net, messages, one rank" env WEIR_FAULT='rank=1;refuse=reg' "$weirrun" -n 3 "$p2p" -r 100
    run "$net, contrary" env WEIR_CONTRARY=yes WEIR_FAULT='refuse=reg' "$weirrun" -n 2 "$mem"
    unset WEIR_TRANSPORT
    # ranks of one node use shared memory; a rank alone on its node has one transport less
    warned "$net between nodes" env WEIR_NETWORK=$net WEIR_FAULT='refuse=reg' "$weirrun" -n 3 --nodes 2 --placement list:0,0,1 "$mem"
done
finish
