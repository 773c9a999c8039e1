/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the components have in common whose PMI keeps short texts for all ranks (PMI-1, PMI-2): the connection is the
 * process's, values are split, a fence is the farewell. Thread safe between contexts, not within one.
 */
#ifndef WR_BOOT_STORE_H
#define WR_BOOT_STORE_H

#include "comm/boot/boot.h"
#include "comm/boot/shared.h"
#include "comm/boot/split.h"

/* One PMI. All functions but finalize_at_exit are called under the lock of `shared`. */
struct wr_store_kind {
    struct wr_shared *shared;
    void (*finalize_at_exit)(void); /* calls wr_shared_end() */
    /* Joins; the connection is kept until the process ends. */
    weir_status (*connect)(const struct wr_boot_params *params, void **connection, weir_error *err);
    /* Fills in rank, size and job, and what the store takes: key_max and value_max. */
    void (*describe)(const void *connection, struct wr_boot_info *info, struct wr_split *split);
    /* The text of PMI_process_mapping; WEIR_ERR_NOT_FOUND when the launcher gives none. */
    weir_status (*mapping)(void *connection, char *text, size_t size, weir_error *err);
    weir_status (*put)(void *connection, const char *key, const char *text, weir_error *err);
    weir_status (*get)(void *connection, int rank, const char *key, char *text, size_t size, weir_error *err);
    weir_status (*fence)(void *connection, weir_error *err);
};

/* Opens a component of the kind; the functions below are its ops then. */
weir_status wr_store_open(struct wr_boot *boot, const struct wr_boot_params *params, const struct wr_store_kind *kind,
                          weir_error *err);
weir_status wr_store_put(struct wr_boot *boot, const char *key, const void *value, size_t len, enum wr_boot_scope scope,
                         weir_error *err);
weir_status wr_store_get(struct wr_boot *boot, int rank, const char *key, void **value, size_t *len, weir_error *err);
weir_status wr_store_fence(struct wr_boot *boot, weir_error *err);
weir_status wr_store_close(struct wr_boot *boot, bool goodbye, weir_error *err);

/* The connection of an open component, for its own abort. */
void *wr_store_connection(const struct wr_boot *boot);

#endif
