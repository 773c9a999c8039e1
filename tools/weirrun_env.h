/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment of the ranks. */
#ifndef WEIRRUN_ENV_H
#define WEIRRUN_ENV_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/status.h>

/* An environment for execve(2) whose WEIR_JOB_RANK can be changed from rank to rank. */
struct wr_rank_env {
    const char **vars; /* NULL-terminated; the strings belong to others, but for rank_text */
    size_t n;
    char rank_text[40];
};

/* Whether a variable ("NAME=value") tells a process about an outer launcher, so that ranks must not see it.
 */
bool wr_env_is_launchers(const char *entry);

/*
 * This process's environment without the outer launcher's variables and without an outer weirrun's, changed
 * by the `n` entries of `add` ("NAME=value", later ones win). The strings of `add` must stay.
 * WEIR_ERR_NO_MEMORY.
 */
weir_status wr_rank_env_create(struct wr_rank_env *env, const char *const *add, size_t n, weir_error *err);
void wr_rank_env_set_rank(struct wr_rank_env *env, long long rank);
void wr_rank_env_free(struct wr_rank_env *env);

#endif
