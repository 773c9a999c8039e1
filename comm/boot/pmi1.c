/* SPDX-License-Identifier: BSD-3-Clause */
/* Started by a launcher with PMI-1: MPICH's hydra, Flux, srun --mpi=pmi2, and others. */
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/str.h"
#include "comm/boot/components.h"
#include "comm/boot/pmi1.h"
#include "comm/boot/store.h"

static struct wr_shared shared = WR_SHARED_INIT;

static bool pmi1_detect(const struct wr_boot_params *params, const char **why)
{
    if (!wr_env_get(params->env, "PMI_FD") && !wr_env_get(params->env, "PMI_PORT"))
        return false;
    if (why)
        *why = "PMI_FD or PMI_PORT is set";
    return true;
}

static void finalize(void *connection)
{
    wr_pmi1_finalize(connection);
    free(connection);
}

static void finalize_at_exit(void)
{
    wr_shared_end(&shared, finalize);
}

static weir_status pmi1_connect(const struct wr_boot_params *params, void **connection, weir_error *err)
{
    struct wr_pmi1 *pmi = malloc(sizeof *pmi);
    if (!pmi)
        return wr_error_memory(err, sizeof *pmi, "the PMI-1 connection");
    weir_status status = wr_pmi1_connect(pmi, params->env, params->config->boot_timeout, err);
    if (status != WEIR_OK) {
        if (pmi->fd >= 0 && !wr_env_get(params->env, "PMI_FD"))
            close(pmi->fd);
        free(pmi);
        return status;
    }
    *connection = pmi;
    return WEIR_OK;
}

static void pmi1_describe(const void *connection, struct wr_boot_info *info, struct wr_split *split)
{
    const struct wr_pmi1 *pmi = connection;
    split->key_max = pmi->key_max;
    split->value_max = pmi->value_max;
    info->rank = pmi->rank;
    info->size = pmi->size;
    wr_str_copy(info->job, sizeof info->job, pmi->kvs);
}

static weir_status pmi1_mapping(void *connection, char *text, size_t size, weir_error *err)
{
    return wr_pmi1_get(connection, "PMI_process_mapping", text, size, err);
}

static weir_status pmi1_put(void *connection, const char *key, const char *text, weir_error *err)
{
    return wr_pmi1_put(connection, key, text, err);
}

static weir_status pmi1_get(void *connection, int rank, const char *key, char *text, size_t size, weir_error *err)
{
    (void)rank;
    return wr_pmi1_get(connection, key, text, size, err);
}

static weir_status pmi1_fence(void *connection, weir_error *err)
{
    return wr_pmi1_barrier(connection, err);
}

static weir_status pmi1_open(struct wr_boot *boot, const struct wr_boot_params *params, weir_error *err)
{
    static const struct wr_store_kind kind = {.shared = &shared, .finalize_at_exit = finalize_at_exit, .connect = pmi1_connect,
                                              .describe = pmi1_describe, .mapping = pmi1_mapping, .put = pmi1_put,
                                              .get = pmi1_get, .fence = pmi1_fence};
    return wr_store_open(boot, params, &kind, err);
}

static void pmi1_abort(struct wr_boot *boot, int code, const char *message)
{
    (void)message;
    wr_pmi1_abort(wr_store_connection(boot), code);
}

const struct wr_boot_ops wr_boot_pmi1 = {
    .name = "pmi1",
    .detect = pmi1_detect,
    .open = pmi1_open,
    .put = wr_store_put,
    .fence = wr_store_fence,
    .get = wr_store_get,
    .barrier = wr_store_fence,
    .abort = pmi1_abort,
    .close = wr_store_close,
};
