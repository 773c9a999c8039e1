/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Values of any length and content in a PMI's store, which holds short texts under short keys and lets no key be changed:
 * a value is written in base64, its length before it, and cut into pieces under keys of their own.
 */
#ifndef WR_BOOT_SPLIT_H
#define WR_BOOT_SPLIT_H

#include <stddef.h>
#include <stdint.h>

#include <weir/status.h>

struct wr_split {
    size_t key_max, value_max; /* the longest text that the store takes, without the end mark */
    uint32_t generation;       /* makes the keys of this context differ from those of others in the process */
    void *arg;
    weir_status (*put)(void *arg, const char *key, const char *text, weir_error *err);
    /* WEIR_ERR_NOT_FOUND when nobody put the key. `size` is value_max + 1. */
    weir_status (*get)(void *arg, int rank, const char *key, char *text, size_t size, weir_error *err);
};

weir_status wr_split_put(const struct wr_split *split, int rank, const char *key, const void *value, size_t len,
                         weir_error *err);

/* Allocates *value by malloc. */
weir_status wr_split_get(const struct wr_split *split, int rank, const char *key, void **value, size_t *len, weir_error *err);

#endif
