/* SPDX-License-Identifier: BSD-3-Clause */
/* What the programs that weir-startup starts have in common: each rank measures itself and prints one line. */
#ifndef PERF_STARTUP_H
#define PERF_STARTUP_H

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static inline double startup_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/*
 * Memory of this process in KiB: its proportional set size (PSS: private pages, and its share of those that others map too)
 * without pages of files. Those are the program's and the libraries' own, whose share changes whenever another rank
 * starts or ends. The whole PSS on kernels that do not tell them apart (before 5.9); -1 when unknown.
 */
static inline long startup_pss_kib(void)
{
    char line[256];
    long whole = -1, anon = -1, shmem = -1, kib;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    if (!file)
        return -1;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "Pss: %ld kB", &kib) == 1)
            whole = kib;
        else if (sscanf(line, "Pss_Anon: %ld kB", &kib) == 1)
            anon = kib;
        else if (sscanf(line, "Pss_Shmem: %ld kB", &kib) == 1)
            shmem = kib;
    }
    fclose(file);
    return anon >= 0 && shmem >= 0 ? anon + shmem : whole;
}

/* The line that weir-startup reads; one write, so that the lines of several ranks do not mix. */
static inline int startup_report(int rank, double init_s, double topo_s, long pss_before, long pss_after)
{
    char line[160];
    int len = snprintf(line, sizeof line, "startup rank %d init %.6f topo %.6f pss %ld %ld\n", rank, init_s, topo_s,
                       pss_before, pss_after);
    return write(1, line, (size_t)len) == (ssize_t)len ? 0 : 1;
}

#endif
