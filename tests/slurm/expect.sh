# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034
# Sourced by the tests under real launchers: runs commands and looks at the lines of the program "where".
#
#   run NAME COMMAND...   runs it with a limit of 30 s; output in $out, errors in $err, status in $status
#   ranks BOOT N          complains unless it succeeded and ranks 0..N-1 of N spoke, all joined by BOOT
#   nodes R=K,...         complains unless rank R said node K, for each
#   has TEXT              complains unless the output has a line that matches
#   says TEXT             the same for its errors
#   complain SENTENCE     counts a failure and shows what was run
#   verdict               ends the script

where=$top_builddir/tests/slurm/where
failures=0 checks=0 shown=0
out="" err="" status=0 name=""

run() {
    name=$1
    shift
    local errors
    errors=$(mktemp)
    if declare -F "$1" >/dev/null; then # on or in_slurm
        out=$(on_limit=30 && "$@" 2>"$errors" </dev/null)
    else
        out=$(timeout -k 2 30 "$@" 2>"$errors" </dev/null)
    fi
    status=$?
    err=$(cat "$errors")
    rm -f "$errors"
    checks=$((checks + 1))
}

complain() {
    failures=$((failures + 1))
    printf '%s: %s\n' "$name" "$*"
    [ "$shown" -ne "$checks" ] || return
    shown=$checks
    printf '  status %s\n' "$status"
    sed 's/^/  out: /' <<<"$out" | head -n 30
    sed 's/^/  err: /' <<<"$err" | head -n 30
}

ranks() {
    local boot=$1 n=$2 want got
    if [ "$status" -ne 0 ]; then
        complain "did not succeed"
        return
    fi
    want=$(for ((i = 0; i < n; i++)); do echo "rank=$i size=$n boot=$boot"; done | sort)
    got=$(grep -o '^rank=[0-9]* size=[0-9]* boot=[a-z0-9]*' <<<"$out" | sort)
    [ "$want" = "$got" ] || complain "not ranks 0..$((n - 1)) of $n by $boot"
}

nodes() {
    local pair
    for pair in ${1//,/ }; do
        grep -q "^rank=${pair%=*} .* node=${pair#*=} " <<<"$out" || complain "rank ${pair%=*} is not on node ${pair#*=}"
    done
}

has() {
    grep -qE -e "$1" <<<"$out" || complain "no line of the output matches '$1'"
}

says() {
    grep -qE -e "$1" <<<"$err" || complain "no line of the errors matches '$1'"
}

verdict() {
    echo "$checks runs, $failures failures"
    [ "$failures" -eq 0 ]
    exit
}
