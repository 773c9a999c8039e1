/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/boot/launcher.h"

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/str.h"

/* Slurm numbers the steps of batch scripts, of salloc's shell and of its own helpers from the end. */
#define SLURM_FIRST_SPECIAL_STEP 0xfffffff0

#ifdef HAVE_PMIX
#define SRUN_CHOICES "--mpi=pmix or --mpi=pmi2"
#else
#define SRUN_CHOICES "--mpi=pmi2"
#endif

long long wr_env_number(const struct wr_env *env, const char *name, long long otherwise)
{
    const char *text = wr_env_get(env, name);
    int64_t value;
    return text && wr_parse_int(text, &value) ? value : otherwise;
}

bool wr_in_srun_step(const struct wr_env *env)
{
    long long step = wr_env_number(env, "SLURM_STEP_ID", wr_env_number(env, "SLURM_STEPID", -1));
    return step >= 0 && step < SLURM_FIRST_SPECIAL_STEP && wr_env_number(env, "SLURM_PROCID", -1) >= 0;
}

bool wr_launcher_hint(const struct wr_env *env, struct wr_launcher_hint *hint)
{
    /* Launchers started inside a Slurm step come first: their variables are nearer to this process. */
    static const struct {
        const char *launcher, *size, *rank, *advice;
    } others[] = {
        {"mpirun (Open MPI)", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
         "use an Open MPI with PMIx (4 or newer) and a weir built with PMIx, or start the program with weirrun"},
        {"a launcher with PMI", "PMI_SIZE", "PMI_RANK",
         "use a launcher that offers PMI to the program (mpiexec.hydra: -pmi-port or the default), or weirrun"},
        {"flux", "FLUX_JOB_SIZE", "FLUX_TASK_RANK", "start it with flux run -o pmi=simple, or with weirrun"},
        {"jsrun", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK", "use a weir built with PMIx, or start it with weirrun"},
    };
    for (size_t i = 0; i < WR_ARRAY_SIZE(others); i++) {
        long long size = wr_env_number(env, others[i].size, 0);
        if (size < 1 || size > INT_MAX || wr_env_number(env, others[i].rank, -1) < 0)
            continue;
        if (size == 1)
            return false;
        *hint = (struct wr_launcher_hint){others[i].launcher, (int)size, others[i].advice, false};
        return true;
    }
    long long tasks = wr_env_number(env, "SLURM_STEP_NUM_TASKS", 0);
    if (!wr_in_srun_step(env) || tasks < 2 || tasks > INT_MAX)
        return false;
    *hint = (struct wr_launcher_hint){"srun", (int)tasks,
                                      "start it with srun " SRUN_CHOICES
                                      " (srun --mpi=list shows what this cluster has); WEIR_BOOT=single runs it alone",
                                      true};
    return true;
}
