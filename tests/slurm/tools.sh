#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck source-path=SCRIPTDIR/../..
# weir-info, weir-doctor and weir-startup under a private Slurm of four hosts.
# timeout: 240
. "$top_srcdir/tests/net/hosts.sh"
. "$top_srcdir/tests/slurm/slurm.sh"
slurm_need
grep -q '^#define HAVE_PMI2 1' "$top_builddir/config.h" || { echo "weir was built without PMI-2"; exit 77; }
hosts_enter "$@"
. "$top_srcdir/tests/slurm/expect.sh"
hosts_up 4
slurm_up 4
info=$top_builddir/tools/weir-info doctor=$top_builddir/tools/weir-doctor

run "weir-info --ranks" in_slurm srun -N4 --ntasks-per-node=2 --mpi=pmi2 "$info" --ranks
[ "$status" -eq 0 ] || complain "exit status $status"
has '8 ranks on 4 nodes, started by srun --mpi=pmi2 \(Slurm job '
has 'node \(4 groups of 2 ranks\) < switch \(2 groups of 4 ranks\) < world \(8 ranks\)'
for rank in 0 1 2 3 4 5 6 7; do
    has "^ +$rank +$((rank / 2)) +$((rank % 2)) +h$((rank / 2)) +[0-9]+ "
done
[ "$(grep -c '^ *rank *node' <<<"$out")" -eq 1 ] || complain "not one header"

# A step without a PMI: every rank fails, one says why.
run "weir-info without a PMI" in_slurm srun -n2 --mpi=none "$info" --ranks
[ "$status" -ne 0 ] || complain "went through without a PMI"
says '--mpi='
[ "$(grep -c '^weir-info: ' <<<"$err")" -eq 1 ] || complain "not one sentence"

# One host lacks open files; the clocks of the hosts, which are one, agree.
name=weir-doctor checks=$((checks + 1)) err=
# shellcheck disable=SC2016 # the ranks expand it
out=$(on_limit=120 && in_slurm srun -N4 --ntasks-per-node=1 --mpi=pmi2 sh -c '[ "$SLURM_PROCID" != 2 ] || ulimit -n 60; exec "$0"' "$doctor" 2>&1)
status=$?
[ "$status" -ne 0 ] || complain "a PROBLEM went unnoticed"
has '^  PROBLEM .*node 2 on host h2: limited to 60; '
has "^  ok +clocks +the nodes' clocks agree within "
has '4 ranks, started by srun --mpi=pmi2'
verdict
