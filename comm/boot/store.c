/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/boot/store.h"

#include <stdlib.h>

#include "base/error.h"
#include "comm/boot/mapping.h"

enum { MAPPING_MAX = 8192 };

struct store {
    const struct wr_store_kind *kind;
    struct wr_split split; /* its arg is the connection */
};

/* The launcher's node map; none is no error. */
static weir_status read_mapping(struct wr_boot *boot, const struct store *s, weir_error *err)
{
    size_t bytes = (size_t)boot->info.size * sizeof *boot->info.node_of;
    char text[MAPPING_MAX];
    weir_status status = s->kind->mapping(s->split.arg, text, sizeof text, err);
    if (status == WEIR_ERR_NOT_FOUND)
        return WEIR_OK;
    if (status != WEIR_OK)
        return status;
    int *node_of = malloc(bytes);
    if (!node_of)
        return wr_error_memory(err, bytes, "the node map");
    if (wr_process_mapping(text, boot->info.size, node_of)) {
        boot->info.node_of = node_of;
    } else {
        wr_info(boot->log, BOOT, "the launcher's process mapping is not understood: %s", text);
        free(node_of);
    }
    return WEIR_OK;
}

/* Under the lock: the first context opens the connection. */
static weir_status use_connection(const struct wr_boot_params *params, const struct wr_store_kind *kind, weir_error *err)
{
    void *connection;
    if (kind->shared->connection)
        return WEIR_OK;
    weir_status status = kind->connect(params, &connection, err);
    if (status == WEIR_OK)
        wr_shared_keep(kind->shared, connection, kind->finalize_at_exit);
    return status;
}

weir_status wr_store_open(struct wr_boot *boot, const struct wr_boot_params *params, const struct wr_store_kind *kind,
                          weir_error *err)
{
    struct store *s = calloc(1, sizeof *s);
    if (!s)
        return wr_error_memory(err, sizeof *s, "the bootstrap");
    pthread_mutex_lock(&kind->shared->lock);
    weir_status status = use_connection(params, kind, err);
    if (status == WEIR_OK) {
        s->kind = kind;
        s->split = (struct wr_split){.generation = kind->shared->generation++, .arg = kind->shared->connection,
                                     .put = kind->put, .get = kind->get};
        kind->describe(s->split.arg, &boot->info, &s->split);
        status = read_mapping(boot, s, err);
    }
    pthread_mutex_unlock(&kind->shared->lock);
    if (status != WEIR_OK) {
        free(s);
        return status;
    }
    boot->state = s;
    return WEIR_OK;
}

weir_status wr_store_put(struct wr_boot *boot, const char *key, const void *value, size_t len, enum wr_boot_scope scope,
                         weir_error *err)
{
    const struct store *s = boot->state;
    (void)scope;
    pthread_mutex_lock(&s->kind->shared->lock);
    weir_status status = wr_split_put(&s->split, boot->info.rank, key, value, len, err);
    pthread_mutex_unlock(&s->kind->shared->lock);
    return status;
}

weir_status wr_store_get(struct wr_boot *boot, int rank, const char *key, void **value, size_t *len, weir_error *err)
{
    const struct store *s = boot->state;
    pthread_mutex_lock(&s->kind->shared->lock);
    weir_status status = wr_split_get(&s->split, rank, key, value, len, err);
    pthread_mutex_unlock(&s->kind->shared->lock);
    return status;
}

weir_status wr_store_fence(struct wr_boot *boot, weir_error *err)
{
    const struct store *s = boot->state;
    pthread_mutex_lock(&s->kind->shared->lock);
    weir_status status = s->kind->fence(s->split.arg, err);
    pthread_mutex_unlock(&s->kind->shared->lock);
    return status;
}

weir_status wr_store_close(struct wr_boot *boot, bool goodbye, weir_error *err)
{
    weir_status status = goodbye ? wr_store_fence(boot, err) : WEIR_OK;
    free(boot->state);
    return status;
}

void *wr_store_connection(const struct wr_boot *boot)
{
    const struct store *s = boot->state;
    return s->split.arg;
}
