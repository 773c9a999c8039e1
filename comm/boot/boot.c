/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/boot/boot.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* Adds where an error was seen, unless it already names the rank that it concerns. */
static weir_status seen_here(const struct wr_boot *boot, weir_status status, const char *operation, weir_error *err)
{
    if (status != WEIR_OK && err) {
        wr_error_operation(err, operation);
        if (err->rank < 0)
            wr_error_at(err, boot->info.rank, NULL);
    }
    return status;
}

static weir_status check_key(const char *key, weir_error *err)
{
    size_t len = strlen(key);
    if (len && len <= WR_BOOT_KEY_MAX && !strpbrk(key, " =;\n"))
        return WEIR_OK;
    return wr_error_set(err, WEIR_ERR_INVALID, "use 1..63 characters without ' ', '=', ';' and newline",
                        "'%s' cannot be a bootstrap key", key);
}

weir_status wr_boot_put(struct wr_boot *boot, const char *key, const void *value, size_t len, enum wr_boot_scope scope,
                        weir_error *err)
{
    weir_status status = check_key(key, err);
    if (status == WEIR_OK)
        status = boot->ops->put(boot, key, value, len, scope, err);
    return seen_here(boot, status, "bootstrap put", err);
}

weir_status wr_boot_fence(struct wr_boot *boot, weir_error *err)
{
    return seen_here(boot, boot->ops->fence(boot, err), "bootstrap fence", err);
}

weir_status wr_boot_get(struct wr_boot *boot, int rank, const char *key, void **value, size_t *len, weir_error *err)
{
    weir_status status = check_key(key, err);
    if (status == WEIR_OK && (rank < 0 || rank >= boot->info.size))
        status = wr_error_set(err, WEIR_ERR_INVALID, "ask for a rank of the job", "rank %d is not in 0..%d", rank,
                              boot->info.size - 1);
    if (status == WEIR_OK)
        status = boot->ops->get(boot, rank, key, value, len, err);
    return seen_here(boot, status, "bootstrap get", err);
}

weir_status wr_boot_barrier(struct wr_boot *boot, weir_error *err)
{
    return seen_here(boot, boot->ops->barrier(boot, err), "bootstrap barrier", err);
}

weir_status wr_boot_close(struct wr_boot *boot, bool goodbye, weir_error *err)
{
    if (!boot)
        return WEIR_OK;
    weir_status status = seen_here(boot, boot->ops->close(boot, goodbye, err), "bootstrap farewell", err);
    free(boot->info.node_of);
    free(boot);
    return status;
}
