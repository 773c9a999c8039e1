/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts and gets of UCX, for peers that have them in hardware or in shared memory. */
#include "base/error.h"
#include "comm/transport/ucx/ucx.h"

/* Starts what is left, piece by piece; UCS_INPROGRESS: rma_continue() goes on. */
static ucs_status_t rma_step(struct ucx_req *r, bool get)
{
    struct ucx_peer *p = r->peer;
    while (r->left) {
        uint64_t n = WR_MIN(r->left, UCX_CHUNK);
        char *local = r->local;
        uint64_t remote = r->remote;
        r->local += n;
        r->remote += n;
        r->left -= n;
        ucs_status_t s = get ? ucx_api_get(&r->u->api, p->ep, local, n, remote, r->rkey->rkey, r)
                             : ucx_api_put(&r->u->api, p->ep, local, n, remote, r->rkey->rkey, r);
        if (s != UCS_OK)
            return s;
    }
    return UCS_OK;
}

static void signal_flushed(struct ucx_req *r, weir_status status)
{
    if (status == WEIR_OK && r->peer->ep) {
        r->complete = wr_ucx_complete_op;
        wr_ucx_send(r, NULL, 0);
        return;
    }
    wr_ucx_req_put(r);
}

/* Sends the signal in `r` when the puts before it are visible. */
static ucs_status_t signal_start(struct ucx_req *r)
{
    struct ucx *u = r->u;
    if (r->peer->one_lane) {
        ucs_status_t s = ucp_worker_fence(u->worker);
        r->complete = wr_ucx_complete_op;
        if (s == UCS_OK)
            return wr_ucx_send(r, NULL, 0);
        wr_ucx_req_put(r);
        return s;
    }
    r->complete = signal_flushed;
    ucs_status_t s = ucx_api_flush(&u->api, r->peer->ep, r);
    if (s == UCS_OK)
        signal_flushed(r, WEIR_OK);
    else if (s != UCS_INPROGRESS)
        wr_ucx_req_put(r);
    return s;
}

static void put_continue(struct ucx_req *r, weir_status status)
{
    if (status == WEIR_OK && r->left) {
        ucs_status_t s = r->peer->ep ? rma_step(r, false) : UCS_ERR_CONNECTION_RESET;
        if (s == UCS_INPROGRESS)
            return;
        status = wr_ucx_status(s);
    }
    if (r->next && status == WEIR_OK)
        status = wr_ucx_status(signal_start(r->next));
    else if (r->next)
        wr_ucx_req_put(r->next);
    wr_ucx_complete_op(r, status == WEIR_IN_PROGRESS ? WEIR_OK : status);
}

static void get_continue(struct ucx_req *r, weir_status status)
{
    if (status == WEIR_OK && r->left) {
        ucs_status_t s = r->peer->ep ? rma_step(r, true) : UCS_ERR_CONNECTION_RESET;
        if (s == UCS_INPROGRESS)
            return;
        status = wr_ucx_status(s);
    }
    wr_ucx_complete_op(r, status);
}

static struct ucx_req *rma_req(struct ucx_peer *p, void *local, uint64_t len, struct wr_rkey *k, uint64_t offset,
                               struct wr_op *op)
{
    struct ucx_req *r = wr_ucx_req_get(p->u, p, false);
    if (!r)
        return NULL;
    r->op = op;
    r->rkey = k;
    r->local = local;
    r->remote = k->base + offset;
    r->left = len;
    return r;
}

weir_status wr_ucx_rma_put(struct ucx_peer *p, const void *src, uint64_t len, struct wr_rkey *k, uint64_t offset,
                        struct wr_op *op, const uint32_t *slot, weir_error *err)
{
    struct ucx_req *sig = NULL;
    struct ucx_req *r = rma_req(p, (void *)(uintptr_t)src, len, k, offset, op);
    if (!r)
        return WEIR_ERR_BUSY;
    if (slot) {
        sig = wr_ucx_req_get(p->u, p, false);
        if (!sig) {
            wr_ucx_req_put(r);
            return WEIR_ERR_BUSY;
        }
        wr_ucx_header(sig, UCX_SIGNAL, UCX_WIRE_SIGNAL);
        sig->wire.slot = *slot;
    }
    bool copied = len <= UCX_INLINE;
    if (copied) {
        memcpy(r->data, src, len);
        r->local = r->data;
        r->op = NULL;
    }
    r->complete = put_continue;
    p->rma_sent++;
    ucs_status_t s = rma_step(r, false);
    bool whole = !r->left; /* everything has been given to UCX */
    if (s == UCS_INPROGRESS && !whole)
        r->next = sig;
    else if (s != UCS_INPROGRESS)
        wr_ucx_req_put(r);
    if (s != UCS_OK && s != UCS_INPROGRESS) {
        if (sig)
            wr_ucx_req_put(sig);
        return wr_ucx_error(s, p, "a put", err);
    }
    if (sig && whole) {
        ucs_status_t s2 = signal_start(sig);
        if (s2 != UCS_OK && s2 != UCS_INPROGRESS && s == UCS_OK)
            return wr_ucx_error(s2, p, "a signal", err);
    }
    return s == UCS_OK || copied ? WEIR_OK : WEIR_IN_PROGRESS;
}

weir_status wr_ucx_rma_get(struct ucx_peer *p, void *dst, uint64_t len, struct wr_rkey *k, uint64_t offset,
                        struct wr_op *op, weir_error *err)
{
    struct ucx_req *r = rma_req(p, dst, len, k, offset, op);
    if (!r)
        return WEIR_ERR_BUSY;
    r->complete = get_continue;
    ucs_status_t s = rma_step(r, true);
    if (s == UCS_INPROGRESS)
        return WEIR_IN_PROGRESS;
    wr_ucx_req_put(r);
    return s == UCS_OK ? WEIR_OK : wr_ucx_error(s, p, "a get", err);
}

weir_status wr_ucx_signal_send(struct ucx_peer *p, uint32_t slot, weir_error *err)
{
    struct ucx_req *r = wr_ucx_req_get(p->u, p, false);
    if (!r)
        return WEIR_ERR_BUSY;
    wr_ucx_header(r, UCX_SIGNAL, UCX_WIRE_SIGNAL);
    r->wire.slot = slot;
    r->complete = wr_ucx_complete_op;
    ucs_status_t s = wr_ucx_send(r, NULL, 0);
    return s == UCS_OK || s == UCS_INPROGRESS ? WEIR_OK : wr_ucx_error(s, p, "a signal", err);
}
