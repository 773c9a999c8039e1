/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/weirrun_env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/config.h"
#include "base/error.h"

/*
 * Variables by which an outer launcher tells a process its place: a rank that saw them would take itself for
 * a part of the outer job. What describes the allocation and not the place (SLURM_JOB_ID,
 * SLURM_TOPOLOGY_ADDR) stays.
 */
static const char *const launcher_prefixes[] = {
    "PMI_",           "PMI2_",          "PMIX_",         "OMPI_COMM_WORLD_",
    "OMPI_UNIVERSE_", "OMPI_MCA_ess",   "OMPI_MCA_orte", "OMPI_MCA_pmix",
    "PRTE_",          "HYDI_",          "HYDRA_",        "MPI_LOCAL",
    "PALS_",          "FLUX_TASK_",     "SLURM_STEP",    "SLURM_SRUN_COMM_",
    "SLURM_PMI",      "SLURM_CPU_BIND", "WEIR_JOB_",
};
static const char *const launcher_names[] = {
    "SLURM_PROCID",   "SLURM_LOCALID", "SLURM_NODEID",    "SLURM_TASK_PID",           "SLURM_GTIDS",
    "SLURM_MPI_TYPE", "FLUX_JOB_SIZE", "FLUX_JOB_NNODES", "SLURM_LAUNCH_NODE_IPADDR",
};

static size_t name_length(const char *entry)
{
    return strcspn(entry, "=");
}

bool wr_env_is_launchers(const char *entry)
{
    for (size_t i = 0; i < WR_ARRAY_SIZE(launcher_prefixes); i++)
        if (!strncmp(entry, launcher_prefixes[i], strlen(launcher_prefixes[i])))
            return true;
    for (size_t i = 0; i < WR_ARRAY_SIZE(launcher_names); i++)
        if (name_length(entry) == strlen(launcher_names[i]) &&
            !strncmp(entry, launcher_names[i], strlen(launcher_names[i])))
            return true;
    return false;
}

static bool count_entry(void *arg, const char *entry)
{
    (void)entry;
    ++*(size_t *)arg;
    return true;
}

static bool keep_entry(void *arg, const char *entry)
{
    struct wr_rank_env *env = arg;
    if (!wr_env_is_launchers(entry))
        env->vars[env->n++] = entry;
    return true;
}

/* Replaces the variable of the same name, or adds one. */
static void set_entry(struct wr_rank_env *env, const char *entry)
{
    size_t len = name_length(entry);
    for (size_t i = 0; i < env->n; i++)
        if (name_length(env->vars[i]) == len && !strncmp(env->vars[i], entry, len)) {
            env->vars[i] = entry;
            return;
        }
    env->vars[env->n++] = entry;
}

weir_status wr_rank_env_create(struct wr_rank_env *env, const char *const *add, size_t n, weir_error *err)
{
    size_t own = 0;
    memset(env, 0, sizeof *env);
    wr_env_each(NULL, "", count_entry, &own);
    env->vars = calloc(own + n + 2, sizeof *env->vars);
    if (!env->vars)
        return wr_error_memory(err, (own + n + 2) * sizeof *env->vars, "the environment");
    wr_env_each(NULL, "", keep_entry, env);
    for (size_t i = 0; i < n; i++)
        set_entry(env, add[i]);
    wr_rank_env_set_rank(env, -1);
    set_entry(env, env->rank_text);
    return WEIR_OK;
}

void wr_rank_env_set_rank(struct wr_rank_env *env, long long rank)
{
    snprintf(env->rank_text, sizeof env->rank_text, "WEIR_JOB_RANK=%lld", rank);
}

void wr_rank_env_free(struct wr_rank_env *env)
{
    free(env->vars);
    env->vars = NULL;
}
