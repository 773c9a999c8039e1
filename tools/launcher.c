/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/launcher.h"

#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/config.h"
#include "base/str.h"

static bool set(const char *name)
{
    return wr_env_get(NULL, name) != NULL;
}

const char *launcher_describe(const char *boot_name, char *buf, size_t size)
{
    const char *job = wr_env_get(NULL, "SLURM_JOB_ID"), *step = wr_env_get(NULL, "SLURM_STEP_ID");
    const char *name = "an unknown launcher";
    bool slurm = false;
    if (!strcmp(boot_name, "tcp")) {
        name = "weirrun";
    } else if (!strcmp(boot_name, "id")) {
        name = "the program itself (unique id)";
    } else if (!strcmp(boot_name, "user")) {
        name = "the program itself (callbacks)";
    } else if (!strcmp(boot_name, "single")) {
        snprintf(buf, size, "a single process without a launcher");
        return buf;
    } else if (set("OMPI_COMM_WORLD_SIZE") || set("PRTE_LAUNCHED")) {
        name = "mpirun of Open MPI";
    } else if (set("FLUX_JOB_ID")) {
        name = "flux";
    } else if (set("PALS_RANKID")) {
        name = "Cray PALS";
    } else if (set("HYDI_CONTROL_FD") || set("PMI_PORT") || set("MPI_LOCALRANKID")) {
        name = "mpiexec (hydra)";
    } else if (step) {
        slurm = true;
        name = !strcmp(boot_name, "pmix") ? "srun --mpi=pmix" : "srun --mpi=pmi2";
    }
    if (slurm && job)
        snprintf(buf, size, "started by %s (Slurm job %s, step %s)", name, job, step);
    else
        snprintf(buf, size, "started by %s", name);
    return buf;
}

int launcher_guess_rank(void)
{
    static const char *const names[] = {"WEIR_JOB_RANK", "PMIX_RANK",   "PMI_RANK",    "OMPI_COMM_WORLD_RANK",
                                        "PALS_RANKID",   "SLURM_PROCID", "FLUX_TASK_RANK"};
    for (size_t i = 0; i < WR_ARRAY_SIZE(names); i++) {
        const char *text = wr_env_get(NULL, names[i]);
        int64_t rank;
        if (text && wr_parse_int(text, &rank) && rank >= 0 && rank <= INT32_MAX)
            return (int)rank;
    }
    return -1;
}

const char *const *launcher_quiet_config(void)
{
    static const char *const quiet[] = {"LOG=warn,ctx:off", NULL};
    const char *chosen = wr_env_get(NULL, "WEIR_LOG");
    return chosen && *chosen ? NULL : quiet;
}

bool launcher_reports(const weir_error *error)
{
    enum { MOMENT_MS = 1000 };
    if (launcher_guess_rank() <= 0)
        return true;
    if (error->status != WEIR_ERR_CONFIG && error->status != WEIR_ERR_LAUNCHER)
        return true;
    poll(NULL, 0, MOMENT_MS);
    return false;
}
