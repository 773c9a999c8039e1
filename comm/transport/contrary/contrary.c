/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/transport/contrary/contrary.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* The FI_MR_ bits that the layer stands for: LOCAL, ALLOCATED, PROV_KEY, ENDPOINT. */
enum { CONTRARY_MODES = 1 << 2 | 1 << 5 | 1 << 6 | 1 << 9 };

struct key_head {
    uint64_t nonce, sum;
};

static uint64_t key_sum(uint64_t nonce, const unsigned char *key, size_t len)
{
    uint64_t h = nonce ^ 0xcbf29ce484222325;
    for (size_t i = 0; i < len; i++)
        h = (h ^ key[i]) * 0x100000001b3; /* FNV-1a */
    return h;
}

static weir_status contrary_reg(struct wr_transport *t, void *addr, uint64_t len, unsigned flags,
                                struct wr_region **region, weir_error *err)
{
    struct wr_region *r = calloc(1, sizeof *r);
    if (!r)
        return wr_error_memory(err, sizeof *r, "a region");
    weir_status status = wr_layer_reg(t, addr, len, flags, &r->lower, err);
    if (status != WEIR_OK) {
        free(r);
        return status;
    }
    r->addr = addr;
    r->len = len;
    *region = r;
    return WEIR_OK;
}

static void contrary_dereg(struct wr_transport *t, struct wr_region *region)
{
    wr_layer_dereg(t, region->lower);
    free(region);
}

static weir_status contrary_key_export(struct wr_transport *t, struct wr_region *region, void *buf, size_t *len,
                                       weir_error *err)
{
    struct key_head head;
    if (*len < sizeof head)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "a key needs more than %zu bytes", *len);
    size_t lower_len = *len - sizeof head;
    unsigned char *lower = (unsigned char *)buf + sizeof head;
    weir_status status = wr_layer_key_export(t, region->lower, lower, &lower_len, err);
    if (status != WEIR_OK)
        return status;
    head.nonce = wr_layer_random(&contrary_of(t)->random);
    head.sum = key_sum(head.nonce, lower, lower_len);
    memcpy(buf, &head, sizeof head);
    *len = sizeof head + lower_len;
    return WEIR_OK;
}

static weir_status contrary_key_import(struct wr_transport *t, int peer, const void *key, size_t len,
                                       struct wr_rkey **rkey, weir_error *err)
{
    struct key_head head = {0};
    const unsigned char *lower = (const unsigned char *)key + sizeof head;
    if (len > sizeof head)
        memcpy(&head, key, sizeof head);
    if (len <= sizeof head || head.sum != key_sum(head.nonce, lower, len - sizeof head))
        return wr_error_set(err, WEIR_ERR_PROTOCOL, NULL, "what is to be rank %d's key is none", peer);
    return wr_layer_key_import(t, peer, lower, len - sizeof head, rkey, err);
}

/* Memory above the inject size has to lie in a registered region. */
static weir_status check_local(const void *p, uint64_t len, const struct wr_region *r, uint64_t free_size,
                               weir_error *err)
{
    if (!r && len <= free_size)
        return WEIR_OK;
    const char *c = p;
    if (!r || c < r->addr || (uint64_t)(c - r->addr) > r->len || len > r->len - (uint64_t)(c - r->addr))
        return wr_error_set(err, WEIR_ERR_INVALID, "give the region that covers local memory (caps.needs_local_region)",
                            "%llu bytes of local memory are not in the region that was given", (unsigned long long)len);
    return WEIR_OK;
}

/* What comes before every operation: BUSY now and then, fences. */
static weir_status before(struct contrary *c, int peer, bool fence)
{
    if (contrary_chance(c, 4))
        return WEIR_ERR_BUSY;
    return fence && !wr_contrary_release(c, peer) ? WEIR_ERR_BUSY : WEIR_OK;
}

