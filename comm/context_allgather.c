/* SPDX-License-Identifier: BSD-3-Clause */
/* All-gather through the launcher: put, fence, get. Works before there is any transport. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/context.h"

static weir_status gather(weir_ctx *ctx, const char *key, const void *send, char *recv, size_t bytes, weir_error *err)
{
    weir_status status = wr_ctx_put(ctx, key, send, bytes, err);
    if (status == WEIR_OK)
        status = wr_ctx_fence(ctx, err);
    for (int rank = 0; status == WEIR_OK && rank < ctx->size; rank++) {
        void *value = NULL;
        size_t len = 0;
        status = wr_ctx_get(ctx, rank, key, &value, &len, err);
        if (status == WEIR_OK && len != bytes)
            status = wr_error_set(err, WEIR_ERR_PROTOCOL, "give the same number of bytes on all ranks",
                                  "rank %d gave %zu bytes and this one %zu", rank, len, bytes);
        else if (status == WEIR_OK)
            memcpy(recv + (size_t)rank * bytes, value, bytes);
        free(value);
    }
    return status;
}

weir_status weir_boot_allgather(weir_ctx *ctx, const void *send, void *recv, size_t bytes)
{
    weir_error err;
    char key[32];
    weir_status status;
    wr_error_clear(&err);
    if (bytes && (!send || !recv)) {
        status = wr_error_set(&err, WEIR_ERR_INVALID, "give both buffers", "a buffer is NULL");
        return wr_ctx_fail(ctx, &err, "weir_boot_allgather");
    }
    /* a key of its own each time: values that were put cannot be changed */
    snprintf(key, sizeof key, "allgather-%llu", (unsigned long long)ctx->allgathers++);
    status = bytes ? gather(ctx, key, send, recv, bytes, &err) : wr_ctx_barrier(ctx, &err);
    return status == WEIR_OK ? WEIR_OK : wr_ctx_fail(ctx, &err, "weir_boot_allgather");
}
