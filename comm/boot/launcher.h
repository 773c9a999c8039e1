/* SPDX-License-Identifier: BSD-3-Clause */
/* What the environment says about a launcher, apart from any way to talk to it. */
#ifndef WR_BOOT_LAUNCHER_H
#define WR_BOOT_LAUNCHER_H

#include <stdbool.h>

#include "base/config.h"

struct wr_launcher_hint {
    const char *launcher; /* "srun", ... */
    int size;             /* processes that it started, > 1 */
    const char *advice;   /* which option to use */
    bool trusted;         /* surely about this process, not inherited through another launcher */
};

/* Whether a launcher says that it started this process as one of several. */
bool wr_launcher_hint(const struct wr_env *env, struct wr_launcher_hint *hint);

/* A variable's value as a number, or `otherwise`. */
long long wr_env_number(const struct wr_env *env, const char *name, long long otherwise);

/* Whether this process belongs to a step that srun started (not a batch script, not the shell of salloc). */
bool wr_in_srun_step(const struct wr_env *env);

#endif