static weir_status contrary_put(struct wr_transport *t, int peer, const void *src, struct wr_region *region,
                                uint64_t len, struct wr_rkey *rkey, uint64_t offset, unsigned flags, struct wr_op *op,
                                weir_error *err)
{
    struct contrary *c = contrary_of(t);
    weir_status status = check_local(src, len, region, CONTRARY_INJECT, err);
    if (status == WEIR_OK)
        status = before(c, peer, flags & WR_OP_FENCE);
    if (status != WEIR_OK)
        return status;
    struct wr_region *lower = region ? region->lower : NULL;
    bool passes = flags & WR_OP_FENCE || contrary_chance(c, 8);
    if (passes && len > CONTRARY_INJECT)
        return t->lower->ops->put(t->lower, peer, src, lower, len, rkey, offset, flags, op, err);
    struct job model = {.user = op,
                        .peer = peer,
                        .src = src,
                        .region = lower,
                        .len = len,
                        .rkey = rkey,
                        .offset = offset,
                        .fence = flags & WR_OP_FENCE};
    return wr_contrary_hold(c, &model, err);
}

static weir_status contrary_put_signal(struct wr_transport *t, int peer, const void *src, struct wr_region *region,
                                       uint64_t len, struct wr_rkey *rkey, uint64_t offset, uint32_t slot,
                                       unsigned flags, struct wr_op *op, weir_error *err)
{
    struct contrary *c = contrary_of(t);
    weir_status status = check_local(src, len, region, CONTRARY_INJECT, err);
    if (status != WEIR_OK)
        return status;
    if (slot >= WR_SIGNAL_MAX)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "signal slot %u does not fit an immediate of 4 bytes", slot);
    if (c->signals >= CONTRARY_SIGNALS)
        return WEIR_ERR_BUSY;
    status = before(c, peer, flags & WR_OP_FENCE);
    if (status != WEIR_OK)
        return status;
    struct wr_region *lower = region ? region->lower : NULL;
    c->signals++;
    if (!len)
        return t->lower->ops->put_signal(t->lower, peer, NULL, NULL, 0, NULL, 0, slot, flags, op, err);
    bool passes = flags & WR_OP_FENCE || contrary_chance(c, 8);
    if (passes && len > CONTRARY_INJECT)
        return t->lower->ops->put_signal(t->lower, peer, src, lower, len, rkey, offset, slot, flags, op, err);
    struct job model = {.user = op,
                        .peer = peer,
                        .src = src,
                        .region = lower,
                        .len = len,
                        .rkey = rkey,
                        .offset = offset,
                        .signal = true,
                        .slot = slot,
                        .fence = flags & WR_OP_FENCE};
    return wr_contrary_hold(c, &model, err);
}

static weir_status contrary_get(struct wr_transport *t, int peer, void *dst, struct wr_region *region, uint64_t len,
                                struct wr_rkey *rkey, uint64_t offset, struct wr_op *op, weir_error *err)
{
    weir_status status = check_local(dst, len, region, 0, err);
    if (status == WEIR_OK)
        status = before(contrary_of(t), peer, false);
    if (status != WEIR_OK)
        return status;
    return t->lower->ops->get(t->lower, peer, dst, region ? region->lower : NULL, len, rkey, offset, op, err);
}

static weir_status contrary_am(struct wr_transport *t, int peer, unsigned id, const void *header, size_t header_len,
                               const void *payload, size_t len, unsigned flags, weir_error *err)
{
    if (header_len > t->caps.max_am || len > t->caps.max_am - header_len)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "a message of %zu + %zu bytes; %zu fit", header_len, len,
                            t->caps.max_am);
    weir_status status = before(contrary_of(t), peer, flags & WR_OP_FENCE);
    if (status != WEIR_OK)
        return status;
    return t->lower->ops->am(t->lower, peer, id, header, header_len, payload, len, flags, err);
}

static weir_status contrary_am_long(struct wr_transport *t, int peer, unsigned id, const void *header, size_t header_len,
                                    const void *src, struct wr_region *region, size_t len, struct wr_op *op, weir_error *err)
{
    weir_status status = check_local(src, len, region, 0, err);
    if (status == WEIR_OK)
        status = before(contrary_of(t), peer, false);
    if (status != WEIR_OK)
        return status;
    return t->lower->ops->am_long(t->lower, peer, id, header, header_len, src, region ? region->lower : NULL, len, op, err);
}

