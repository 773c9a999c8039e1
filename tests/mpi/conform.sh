#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 240
# Every collective gives the results of Open MPI's and of MPICH's (conform.c), on one node and on virtual ones.
value() { sed -n "s/^$1 = *//p" "$top_builddir/Makefile"; }
fail=0 done=0
library=$top_builddir/.libs/libweir.so
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
[ -e "$library" ] || { echo "missing: the shared library"; exit 77; }
! value CFLAGS | grep -q sanitize || { echo "missing: an MPI that is instrumented as this build is"; exit 77; }
unset "${!PMI@}" "${!OMPI_@}" "${!SLURM_@}" "${!WEIR_@}"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
for mpi in OPENMPI MPICH; do
    cc=$(value ${mpi}_MPICC) exec=$(value ${mpi}_MPIEXEC)
    [ -n "$cc" ] && [ -n "$exec" ] || continue
    $cc -std=gnu11 -O1 -I"$top_srcdir/include" -I"$top_builddir/include" "$top_srcdir/tests/mpi/conform.c" -o "$tmp/$mpi" \
        "$library" -Wl,-rpath,"$(cd "$top_builddir/.libs" && pwd)" || { echo "FAIL: $cc"; fail=1; continue; }
    [ $mpi = MPICH ] || exec+=" --oversubscribe --bind-to none"
    for arguments in "3 0" "3 2"; do
        # shellcheck disable=SC2086
        out=$(timeout 60 $exec -n ${arguments% *} "$tmp/$mpi" ${arguments#* } 2>&1) || { echo "FAIL: $mpi, $arguments: $out"; fail=1; continue; }
        echo "$mpi: $out"
        done=$((done + 1))
    done
done
[ $((fail + done)) -gt 0 ] || { echo "missing: mpicc and mpiexec of Open MPI or MPICH"; exit 77; }
exit $fail
