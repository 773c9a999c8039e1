/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fault layer: carries out the script of script.h. Every operation is accepted, met by the rules once, and kept in
 * a queue while it is delayed or the transport below is busy; the queue keeps what transport.h promises, so that a
 * delay alone never breaks a correct program: a fenced operation and a flush wait for earlier puts that are held, and
 * messages of a pair stay in order. What arrives is not touched: a dead peer's messages still come.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/list.h"
#include "base/pool.h"
#include "comm/transport/fault/script.h"
#include "comm/transport/layer.h"

enum { FAULT_RECORDS = 2048, FAULT_MESSAGES = 128, FAULT_MAX_AM = 4096 };

struct fault {
    struct wr_transport base;
    struct fault_script script;
    uint64_t random;
    struct wr_pool records, messages;
    struct wr_list held;
};

struct record {
    struct wr_list link; /* in fault.held until every copy has been started */
    struct wr_op op;
    struct wr_op *user;
    struct fault *f;
    enum fault_op kind;
    int64_t release;
    unsigned copies, pending; /* still to start; started and not complete */
    weir_status status;
    int peer;
    void *local; /* source, destination, or the copy of a message */
    struct wr_region *region;
    uint64_t len, offset;
    struct wr_rkey *rkey;
    uint32_t slot;
    unsigned flags, id;
    bool is_long; /* a message whose payload stays the user's */
    size_t header_len;
    unsigned char header[WR_AM_LONG_HEADER];
};

/* Whether the bytes of an operation are kept here. */
static bool is_copied(const struct record *r)
{
    return r->kind == FAULT_AM && !r->is_long;
}

static struct fault *fault_of(struct wr_transport *t)
{
    return (struct fault *)t;
}

static bool dead(const struct fault *f, int peer)
{
    for (unsigned i = 0; i < f->script.nrules; i++) {
        const struct fault_rule *r = &f->script.rule[i];
        if (r->kind == FAULT_DEAD && r->peer == peer && r->seen >= r->number)
            return true;
    }
    return false;
}

static weir_status lost(int peer, weir_error *err)
{
    wr_error_set(err, WEIR_ERR_PEER_LOST, NULL, "rank %d is lost (WEIR_FAULT says so)", peer);
    wr_error_at(err, peer, NULL);
    return WEIR_ERR_PEER_LOST;
}

static bool draw(struct fault *f, double probability)
{
    return (double)(wr_layer_random(&f->random) >> 11) * 0x1p-53 < probability;
}

/* Ends a record whose copies have all been started and are complete. */
static void record_end(struct record *r)
{
    struct fault *f = r->f;
    struct wr_op *user = r->user;
    weir_status status = r->peer >= 0 && dead(f, r->peer) ? WEIR_ERR_PEER_LOST : r->status;
    wr_list_remove(&r->link);
    if (is_copied(r) && r->local)
        wr_pool_put(&f->messages, r->local);
    wr_pool_put(&f->records, r);
    if (user)
        user->done(user, status);
}

static void copy_done(struct wr_op *op, weir_status status)
{
    struct record *r = WR_CONTAINER_OF(op, struct record, op);
    if (status != WEIR_OK && r->status == WEIR_OK)
        r->status = status;
    if (!--r->pending && !r->copies)
        record_end(r);
}

static weir_status start_copy(struct record *r, weir_error *err)
{
    struct wr_transport *l = r->f->base.lower;
    switch (r->kind) {
    case FAULT_PUT:
        return l->ops->put(l, r->peer, r->local, r->region, r->len, r->rkey, r->offset, r->flags, &r->op, err);
    case FAULT_SIGNAL:
        return l->ops->put_signal(l, r->peer, r->local, r->region, r->len, r->rkey, r->offset, r->slot, r->flags,
                                  &r->op, err);
    case FAULT_GET:
        return l->ops->get(l, r->peer, r->local, r->region, r->len, r->rkey, r->offset, &r->op, err);
    case FAULT_AM:
        if (r->is_long)
            return l->ops->am_long(l, r->peer, r->id, r->header, r->header_len, r->local, r->region, r->len, &r->op, err);
        return l->ops->am(l, r->peer, r->id, r->local, r->len, NULL, 0, r->flags, err);
    default:
        return l->ops->flush(l, r->peer, &r->op, err);
    }
}

