#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck source-path=SCRIPTDIR/../..
# weir programs under a private Slurm of four hosts and a tree of switches: which node each rank is on, and what the
# levels of the hierarchy are.
# timeout: 120
. "$top_srcdir/tests/net/hosts.sh"
. "$top_srcdir/tests/slurm/slurm.sh"
slurm_need
hosts_enter "$@"
. "$top_srcdir/tests/slurm/expect.sh"
hosts_up 4
slurm_up 4
info=$top_builddir/tools/weir-info

# on_hosts: every rank must be on the host that it says, two a host in block order, under the switch of that host
on_hosts() {
    local rank
    for ((rank = 0; rank < 8; rank++)); do
        has "^rank=$rank .* node=$((rank / 2)) nodes=4 host=h$((rank / 2)) "
        has "^rank=$rank .*[=,]node:4/$((rank / 2)),switch:2/$((rank / 4)),world:1/0$"
    done
}
for mpi in pmix pmi2; do
    grep -q "^#define HAVE_${mpi^^} 1" "$top_builddir/config.h" || continue
    run "--mpi=$mpi, two a host" in_slurm srun -N4 --ntasks-per-node=2 --mpi=$mpi "$where"
    ranks $mpi 8
    on_hosts
    run "--mpi=$mpi, cyclic" in_slurm srun -N4 -n8 --ntasks-per-node=2 --distribution=cyclic --mpi=$mpi "$where"
    ranks $mpi 8
    nodes 0=0,1=1,2=2,3=3,4=0,7=3
done
run "PMI-1 wire, two a host" in_slurm srun -N4 --ntasks-per-node=2 --mpi=pmi2 env WEIR_BOOT=pmi1 "$where"
ranks pmi1 8
on_hosts
run "unequal" in_slurm srun -N4 -n7 --mpi=pmi2 "$where"
ranks pmi2 7
[ "$(grep -o 'nodes=[0-9]*' <<<"$out" | sort -u)" = nodes=4 ] || complain "not four nodes"
run "virtual nodes on real ones" in_slurm srun -N2 -n4 --ntasks-per-node=2 --mpi=pmi2 env WEIR_NODES=4 "$where"
ranks pmi2 4
[ "$(grep -o 'nodes=[0-9]*' <<<"$out" | sort -u)" = nodes=4 ] || complain "not four virtual nodes"

run "weir-info --ranks" in_slurm srun -N4 --ntasks-per-node=2 --mpi=pmi2 "$info" --ranks
[ "$status" -eq 0 ] || complain "failed"
for host in h0 h1 h2 h3; do has "\b$host\b"; done
run "weir-info" in_slurm srun -N4 --ntasks-per-node=2 --mpi=pmi2 "$info" --topo
[ "$status" -eq 0 ] || complain "failed"
has 'leaf0'
has 'leaf1'

# A rank that is killed ends the step, and the others hear of it.
run "abort" in_slurm srun -N4 --ntasks-per-node=1 --mpi=pmi2 --kill-on-bad-exit=1 \
    sh -c "[ \$SLURM_PROCID -ne 2 ] || exit 9; exec '$where'"
[ "$status" -ne 0 ] || complain "a step with a dead rank succeeded"
verdict
