#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# weir-info --ranks as several ranks, under every launcher that is here: one line a rank, in order, printed once.
# timeout: 180
info=$top_builddir/tools/weir-info
weirrun=$top_builddir/tools/weirrun
fail=0
complain() {
    echo "$*"
    fail=1
}
unset "${!WEIR_@}"
lines() { grep -E '^ +[0-9]+ +[0-9]+ +[0-9]+ +[^ ]+ +[0-9]+ ' <<<"$1"; }
# check NAME RANKS "node local ..." OUTPUT: the ranks' lines, in order, with these nodes and indices
check() {
    local got
    got=$(lines "$4" | awk '{ printf "%s%s:%s.%s", (NR > 1 ? " " : ""), $1, $2, $3 }')
    [ "$got" = "$3" ] || complain "$1: ranks, nodes and indices are '$got' instead of '$3' in: $4"
    [ "$(lines "$4" | awk '{ print $5 }' | sort -u | wc -l)" -eq "$2" ] || complain "$1: the process ids repeat: $4"
    [ "$(grep -c '^ *rank *node *local' <<<"$4")" -eq 1 ] || complain "$1: not one header: $4"
}

out=$("$weirrun" -n 4 --nodes 2 "$info" --ranks 2>&1) || complain "weirrun: exit code $?"
check weirrun 4 '0:0.0 1:0.1 2:1.0 3:1.1' "$out"
grep -q '^weir [0-9.]*: 4 ranks on 2 virtual nodes, started by weirrun$' <<<"$out" || complain "no head with the facts of the job: $out"
grep -q '^levels: .*node (2 groups of 2 ranks) < world (4 ranks)$' <<<"$out" || complain "no levels: $out"
out=$("$weirrun" -n 3 --nodes 2 --placement cyclic "$info" --ranks 2>&1) || complain "weirrun, cyclic: exit code $?"
check 'weirrun, cyclic' 3 '0:0.0 1:1.0 2:0.1' "$out"
grep -q 'node (2 groups of 1 to 2 ranks)' <<<"$out" || complain "unequal nodes are not shown: $out"

for section in --config --build --launcher --topo; do
    [ "$("$weirrun" -n 3 "$info" $section 2>&1 | sort | uniq -d | grep -c 'WEIR_NODES=\|compiler\|3 ranks on\|world: rank')" -eq 0 ] ||
        complain "$section is printed by several ranks"
done

# a failure to join: said once, exit code 1
out=$("$weirrun" -n 2 --env WEIR_PLACEMENT=nowhere --nodes 2 "$info" --ranks 2>&1) && complain "a bad placement went unnoticed"
[ "$(grep -c '^weir-info: ' <<<"$out")" -eq 1 ] || complain "not one sentence on the failure: $out"

if grep -q 'define HAVE_JANSSON' "$top_builddir/config.h" && command -v python3 >/dev/null; then
    "$weirrun" -n 4 --nodes 2 "$info" --json --ranks --topo --launcher | python3 -c '
import json, sys
j = json.load(sys.stdin)
assert [(r["rank"], r["node"], r["local_rank"]) for r in j["ranks"]] == [(0, 0, 0), (1, 0, 1), (2, 1, 0), (3, 1, 1)], j["ranks"]
assert j["launcher"]["ranks"] == 4 and j["launcher"]["nodes"] == 2 and j["topology"], j' || complain "the JSON is not right"
fi

foreign() { # name command...
    local name=$1
    shift
    command -v "$1" >/dev/null || { echo "not here: $1"; return; }
    out=$(timeout -k 5 60 "$@" "$info" --ranks 2>&1) || complain "$name: exit code $?: $out"
    check "$name" 3 '0:0.0 1:0.1 2:0.2' "$out"
    grep -q "3 ranks on 1 node, started by $name" <<<"$out" || complain "$name is not named: $out"
}
foreign 'mpiexec (hydra)' mpiexec.hydra -n 3
grep -q 'define HAVE_PMIX' "$top_builddir/config.h" &&
    foreign 'mpirun of Open MPI' mpirun.openmpi --allow-run-as-root --oversubscribe -n 3
exit $fail
