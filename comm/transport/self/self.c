/* SPDX-License-Identifier: BSD-3-Clause */
/* The transport of a rank to itself: copies, and a bounded queue of messages and signals that progress() delivers. */
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/error.h"
#include "base/list.h"
#include "comm/transport/components.h"

enum { QUEUE = 65536, MAX_AM = 8192, SIGNAL = 255 /* as a message id */, KEY_MAGIC = 0x73656c66 };

/* A record of the queue stands at a multiple of 16 bytes; one with `len` SKIP means: go on at the start. */
#define SKIP UINT32_MAX

struct record {
    uint32_t len, id;
    uint64_t reserved;
};

struct wr_region {
    struct wr_list link;
    char *addr;
    uint64_t len, generation;
};

struct wr_rkey {
    char *addr;
    uint64_t len, generation;
};

struct key {
    uint64_t magic, addr, len, generation;
};

struct self {
    struct wr_transport base;
    struct wr_list regions;
    uint64_t generation;
    char *queue;
    uint64_t head, tail; /* bytes ever read and written, padding included */
};

static struct self *self_of(const struct wr_transport *t)
{
    return WR_CONTAINER_OF(t, struct self, base);
}

static weir_status self_open(const struct wr_transport_params *params, struct wr_transport **out, weir_error *err)
{
    struct self *s = calloc(1, sizeof *s);
    if (!s || !(s->queue = malloc(QUEUE))) {
        free(s);
        return wr_error_memory(err, sizeof *s + QUEUE, "the self transport");
    }
    s->base.params = *params;
    s->base.ops = &wr_self_ops;
    s->base.caps = (struct wr_transport_caps){.put = true,
                                              .get = true,
                                              .mapped = true,
                                              .ordered = true,
                                              .detects_peer_loss = true,
                                              .signal_kind = WR_SIGNAL_IMMEDIATE,
                                              .immediate_bytes = 4,
                                              .max_put = UINT64_MAX,
                                              .max_am = MAX_AM,
                                              .inject = SIZE_MAX,
                                              .rails = 1,
                                              .provider = "memory",
                                              .device = ""};
    wr_list_init(&s->regions);
    *out = &s->base;
    return WEIR_OK;
}

static weir_status self_address(struct wr_transport *t, void *buf, size_t *len, weir_error *err)
{
    int32_t rank = t->params.rank;
    if (*len < sizeof rank)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "%zu bytes are too few for an address", *len);
    memcpy(buf, &rank, sizeof rank);
    *len = sizeof rank;
    return WEIR_OK;
}

static void self_close(struct wr_transport *t)
{
    struct self *s = self_of(t);
    while (!wr_list_empty(&s->regions)) {
        struct wr_region *r = wr_list_first(&s->regions, struct wr_region, link);
        wr_list_remove(&r->link);
        free(r);
    }
    free(s->queue);
    free(s);
}

static bool self_reaches(const struct wr_transport *t, int peer)
{
    return peer == t->params.rank;
}

static weir_status wrong_rank(const struct wr_transport *t, int peer, weir_error *err)
{
    return wr_error_set(err, WEIR_ERR_INVALID, NULL, "rank %d is not this rank (%d)", peer, t->params.rank);
}

static weir_status self_connect(struct wr_transport *t, int peer, weir_error *err)
{
    return self_reaches(t, peer) ? WEIR_OK : wrong_rank(t, peer, err);
}

static weir_status self_reg(struct wr_transport *t, void *addr, uint64_t len, unsigned flags, struct wr_region **region,
                            weir_error *err)
{
    struct self *s = self_of(t);
    struct wr_region *r = calloc(1, sizeof *r);
    (void)flags;
    if (!r)
        return wr_error_memory(err, sizeof *r, "a region");
    r->addr = addr;
    r->len = len;
    r->generation = ++s->generation;
    wr_list_push_back(&s->regions, &r->link);
    *region = r;
    return WEIR_OK;
}

