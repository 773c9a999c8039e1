#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# weirrun: plain programs, exit codes, the command line, the environment of the ranks.
# timeout: 120
. "$(dirname "$0")/weirrun_lib.bash"

# plain programs
expect 0 "$W" -n 3 sh -c 'echo $WEIR_JOB_RANK/$WEIR_JOB_SIZE'
[ "$(sort "$dir/out" | tr '\n' ' ')" = "0/3 1/3 2/3 " ] || fail "ranks and sizes: $(cat "$dir/out")"
expect 0 "$W" -n 2 -- true
expect 0 "$W" -n 70 true
expect 0 "$W" --host localhost:2,localhost:1 sh -c 'echo x'
[ "$(wc -l <"$dir/out")" -eq 3 ] || fail "slots of one host are added up"

# options end at the program
expect 0 "$W" -n 1 echo -n 4 --help
out_is "4 --help"

# exit codes
for code in 1 3 42 255; do
    expect $code "$W" -n 2 sh -c "[ \$WEIR_JOB_RANK = 0 ] || exit $code"
    err_has "^weirrun: rank 1 on host [^ ]+ exited with code $code"
done
expect 127 "$W" -n 2 "$dir/does-not-exist"
err_has "rank [01] on host .*: cannot execute '.*does-not-exist': No such file"
: >"$dir/not-executable"
expect 126 "$W" -n 1 "$dir/not-executable"
err_has "Permission denied"

# bad command lines: exit code 2 and one sentence
bad() {
    local pattern=$1
    shift
    expect 2 "$W" "$@"
    err_has "^weirrun: .*$pattern"
    [ "$(wc -l <"$dir/err")" -eq 1 ] || fail "more than one line for: $*"
    [ ! -s "$dir/out" ] || fail "output for: $*"
}
bad "number of ranks" true
bad "program to run is missing" -n 2
bad "needs a value" -n
bad "no option --frobnicate" -n 2 --frobnicate true
bad "no option -z" -z true
bad "-n 0 " -n 0 true
bad "-n two " -n two true
bad "-n -3 " -n -3 true
bad "--bind" -n 2 --bind socket true
bad "--on-failure" -n 2 --on-failure retry true
bad "--timeout" -n 2 --timeout soon true
bad "--grace" -n 2 --grace -1 true
bad "--host" --host h1:0 true
bad "--host" --host , true
bad "--host" --host=-oProxyCommand=x:1 true
bad "3 ranks do not fit" -n 3 --host localhost:2 true
bad "WEIR_NODES=5" -n 3 --nodes 5 true
bad "WEIR_NODES=many" -n 3 --nodes many true
bad "PLACEMENT" -n 4 --nodes 2 --placement diagonal true
bad "--placement" -n 4 --placement cyclic true
bad "--env" -n 1 --env =x true
bad "not set here" -n 1 --env WEIR_TEST_SURELY_UNSET true
bad "--rsh" -n 1 --rsh " " true
WEIR_LOG=loud bad "WEIR_LOG=loud" -n 1 true
expect 0 "$W" --help
grep -q -- --on-failure "$dir/out" || fail "--help"
expect 0 "$W" --version
grep -qE '^weirrun [0-9]+\.[0-9]+\.[0-9]+' "$dir/out" || fail "--version"

# environment: an outer launcher is hidden, the allocation is not, --env wins, later ones too
expect 0 env PMI_RANK=1 PMI_FD=9 PMIX_RANK=3 PMI2_X=1 OMPI_COMM_WORLD_RANK=2 PALS_RANKID=1 SLURM_PROCID=3 SLURM_STEP_ID=0 \
    SLURM_STEPID=0 SLURM_LOCALID=0 FLUX_TASK_RANK=1 WEIR_JOB_RANK=77 WEIR_JOB_NODE=5 SLURM_JOB_ID=12 KEPT=yes \
    SLURM_TOPOLOGY_ADDR=s0.n1 "$W" -n 1 --nodes 1 --placement cyclic --env A=1 --env A='2 b' --env PMI_SIZE=4 --env KEPT env
for gone in PMI_RANK PMI_FD PMIX_ PMI2_ OMPI_COMM PALS_ SLURM_PROCID SLURM_STEP SLURM_LOCALID FLUX_TASK; do
    grep -q "^$gone" "$dir/out" && fail "$gone was not hidden"
done
for there in "WEIR_JOB_RANK=0" "WEIR_JOB_SIZE=1" "WEIR_JOB_NODE=0" "WEIR_NODES=1" "WEIR_PLACEMENT=cyclic" "SLURM_JOB_ID=12" \
    "SLURM_TOPOLOGY_ADDR=s0.n1" "A=2 b" "PMI_SIZE=4" "KEPT=yes"; do
    [ "$(grep -cx "$there" "$dir/out")" -eq 1 ] || fail "'$there' is not there once"
done
grep -qE '^WEIR_JOB_SECRET=[0-9a-f]{32}$' "$dir/out" || fail "no secret"
grep -qE '^WEIR_JOB_SERVER=127\.0\.0\.1:[0-9]+$' "$dir/out" || fail "the server is not on loopback"

# the program is searched in the PATH of the ranks, and started in --wdir
mkdir "$dir/bin"
printf '#!/bin/sh\npwd\n' >"$dir/bin/weirrun-test-program"
chmod +x "$dir/bin/weirrun-test-program"
expect 0 "$W" -n 1 --wdir "$dir/bin" --env PATH="$dir/bin:$PATH" weirrun-test-program
out_is "$(cd "$dir/bin" && pwd -P)"
expect 1 "$W" -n 1 --wdir "$dir/missing" true
err_has "cannot enter the directory"

# what weirrun changes for itself is not passed on: limits, masks, ignored signals, descriptors
expect 0 sh -c "ulimit -Sn 200; exec '$W' -n 1 sh -c 'ulimit -Sn; grep -E \"Sig(Blk|Ign)\" /proc/self/status; ls /proc/self/fd | wc -l'"
sh -c 'ulimit -Sn 200; ulimit -Sn; grep -E "Sig(Blk|Ign)" /proc/self/status; ls /proc/self/fd | wc -l' <"/dev/null" >"$dir/plain" 2>&1
# 32 and 33 are the C library's own
sed -i 's/^\(SigIgn:.0000000\)[01][08]/\100/' "$dir/plain" "$dir/out"
out_is "$(cat "$dir/plain")"

# binding
cpus=$(nproc)
expect 0 "$W" -n 1 --bind none sh -c 'grep Cpus_allowed_list /proc/self/status'
out_is "$(grep Cpus_allowed_list /proc/self/status)"
expect 0 "$W" -n "$cpus" --bind core sh -c 'nproc'
[ "$(sort -n "$dir/out" | head -n 1)" -le $(((cpus + 1) / 2)) ] || [ "$cpus" -eq 1 ] || fail "--bind core binds nothing"
expect 0 "$W" -n $((cpus * 3 + 1)) --bind core true
expect 0 "$W" -n 3 --bind numa true
expect 0 "$W" -n $((cpus + 1)) sh -c 'grep Cpus_allowed_list /proc/self/status'
[ "$(sort -u "$dir/out")" = "$(grep Cpus_allowed_list /proc/self/status)" ] || fail "more ranks than cores are not bound by default"

# the secret is on no command line
expect 0 "$W" -n 2 bash -c "$see_secret"
[ "$(sort -u "$dir/out")" = 0 ] || fail "the secret can be seen on a command line: $(cat "$dir/out")"
finish
