#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck source-path=SCRIPTDIR/../..
# weir programs under a private Slurm of one host: with PMIx, with PMI-2, without a PMI, in a batch script, by salloc.
# timeout: 120
. "$top_srcdir/tests/net/hosts.sh"
. "$top_srcdir/tests/slurm/slurm.sh"
slurm_need
hosts_enter "$@"
. "$top_srcdir/tests/slurm/expect.sh"
hosts_up 1
slurm_up 1

if grep -q '^#define HAVE_PMIX 1' "$top_builddir/config.h"; then
    run "srun --mpi=pmix" in_slurm srun -n4 --mpi=pmix "$where"
    ranks pmix 4
    nodes 0=0,3=0
fi
if grep -q '^#define HAVE_PMI2 1' "$top_builddir/config.h"; then
    run "srun --mpi=pmi2" in_slurm srun -n4 --mpi=pmi2 "$where"
    ranks pmi2 4
    nodes 0=0,3=0
fi
run "srun --mpi=pmi2, PMI-1 wire" in_slurm srun -n4 --mpi=pmi2 env WEIR_BOOT=pmi1 "$where"
ranks pmi1 4

# A step of several tasks without a PMI must not become several jobs of one rank.
run "srun --mpi=none" in_slurm srun -n2 --mpi=none "$where"
[ "$status" -ne 0 ] || complain "went through without a PMI"
says '--mpi='
[ -z "$(grep '^rank=' <<<"$out")" ] || complain "a rank started alone"
# Nor when it asks for a PMI that is not there.
run "srun --mpi=none, WEIR_BOOT=pmix" in_slurm srun -n2 --mpi=none env WEIR_BOOT=pmix "$where"
[ "$status" -ne 0 ] || complain "went through without a PMI"

# Plain processes of a batch script or an allocation carry Slurm's variables without being a step.
printf '#!/bin/bash\n"%s"\nsrun --mpi=pmi2 "%s"\n' "$where" "$where" >"$scratch/batch"
chmod +x "$scratch/batch"
run "sbatch" in_slurm sbatch --wait -n3 -o "$scratch/batch.out" "$scratch/batch"
out=$(cat "$scratch/batch.out")
has '^rank=0 size=1 boot=single '
has '^rank=2 size=3 boot=pmi'
run "salloc" in_slurm salloc -n3 "$where"
ranks single 1

# weirrun's ranks are weirrun's, whatever is around it.
run "weirrun in an allocation" in_slurm salloc -n2 "$top_builddir/tools/weirrun" -n 3 "$where"
ranks tcp 3
run "weirrun in a step" in_slurm srun -n1 --mpi=pmi2 "$top_builddir/tools/weirrun" -n 3 --nodes 3 "$where"
ranks tcp 3
nodes 0=0,1=1,2=2
verdict
