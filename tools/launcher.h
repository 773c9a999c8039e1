/* SPDX-License-Identifier: BSD-3-Clause */
/* What started this process, for people: the environment's marks of the launchers. */
#ifndef WR_TOOLS_LAUNCHER_H
#define WR_TOOLS_LAUNCHER_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/status.h>

/* Writes e.g. "started by weirrun", "started by srun --mpi=pmix (Slurm job 12, step 0)", "a single process without a
 * launcher", for the name that weir_boot_name() gives. Returns buf. */
const char *launcher_describe(const char *boot_name, char *buf, size_t size);

/* The rank that some launcher's variable states, -1 when none does: for when weir_init() failed. */
int launcher_guess_rank(void);

/*
 * For weir_init_options.config: keeps the library from logging the failure that the tool reports itself, unless the user
 * has chosen a log. NULL when there is nothing to change.
 */
const char *const *launcher_quiet_config(void);

/*
 * Whether this process is the one of its job to report why weir_init() failed. What concerns all ranks alike (the
 * configuration, the launcher) is for rank 0 to say; others wait a moment first, because a launcher may end the job as soon
 * as one of its processes fails.
 */
bool launcher_reports(const weir_error *error);

#endif
