#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 120
# Collectives over nodes below switches, as a topology file has them: the levels and bytes of plans, results in execution.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
m="$B/tests/multi"
net=$(networks | head -n 1)
[ -n "$net" ] || { echo "no network in this build"; exit 77; }
export WEIR_NETWORK=$net WEIR_TUNING_FILE=off
file=$(mktemp) || exit 99
trap 'rm -f "$file"' EXIT
export WEIR_TOPOLOGY_FILE=$file
# neighbours in the order of nodes hang on different switches
cat >"$file" <<'END'
SwitchName=leaf0 Nodes=node[0,4]
SwitchName=leaf1 Nodes=node[1,5]
SwitchName=leaf2 Nodes=node[2,6]
SwitchName=leaf3 Nodes=node[3,7]
SwitchName=middle0 Switches=leaf[0,2]
SwitchName=middle1 Switches=leaf[1,3]
SwitchName=top Switches=middle[0-1]
END
run "two levels" timeout 60 "$weirrun" -n 10 --nodes 8 --placement cyclic "$m/switches_test" 2
run "results" env WEIR_ALGO=allgather:hier,reduce_scatter:hier,allreduce:hier timeout 60 \
    "$weirrun" -n 8 --nodes 8 "$m/plans_test" -b 3000
cat >"$file" <<'END'
SwitchName=leaf0 Nodes=node[0,2]
SwitchName=leaf1 Nodes=node[1,3]
SwitchName=spine Switches=leaf[0-1]
END
run "one level" timeout 60 "$weirrun" -n 6 --nodes 4 --placement random:3 "$m/switches_test" 1
run "results, chosen" timeout 60 "$weirrun" -n 6 --nodes 4 --placement cyclic "$m/plans_test" -b 3000
echo "SwitchName=leaf0 Nodes=node[0" >"$file"
run "a bad file" timeout 60 "$weirrun" -n 3 --nodes 3 "$m/switches_test" fails
unset WEIR_TOPOLOGY_FILE
run "no file" timeout 60 "$weirrun" -n 4 --nodes 4 "$m/switches_test" 0
finish
