/* SPDX-License-Identifier: BSD-3-Clause */
/* Several ranks of the libfabric transport in one process and one thread, for the unit tests. */
#ifndef WR_OFI_WORLD_H
#define WR_OFI_WORLD_H

#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "comm/transport/ofi/ofi.h"

enum { WORLD_MAX = 4, WORLD_SIGNALS = 64 };

struct world_address {
    char data[WR_ADDRESS_MAX];
    size_t len;
};

struct world {
    int size;
    struct wr_config config;
    struct wr_transport *rank[WORLD_MAX];
    struct world_address address[WORLD_MAX];
    uint64_t signals[WORLD_MAX][WORLD_SIGNALS];
    int lost[WORLD_MAX]; /* the rank that was told lost last, -1 */
    int node_ranks[WORLD_MAX];
    int numa;
    struct world_rank {
        struct world *world;
        int rank;
        uint32_t next[WORLD_MAX]; /* numbers expected in messages of handler 1 */
        unsigned got, wrong;
        char last[16];
    } arg[WORLD_MAX];
};

static weir_status world_address(void *arg, int peer, const void **address, size_t *len, weir_error *err)
{
    (void)err;
    struct world_rank *r = arg;
    *address = r->world->address[peer].data;
    *len = r->world->address[peer].len;
    return WEIR_OK;
}

static void world_lost(void *arg, int peer, const char *reason)
{
    (void)reason;
    struct world_rank *r = arg;
    r->world->lost[r->rank] = peer;
}

/* Messages of handler 1 are a number and filling. */
static void world_message(void *arg, int source, const void *data, size_t len)
{
    struct world_rank *r = arg;
    uint32_t n = 0;
    memcpy(&n, data, WR_MIN(len, sizeof n));
    if (n != r->next[source])
        r->wrong++;
    for (size_t i = sizeof n; i < len; i++)
        if (((const unsigned char *)data)[i] != (unsigned char)(n + i))
            r->wrong++;
    r->next[source] = n + 1;
    r->got++;
}

static void world_params(struct world *w, int rank, struct wr_transport_params *p)
{
    *p = (struct wr_transport_params){.config = &w->config,
                                      .rank = rank,
                                      .size = w->size,
                                      .node_rank = rank,
                                      .node_size = w->size,
                                      .node_ranks = w->node_ranks,
                                      .numa = w->numa,
                                      .peer_address = world_address,
                                      .on_peer_lost = world_lost,
                                      .arg = &w->arg[rank],
                                      .am_arg = &w->arg[rank],
                                      .signals = w->signals[rank],
                                      .nsignals = WORLD_SIGNALS,
                                      .timeout_ns = 10000000000};
    p->am[1] = world_message;
    w->arg[rank].world = w;
    w->arg[rank].rank = rank;
    w->node_ranks[rank] = rank;
    w->lost[rank] = -1;
}

static WR_UNUSED weir_status world_try(struct world *w, int size, const char *const *overrides, weir_error *err)
{
    static const char *const none[] = {NULL};
    struct wr_env env = {none};
    memset(w, 0, sizeof *w);
    w->size = size;
    w->numa = -1;
    assert_ok(wr_config_load(&w->config, &env, overrides, err), err);
    for (int i = 0; i < size; i++) {
        struct wr_transport_params p;
        world_params(w, i, &p);
        weir_status status = wr_ofi_ops.open(&p, &w->rank[i], err);
        if (status) {
            while (i-- > 0)
                wr_ofi_ops.close(w->rank[i]);
            wr_config_free(&w->config);
            return status;
        }
        w->address[i].len = sizeof w->address[i].data;
        assert_ok(wr_ofi_ops.address(w->rank[i], w->address[i].data, &w->address[i].len, err), err);
    }
    return WEIR_OK;
}

static WR_UNUSED void world_connect(struct world *w)
{
    weir_error err;
    for (int i = 0; i < w->size; i++)
        for (int j = 0; j < w->size; j++)
            assert_ok(wr_ofi_ops.connect(w->rank[i], j, &err), &err);
}

static WR_UNUSED void world_close(struct world *w)
{
    for (int i = 0; i < w->size; i++)
        if (w->rank[i])
            wr_ofi_ops.close(w->rank[i]);
    wr_config_free(&w->config);
}

static void world_progress(struct world *w)
{
    for (int i = 0; i < w->size; i++)
        if (w->rank[i])
            wr_ofi_ops.progress(w->rank[i]);
}

struct world_op {
    struct wr_op op;
    bool done;
    weir_status status;
};

static void world_done(struct wr_op *op, weir_status status)
{
    struct world_op *o = WR_CONTAINER_OF(op, struct world_op, op);
    assert_false(o->done);
    o->done = true;
    o->status = status;
}

/* Runs progress until `condition`, at most 20 s. */
#define world_until(w, condition)                                                                                      \
    do {                                                                                                               \
        int64_t deadline_ = wr_deadline(20000000000);                                                                  \
        while (!(condition)) {                                                                                         \
            world_progress(w);                                                                                         \
            if (wr_deadline_passed(deadline_))                                                                         \
                fail_msg("after 20 s still not: %s", #condition);                                                      \
        }                                                                                                              \
    } while (0)

/* Calls an operation until it is not busy, then waits until it is complete. */
#define world_call(w, o, call)                                                                                         \
    do {                                                                                                               \
        weir_status s_;                                                                                                \
        int64_t until_ = wr_deadline(20000000000);                                                                     \
        (o)->op.done = world_done;                                                                                     \
        (o)->done = false;                                                                                             \
        while ((s_ = (call)) == WEIR_ERR_BUSY) {                                                                       \
            world_progress(w);                                                                                         \
            if (wr_deadline_passed(until_))                                                                            \
                fail_msg("after 20 s still busy: %s", #call);                                                          \
        }                                                                                                              \
        if (s_ == WEIR_IN_PROGRESS) {                                                                                  \
            world_until(w, (o)->done);                                                                                 \
            s_ = (o)->status;                                                                                          \
        }                                                                                                              \
        if (s_ != WEIR_OK)                                                                                             \
            fail_msg("%s: %s: %s", #call, weir_status_name(s_), err.message);                                          \
    } while (0)

static WR_UNUSED void world_fill(unsigned char *data, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        data[i] = (unsigned char)(seed + i * 7 + (i >> 8));
}

static WR_UNUSED bool world_filled(const unsigned char *data, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        if (data[i] != (unsigned char)(seed + i * 7 + (i >> 8)))
            return false;
    return true;
}

/* Gives `to` the right to use a region of `from`. */
static WR_UNUSED struct wr_rkey *world_key(struct world *w, int from, struct wr_region *region, int to)
{
    char key[WR_KEY_MAX];
    size_t len = sizeof key;
    struct wr_rkey *rkey = NULL;
    weir_error err;
    assert_ok(wr_ofi_ops.key_export(w->rank[from], region, key, &len, &err), &err);
    assert_ok(wr_ofi_ops.key_import(w->rank[to], from, key, len, &rkey, &err), &err);
    return rkey;
}

#endif