/* Not much longer than the others: what is sent is cut into many. */
static size_t contrary_am_long_max(const struct wr_transport *t, int peer)
{
    return WR_MIN(wr_layer_am_long_max(t, peer), (size_t)CONTRARY_MAX_LONG);
}

static weir_status contrary_flush(struct wr_transport *t, int peer, struct wr_op *op, weir_error *err)
{
    weir_status status = before(contrary_of(t), peer, true);
    return status == WEIR_OK ? t->lower->ops->flush(t->lower, peer, op, err) : status;
}

static weir_status contrary_connect(struct wr_transport *t, int peer, weir_error *err)
{
    struct contrary *c = contrary_of(t);
    if (t->lower->caps.needs_local_region && !c->copies_region) {
        weir_status status =
            wr_layer_reg(t, c->copies, (uint64_t)CONTRARY_JOBS * CONTRARY_COPY, 0, &c->copies_region, err);
        if (status != WEIR_OK)
            return status;
    }
    return wr_layer_connect(t, peer, err);
}

static int contrary_progress(struct wr_transport *t)
{
    struct contrary *c = contrary_of(t);
    int n = wr_layer_progress(t);
    c->signals = 0;
    return n + wr_contrary_turn(c);
}

static bool contrary_arm(struct wr_transport *t)
{
    struct contrary *c = contrary_of(t);
    return wr_list_empty(&c->held) && !c->user_waits && wr_layer_arm(t);
}

static void contrary_close(struct wr_transport *t)
{
    struct contrary *c = contrary_of(t);
    if (c->copies_region)
        wr_layer_dereg(t, c->copies_region);
    t->lower->ops->close(t->lower);
    wr_pool_destroy(&c->jobs);
    free(c->copies);
    free(c);
}

static const struct wr_transport_ops contrary_ops = {
    .name = "contrary",
    .address = wr_layer_address,
    .start = wr_layer_start,
    .close = contrary_close,
    .reaches = wr_layer_reaches,
    .connect = contrary_connect,
    .reg = contrary_reg,
    .dereg = contrary_dereg,
    .key_export = contrary_key_export,
    .key_import = contrary_key_import,
    .key_close = wr_layer_key_close,
    .put = contrary_put,
    .put_signal = contrary_put_signal,
    .get = contrary_get,
    .am = contrary_am,
    .am_long = contrary_am_long,
    .am_long_max = contrary_am_long_max,
    .flush = contrary_flush,
    .progress = contrary_progress,
    .wait_fd = wr_layer_wait_fd,
    .arm = contrary_arm,
    .disarm = wr_layer_disarm,
};

weir_status wr_contrary_wrap(struct wr_transport *lower, uint64_t seed, struct wr_transport **t, weir_error *err)
{
    struct contrary *c = calloc(1, sizeof *c);
    if (!c)
        return wr_error_memory(err, sizeof *c, "the contrary layer");
    wr_layer_init(&c->base, &contrary_ops, lower);
    wr_list_init(&c->held);
    wr_list_init(&c->flying);
    c->random = seed * 1000003 + (uint64_t)lower->params.rank;
    wr_pool_init(&c->jobs, sizeof(struct job), 0, CONTRARY_JOBS, CONTRARY_JOBS);
    weir_status status = wr_pool_reserve(&c->jobs, CONTRARY_JOBS, err);
    if (status == WEIR_OK && !(c->copies = calloc(CONTRARY_JOBS, CONTRARY_COPY)))
        status = wr_error_memory(err, CONTRARY_JOBS * CONTRARY_COPY, "copies of the contrary layer");
    if (status != WEIR_OK) {
        wr_pool_destroy(&c->jobs);
        free(c);
        return status;
    }
    struct wr_transport_caps *caps = &c->base.caps;
    caps->mapped = false;
    caps->ordered = false;
    caps->needs_local_region = true;
    caps->signal_kind = WR_SIGNAL_IMMEDIATE;
    caps->immediate_bytes = 4;
    caps->max_am = CONTRARY_MAX_AM;
    caps->inject = CONTRARY_INJECT;
    caps->max_put = CONTRARY_PIECE;
    caps->memory_modes = CONTRARY_MODES;
    *t = &c->base;
    return WEIR_OK;
}