static void self_dereg(struct wr_transport *t, struct wr_region *region)
{
    (void)t;
    wr_list_remove(&region->link);
    free(region);
}

static weir_status self_key_export(struct wr_transport *t, struct wr_region *r, void *buf, size_t *len, weir_error *err)
{
    struct key key = {KEY_MAGIC, (uintptr_t)r->addr, r->len, r->generation};
    (void)t;
    if (*len < sizeof key)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "%zu bytes are too few for a key of %zu", *len, sizeof key);
    memcpy(buf, &key, sizeof key);
    *len = sizeof key;
    return WEIR_OK;
}

static weir_status self_key_import(struct wr_transport *t, int peer, const void *data, size_t len, struct wr_rkey **rkey,
                                   weir_error *err)
{
    struct key key = {0};
    if (!self_reaches(t, peer))
        return wrong_rank(t, peer, err);
    if (len == sizeof key)
        memcpy(&key, data, sizeof key);
    if (key.magic != KEY_MAGIC)
        return wr_error_set(err, WEIR_ERR_PROTOCOL, NULL, "what came as a key of this rank is none (%zu bytes)", len);
    struct wr_rkey *k = malloc(sizeof *k);
    if (!k)
        return wr_error_memory(err, sizeof *k, "a key");
    *k = (struct wr_rkey){(char *)(uintptr_t)key.addr, key.len, key.generation};
    *rkey = k;
    return WEIR_OK;
}

static void self_key_close(struct wr_transport *t, struct wr_rkey *rkey)
{
    (void)t;
    free(rkey);
}

static weir_status check(struct wr_transport *t, int peer, const struct wr_rkey *k, uint64_t offset, uint64_t len,
                         weir_error *err)
{
    struct wr_region *r;
    if (WR_UNLIKELY(!self_reaches(t, peer)))
        return wrong_rank(t, peer, err);
    if (!len)
        return WEIR_OK;
    if (!k || offset > k->len || len > k->len - offset)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "bytes %llu to %llu do not lie in the region", (unsigned long long)offset,
                            (unsigned long long)(offset + len));
    wr_list_for_each(r, &self_of(t)->regions, link) {
        if (r->generation == k->generation)
            return WEIR_OK;
    }
    return wr_error_set(err, WEIR_ERR_STALE, "exchange keys again after memory was freed or deregistered",
                        "the region of this rank that the key names is gone");
}

/* Appends a record made of two pieces. */
static weir_status enqueue(struct self *s, uint32_t id, const void *a, size_t alen, const void *b, size_t blen)
{
    size_t len = alen + blen, room = (sizeof(struct record) + len + 15) & ~(size_t)15;
    uint64_t at = s->tail % QUEUE, pad = at + room > QUEUE ? QUEUE - at : 0;
    struct record head = {(uint32_t)len, id, 0}, skip = {SKIP, 0, 0};
    if (s->tail + pad + room - s->head > QUEUE)
        return WEIR_ERR_BUSY;
    if (pad) {
        memcpy(s->queue + at, &skip, sizeof skip);
        at = 0;
    }
    memcpy(s->queue + at, &head, sizeof head);
    if (alen)
        memcpy(s->queue + at + sizeof head, a, alen);
    if (blen)
        memcpy(s->queue + at + sizeof head + alen, b, blen);
    s->tail += pad + room;
    return WEIR_OK;
}

static weir_status self_put_signal(struct wr_transport *t, int peer, const void *src, struct wr_region *region, uint64_t len,
                                   struct wr_rkey *rkey, uint64_t offset, uint32_t slot, unsigned flags, struct wr_op *op,
                                   weir_error *err)
{
    weir_status status = check(t, peer, rkey, offset, len, err);
    (void)region, (void)flags, (void)op;
    if (status != WEIR_OK)
        return status;
    status = enqueue(self_of(t), SIGNAL, &slot, sizeof slot, NULL, 0);
    if (status == WEIR_OK && len)
        memmove(rkey->addr + offset, src, len); /* the signal is counted later, in progress() */
    return status;
}