/* Whether an earlier operation that is held keeps this one back. */
static bool kept_back(const struct record *r)
{
    const struct record *h;
    wr_list_for_each(h, &r->f->held, link) {
        if (h == r)
            return false;
        if (h->peer != r->peer && r->peer != -1)
            continue;
        bool put = h->kind == FAULT_PUT || h->kind == FAULT_SIGNAL;
        if ((put && (r->flags & WR_OP_FENCE || r->kind == FAULT_FLUSH)) ||
            (h->kind == FAULT_AM && r->kind == FAULT_AM))
            return true;
    }
    return false;
}

/*
 * Starts what can be started of a record. WEIR_OK: all is complete; IN_PROGRESS: copy_done() goes on; BUSY: it has to
 * stay in the queue; otherwise the error of the transport below.
 */
static weir_status record_start(struct record *r, weir_error *err)
{
    if (r->peer >= 0 && dead(r->f, r->peer)) {
        r->copies = 0;
        return r->pending ? WEIR_IN_PROGRESS : lost(r->peer, err);
    }
    if (wr_clock_ns() < r->release || kept_back(r))
        return WEIR_ERR_BUSY;
    while (r->copies) {
        weir_status status = start_copy(r, err);
        if (status == WEIR_ERR_BUSY)
            return status;
        r->copies--;
        if (status == WEIR_IN_PROGRESS) {
            r->pending++;
        } else if (status != WEIR_OK) {
            r->status = status;
            r->copies = 0;
            return r->pending ? WEIR_IN_PROGRESS : status;
        }
    }
    return r->pending ? WEIR_IN_PROGRESS : WEIR_OK;
}

/* What the rules do to one operation. */
struct verdict {
    bool drop, dup, error, lost;
    int64_t delay;
};

static struct verdict judge(struct fault *f, enum fault_op kind, int peer)
{
    struct verdict v = {0};
    for (unsigned i = 0; i < f->script.nrules; i++) {
        struct fault_rule *r = &f->script.rule[i];
        if (r->kind == FAULT_DEAD) {
            if (r->peer == peer && ++r->seen == r->number && f->base.params.on_peer_lost)
                f->base.params.on_peer_lost(f->base.params.arg, peer, "WEIR_FAULT says so");
            v.lost |= r->peer == peer && r->seen >= r->number;
            continue;
        }
        if (r->kind == FAULT_REFUSE || (r->op != FAULT_ANY && r->op != kind))
            continue;
        r->seen++;
        bool hit = r->kind == FAULT_ERROR ? r->seen == r->number : draw(f, r->probability);
        if (!hit)
            continue;
        v.drop |= r->kind == FAULT_DROP;
        v.error |= r->kind == FAULT_ERROR;
        v.dup |= r->kind == FAULT_DUP && kind != FAULT_GET && kind != FAULT_FLUSH;
        if (r->kind == FAULT_DELAY && r->delay_ns > v.delay)
            v.delay = r->delay_ns;
    }
    return v;
}

/* The way of every operation; `model` has its arguments. */
static weir_status operate(struct fault *f, const struct record *model, weir_error *err)
{
    if (model->peer >= 0 && dead(f, model->peer))
        return lost(model->peer, err);
    struct record *r = wr_pool_get(&f->records);
    if (!r)
        return WEIR_ERR_BUSY;
    *r = *model;
    wr_list_init(&r->link);
    if (is_copied(r)) {
        r->local = wr_pool_get(&f->messages);
        if (!r->local) {
            wr_pool_put(&f->records, r);
            return WEIR_ERR_BUSY;
        }
        memcpy(r->local, model->local, model->len);
    }
    struct verdict v = judge(f, r->kind, r->peer);
    r->f = f;
    r->op.done = copy_done;
    r->copies = v.dup ? 2 : 1;
    r->release = v.delay ? wr_clock_ns() + v.delay : 0;
    weir_status status = WEIR_OK;
    if (v.lost)
        status = lost(r->peer, err);
    else if (v.error)
        status = wr_error_set(err, WEIR_ERR_TRANSPORT, NULL, "an operation on rank %d failed (WEIR_FAULT says so)", r->peer);
    else if (v.drop)
        status = r->kind == FAULT_GET || r->kind == FAULT_FLUSH ? WEIR_IN_PROGRESS : WEIR_OK;
    else {
        wr_list_push_back(&f->held, &r->link);
        status = record_start(r, err);
        if (status == WEIR_ERR_BUSY)
            return is_copied(r) ? WEIR_OK : WEIR_IN_PROGRESS;
        wr_list_remove(&r->link);
        if (status == WEIR_IN_PROGRESS)
            return status;
    }
    if (is_copied(r))
        wr_pool_put(&f->messages, r->local);
    wr_pool_put(&f->records, r);
    return status;
}

