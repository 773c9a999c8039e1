/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/boot/kv.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

struct wr_kv_entry {
    struct wr_kv_entry *next;
    size_t len;
    char *value;
    char key[];
};

static struct wr_kv_entry **find(const struct wr_kv *kv, const char *key)
{
    struct wr_kv_entry **at = (struct wr_kv_entry **)&kv->first;
    while (*at && strcmp((*at)->key, key))
        at = &(*at)->next;
    return at;
}

static void *copy_bytes(const void *data, size_t len)
{
    void *copy = malloc(len ? len : 1);
    if (copy && len)
        memcpy(copy, data, len);
    return copy;
}

weir_status wr_kv_put(struct wr_kv *kv, const char *key, const void *value, size_t len, weir_error *err)
{
    struct wr_kv_entry **at = find(kv, key), *entry = *at;
    char *copy = copy_bytes(value, len);
    if (!copy)
        return wr_error_memory(err, len, "a bootstrap value");
    if (!entry) {
        entry = malloc(sizeof *entry + strlen(key) + 1);
        if (!entry) {
            free(copy);
            return wr_error_memory(err, sizeof *entry, "a bootstrap key");
        }
        entry->next = NULL;
        entry->value = NULL;
        strcpy(entry->key, key);
        *at = entry;
    }
    free(entry->value);
    entry->value = copy;
    entry->len = len;
    return WEIR_OK;
}

const void *wr_kv_get(const struct wr_kv *kv, const char *key, size_t *len)
{
    struct wr_kv_entry *entry = *find(kv, key);
    if (!entry)
        return NULL;
    *len = entry->len;
    return entry->value;
}

weir_status wr_kv_copy(const struct wr_kv *kv, int rank, const char *key, void **value, size_t *len, weir_error *err)
{
    size_t n;
    const void *data = wr_kv_get(kv, key, &n);
    if (!data)
        return wr_error_set(err, WEIR_ERR_NOT_FOUND, "the rank must put the key before a fence",
                            "rank %d has put nothing under the key '%s'", rank, key);
    void *copy = copy_bytes(data, n);
    if (!copy)
        return wr_error_memory(err, n, "a bootstrap value");
    *value = copy;
    *len = n;
    return WEIR_OK;
}

void wr_kv_free(struct wr_kv *kv)
{
    for (struct wr_kv_entry *entry = kv->first, *next; entry; entry = next) {
        next = entry->next;
        free(entry->value);
        free(entry);
    }
    kv->first = NULL;
}
