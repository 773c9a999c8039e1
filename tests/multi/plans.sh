#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 200
# Persistent collectives whose results other nodes put in place: where asked for, and where the model chooses it.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
export WEIR_TUNING_FILE=off
t="$B/tests/multi/plans_test"
[ -n "$(networks)" ] || { echo "no network in this build"; exit 77; }
put=allgather:hier_put,allreduce:hier_put
wheres=("4 2 block" "5 3 list:0,1,0,0,2")
for net in $(networks); do
    export WEIR_NETWORK="$net"
    for where in "${wheres[@]}"; do
        read -r n nodes placement <<<"$where"
        run "$net, put, $n ranks on $nodes nodes" env WEIR_ALGO=$put timeout 60 \
            "$weirrun" -n "$n" --nodes "$nodes" --placement "$placement" "$t" -e ': hier_put' -w ': hier_put'
    done
    wheres=("3 3 block")
done
run "$net, chosen" timeout 60 "$weirrun" -n 4 --nodes 2 "$t" -w ': hier_put'
printf '%s\n' "$output"
run "$net, contrary" env WEIR_CONTRARY=yes WEIR_ALGO=$put timeout 60 "$weirrun" -n 3 --nodes 2 "$t"
finish
