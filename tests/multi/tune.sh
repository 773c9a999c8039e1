#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 120
# weir-tune writes a tuning file; jobs choose by it, all ranks alike, whatever their own files say; a damaged one is warned about or
# an error.
. "${top_srcdir:-.}/tests/multi/multi_lib.sh"
unset WEIR_TUNING_FILE
t="$B/tests/multi/coll_test"
tune="$B/perf/weir-tune"
perf="$B/perf/weir-perf"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
complain() {
    echo "FAIL: $*"
    failed=$((failed + 1))
}
export WEIR_CACHE_DIR=$dir/cache
net=
for n in $(networks); do net=$n; done
nodes="-n 4 --nodes 4"
printf '%s\n' "SwitchName=leaf0 Nodes=node[0-1]" "SwitchName=leaf1 Nodes=node[2-3]" "SwitchName=top Switches=leaf[0-1]" >"$dir/switches"
[ -n "$net" ] && export WEIR_NETWORK=$net || nodes="-n 2"
# shellcheck disable=SC2086
run "measuring" env WEIR_TOPOLOGY_FILE="$dir/switches" timeout 60 "$weirrun" $nodes "$tune" --time 0.005
file=$(ls "$dir"/cache/tuning.* 2>/dev/null) || complain "no file was written"
# what is a difference of two measurements can be lost in noise: the latency, the gap
for key in step copy reduce memory ${net:+overhead latency gap bandwidth rails ack hop0 uplink0}; do
    grep -qE "^$key +[0-9.e+]+ +#" "$file" || [[ $key =~ ^(gap|latency)$ ]] || complain "the file lacks $key: $(cat "$file")"
done
run "measuring a node" timeout 60 "$weirrun" -n 2 "$tune" --time 0.005 -o "$dir/node"
grep -qE "^flag +[0-9.e+]+ +#" "$dir/node" || complain "the file lacks flag: $(cat "$dir/node")"
"$B/tools/weir-plan" allreduce --nodes 2 --ppn 2 --bytes 1M --tuning "$file" >/dev/null || complain "weir-plan does not take it"
out=$(WEIR_LOG=warn,plan:info timeout 60 "$weirrun" -n 2 "$perf" allreduce --heap -b 256K -e 256K 2>&1) || complain "with the file: $out"
case $out in
*"the costs of plans are those of $file"*) ;;
*) complain "the file is not used: $out" ;;
esac
# of a machine where signals cost nothing and copies much, another algorithm is right than of one where it is the other way round
printf 'weir-tuning 1\nflag 1\nstep 0\ncopy 100\nreduce 100\nend\n' >"$dir/slow-copies"
printf 'weir-tuning 1\nflag 1e7\nstep 0\ncopy 0.001\nreduce 0.001\nend\n' >"$dir/slow-flags"
chosen() {
    WEIR_TUNING_FILE=$1 WEIR_LOG=warn,plan:info timeout 60 "$weirrun" -n 4 "$perf" allreduce --heap -b 256K -e 256K 2>&1 |
        sed -n 's/.*info plan: allreduce of 65536 [^:]*: \([a-z_]*\).*/\1/p' | tail -n 1
}
one=$(chosen "$dir/slow-copies")
two=$(chosen "$dir/slow-flags")
[ -n "$one" ] && [ -n "$two" ] && [ "$one" != "$two" ] || complain "the file changes nothing: '$one' and '$two'"
# each rank has another file: rank 0's counts
# shellcheck disable=SC2016
run "unequal files" timeout 60 "$weirrun" -n 4 bash -c 'f=(slow-copies slow-flags); WEIR_TUNING_FILE=$1/${f[$WEIR_JOB_RANK % 2]} exec "$2" -r 6' - "$dir" "$t"
echo "weir-tuning 1" >"$dir/damaged"
out=$(WEIR_TUNING_FILE=$dir/damaged "$weirrun" -n 2 "$perf" allreduce --heap -b 256K -e 256K 2>&1) && complain "a damaged file was taken"
case $out in
*"$dir/damaged is of no use: its last line, 'end', is missing"*) ;;
*) complain "no reason is given: $out" ;;
esac
cp "$dir/damaged" "$file"
out=$(timeout 60 "$weirrun" -n 2 "$perf" allreduce --heap -b 256K -e 256K 2>&1) || complain "a damaged file in the cache: $out"
[ "$(grep -c "is of no use" <<<"$out")" -eq 1 ] || complain "not one warning of it: $out"
"$tune" --nonsense 2>/dev/null
[ $? -eq 2 ] || complain "a wrong option is not exit code 2"
out=$("$weirrun" -n 1 "$tune" --time 0.001 -o "$dir/new/file" 2>&1) || complain "one rank: $out"
grep -q "^end" "$dir/new/file" || complain "-o: no file: $out"
out=$("$weirrun" -n 1 "$tune" --time 0.001 -o /proc/no/file 2>&1) && complain "a place that cannot be written: $out"
finish
