#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck source-path=SCRIPTDIR/../..
# weir programs, which know no MPI, started by the launchers of Open MPI and MPICH.
# timeout: 120
. "$top_srcdir/tests/slurm/expect.sh"
value() { sed -n "s/^$1 = *//p" "$top_builddir/Makefile"; }
openmpi=$(value OPENMPI_MPIEXEC) mpich=$(value MPICH_MPIEXEC)
[ -n "$openmpi$mpich" ] || { echo "missing: mpirun.openmpi and mpiexec.hydra"; exit 77; }
# Nothing of an outer launcher may reach them.
unset "${!PMI@}" "${!OMPI_@}" "${!SLURM_@}"

if [ -n "$openmpi" ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    if grep -q '^#define HAVE_PMIX 1' "$top_builddir/config.h"; then
        run "mpirun.openmpi" "$openmpi" --oversubscribe -n 4 "$where"
        ranks pmix 4
        nodes 0=0,3=0
        run "mpirun.openmpi, virtual nodes" "$openmpi" --oversubscribe -x WEIR_NODES=2 -n 4 "$where"
        ranks pmix 4
        nodes 0=0,1=0,2=1,3=1
    else
        run "mpirun.openmpi without PMIx" "$openmpi" --oversubscribe -n 2 "$where"
        [ "$status" -ne 0 ] || complain "ran alone though Open MPI started two"
    fi
fi
if [ -n "$mpich" ]; then
    run "mpiexec.hydra" "$mpich" -n 4 "$where"
    ranks pmi1 4
    nodes 0=0,3=0
    run "mpiexec.hydra, three ranks" "$mpich" -n 3 "$where"
    ranks pmi1 3
fi
verdict
