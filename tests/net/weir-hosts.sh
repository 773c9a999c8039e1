#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck source-path=SCRIPTDIR/../..
# weir-hosts: its options, a short run, and that nothing is left behind when it is told to end.
# timeout: 120
tool=$top_builddir/perf/weir-hosts
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
fail=0
complain() {
    echo "$*"
    fail=1
}
out=$("$tool" --help) || complain "--help: exit code $?"
for option in $(grep -oE -- '--[a-z-]+' <<<"$out" | sort -u); do
    grep -qE "Fl (h , )?-${option#--}( |$)" "$top_srcdir/doc/man/weir-hosts.1" || complain "the manual page lacks $option"
done
for wrong in "--nonsense" "--colls" "--rate 5" "--hosts 1" "--ppn 0" "--placement up" "--sizes 4X" "--memory ram" "--without weir"; do
    # shellcheck disable=SC2086
    "$tool" $wrong >/dev/null 2>&1
    [ $? -eq 2 ] || complain "'$wrong' is not exit code 2"
done
if [ "$(id -u)" -ne 0 ] || ! unshare --mount --net --pid --fork --mount-proc true 2>/dev/null; then
    [ $fail -eq 0 ] || exit 1
    echo "needs root, and a kernel that allows namespaces"
    exit 77
fi
run=("$tool" --hosts 2 --sizes 4K --without openmpi,mpich)
mkdir "$tmp/tmp"
export TMPDIR=$tmp/tmp
out=$("${run[@]}" --colls reduce_scatter,barrier --ppn 2 --placement cyclic --quick --output "$tmp/out" 2>&1) || complain "exit code $?: $out"
grep -qE '^reduce_scatter +2 cyclic +4096 +[0-9.]+ +- +- +- +[0-9.]+ +[0-9.]+ +- +- +0$' <<<"$out" || complain "no line of reduce_scatter: $out"
grep -q '^weir-hosts: 1 of [0-9]*, 0:[0-9]*: reduce_scatter, 2 a host, cyclic, launch 1 of 1, weir:heap$' <<<"$out" || complain "it does not tell how far it is: $out"
grep -qE '^barrier +2 cyclic +0 +[0-9.]+ ' <<<"$out" || complain "no line of barrier: $out"
grep -q '"variant":"weir:heap","launch":1,"hosts":2,"ppn":2,"placement":"cyclic".*"nodes":2' "$tmp/out/results.jsonl" || complain "the results lack something"
[ -s "$tmp/out/summary.jsonl" ] || complain "no summary"

"${run[@]}" --colls barrier --ppn 1 --time 30 --output "$tmp/killed" >/dev/null 2>&1 &
pid=$!
for ((i = 0; i < 300; i++)); do
    [ ! -e "$tmp/killed/results.jsonl" ] || break
    sleep 0.1
done
[ -e "$tmp/killed/results.jsonl" ] || complain "it did not begin"
sleep 1
scratch=$(ls "$TMPDIR")
[ -n "$scratch" ] || complain "there is no scratch folder"
kill "$pid"
wait "$pid"
for ((i = 0; i < 100; i++)); do
    pgrep -f "$tmp/tmp/$scratch" >/dev/null || break
    sleep 0.1
done
pgrep -af "$tmp/tmp/$scratch" && complain "processes are left"
[ -z "$(ls "$TMPDIR")" ] || complain "the scratch folder is left"
exit $fail
