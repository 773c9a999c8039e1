/* SPDX-License-Identifier: BSD-3-Clause */
/* Several ranks of one transport in one thread: every wait makes progress on all of them. */
#ifndef WR_TRANSPORT_PAIR_H
#define WR_TRANSPORT_PAIR_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/list.h"
#include "comm/transport/transport.h"

enum { PAIR_MAX = 4, PAIR_SIGNALS = 64 };

struct pair;

struct pair_rank {
    struct pair *all;
    struct wr_transport *t; /* the layer on top */
    char address[WR_ADDRESS_MAX];
    size_t address_len;
    uint64_t signals[PAIR_SIGNALS];
    int node_ranks[1];
    int messages, last_source, lost;
    char reason[192]; /* of the latest loss */
    char last[8192];
    size_t last_len;
};

struct pair {
    int n;
    struct wr_config config;
    struct wr_log log;
    struct pair_rank rank[PAIR_MAX];
};

struct pair_op {
    struct wr_op op;
    int done;
    weir_status status;
};

static inline void pair_done(struct wr_op *op, weir_status status)
{
    struct pair_op *o = WR_CONTAINER_OF(op, struct pair_op, op);
    o->done++;
    o->status = status;
}

static inline weir_status pair_address(void *arg, int peer, const void **address, size_t *len, weir_error *err)
{
    struct pair_rank *r = arg;
    (void)err;
    *address = r->all->rank[peer].address;
    *len = r->all->rank[peer].address_len;
    return WEIR_OK;
}

static inline void pair_lost(void *arg, int peer, const char *reason)
{
    struct pair_rank *r = arg;
    (void)peer;
    snprintf(r->reason, sizeof r->reason, "%s", reason ? reason : "");
    r->lost++;
}

static inline void pair_message(void *arg, int source, const void *data, size_t len)
{
    struct pair_rank *r = arg;
    r->messages++;
    r->last_source = source;
    r->last_len = len;
    memcpy(r->last, data, WR_MIN(len, sizeof r->last));
}

static inline void pair_params(struct pair *p, int i, const struct wr_env *env, struct wr_transport_params *params)
{
    struct pair_rank *r = &p->rank[i];
    r->all = p;
    r->node_ranks[0] = i;
    *params = (struct wr_transport_params){.config = &p->config,
                                           .env = env,
                                           .log = &p->log,
                                           .rank = i,
                                           .size = p->n,
                                           .node_size = 1,
                                           .node_ranks = r->node_ranks,
                                           .numa = -1,
                                           .peer_address = pair_address,
                                           .on_peer_lost = pair_lost,
                                           .arg = r,
                                           .am = {[3] = pair_message},
                                           .am_arg = r,
                                           .signals = r->signals,
                                           .nsignals = PAIR_SIGNALS,
                                           .timeout_ns = 10000000000};
}

static inline void pair_progress(struct pair *p)
{
    for (int i = 0; i < p->n; i++)
        if (p->rank[i].t)
            p->rank[i].t->ops->progress(p->rank[i].t);
}

/* Makes progress until the condition holds; fails after 20 seconds. */
#define pair_wait(p, condition)                                                                              \
    do {                                                                                                     \
        int64_t end_ = wr_deadline(20000000000);                                                             \
        while (!(condition)) {                                                                               \
            pair_progress(p);                                                                                \
            if (wr_deadline_passed(end_))                                                                    \
                fail_msg("%s:%d: never became true: %s", __FILE__, __LINE__, #condition);                    \
        }                                                                                                    \
    } while (0)

/* Repeats a call while it is BUSY; its other results go to `status`. */
#define pair_call(p, status, call)                                                                           \
    do {                                                                                                     \
        int64_t end_ = wr_deadline(20000000000);                                                             \
        while (((status) = (call)) == WEIR_ERR_BUSY) {                                                       \
            pair_progress(p);                                                                                \
            if (wr_deadline_passed(end_))                                                                    \
                fail_msg("%s:%d: busy for ever: %s", __FILE__, __LINE__, #call);                             \
        }                                                                                                    \
    } while (0)

/* The same, then waits until the operation is complete. */
#define pair_run(p, o, call)                                                                                 \
    do {                                                                                                     \
        weir_status status_;                                                                                 \
        weir_error err_;                                                                                     \
        memset(&err_, 0, sizeof err_);                                                                       \
        (o) = (struct pair_op){.op.done = pair_done};                                                        \
        pair_call(p, status_, call);                                                                         \
        if (status_ == WEIR_IN_PROGRESS) {                                                                   \
            pair_wait(p, (o).done);                                                                          \
            status_ = (o).status;                                                                            \
        }                                                                                                    \
        (o).status = status_;                                                                                \
    } while (0)

#endif
