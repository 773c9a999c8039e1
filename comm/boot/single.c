/* SPDX-License-Identifier: BSD-3-Clause */
/* A job of one process: its own values, nothing to wait for. */
#include <stdlib.h>

#include "base/error.h"
#include "comm/boot/components.h"
#include "comm/boot/kv.h"

static bool single_detect(const struct wr_boot_params *params, const char **why)
{
    (void)params;
    if (why)
        *why = "no launcher was found";
    return true;
}

static weir_status single_open(struct wr_boot *boot, const struct wr_boot_params *params, weir_error *err)
{
    (void)params;
    struct wr_kv *kv = calloc(1, sizeof *kv);
    boot->info.node_of = calloc(1, sizeof *boot->info.node_of);
    if (!kv || !boot->info.node_of) {
        free(kv);
        return wr_error_memory(err, sizeof *kv, "the bootstrap");
    }
    boot->info.rank = 0;
    boot->info.size = 1;
    boot->info.gets_are_local = true;
    boot->state = kv;
    return WEIR_OK;
}

static weir_status single_put(struct wr_boot *boot, const char *key, const void *value, size_t len, enum wr_boot_scope scope, weir_error *err)
{
    (void)scope;
    return wr_kv_put(boot->state, key, value, len, err);
}

static weir_status single_get(struct wr_boot *boot, int rank, const char *key, void **value, size_t *len, weir_error *err)
{
    return wr_kv_copy(boot->state, rank, key, value, len, err);
}

static weir_status single_wait(struct wr_boot *boot, weir_error *err)
{
    (void)boot;
    (void)err;
    return WEIR_OK;
}

static void single_abort(struct wr_boot *boot, int code, const char *message)
{
    (void)boot;
    (void)code;
    (void)message;
}

static weir_status single_close(struct wr_boot *boot, bool goodbye, weir_error *err)
{
    (void)goodbye;
    (void)err;
    wr_kv_free(boot->state);
    free(boot->state);
    return WEIR_OK;
}

const struct wr_boot_ops wr_boot_single = {
    .name = "single",
    .detect = single_detect,
    .open = single_open,
    .put = single_put,
    .fence = single_wait,
    .get = single_get,
    .barrier = single_wait,
    .abort = single_abort,
    .close = single_close,
};
