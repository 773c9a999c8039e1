/* SPDX-License-Identifier: BSD-3-Clause */
/* The program lends its own all-gather: a fence gathers everything that was put since the last one. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "comm/boot/components.h"
#include "comm/boot/kv.h"

struct user {
    weir_boot_callbacks callbacks;
    struct wr_buf pending; /* put since the last fence: key, NUL, 8 bytes of length, value */
    struct wr_kv *values;  /* one a rank */
};

static bool user_detect(const struct wr_boot_params *params, const char **why)
{
    if (why)
        *why = "callbacks were given";
    return params->options->callbacks != NULL;
}

static weir_status gather(const struct user *u, const void *send, void *recv, size_t bytes, weir_error *err)
{
    int rc = u->callbacks.allgather(u->callbacks.user, send, recv, bytes);
    if (!rc)
        return WEIR_OK;
    return wr_error_set(err, WEIR_ERR_LAUNCHER, "see why the program's all-gather failed",
                        "the program's all-gather callback returned %d for %zu bytes a rank", rc, bytes);
}

static weir_status user_open(struct wr_boot *boot, const struct wr_boot_params *params, weir_error *err)
{
    const weir_boot_callbacks *given = params->options->callbacks;
    struct user *u = calloc(1, sizeof *u);
    if (!u)
        return wr_error_memory(err, sizeof *u, "the bootstrap");
    memcpy(&u->callbacks, given, WR_MIN(given->size, sizeof u->callbacks));
    u->values = calloc((size_t)given->nranks, sizeof *u->values);
    if (!u->values) {
        free(u);
        return wr_error_memory(err, (size_t)given->nranks * sizeof *u->values, "the bootstrap");
    }
    boot->info.rank = given->rank;
    boot->info.size = given->nranks;
    boot->info.gets_are_local = true;
    boot->state = u;
    return WEIR_OK;
}

static weir_status user_put(struct wr_boot *boot, const char *key, const void *value, size_t len, enum wr_boot_scope scope, weir_error *err)
{
    (void)scope;
    struct user *u = boot->state;
    uint64_t n = len;
    wr_buf_add(&u->pending, key, strlen(key) + 1);
    wr_buf_add(&u->pending, &n, sizeof n);
    wr_buf_add(&u->pending, value, len);
    return u->pending.failed ? wr_error_memory(err, len, "a bootstrap value") : WEIR_OK;
}

/* Takes apart what one rank had put. */
static weir_status unpack(struct user *u, int rank, const char *data, size_t len, weir_error *err)
{
    for (size_t at = 0; at < len;) {
        const char *key = data + at;
        const char *end = memchr(key, 0, len - at);
        uint64_t n;
        if (!end)
            goto malformed;
        at = (size_t)(end - data) + 1;
        if (len - at < sizeof n)
            goto malformed;
        memcpy(&n, data + at, sizeof n);
        at += sizeof n;
        if (n > len - at)
            goto malformed;
        weir_status status = wr_kv_put(&u->values[rank], key, data + at, (size_t)n, err);
        if (status != WEIR_OK)
            return status;
        at += (size_t)n;
    }
    return WEIR_OK;
malformed:
    return wr_error_set(err, WEIR_ERR_PROTOCOL, "check the program's all-gather: it must order the parts by rank",
                        "the all-gather callback returned something else than what rank %d sent", rank);
}

static weir_status user_fence(struct wr_boot *boot, weir_error *err)
{
    struct user *u = boot->state;
    size_t size = (size_t)boot->info.size, max = 0;
    uint64_t own = u->pending.len, *lens = malloc(size * sizeof *lens);
    char *send = NULL, *recv = NULL;
    if (!lens)
        return wr_error_memory(err, size * sizeof *lens, "the bootstrap");
    weir_status status = gather(u, &own, lens, sizeof own, err);
    if (status != WEIR_OK)
        goto free_lens;
    for (size_t i = 0; i < size; i++)
        max = WR_MAX(max, (size_t)lens[i]);
    if (lens[boot->info.rank] != own || max > INT_MAX) {
        status = wr_error_set(err, WEIR_ERR_PROTOCOL, "check the program's all-gather: it must order the parts by rank",
                              "the all-gather callback returned something else than what rank %d sent", boot->info.rank);
        goto free_lens;
    }
    if (!max)
        goto free_lens;
    send = calloc(1, max);
    recv = malloc(size * max);
    if (!send || !recv) {
        status = wr_error_memory(err, size * max, "the bootstrap's all-gather");
        goto free_buffers;
    }
    if (own)
        memcpy(send, u->pending.data, own);
    status = gather(u, send, recv, max, err);
    for (size_t i = 0; status == WEIR_OK && i < size; i++)
        status = unpack(u, (int)i, recv + i * max, lens[i], err);
    u->pending.len = 0;
free_buffers:
    free(send);
    free(recv);
free_lens:
    free(lens);
    return status;
}

static weir_status user_get(struct wr_boot *boot, int rank, const char *key, void **value, size_t *len, weir_error *err)
{
    struct user *u = boot->state;
    return wr_kv_copy(&u->values[rank], rank, key, value, len, err);
}

static weir_status user_barrier(struct wr_boot *boot, weir_error *err)
{
    struct user *u = boot->state;
    char *recv = malloc((size_t)boot->info.size), byte = 1;
    if (!recv)
        return wr_error_memory(err, (size_t)boot->info.size, "the bootstrap");
    weir_status status = gather(u, &byte, recv, 1, err);
    free(recv);
    return status;
}

static void user_abort(struct wr_boot *boot, int code, const char *message)
{
    struct user *u = boot->state;
    if (u->callbacks.abort)
        u->callbacks.abort(u->callbacks.user, code, message);
}

static weir_status user_close(struct wr_boot *boot, bool goodbye, weir_error *err)
{
    struct user *u = boot->state;
    weir_status status = goodbye ? user_barrier(boot, err) : WEIR_OK;
    for (int rank = 0; rank < boot->info.size; rank++)
        wr_kv_free(&u->values[rank]);
    free(u->values);
    wr_buf_free(&u->pending);
    free(u);
    return status;
}

const struct wr_boot_ops wr_boot_user = {
    .name = "user",
    .detect = user_detect,
    .open = user_open,
    .put = user_put,
    .fence = user_fence,
    .get = user_get,
    .barrier = user_barrier,
    .abort = user_abort,
    .close = user_close,
};
