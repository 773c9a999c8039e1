#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 400
# A seeded selection of collectives, types, operations, sizes and forms (select_test.c) on seeded machines: 1 to 9 ranks, 1 to 4
# virtual nodes, any placement, and algorithms that are asked for or chosen.
# usage: select.sh [SEED [LAUNCHES [CASES]]]; further seeds, launches and cases for a longer run
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
t="$B/tests/multi/select_test"
seed=${1:-1} launches=${2:-8} cases=${3:-24}
RANDOM=$seed
networks=$(networks)

pick() { # WORD...: one of them into $picked
    local words=("$@")
    picked=${words[RANDOM % $#]}
}

# One algorithm for each collective that has several, of those that serve several nodes.
algorithms() {
    local list=
    pick binomial chain; list+=bcast:$picked
    pick binomial chain linear; list+=,reduce:$picked
    pick ring bruck hier linear latency; list+=,allreduce:$picked
    pick ring bruck hier linear; list+=,reduce_scatter:$picked
    pick ring bruck hier; list+=,allgather:$picked
    pick dissemination hier; list+=,barrier:$picked
    algo=$list
}

for ((i = 0; i < launches; i++)); do
    # all numbers of ranks in turn, most of them with virtual nodes
    n=$(((i * 4 + seed) % 9 + 1)) nodes=$((i % 4 + 1))
    [ $nodes -le $n ] || nodes=$n
    pick block cyclic random:$((seed + i)); placement=$picked
    algo=
    [ $nodes -eq 1 ] || [ $((i % 3)) -eq 0 ] || algorithms
    # shellcheck disable=SC2086
    pick $networks; network=$picked
    contrary=no most=20000 number=$cases
    if [ $((i % 4)) -eq 3 ]; then # much slower
        contrary=yes most=400 number=$((cases / 3))
        [ $n -le 4 ] || n=4
    fi
    run "$n ranks, $nodes nodes, $placement, ${algo:-chosen}, ${network:-no network}, contrary $contrary, seed $((seed + i))" \
        env WEIR_ALGO="$algo" WEIR_NETWORK="${network:-auto}" WEIR_CONTRARY=$contrary timeout 100 \
        "$weirrun" -n $n --nodes $nodes --placement "$placement" "$t" -r "$number" -s $((seed + i)) -b $most
done
finish
