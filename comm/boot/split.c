/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/boot/split.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "comm/boot/siphash.h"

#define VALUE_MAX ((size_t)1 << 26)

/* The letters that every PMI takes in a value: neither space nor = nor ; */
static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static void encode(struct wr_buf *out, const uint8_t *data, size_t len)
{
    for (size_t i = 0; i < len; i += 3) {
        char quad[4];
        size_t n = WR_MIN(len - i, (size_t)3);
        uint32_t bits = (uint32_t)data[i] << 16 | (n > 1 ? (uint32_t)data[i + 1] << 8 : 0) | (n > 2 ? data[i + 2] : 0u);
        for (int k = 0; k < 4; k++)
            quad[k] = letters[bits >> (18 - 6 * k) & 63];
        wr_buf_add(out, quad, n + 1);
    }
}

static int letter_value(char c)
{
    const char *at = c ? strchr(letters, c) : NULL;
    return at ? (int)(at - letters) : -1;
}

/* Decodes exactly `len` bytes from exactly as many letters as they need. */
static int decode(const char *text, size_t text_len, uint8_t *out, size_t len)
{
    size_t used = 0;
    for (size_t i = 0; i < len; i += 3) {
        size_t n = WR_MIN(len - i, (size_t)3);
        uint32_t bits = 0;
        if (text_len - used < n + 1)
            return 0;
        for (size_t k = 0; k < 4; k++) {
            int value = k <= n ? letter_value(text[used + k]) : 0;
            if (value < 0)
                return 0;
            bits = bits << 6 | (uint32_t)value;
        }
        used += n + 1;
        for (size_t k = 0; k < n; k++)
            out[i + k] = (uint8_t)(bits >> (16 - 8 * k));
    }
    return used == text_len;
}

/* The store's key of piece `piece`; a key that would be too long is replaced by its hash. */
static void piece_key(const struct wr_split *s, int rank, const char *key, size_t piece, char *out, size_t size)
{
    static const uint8_t no_secret[16] = {0};
    uint8_t hash[WR_SIPHASH_BYTES];
    int len = snprintf(out, size, "w%" PRIu32 ".%d.%s.%zu", s->generation, rank, key, piece);
    if (len >= 0 && (size_t)len <= s->key_max && (size_t)len < size)
        return;
    wr_siphash128(no_secret, key, strlen(key), hash);
    len = snprintf(out, size, "w%" PRIu32 ".%d.", s->generation, rank);
    for (int i = 0; i < 8; i++)
        len += snprintf(out + len, size - (size_t)len, "%02x", hash[i]);
    snprintf(out + len, size - (size_t)len, ".%zu", piece);
}

weir_status wr_split_put(const struct wr_split *s, int rank, const char *key, const void *value, size_t len, weir_error *err)
{
    struct wr_buf text = {0};
    char name[160];
    weir_status status = WEIR_OK;
    if (len > VALUE_MAX)
        return wr_error_set(err, WEIR_ERR_LIMIT, "put a shorter value", "a bootstrap value of %zu bytes; at most %zu are possible",
                            len, VALUE_MAX);
    char *piece = malloc(s->value_max + 1);
    wr_buf_printf(&text, "%zu.", len);
    encode(&text, value, len);
    if (!piece || text.failed)
        status = wr_error_memory(err, text.len, "a bootstrap value");
    for (size_t at = 0, n = 0; status == WEIR_OK && at < text.len; at += s->value_max, n++) {
        size_t take = WR_MIN(text.len - at, s->value_max);
        memcpy(piece, text.data + at, take);
        piece[take] = 0;
        piece_key(s, rank, key, n, name, sizeof name);
        status = s->put(s->arg, name, piece, err);
    }
    free(piece);
    wr_buf_free(&text);
    return status;
}

/* The length that stands before the first piece, and how many characters that took; 0 when malformed. */
static size_t read_length(const char *text, size_t *len)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text || *end != '.' || value > VALUE_MAX)
        return 0;
    *len = (size_t)value;
    return (size_t)(end - text) + 1;
}

weir_status wr_split_get(const struct wr_split *s, int rank, const char *key, void **value, size_t *len, weir_error *err)
{
    struct wr_buf text = {0};
    char name[160];
    size_t n = 0, total = 1, bytes = 0, head = 0;
    uint8_t *out = NULL;
    weir_status status = WEIR_OK;
    char *piece = malloc(s->value_max + 1);
    if (!piece)
        return wr_error_memory(err, s->value_max, "a bootstrap value");
    for (; text.len < total; n++) {
        piece_key(s, rank, key, n, name, sizeof name);
        status = s->get(s->arg, rank, name, piece, s->value_max + 1, err);
        if (status != WEIR_OK)
            goto free_text;
        if (!n && (head = read_length(piece, &bytes)) > 0)
            total = head + bytes / 3 * 4 + (bytes % 3 ? bytes % 3 + 1 : 0);
        if (!head || !piece[0])
            goto malformed;
        wr_buf_str(&text, piece);
    }
    out = malloc(bytes ? bytes : 1);
    if (!out || text.failed) {
        status = wr_error_memory(err, bytes, "a bootstrap value");
        goto free_text;
    }
    if (!decode(text.data + head, text.len - head, out, bytes))
        goto malformed;
    *value = out;
    *len = bytes;
    out = NULL;
    goto free_text;
malformed:
    status = wr_error_set(err, WEIR_ERR_PROTOCOL, "use the same version of weir everywhere",
                          "the launcher holds a malformed value of rank %d under '%s'", rank, key);
free_text:
    free(out);
    free(piece);
    wr_buf_free(&text);
    return status;
}
