/* SPDX-License-Identifier: BSD-3-Clause */
/* Strings: bounded copies, a growing buffer, numbers with units, edit distance. */
#ifndef WR_STR_H
#define WR_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/compiler.h"

/* Copies or appends, always terminating `dst` of `size` bytes; false when it had to cut. */
bool wr_str_copy(char *dst, size_t size, const char *src);
bool wr_str_append(char *dst, size_t size, const char *src);

/* A buffer that grows; zero-initialise it, test `failed` once in the end. */
struct wr_buf {
    char *data; /* terminated by a NUL that is not counted in len */
    size_t len, cap;
    bool failed; /* an allocation failed; everything since was dropped */
};
void wr_buf_add(struct wr_buf *buf, const void *data, size_t len);
void wr_buf_str(struct wr_buf *buf, const char *text);
void wr_buf_printf(struct wr_buf *buf, const char *fmt, ...) WR_PRINTF(2, 3);
void wr_buf_free(struct wr_buf *buf);

/* Parses a whole string. All return false, leaving *out alone, for anything but a complete valid number. */
bool wr_parse_int(const char *text, int64_t *out);
bool wr_parse_real(const char *text, double *out);     /* "-1.5", "3e-3", whatever the locale; finite */
bool wr_parse_bool(const char *text, bool *out);       /* 1 0 yes no true false on off, any case */
bool wr_parse_bytes(const char *text, uint64_t *out);  /* "64", "64K", "1.5MiB", "2GB" (1024-based), "inf" */
bool wr_parse_time(const char *text, int64_t *ns_out); /* "500us", "20ms", "3s", "2m", "1h", bare seconds, "inf" */

/* Writes a number of bytes or nanoseconds for people ("1.5 MiB", "3.2 us"); returns buf. */
const char *wr_format_bytes(uint64_t bytes, char *buf, size_t size);
const char *wr_format_time(int64_t ns, char *buf, size_t size);

/* Unlimited values of wr_parse_bytes and wr_parse_time. */
#define WR_BYTES_INF UINT64_MAX
#define WR_TIME_INF  INT64_MAX

/* Levenshtein distance, for "did you mean"; strings longer than 63 characters count as far away. */
int wr_str_distance(const char *a, const char *b);

/* Writes a sorted list of numbers as ranges: {0,1,2,5} gives "0-2,5"; ends in "..." when cut. Returns buf. */
const char *wr_format_ranges(const int *sorted, size_t n, char *buf, size_t size);

/* Writes a text as the inside of a string in JSON: without its quotation marks. */
void wr_json_text(FILE *out, const char *text);

#endif
