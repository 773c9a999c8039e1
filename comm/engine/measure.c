/* SPDX-License-Identifier: BSD-3-Clause */
/* A network measured by two of its transports in one process: a ping-pong of small messages, and large puts. */
#include "comm/engine/measured.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "comm/transport/transport.h"

enum { LARGE = 1 << 20, WARM_UP = 8, MESSAGE_ID = 0 };
static const int64_t SMALL_NS = 30 * 1000 * 1000, LARGE_NS = 50 * 1000 * 1000, PATIENCE_NS = 1000 * 1000 * 1000;

struct pair;

struct side {
    struct pair *pair;
    struct wr_transport *t;
    int rank;
    unsigned char address[WR_ADDRESS_MAX];
    size_t address_len;
    uint64_t signals[1];
    unsigned messages;
};

struct pair {
    struct side side[2];
    int64_t deadline;
    struct wr_op op;
    bool op_done;
    weir_status op_status;
};

static weir_status peer_address(void *arg, int peer, const void **address, size_t *len, weir_error *err)
{
    const struct side *other = &((struct side *)arg)->pair->side[peer];
    (void)err;
    *address = other->address;
    *len = other->address_len;
    return WEIR_OK;
}

static void on_message(void *arg, int source, const void *data, size_t len)
{
    (void)source;
    (void)data;
    (void)len;
    ((struct side *)arg)->messages++;
}

static void on_done(struct wr_op *op, weir_status status)
{
    struct pair *p = WR_CONTAINER_OF(op, struct pair, op);
    p->op_done = true;
    p->op_status = status;
}

static bool progress(struct pair *p)
{
    for (int i = 0; i < 2; i++)
        p->side[i].t->ops->progress(p->side[i].t);
    return !wr_deadline_passed(p->deadline);
}

static bool open_side(struct pair *p, int rank, const weir_ctx *ctx, const struct wr_transport_ops *ops)
{
    struct side *s = &p->side[rank];
    weir_error err;
    s->pair = p;
    s->rank = rank;
    s->address_len = sizeof s->address;
    struct wr_transport_params params = {.config = &ctx->config,
                                         .env = &ctx->env,
                                         .rank = rank,
                                         .size = 2,
                                         .node_size = 1,
                                         .node_ranks = &s->rank,
                                         .numa = -1,
                                         .peer_address = peer_address,
                                         .arg = s,
                                         .am = {[MESSAGE_ID] = on_message},
                                         .am_arg = s,
                                         .signals = s->signals,
                                         .nsignals = 1,
                                         .timeout_ns = PATIENCE_NS};
    return !ops->open(&params, &s->t, &err) && !s->t->ops->address(s->t, s->address, &s->address_len, &err);
}

/* Ends an operation that returned `status`; the caller calls again when it was BUSY and this gives true with *again. */
static bool finish(struct pair *p, weir_status status, bool *again)
{
    *again = status == WEIR_ERR_BUSY;
    if (*again)
        return progress(p);
    while (status == WEIR_IN_PROGRESS && !p->op_done)
        if (!progress(p))
            return false;
    return status == WEIR_IN_PROGRESS ? !p->op_status : !status;
}

static bool send_one(struct pair *p, int from)
{
    struct wr_transport *t = p->side[from].t;
    unsigned want = p->side[1 - from].messages + 1;
    uint64_t payload = want;
    weir_error err;
    weir_status status;
    while ((status = t->ops->am(t, 1 - from, MESSAGE_ID, &payload, sizeof payload, NULL, 0, 0, &err)) == WEIR_ERR_BUSY)
        if (!progress(p))
            return false;
    while (!status && p->side[1 - from].messages != want)
        if (!progress(p))
            return false;
    return !status;
}

static bool measure_small(struct pair *p, int64_t *ns)
{
    int64_t start = 0, now = 0;
    unsigned rounds = 0;
    for (unsigned i = 0; i < WARM_UP; i++)
        if (!send_one(p, 0) || !send_one(p, 1))
            return false;
    start = wr_clock_ns();
    do {
        if (!send_one(p, 0) || !send_one(p, 1))
            return false;
        rounds++;
        now = wr_clock_ns();
    } while (now - start < SMALL_NS);
    *ns = WR_MAX((now - start) / (2 * (int64_t)rounds), (int64_t)1);
    return true;
}

/* One put and its flush. */
static bool put_one(struct pair *p, const void *src, struct wr_region *local, struct wr_rkey *key)
{
    struct wr_transport *t = p->side[0].t;
    weir_error err;
    bool again, ok;
    do {
        p->op = (struct wr_op){on_done};
        p->op_done = false;
        ok = finish(p, t->ops->put(t, 1, src, local, LARGE, key, 0, 0, &p->op, &err), &again);
    } while (ok && again);
    if (!ok)
        return false;
    do {
        p->op_done = false;
        ok = finish(p, t->ops->flush(t, 1, &p->op, &err), &again);
    } while (ok && again);
    return ok;
}

static bool measure_large(struct pair *p, int64_t *best)
{
    struct wr_transport *a = p->side[0].t, *b = p->side[1].t;
    unsigned char *memory = calloc(2, LARGE), key[WR_KEY_MAX];
    size_t key_len = sizeof key;
    struct wr_region *local, *window;
    struct wr_rkey *remote;
    weir_error err;
    *best = INT64_MAX;
    bool ok = memory && !a->ops->reg(a, memory, LARGE, 0, &local, &err) &&
              !b->ops->reg(b, memory + LARGE, LARGE, WR_REG_REMOTE_WRITE, &window, &err) &&
              !b->ops->key_export(b, window, key, &key_len, &err) &&
              !a->ops->key_import(a, 1, key, key_len, &remote, &err);
    int64_t start = wr_clock_ns();
    for (int i = 0; ok && (i < 3 || wr_clock_ns() - start < LARGE_NS); i++) {
        int64_t before = wr_clock_ns();
        ok = put_one(p, memory, local, remote);
        *best = WR_MIN(*best, WR_MAX(wr_clock_ns() - before, (int64_t)1));
    }
    return ok; /* the process ends after this: what was made goes with it */
}

bool wr_measure_here(const weir_ctx *ctx, struct wr_measured *network)
{
    const struct wr_transport_ops *ops = wr_transport_find(network->name);
    struct pair *p = calloc(1, sizeof *p);
    weir_error err;
    if (!ops || !p)
        return false;
    p->deadline = wr_deadline(2 * PATIENCE_NS);
    for (int i = 0; i < 2; i++)
        if (!open_side(p, i, ctx, ops))
            return false;
    for (int i = 0; i < 2; i++)
        if ((ops->start && p->side[i].t->ops->start(p->side[i].t, &err)) || ops->connect(p->side[i].t, 1 - i, &err))
            return false;
    return measure_small(p, &network->small_ns) && measure_large(p, &network->large_ns);
}
