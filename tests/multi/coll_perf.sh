#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 400
# weir-perf and mpi-perf measure the same with the same options, right results and readable output; weir-compare puts them together.
perf=$top_builddir/perf/weir-perf
weirrun=$top_builddir/tools/weirrun
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
fail=0
complain() {
    echo "$*"
    fail=1
}
unset "${!WEIR_@}"
for wrong in "" "nonsense" "allgather --nonsense" "allgather bcast" "bcast -b 0" "bcast -b 8 -e 4" "bcast -f 1" "bcast -e 1X" "bcast -t int7" \
    "allreduce -o xor" "allreduce --node-shared" "bcast --time 0" "bcast --method both"; do
    # shellcheck disable=SC2086
    "$perf" $wrong >/dev/null 2>&1
    [ $? -eq 2 ] || complain "'$wrong' is not exit code 2"
done
for program in perf/weir-perf perf/weir-compare; do
    out=$("$top_builddir/$program" --help) || complain "$program --help: exit code $?"
    for option in $(grep -oE -- '--[a-z-]+' <<<"$out" | sort -u); do
        tr -d '\\' <"${top_srcdir:-.}/doc/man/${program#*/}.1" | grep -qE "Fl -?${option#-}( |$)|Fl [a-z] , -${option#--}( |$)" ||
            complain "the manual page of $program lacks $option"
    done
done

# launch LIBRARY RANKS ARGUMENTS...
mpirun=$(sed -n 's/^OPENMPI_MPIEXEC = *//p' "$top_builddir/Makefile")
hydra=$(sed -n 's/^MPICH_MPIEXEC = *//p' "$top_builddir/Makefile")
launch() {
    local library=$1 ranks=$2
    shift 2
    case $library in
    weir) timeout 120 "$weirrun" -n "$ranks" -- "$perf" "$@" ;;
    openmpi) OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 120 "$mpirun" --oversubscribe --bind-to none -n "$ranks" \
        "$top_builddir/perf/mpi-perf.openmpi" "$@" ;;
    mpich) timeout 120 "$hydra" -n "$ranks" "$top_builddir/perf/mpi-perf.mpich" "$@" ;;
    esac 2>&1
}
libraries=weir
# the same program over MPI is checked where it is fast: nothing of weir is in it
if [ -z "${TEST_TIME_FACTOR:-}" ]; then
    [ ! -x "$top_builddir/perf/mpi-perf.openmpi" ] || [ -z "$mpirun" ] || libraries+=" openmpi"
    [ ! -x "$top_builddir/perf/mpi-perf.mpich" ] || [ -z "$hydra" ] || libraries+=" mpich"
fi

# rows EXPECTED: the JSON lines are whole, and right
rows() {
    python3 -c '
import json, sys
rows = [json.loads(line) for line in sys.stdin if line.startswith("{")]
assert len(rows) == int(sys.argv[1]), rows
keys = "coll bytes count type op ranks nodes algo median_us min_us p99_us algbw busbw wrong".split()
part = lambda n: (n - 1) / n
for r in rows:
    assert all(k in r for k in keys), r
    assert r["wrong"] == 0 and 0 < r["min_us"] <= r["median_us"] <= r["p99_us"], r
    n, coll = r["ranks"], r["coll"].removesuffix("v")
    whole = r["bytes"] * (n if coll in ("allgather", "gather") else 1)
    factor = 2 * part(n) if coll == "allreduce" else 1 if coll in ("bcast", "reduce", "scan", "exscan") else part(n)
    assert abs(r["algbw"] - whole / r["median_us"] / 1e3) <= 0.01 * r["algbw"] + 1e-4, r
    assert abs(r["busbw"] - factor * r["algbw"]) <= 0.01 * r["algbw"] + 1e-3, r' "$1"
}
for library in $libraries; do
    some=("alltoallv")
    [ "$library" != weir ] || some=("reduce" "gather" "scatter" "scan" "exscan" "reduce_scatterv" "allgatherv" "gatherv" "scatterv" "alltoallv" "allreduce" "reduce_scatter")
    for case in "${some[@]}" "barrier" "bcast" "alltoall" "allgather" "allreduce -t int16 -o prod" "reduce_scatter -t uint8 -o xor" \
        "allreduce -t fp64 -o min --method sync"; do
        # shellcheck disable=SC2086
        out=$(launch "$library" 3 $case -s 1,1000,70000 -n 3 -w 1 --check --json) || complain "$library: $case: exit code $?: $out"
        sizes=3
        [ "$case" != barrier ] || sizes=1
        ! command -v python3 >/dev/null || rows $sizes <<<"$out" || complain "$library: $case: the JSON is not right: $out"
    done
done
for case in "allgather --registered --persistent" "allreduce --persistent -t bf16" "allreduce -o avg -t fp16" "bcast --registered" \
    "allgather --node-shared" "barrier --persistent" "allreduce --registered --reference" \
    "reduce_scatter --registered --reference" "allgather --registered --reference" "bcast --registered --reference" \
    "alltoall --registered --persistent" "alltoall --registered --reference" "gatherv --persistent" "alltoallv --registered"; do
    # shellcheck disable=SC2086
    out=$(launch weir 2 $case -s 8,70000 -n 3 --check) || complain "weir: $case: exit code $?: $out"
    grep -qE '^ +[0-9]+ +[0-9]+ +[a-z0-9]+ +(avg|sum|none) +(stream|sync) .* 0$' <<<"$out" || complain "weir: $case: no table: $out"
done
if [ "$libraries" != weir ]; then
    out=$("$top_builddir/perf/weir-compare" --launches 1 --time 0.01 --colls allgather --sizes 8,4K --output "$tmp/out" 2>&1) ||
        complain "weir-compare: exit code $?: $out"
    grep -qE '^weir-compare: 1 of [0-9]+, 0:[0-9]{2}: allgather, launch 1 of 1, ' <<<"$out" || complain "weir-compare does not tell how far it is: $out"
    for bytes in 8 4096; do
        grep -qE "^allgather +$bytes( +[0-9.]+){2}( +([0-9.]+|-)){2}( +[0-9.]+){2} +[0-9.]+ +[0-9.]+ +0$" <<<"$out" || complain "weir-compare: no line of $bytes bytes: $out"
    done
    for file in table.txt results.jsonl summary.jsonl; do [ -s "$tmp/out/$file" ] || complain "weir-compare wrote no $file"; done
    ! command -v gnuplot >/dev/null || { [ -s "$tmp/out/allgather.png" ] && [ -s "$tmp/out/allgather.svg" ]; } || complain "no plots"
fi
exit $fail
