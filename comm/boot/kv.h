/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys and values of one rank. A rank puts a handful of keys, so a list is enough. Not thread safe. */
#ifndef WR_BOOT_KV_H
#define WR_BOOT_KV_H

#include <stddef.h>

#include <weir/status.h>

struct wr_kv_entry;

struct wr_kv {
    struct wr_kv_entry *first; /* zero-initialise */
};

/* Copies a value under a key; a key that is there already is replaced. */
weir_status wr_kv_put(struct wr_kv *kv, const char *key, const void *value, size_t len, weir_error *err);

/* The value of a key, owned by the table, or NULL. */
const void *wr_kv_get(const struct wr_kv *kv, const char *key, size_t *len);

/* The same, copied by malloc for the caller, as struct wr_boot_ops wants it; `rank` is for the message. */
weir_status wr_kv_copy(const struct wr_kv *kv, int rank, const char *key, void **value, size_t *len, weir_error *err);

void wr_kv_free(struct wr_kv *kv);

#endif
