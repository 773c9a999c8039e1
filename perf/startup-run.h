/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting one job of weir-startup and collecting what its ranks say. */
#ifndef PERF_STARTUP_RUN_H
#define PERF_STARTUP_RUN_H

#include <stdbool.h>
#include <stddef.h>

struct launch {
    double wall_s;   /* from the start of the launcher to its end */
    double init_s;   /* of the slowest rank */
    double topo_s;   /* of the slowest rank */
    double pss_kib;  /* growth of a rank, mean */
    char why[256];   /* why it failed; "" when all was well */
};

/* Runs a command and waits for it, at most `timeout_s`; its whole process group is ended then. True when it ended with 0
 * and `ranks` ranks reported. */
bool launch_run(char *const *argv, int ranks, double timeout_s, struct launch *launch);

/* Whether a command ends with 0 within a few seconds; `line` (may be NULL) gets the first line that it prints. */
bool launch_quiet(char *const *argv, char *line, size_t size);

#endif