static weir_status transfer(struct wr_transport *t, enum fault_op kind, int peer, const void *local, struct wr_region *region,
                            uint64_t len, struct wr_rkey *rkey, uint64_t offset, uint32_t slot, unsigned flags,
                            struct wr_op *op, weir_error *err)
{
    struct record model = {.kind = kind,
                           .user = op,
                           .peer = peer,
                           .local = (void *)(uintptr_t)local,
                           .region = region,
                           .len = len,
                           .rkey = rkey,
                           .offset = offset,
                           .slot = slot,
                           .flags = flags};
    return operate(fault_of(t), &model, err);
}

static weir_status fault_put(struct wr_transport *t, int peer, const void *src, struct wr_region *region, uint64_t len,
                             struct wr_rkey *rkey, uint64_t offset, unsigned flags, struct wr_op *op, weir_error *err)
{
    return transfer(t, FAULT_PUT, peer, src, region, len, rkey, offset, 0, flags, op, err);
}

static weir_status fault_put_signal(struct wr_transport *t, int peer, const void *src, struct wr_region *region,
                                    uint64_t len, struct wr_rkey *rkey, uint64_t offset, uint32_t slot, unsigned flags,
                                    struct wr_op *op, weir_error *err)
{
    return transfer(t, FAULT_SIGNAL, peer, src, region, len, rkey, offset, slot, flags, op, err);
}

static weir_status fault_get(struct wr_transport *t, int peer, void *dst, struct wr_region *region, uint64_t len,
                             struct wr_rkey *rkey, uint64_t offset, struct wr_op *op, weir_error *err)
{
    return transfer(t, FAULT_GET, peer, dst, region, len, rkey, offset, 0, 0, op, err);
}

static weir_status fault_am(struct wr_transport *t, int peer, unsigned id, const void *header, size_t header_len,
                            const void *payload, size_t len, unsigned flags, weir_error *err)
{
    char message[FAULT_MAX_AM];
    if (header_len > t->caps.max_am || len > t->caps.max_am - header_len)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "a message of %zu + %zu bytes; %zu fit", header_len, len,
                            t->caps.max_am);
    if (header_len)
        memcpy(message, header, header_len);
    if (len)
        memcpy(message + header_len, payload, len);
    return operate(fault_of(t),
                   &(struct record){.kind = FAULT_AM,
                                    .peer = peer,
                                    .local = message,
                                    .len = header_len + len,
                                    .flags = flags,
                                    .id = id},
                   err);
}

static weir_status fault_am_long(struct wr_transport *t, int peer, unsigned id, const void *header, size_t header_len,
                                 const void *src, struct wr_region *region, size_t len, struct wr_op *op, weir_error *err)
{
    struct record model = {.kind = FAULT_AM,
                           .user = op,
                           .peer = peer,
                           .local = (void *)(uintptr_t)src,
                           .region = region,
                           .len = len,
                           .id = id,
                           .is_long = true,
                           .header_len = header_len};
    if (header_len > sizeof model.header)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "a header of %zu bytes; %zu fit", header_len, sizeof model.header);
    memcpy(model.header, header, header_len);
    return operate(fault_of(t), &model, err);
}

static weir_status fault_flush(struct wr_transport *t, int peer, struct wr_op *op, weir_error *err)
{
    return operate(fault_of(t), &(struct record){.kind = FAULT_FLUSH, .user = op, .peer = peer}, err);
}

static weir_status fault_connect(struct wr_transport *t, int peer, weir_error *err)
{
    return dead(fault_of(t), peer) ? lost(peer, err) : wr_layer_connect(t, peer, err);
}

