#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 300
# Operations of the user; windows of a node; sums of halves in halves; and WEIR_REPRODUCIBLE: the same bits on any machine.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
t="$B/tests/multi/ops_test"
run "one node" timeout 60 "$weirrun" -n 3 "$t"
run "two nodes" timeout 60 "$weirrun" -n 4 --nodes 2 --placement cyclic "$t"
run "unequal nodes, halves" env WEIR_PARTIALS=same timeout 60 "$weirrun" -n 5 --nodes 3 --placement list:0,1,0,0,2 "$t" -c
run "averages, rings" env WEIR_ALGO=allreduce:ring timeout 60 "$weirrun" -n 3 --nodes 2 "$t" -a

# bits ALGORITHMS ARGUMENTS...: the number that results make
bits() {
    local algo=$1
    shift
    WEIR_ALGO=$algo timeout 60 "$weirrun" -n 5 "$@" "$t" -p 2>&1 </dev/null | sed -n 's/^bits //p'
}
export WEIR_REPRODUCIBLE=yes
first=$(bits "")
[ ${#first} -eq 16 ] || { echo "FAIL: no result on one node"; failed=$((failed + 1)); }
while read -r algo arguments; do
    # shellcheck disable=SC2086
    other=$(bits "${algo#-}" $arguments)
    if [ "$other" = "$first" ]; then
        passed=$((passed + 1))
    else
        echo "FAIL: ${algo} $arguments: the bits are '$other', not '$first'"
        failed=$((failed + 1))
    fi
done <<END
allreduce:linear,reduce_scatter:linear,reduce:linear
allreduce:latency
- --nodes 2
- --nodes 3 --placement cyclic
- --nodes 5
allreduce:linear --nodes 4 --placement random:3
END
# what is promised here is not there by itself
unset WEIR_REPRODUCIBLE
other=$(bits allreduce:ring,reduce_scatter:ring --nodes 3)
[ "$other" != "$first" ] || { echo "FAIL: the bits do not tell one order from another"; failed=$((failed + 1)); }
finish
