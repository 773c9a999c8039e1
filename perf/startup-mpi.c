/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank of weir-startup's job under an MPI: times MPI_Init(), and weighs what it allocates. */
#include <mpi.h>

#include "perf/startup.h"

int main(int argc, char **argv)
{
    int rank;
    long before = startup_pss_kib();
    double start = startup_now();
    MPI_Init(&argc, &argv);
    double joined = startup_now();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    int rc = startup_report(rank, joined - start, 0, before, startup_pss_kib());
    MPI_Finalize();
    return rc;
}
