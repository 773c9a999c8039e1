/* SPDX-License-Identifier: BSD-3-Clause */
/* When puts are visible: flushes asked for by the layer above, and fences before an operation. */
#include "base/error.h"
#include "comm/transport/ucx/ucx.h"

void wr_ucx_group_done(struct ucx *u, struct ucx_group *g, weir_status status)
{
    if (status != WEIR_OK && g->status == WEIR_OK)
        g->status = status;
    if (--g->waiting)
        return;
    struct wr_op *op = g->op;
    status = g->status;
    if (g->fenced)
        g->fenced->fencing = false;
    wr_pool_put(&u->groups, g);
    if (op)
        op->done(op, status);
}

static void rma_flushed(struct ucx_req *r, weir_status status)
{
    struct ucx_peer *p = r->peer;
    struct ucx *u = r->u;
    struct ucx_group *g = r->group;
    if (p && status == WEIR_OK && r->mark > p->rma_visible)
        p->rma_visible = r->mark;
    wr_ucx_req_put(r);
    wr_ucx_group_done(u, g, status);
}

/* Adds one peer's puts to a group; the caller has made sure of the resources. */
static void group_add(struct ucx_group *g, struct ucx_peer *p, bool rma)
{
    struct ucx *u = p->u;
    if (p->am_sent != p->am_visible) {
        struct ucx_stream *s = wr_ucx_stream_new(p, false);
        if (s) {
            s->wire.header_len = UCX_WIRE_TOKEN;
            s->wire.kind = UCX_FLUSH;
            s->mark = p->am_sent;
            s->group = g;
            g->waiting++;
            wr_ucx_pump(p);
        } else {
            g->status = WEIR_ERR_NO_MEMORY;
        }
    }
    if (rma && p->rma_sent != p->rma_visible) {
        struct ucx_req *r = wr_ucx_req_get(u, p, true);
        r->group = g;
        r->mark = p->rma_sent;
        r->complete = rma_flushed;
        ucs_status_t s = ucx_api_flush(&u->api, p->ep, r);
        if (s == UCS_INPROGRESS) {
            g->waiting++;
            return;
        }
        if (s == UCS_OK)
            p->rma_visible = r->mark;
        else
            g->status = wr_ucx_status(s);
        wr_ucx_req_put(r);
    }
}

/* Ends the starting of a group: nothing may be left to wait for. */
static weir_status group_started(struct ucx *u, struct ucx_group *g, weir_error *err)
{
    if (--g->waiting)
        return WEIR_IN_PROGRESS;
    weir_status status = g->status;
    if (g->fenced)
        g->fenced->fencing = false;
    wr_pool_put(&u->groups, g);
    return status == WEIR_OK ? WEIR_OK : wr_error_set(err, status, NULL, "UCX failed to flush earlier puts");
}

static struct ucx_group *group_new(struct ucx *u, struct wr_op *op)
{
    struct ucx_group *g = wr_pool_get(&u->groups);
    if (g)
        *g = (struct ucx_group){.op = op, .waiting = 1};
    return g;
}

static bool dirty(const struct ucx_peer *p)
{
    return p->ep && !p->lost && (p->am_sent != p->am_visible || p->rma_sent != p->rma_visible);
}

/* All peers: with many of them one flush of the worker stands for UCX's part. */
static weir_status flush_all(struct ucx *u, struct wr_op *op, weir_error *err)
{
    struct ucx_peer *p;
    unsigned n = 0;
    wr_list_for_each(p, &u->connected, link)
        n += dirty(p);
    if (!n)
        return WEIR_OK;
    bool each = n <= UCX_RESERVED;
    struct ucx_req *all = NULL;
    if (u->nfree < UCX_RESERVED + (each ? n : 1))
        return WEIR_ERR_BUSY;
    struct ucx_group *g = group_new(u, op);
    if (!g)
        return WEIR_ERR_BUSY;
    if (!each) {
        all = wr_ucx_req_get(u, NULL, true);
        all->group = g;
        all->complete = rma_flushed;
        ucs_status_t s = ucx_api_flush_worker(&u->api, u->worker, all);
        if (s == UCS_INPROGRESS) {
            g->waiting++;
        } else {
            wr_ucx_req_put(all);
            if (s != UCS_OK)
                g->status = wr_ucx_status(s);
        }
    }
    wr_list_for_each(p, &u->connected, link)
        if (dirty(p))
            group_add(g, p, each);
    return group_started(u, g, err);
}

weir_status wr_ucx_flush(struct wr_transport *t, int peer, struct wr_op *op, weir_error *err)
{
    struct ucx *u = ucx_of(t);
    struct ucx_peer *p;
    if (peer == -1)
        return flush_all(u, op, err);
    weir_status status = wr_ucx_peer_usable(u, peer, &p, err);
    if (status != WEIR_OK)
        return status;
    if (!dirty(p))
        return WEIR_OK;
    struct ucx_group *g = u->nfree > UCX_RESERVED ? group_new(u, op) : NULL;
    if (!g)
        return WEIR_ERR_BUSY;
    group_add(g, p, true);
    return group_started(u, g, err);
}

/* Whether a long put to the peer has not been handed to UCX completely. */
static bool streaming(const struct ucx_peer *p)
{
    const struct ucx_stream *s;
    wr_list_for_each(s, &p->streams, link)
        if (s->wire.kind == UCX_PUT)
            return true;
    return false;
}

weir_status wr_ucx_fence(struct ucx_peer *p, bool message, weir_error *err)
{
    struct ucx *u = p->u;
    if (p->fencing || streaming(p))
        return WEIR_ERR_BUSY;
    bool messages = !message && p->am_sent != p->am_visible;
    bool rma = p->rma_sent != p->rma_visible && !p->one_lane;
    if (messages || rma) {
        struct ucx_group *g = u->nfree > UCX_RESERVED ? group_new(u, NULL) : NULL;
        if (!g)
            return WEIR_ERR_BUSY;
        g->fenced = p;
        p->fencing = true;
        group_add(g, p, true);
        weir_status status = group_started(u, g, err);
        return status == WEIR_IN_PROGRESS ? WEIR_ERR_BUSY : status;
    }
    if (p->rma_sent != p->rma_visible) {
        ucs_status_t s = ucp_worker_fence(u->worker);
        if (s != UCS_OK)
            return wr_ucx_error(s, p, "a fence", err);
    }
    return WEIR_OK;
}

void wr_ucx_acked(struct ucx_peer *p, uint64_t token, bool refused)
{
    struct ucx_stream *s, *next;
    wr_list_for_each_safe(s, next, &p->awaiting, link) {
        if (s->wire.token > token)
            break;
        if (s->mark > p->am_visible)
            p->am_visible = s->mark;
        if (refused)
            s->status = WEIR_ERR_STALE;
        wr_list_remove(&s->link);
        wr_list_push_back(&p->u->ended, &s->link);
    }
}
