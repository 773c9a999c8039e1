#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck source-path=SCRIPTDIR/../..
# Large collectives on hosts with slow links take the time that the links need, as the simulation says: phases in the node and
# between nodes overlap, and no link is idle. The links are so slow that it does not matter what else the cores have to do.
# timeout: 120
. "$top_srcdir/tests/net/hosts.sh"
hosts_enter "$@"
. "$top_srcdir/tests/slurm/expect.sh"
hosts_up 4
hosts_rate 100mbit
# 1448 bytes of 1538 are payload
costs=bandwidth=0.01177,latency=100000,overhead=5000

# number NAME: of the last JSON line in $out
number() { grep '^{' <<<"$out" | tail -n 1 | sed -n "s/.*\"$1\": *\([0-9.e+]*\).*/\1/p"; }

# compare COLL BYTES OF A RANK, OF ALL, PLACEMENT
compare() {
    local predicted measured attempt
    run "simulation of $1" "$top_builddir/tools/weir-plan" "$1" --nodes 4 --ppn 2 --placement "$4" --bytes "$3" --algo hier --simulate \
        --cost "$costs" --json
    predicted=$(number time_us)
    [ -n "$predicted" ] || complain "no time"
    for attempt in 1 2 3; do # a pause of the whole machine shows
        run "$1, $4" on h0 "$top_builddir/tools/weirrun" --host h0:2,h1:2,h2:2,h3:2 --placement "$4" --rsh "$scratch/rsh" \
            "$top_builddir/perf/weir-perf" "$1" --sizes "$2" -n 3 -w 1 --json
        measured=$(number min_us)
        [ "$status" -eq 0 ] && [ -n "$measured" ] || complain "failed"
        echo "$1, $4: $measured us, predicted $predicted"
        awk -v m="${measured:-0}" -v p="${predicted:-1}" 'BEGIN { exit !(m > 0.8 * p && m < 1.25 * p) }' && return
    done
    complain "took $measured us and not $predicted"
}
compare reduce_scatter 4194304 4194304 block
compare reduce_scatter 1048576 1048576 cyclic
compare allgather 131072 1048576 block
compare allreduce 524288 524288 cyclic
verdict