static weir_status fault_reg(struct wr_transport *t, void *addr, uint64_t len, unsigned flags, struct wr_region **region,
                             weir_error *err)
{
    struct fault *f = fault_of(t);
    for (unsigned i = 0; i < f->script.nrules; i++) {
        struct fault_rule *r = &f->script.rule[i];
        if (r->kind == FAULT_REFUSE && ++r->seen >= r->number)
            return wr_error_set(err, WEIR_ERR_LIMIT, NULL, "registering %llu bytes is refused (WEIR_FAULT says so)",
                                (unsigned long long)len);
    }
    return wr_layer_reg(t, addr, len, flags, region, err);
}

/* Starts what is held and may start now. */
static int release(struct fault *f)
{
    struct record *r, *next;
    int n = 0;
    wr_list_for_each_safe(r, next, &f->held, link) {
        weir_error err;
        weir_status status = record_start(r, &err);
        if (status == WEIR_ERR_BUSY)
            continue;
        n++;
        wr_list_remove(&r->link);
        if (status == WEIR_IN_PROGRESS)
            continue;
        if (status != WEIR_OK && is_copied(r))
            wr_error(f->base.params.log, TRANSPORT, "fault: a message that was held back failed: %s", err.message);
        r->status = status;
        record_end(r);
        break; /* the callback may have changed the queue */
    }
    return n;
}

static int fault_progress(struct wr_transport *t)
{
    struct fault *f = fault_of(t);
    int n = wr_layer_progress(t);
    for (int more = 1; more && !wr_list_empty(&f->held);)
        n += more = release(f);
    return n;
}

static bool fault_arm(struct wr_transport *t)
{
    return wr_list_empty(&fault_of(t)->held) && wr_layer_arm(t);
}

static void fault_close(struct wr_transport *t)
{
    struct fault *f = fault_of(t);
    t->lower->ops->close(t->lower);
    wr_pool_destroy(&f->records);
    wr_pool_destroy(&f->messages);
    free(f);
}

static const struct wr_transport_ops fault_ops = {
    .name = "fault",
    .address = wr_layer_address,
    .start = wr_layer_start,
    .close = fault_close,
    .reaches = wr_layer_reaches,
    .connect = fault_connect,
    .reg = fault_reg,
    .dereg = wr_layer_dereg,
    .key_export = wr_layer_key_export,
    .key_import = wr_layer_key_import,
    .key_close = wr_layer_key_close,
    .put = fault_put,
    .put_signal = fault_put_signal,
    .get = fault_get,
    .am = fault_am,
    .am_long = fault_am_long,
    .am_long_max = wr_layer_am_long_max,
    .flush = fault_flush,
    .progress = fault_progress,
    .wait_fd = wr_layer_wait_fd,
    .arm = fault_arm,
    .disarm = wr_layer_disarm,
};

weir_status wr_fault_wrap(struct wr_transport *lower, const char *script, struct wr_transport **t, weir_error *err)
{
    struct fault *f = calloc(1, sizeof *f);
    if (!f)
        return wr_error_memory(err, sizeof *f, "the fault layer");
    wr_layer_init(&f->base, &fault_ops, lower);
    f->base.caps.max_am = WR_MIN(lower->caps.max_am, (size_t)FAULT_MAX_AM);
    f->base.caps.inject = 0; /* what is held is not copied */
    f->base.caps.detects_peer_loss = true;
    wr_list_init(&f->held);
    wr_pool_init(&f->records, sizeof(struct record), 0, FAULT_RECORDS, FAULT_RECORDS);
    wr_pool_init(&f->messages, f->base.caps.max_am, 0, FAULT_MESSAGES, FAULT_MESSAGES);
    weir_status status = wr_fault_parse(script, &f->script, err);
    if (status == WEIR_OK)
        status = wr_pool_reserve(&f->records, FAULT_RECORDS, err);
    if (status == WEIR_OK)
        status = wr_pool_reserve(&f->messages, FAULT_MESSAGES, err);
    if (status != WEIR_OK) {
        wr_pool_destroy(&f->records);
        wr_pool_destroy(&f->messages);
        free(f);
        return status;
    }
    if (f->script.rank >= 0 && f->script.rank != lower->params.rank)
        f->script.nrules = 0;
    f->random = f->script.seed + (uint64_t)lower->params.rank;
    *t = &f->base;
    return WEIR_OK;
}