static weir_status self_put(struct wr_transport *t, int peer, const void *src, struct wr_region *region, uint64_t len,
                            struct wr_rkey *rkey, uint64_t offset, unsigned flags, struct wr_op *op, weir_error *err)
{
    weir_status status = check(t, peer, rkey, offset, len, err);
    (void)region, (void)flags, (void)op;
    if (status == WEIR_OK && len)
        memmove(rkey->addr + offset, src, len);
    return status;
}

static weir_status self_get(struct wr_transport *t, int peer, void *dst, struct wr_region *region, uint64_t len,
                            struct wr_rkey *rkey, uint64_t offset, struct wr_op *op, weir_error *err)
{
    weir_status status = check(t, peer, rkey, offset, len, err);
    (void)region, (void)op;
    if (status == WEIR_OK && len)
        memmove(dst, rkey->addr + offset, len);
    return status;
}

static weir_status self_am(struct wr_transport *t, int peer, unsigned id, const void *header, size_t header_len,
                           const void *payload, size_t len, unsigned flags, weir_error *err)
{
    (void)flags;
    if (!self_reaches(t, peer))
        return wrong_rank(t, peer, err);
    if (id >= WR_AM_HANDLERS || header_len + len > MAX_AM)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "message %u of %zu bytes: at most %d", id, header_len + len, MAX_AM);
    return enqueue(self_of(t), id, header, header_len, payload, len);
}

static weir_status self_flush(struct wr_transport *t, int peer, struct wr_op *op, weir_error *err)
{
    (void)op;
    return peer < 0 || self_reaches(t, peer) ? WEIR_OK : wrong_rank(t, peer, err);
}

static void deliver(struct self *s, const struct record *r, const char *data)
{
    const struct wr_transport_params *p = &s->base.params;
    uint32_t slot;
    if (r->id == SIGNAL) {
        memcpy(&slot, data, sizeof slot);
        if (slot < p->nsignals)
            p->signals[slot]++;
        else
            wr_error(p->log, TRANSPORT, "self: signal %u of %u: dropped", slot, p->nsignals);
    } else if (p->am[r->id]) {
        p->am[r->id](p->am_arg, p->rank, data, r->len);
    } else {
        wr_error(p->log, TRANSPORT, "self: a message for handler %u, which there is not: dropped", r->id);
    }
}

static int self_progress(struct wr_transport *t)
{
    struct self *s = self_of(t);
    uint64_t end = s->tail; /* what handlers send comes next time */
    int n = 0;
    while (s->head < end) {
        uint64_t at = s->head % QUEUE;
        struct record r;
        memcpy(&r, s->queue + at, sizeof r);
        if (r.len == SKIP) {
            s->head += QUEUE - at;
            continue;
        }
        deliver(s, &r, s->queue + at + sizeof r);
        s->head += (sizeof r + r.len + 15) & ~(size_t)15;
        n++;
    }
    return n;
}

static bool self_arm(struct wr_transport *t)
{
    return self_of(t)->head == self_of(t)->tail;
}

static void self_disarm(struct wr_transport *t)
{
    (void)t;
}

const struct wr_transport_ops wr_self_ops = {
    .name = "self",
    .open = self_open,
    .address = self_address,
    .close = self_close,
    .reaches = self_reaches,
    .connect = self_connect,
    .reg = self_reg,
    .dereg = self_dereg,
    .key_export = self_key_export,
    .key_import = self_key_import,
    .key_close = self_key_close,
    .put = self_put,
    .put_signal = self_put_signal,
    .get = self_get,
    .am = self_am,
    .flush = self_flush,
    .progress = self_progress,
    .arm = self_arm,
    .disarm = self_disarm,
};
