/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Filling in a weir_error. Functions that can fail take a `weir_error *` (which may be NULL) and end with
 *     return wr_error_set(err, WEIR_ERR_..., "what to do", "what happened: %d", number);
 * The function that first decides on the error writes it; callers add rank, host and operation where they know more.
 */
#ifndef WR_ERROR_H
#define WR_ERROR_H

#include <weir/status.h>

#include "base/compiler.h"

/* Writes status, message and advice (may be NULL), clears the rest; returns `status`. Thread safe on separate errors. */
weir_status wr_error_set(weir_error *err, weir_status status, const char *advice, const char *fmt, ...)
    WR_PRINTF(4, 5);

/* The same with ": <strerror(errnum)>" after the message. */
weir_status wr_error_errno(weir_error *err, weir_status status, int errnum, const char *advice, const char *fmt, ...)
    WR_PRINTF(5, 6);

/* Out of memory: `bytes` were wanted for `what`. Returns WEIR_ERR_NO_MEMORY. */
weir_status wr_error_memory(weir_error *err, size_t bytes, const char *what);

/* Adds where it happened (rank < 0 and host NULL leave the field) and, when still empty, what was asked. */
void wr_error_at(weir_error *err, int rank, const char *host);
void wr_error_operation(weir_error *err, const char *operation);

/* Empties an error: status WEIR_OK, rank -1. */
void wr_error_clear(weir_error *err);

/* The same without touching all of its kilobyte: for calls that are made millions of times and seldom fail. */
static inline void wr_error_reset(weir_error *err)
{
    err->status = WEIR_OK;
    err->rank = -1;
    err->host[0] = err->operation[0] = err->message[0] = err->advice[0] = '\0';
}

/* One line for a log or a terminal: "weir_init: <message> (rank 3 on host n1); <advice>". Returns buf. */
const char *wr_error_line(const weir_error *err, char *buf, size_t size);

/* A thread-safe strerror into the caller's buffer; returns buf. */
const char *wr_strerror(int errnum, char *buf, size_t size);

#endif
