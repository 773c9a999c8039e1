/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The connection to a PMI-1 server: lines of "name=value" words over a descriptor, one answer a request. Used without a
 * library, so that it serves every launcher that speaks it. Not thread safe.
 */
#ifndef WR_BOOT_PMI1_H
#define WR_BOOT_PMI1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/status.h>

#include "base/config.h"

enum { WR_PMI1_LINE_MAX = 8192 };

struct wr_pmi1 {
    int fd;
    bool broken; /* a request was given up: what comes next may be its late answer */
    int rank, size;
    char kvs[256];
    size_t key_max, value_max; /* longest texts, without the end mark */
    int64_t timeout_ns;
    char in[WR_PMI1_LINE_MAX]; /* read, not yet taken */
    size_t in_len;
    char line[WR_PMI1_LINE_MAX]; /* the last answer */
};

/* Joins the server that PMI_FD or PMI_PORT name. */
weir_status wr_pmi1_connect(struct wr_pmi1 *pmi, const struct wr_env *env, int64_t timeout_ns, weir_error *err);

weir_status wr_pmi1_put(struct wr_pmi1 *pmi, const char *key, const char *value, weir_error *err);
weir_status wr_pmi1_get(struct wr_pmi1 *pmi, const char *key, char *value, size_t size, weir_error *err);
weir_status wr_pmi1_barrier(struct wr_pmi1 *pmi, weir_error *err);
void wr_pmi1_abort(struct wr_pmi1 *pmi, int code);
void wr_pmi1_finalize(struct wr_pmi1 *pmi);

/* The value of a word of a line ("value" reaches to the line's end); false when the line has none or it is too long. */
bool wr_pmi1_word(const char *line, const char *name, char *out, size_t size);

#endif
