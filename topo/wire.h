/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The encoding of cards: unsigned numbers in LEB128 (seven bits a byte, least significant first), texts and blobs with
 * their length in front. The reader checks every length; after the first fault it returns zeros and stays `bad`, so that
 * a decoder tests once in the end (and in loops).
 */
#ifndef WR_TOPO_WIRE_H
#define WR_TOPO_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/str.h"

static inline void wr_put_u(struct wr_buf *buf, uint64_t value)
{
    uint8_t bytes[10];
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[n++] = (uint8_t)(value | 0x80);
    bytes[n++] = (uint8_t)value;
    wr_buf_add(buf, bytes, n);
}

/* A number that is -1 or more. */
static inline void wr_put_index(struct wr_buf *buf, int index)
{
    wr_put_u(buf, (uint64_t)((int64_t)index + 1));
}

static inline void wr_put_blob(struct wr_buf *buf, const void *data, size_t len)
{
    wr_put_u(buf, len);
    wr_buf_add(buf, data, len);
}

static inline void wr_put_text(struct wr_buf *buf, const char *text)
{
    wr_put_blob(buf, text, strlen(text));
}

struct wr_reader {
    const uint8_t *at, *end;
    bool bad;
};

static inline struct wr_reader wr_reader(const void *data, size_t len)
{
    const uint8_t *bytes = data;
    struct wr_reader reader = {bytes, len ? bytes + len : bytes, false};
    return reader;
}

static inline size_t wr_get_left(const struct wr_reader *reader)
{
    return (size_t)(reader->end - reader->at);
}

/* A number of at most `max`. */
static inline uint64_t wr_get_u(struct wr_reader *reader, uint64_t max)
{
    uint64_t value = 0;
    for (unsigned shift = 0; !reader->bad && reader->at < reader->end && shift < 64; shift += 7) {
        uint8_t byte = *reader->at++;
        if (shift == 63 && byte > 1)
            break;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            if (value > max)
                break;
            return value;
        }
    }
    reader->bad = true;
    return 0;
}

/* -1..max */
static inline int wr_get_index(struct wr_reader *reader, int max)
{
    return (int)((int64_t)wr_get_u(reader, (uint64_t)((int64_t)max + 1)) - 1);
}

/* `len` bytes in place, or NULL. */
static inline const void *wr_get_raw(struct wr_reader *reader, size_t len)
{
    const void *data = reader->at;
    if (reader->bad || len > wr_get_left(reader)) {
        reader->bad = true;
        return NULL;
    }
    reader->at += len;
    return data;
}

/* A blob in place: *len is 0 when bad. */
static inline const void *wr_get_blob(struct wr_reader *reader, size_t *len)
{
    *len = (size_t)wr_get_u(reader, wr_get_left(reader));
    return wr_get_raw(reader, *len);
}

/* A text without control characters that fits into dst with its terminator; "" when bad. */
static inline void wr_get_text(struct wr_reader *reader, char *dst, size_t size)
{
    size_t len;
    const char *data = wr_get_blob(reader, &len);
    dst[0] = '\0';
    if (reader->bad)
        return;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)data[i] < 0x20 || data[i] == 0x7f)
            reader->bad = true;
    if (len >= size)
        reader->bad = true;
    if (reader->bad)
        return;
    memcpy(dst, data, len);
    dst[len] = '\0';
}

#endif
