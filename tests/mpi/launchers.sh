#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck source-path=SCRIPTDIR/../..
# weir programs, which know no MPI, started by the launchers of Open MPI and MPICH; the trainer is one.
# timeout: 120
. "$top_srcdir/tests/slurm/expect.sh"
value() { sed -n "s/^$1 = *//p" "$top_builddir/Makefile"; }
openmpi=$(value OPENMPI_MPIEXEC) mpich=$(value MPICH_MPIEXEC)
[ -n "$openmpi$mpich" ] || { echo "missing: mpirun.openmpi and mpiexec.hydra"; exit 77; }
# Nothing of an outer launcher may reach them.
unset "${!PMI@}" "${!OMPI_@}" "${!SLURM_@}"
gpt=$top_builddir/examples/gpt/weir-gpt
trains() { # LABEL LAUNCHER...
    [ -x "$gpt" ] || return
    run "$1" env OPENBLAS_NUM_THREADS=1 "${@:2}" -n 2 "$gpt" --layers 2 --width 16 --heads 2 --context 16 --pp 2 --steps 3 --eval-every 0 \
        "$top_srcdir/tests/mpi"
    has 'trained after 3 steps'
    has '^ranks: 2 = 2 pipeline stages'
}

if [ -n "$openmpi" ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    if grep -q '^#define HAVE_PMIX 1' "$top_builddir/config.h"; then
        run "mpirun.openmpi" "$openmpi" --oversubscribe -n 4 "$where"
        ranks pmix 4
        nodes 0=0,3=0
        run "mpirun.openmpi, virtual nodes" "$openmpi" --oversubscribe -x WEIR_NODES=2 -n 4 "$where"
        ranks pmix 4
        nodes 0=0,1=0,2=1,3=1
        trains "weir-gpt by mpirun.openmpi" "$openmpi" --oversubscribe
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
    trains "weir-gpt by mpiexec.hydra" "$mpich"
fi
verdict
