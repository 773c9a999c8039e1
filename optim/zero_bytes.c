/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of a rank as bytes: a header, then for each part a record and its elements. What is given back may be from any number
 * of ranks; a part is put together from all records that have some of it.
 */
#include <weir/zero_state.h>

#include <string.h>

#include "base/compiler.h"
#include "base/error.h"
#include "optim/agree.h"
#include "optim/zero_offload.h"

enum { KIND = 32, FORMAT = 1 };

/* "weirZeRO" where bytes have the order of this machine. */
static const uint64_t magic = 0x4f52655a72696577u;

struct header {
    uint64_t magic, version, bytes; /* of all, with this */
    uint64_t check;                 /* of all that follows this number */
    uint64_t nrecords;
    weir_zero_counters counters;
};

/* Of a part. Stages of a pipeline number their units alike, so tensors are known by a hash of their names. */
struct record {
    uint64_t name, type, total, first, count;
    char kind[KIND];
};

static uint64_t name_of(const weir_zero_part *part)
{
    return wr_agree_hash(WR_AGREE_HASH, part->name, strlen(part->name));
}

static uint64_t padded(uint64_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

static uint64_t checksum(const void *data, uint64_t bytes)
{
    const unsigned char *p = data;
    uint64_t h = bytes, word;
    for (uint64_t i = 0; i + 8 <= bytes; i += 8) {
        memcpy(&word, p + i, 8);
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    return h;
}

static uint64_t check_of(const struct header *h)
{
    size_t skip = offsetof(struct header, nrecords);
    return checksum((const unsigned char *)h + skip, h->bytes - skip);
}

/* ---- to bytes ---- */

static bool record_of(const weir_zero *zero, uint64_t index, struct record *r, weir_zero_part *part)
{
    *part = (weir_zero_part){.size = sizeof *part};
    if (weir_zero_state_get(zero, index, part) != WEIR_OK || strlen(part->kind) >= KIND)
        return false;
    *r = (struct record){name_of(part), part->type, part->total, part->first, part->count, {0}};
    memcpy(r->kind, part->kind, strlen(part->kind));
    return true;
}

weir_status weir_zero_to_bytes(const weir_zero *zero, void *bytes, uint64_t size, uint64_t *needed)
{
    struct header h = {magic, FORMAT, sizeof h, 0, weir_zero_state_count(zero), {.size = sizeof h.counters}};
    struct record r;
    weir_zero_part part;
    weir_error err;
    if (!needed || zero->in_pass)
        return WEIR_ERR_INVALID;
    for (uint64_t i = 0; i < h.nrecords; i++) {
        if (!record_of(zero, i, &r, &part))
            return WEIR_ERR_INVALID;
        h.bytes += sizeof r + padded(r.count * weir_type_size((weir_type)r.type));
    }
    *needed = h.bytes;
    if (!bytes)
        return WEIR_OK;
    if (size < h.bytes)
        return WEIR_ERR_LIMIT;
    weir_zero_state_counters(zero, &h.counters);
    unsigned char *to = bytes;
    memset(to, 0, h.bytes);
    memcpy(to, &h, sizeof h);
    to += sizeof h;
    for (uint64_t i = 0; i < h.nrecords && record_of(zero, i, &r, &part); i++) {
        uint64_t n = r.count * weir_type_size((weir_type)r.type);
        memcpy(to, &r, sizeof r);
        weir_status status = wr_zero_array_read(zero, zero->parts[i].piece, zero->parts[i].state, 0, r.count, to + sizeof r, &err);
        if (status != WEIR_OK)
            return status;
        to += sizeof r + padded(n);
    }
    h.check = check_of(bytes);
    memcpy(bytes, &h, sizeof h);
    return WEIR_OK;
}

/* ---- from bytes ---- */

/* A walk over the records of all pieces of bytes. */
struct walk {
    const unsigned char *at, *end; /* what comes next, the end of all */
    uint64_t left;                 /* records of this piece that come */
};

/* The next record and its elements; false at the end. Only for what check_all() has accepted. */
static bool next(struct walk *w, struct record *r, const unsigned char **data)
{
    while (w->left == 0) {
        struct header h;
        if (w->at == w->end)
            return false;
        memcpy(&h, w->at, sizeof h);
        w->left = h.nrecords;
        w->at += sizeof h;
    }
    memcpy(r, w->at, sizeof *r);
    *data = w->at + sizeof *r;
    w->at += sizeof *r + padded(r->count * weir_type_size((weir_type)r->type));
    w->left--;
    return true;
}

/* Whether a piece's records are within it. */
static bool records_fit(const unsigned char *at, uint64_t left, uint64_t n)
{
    struct record r;
    for (; n > 0; n--) {
        if (left < sizeof r)
            return false;
        memcpy(&r, at, sizeof r);
        uint64_t size = r.type <= WEIR_FP64 ? weir_type_size((weir_type)r.type) : 0;
        if (!size || memchr(r.kind, 0, KIND) == NULL || r.count > left / size || r.first > r.total || r.count > r.total - r.first)
            return false;
        uint64_t all = sizeof r + padded(r.count * size);
        if (left < all)
            return false;
        at += all;
        left -= all;
    }
    return left == 0;
}

/* Checks everything that can be wrong with the bytes; the counters of all pieces are the same. */
static weir_status check_all(weir_zero *zero, const unsigned char *bytes, uint64_t size, weir_zero_counters *counters)
{
    uint64_t pieces = 0;
    for (uint64_t at = 0; at < size; pieces++) {
        struct header h;
        bool ok = size - at >= sizeof h;
        if (ok)
            memcpy(&h, bytes + at, sizeof h);
        ok = ok && h.magic == magic && h.version == FORMAT && h.bytes >= sizeof h && h.bytes <= size - at && h.bytes % 8 == 0 &&
             h.check == check_of((const void *)(bytes + at)) && records_fit(bytes + at + sizeof h, h.bytes - sizeof h, h.nrecords);
        if (!ok)
            return wr_zero_fail(zero, WEIR_ERR_PROTOCOL, "give what weir_zero_to_bytes() made, all of it",
                                "ZeRO engine: bytes from %llu on are no state of an engine, or were cut or altered", (unsigned long long)at);
        if (pieces && memcmp(counters, &h.counters, sizeof h.counters))
            return wr_zero_fail(zero, WEIR_ERR_MISMATCH, "take those of one step", "ZeRO engine: the bytes are of steps %llu and %llu",
                                (unsigned long long)counters->step, (unsigned long long)h.counters.step);
        *counters = h.counters;
        at += h.bytes;
    }
    return pieces ? WEIR_OK : wr_zero_fail(zero, WEIR_ERR_PROTOCOL, NULL, "ZeRO engine: there are no bytes to make a state of");
}

/* Takes what the records have of a part; false when some of it is missing, or cannot be written. Without `take` it only looks. */
static bool collect(weir_zero *zero, const unsigned char *bytes, uint64_t size, uint64_t index, const weir_zero_part *part, bool take)
{
    const struct wr_zero_part_ref *ref = &zero->parts[index];
    uint64_t name = name_of(part), at = part->first, end = part->first + part->count, width = weir_type_size((weir_type)part->type);
    bool found = true;
    while (at < end && found) {
        struct walk w = {bytes, bytes + size, 0};
        struct record r;
        const unsigned char *from;
        found = false;
        while (!found && next(&w, &r, &from))
            found = r.name == name && r.type == part->type && r.total == part->total && r.first <= at && at < r.first + r.count &&
                    !strcmp(r.kind, part->kind);
        if (!found)
            return false;
        uint64_t n = WR_MIN(r.first + r.count, end) - at;
        if (take && wr_zero_array_write(zero, ref->piece, ref->state, at - part->first, n, from + (at - r.first) * width, &zero->error) != WEIR_OK)
            return false;
        at += n;
    }
    return true;
}

static weir_status check_parts(weir_zero *zero, const unsigned char *bytes, uint64_t size)
{
    weir_zero_part part = {.size = sizeof part};
    for (uint64_t i = 0; i < zero->nparts; i++)
        if (weir_zero_state_get(zero, i, &part) != WEIR_OK || !collect(zero, bytes, size, i, &part, false))
            return wr_zero_fail(zero, WEIR_ERR_NOT_FOUND, "give those of all ranks of the same model",
                                "ZeRO engine: the bytes have not all of \"%s\" of %s", part.kind, part.name);
    return WEIR_OK;
}

weir_status weir_zero_from_bytes(weir_zero *zero, const void *bytes, uint64_t size)
{
    weir_zero_counters counters = {.size = sizeof counters};
    weir_zero_part part = {.size = sizeof part};
    weir_error err = {.status = WEIR_OK};
    weir_status status = weir_zero_flush(zero);
    if (status == WEIR_OK)
        status = wr_zero_quiet(zero);
    if (status != WEIR_OK)
        return status;
    status = bytes && (uintptr_t)bytes % 8 == 0 ? check_all(zero, bytes, size, &counters)
                                                : wr_zero_fail(zero, WEIR_ERR_INVALID, NULL, "ZeRO engine: no bytes, or not aligned to 8");
    if (status == WEIR_OK)
        status = check_parts(zero, bytes, size);
    weir_status all = wr_agree(zero->all, status, wr_agree_hash(WR_AGREE_HASH, &counters, sizeof counters), "state of bytes", &err);
    if (all != WEIR_OK && status == WEIR_OK)
        zero->error = err;
    for (uint64_t i = 0; all == WEIR_OK && i < zero->nparts; i++)
        if (weir_zero_state_get(zero, i, &part) == WEIR_OK && !collect(zero, bytes, size, i, &part, true))
            all = zero->error.status;
    return all == WEIR_OK ? weir_zero_state_loaded(zero, &counters) : all;
}
