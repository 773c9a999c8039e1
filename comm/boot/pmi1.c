/* SPDX-License-Identifier: BSD-3-Clause */
/* Started by a launcher with PMI-1: MPICH's hydra, Flux, srun --mpi=pmi2, and others. */
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/str.h"
#include "comm/boot/components.h"
#include "comm/boot/mapping.h"
#include "comm/boot/pmi1.h"
#include "comm/boot/shared.h"
#include "comm/boot/split.h"

#define KEY_MAPPING "PMI_process_mapping"

static struct wr_shared shared = WR_SHARED_INIT;

static bool pmi1_detect(const struct wr_boot_params *params, const char **why)
{
    if (!wr_env_get(params->env, "PMI_FD") && !wr_env_get(params->env, "PMI_PORT"))
        return false;
    if (why)
        *why = "PMI_FD or PMI_PORT is set";
    return true;
}

/* ---- the connection of the process ---- */

static void finalize_at_exit(void)
{
    struct wr_pmi1 *pmi = shared.connection;
    if (!pmi || shared.pid != (int)getpid() || pthread_mutex_trylock(&shared.lock))
        return;
    wr_pmi1_finalize(pmi);
    shared.connection = NULL;
    pthread_mutex_unlock(&shared.lock);
    free(pmi);
}

/* Under the lock: opens the connection unless it is open. */
static weir_status use_connection(const struct wr_boot_params *params, weir_error *err)
{
    if (shared.connection)
        return WEIR_OK;
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
    shared.connection = pmi;
    shared.pid = (int)getpid();
    if (!shared.at_exit)
        shared.at_exit = !atexit(finalize_at_exit);
    return WEIR_OK;
}

/* ---- the ops ---- */

static weir_status store_put(void *arg, const char *key, const char *text, weir_error *err)
{
    return wr_pmi1_put(arg, key, text, err);
}

static weir_status store_get(void *arg, int rank, const char *key, char *text, size_t size, weir_error *err)
{
    (void)rank;
    return wr_pmi1_get(arg, key, text, size, err);
}

/* The launcher's node map; none is no error. */
static weir_status read_mapping(struct wr_boot *boot, struct wr_pmi1 *pmi, weir_error *err)
{
    char text[WR_PMI1_LINE_MAX];
    weir_status status = wr_pmi1_get(pmi, KEY_MAPPING, text, sizeof text, err);
    if (status == WEIR_ERR_NOT_FOUND)
        return WEIR_OK;
    if (status != WEIR_OK)
        return status;
    int *node_of = malloc((size_t)pmi->size * sizeof *node_of);
    if (!node_of)
        return wr_error_memory(err, (size_t)pmi->size * sizeof *node_of, "the node map");
    if (!wr_process_mapping(text, pmi->size, node_of)) {
        wr_info(boot->log, BOOT, "the launcher's process mapping is not understood: %s", text);
        free(node_of);
        return WEIR_OK;
    }
    boot->info.node_of = node_of;
    return WEIR_OK;
}

static weir_status pmi1_open(struct wr_boot *boot, const struct wr_boot_params *params, weir_error *err)
{
    struct wr_split *split = calloc(1, sizeof *split);
    if (!split)
        return wr_error_memory(err, sizeof *split, "the bootstrap");
    pthread_mutex_lock(&shared.lock);
    weir_status status = use_connection(params, err);
    struct wr_pmi1 *pmi = shared.connection;
    if (status == WEIR_OK) {
        *split = (struct wr_split){.key_max = pmi->key_max, .value_max = pmi->value_max, .generation = shared.generation++,
                                   .arg = pmi, .put = store_put, .get = store_get};
        boot->info.rank = pmi->rank;
        boot->info.size = pmi->size;
        wr_str_copy(boot->info.job, sizeof boot->info.job, pmi->kvs);
        status = read_mapping(boot, pmi, err);
    }
    pthread_mutex_unlock(&shared.lock);
    if (status != WEIR_OK) {
        free(split);
        return status;
    }
    boot->state = split;
    return WEIR_OK;
}

static weir_status pmi1_put(struct wr_boot *boot, const char *key, const void *value, size_t len, enum wr_boot_scope scope, weir_error *err)
{
    (void)scope;
    pthread_mutex_lock(&shared.lock);
    weir_status status = wr_split_put(boot->state, boot->info.rank, key, value, len, err);
    pthread_mutex_unlock(&shared.lock);
    return status;
}

static weir_status pmi1_get(struct wr_boot *boot, int rank, const char *key, void **value, size_t *len, weir_error *err)
{
    pthread_mutex_lock(&shared.lock);
    weir_status status = wr_split_get(boot->state, rank, key, value, len, err);
    pthread_mutex_unlock(&shared.lock);
    return status;
}

static weir_status pmi1_fence(struct wr_boot *boot, weir_error *err)
{
    const struct wr_split *split = boot->state;
    pthread_mutex_lock(&shared.lock);
    weir_status status = wr_pmi1_barrier(split->arg, err);
    pthread_mutex_unlock(&shared.lock);
    return status;
}

static void pmi1_abort(struct wr_boot *boot, int code, const char *message)
{
    const struct wr_split *split = boot->state;
    (void)message;
    wr_pmi1_abort(split->arg, code);
}

static weir_status pmi1_close(struct wr_boot *boot, bool goodbye, weir_error *err)
{
    weir_status status = goodbye ? pmi1_fence(boot, err) : WEIR_OK;
    free(boot->state);
    return status;
}

const struct wr_boot_ops wr_boot_pmi1 = {
    .name = "pmi1",
    .detect = pmi1_detect,
    .open = pmi1_open,
    .put = pmi1_put,
    .fence = pmi1_fence,
    .get = pmi1_get,
    .barrier = pmi1_fence,
    .abort = pmi1_abort,
    .close = pmi1_close,
};
