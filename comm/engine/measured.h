/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which network is the faster one on this host: a short measurement by one rank, in a child process so that a library that
 * hangs or crashes harms nobody, and a file that keeps the result.
 *
 * The file (one a host, in WEIR_CACHE_DIR) is a few lines of text: a format line, a key that names what the result depends
 * on, and for each network its name and two times. A file that is damaged, of another format or key, or older than 30 days
 * counts as absent; it is replaced as a whole, so that no reader ever sees half of one. Nothing here is an error of the job.
 */
#ifndef WR_ENGINE_MEASURED_H
#define WR_ENGINE_MEASURED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/context.h"

enum { WR_MEASURED_MAX = 4, WR_MEASURED_KEY = 1024 };

struct wr_measured {
    char name[8];
    int64_t small_ns; /* one way for 8 bytes; 0: could not be measured */
    int64_t large_ns; /* a put of 1 MiB until it is visible */
};

/*
 * Fills in the times of the `n` networks whose names are set: from the file, or by measuring (at most a few seconds, usually
 * a fraction of one), which then writes the file. For one rank of a job.
 */
void wr_measured_get(weir_ctx *ctx, struct wr_measured *networks, size_t n);

/* Orders by speed; near equals (within a quarter), and what could not be measured, stay as they are. */
void wr_measured_order(struct wr_measured *networks, size_t n);

/* ---- the file, for the above and for tests ---- */

/* The path of the file; false when there is no place for one (no home, or WEIR_CACHE_DIR=off) or it is too long. */
bool wr_measured_path(const weir_ctx *ctx, char *path, size_t size);

/* Whether the file holds a result for `key` of exactly these networks, in any order; their times are set only then. */
bool wr_measured_read(const char *path, const char *key, struct wr_measured *networks, size_t n);

/* Replaces the file; false when that was not possible. `key` is one line. */
bool wr_measured_write(const char *path, const char *key, const struct wr_measured *networks, size_t n);

/* ---- the measurement ---- */

/* Measures one network inside this process; false when it does not work. Used in the child. */
bool wr_measure_here(const weir_ctx *ctx, struct wr_measured *network);

#endif
