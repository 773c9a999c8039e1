/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts and gets in messages, for peers where UCX would emulate them. */
#include "base/error.h"
#include "comm/transport/ucx/ucx.h"

static void put_header(struct ucx_wire *w, const struct wr_rkey *k, uint64_t offset, const uint32_t *slot)
{
    w->header_len = UCX_WIRE_PUT;
    w->kind = UCX_PUT;
    w->slot = slot ? *slot : 0;
    w->key_id = k->id;
    w->key_gen = k->gen;
    w->offset = offset;
}

weir_status wr_ucx_message_put(struct ucx_peer *p, const void *src, uint64_t len, struct wr_rkey *k, uint64_t offset,
                            struct wr_op *op, const uint32_t *slot, weir_error *err)
{
    struct ucx *u = p->u;
    if (len > u->fragment) {
        struct ucx_stream *s = wr_ucx_stream_new(p, true);
        if (!s)
            return WEIR_ERR_BUSY;
        put_header(&s->wire, k, offset, slot);
        s->op = op;
        s->src = src;
        s->left = len;
        s->signal = slot != NULL;
        p->am_sent++;
        wr_ucx_pump(p);
        return WEIR_IN_PROGRESS;
    }
    struct ucx_req *r = wr_ucx_req_get(u, p, false);
    if (!r)
        return WEIR_ERR_BUSY;
    bool copied = len <= UCX_INLINE;
    if (copied) {
        memcpy(r->data, src, len);
        src = r->data;
    }
    wr_ucx_header(r, UCX_PUT, UCX_WIRE_PUT);
    put_header(&r->wire, k, offset, slot);
    r->wire.has_signal = slot != NULL;
    r->op = copied ? NULL : op;
    r->complete = wr_ucx_complete_op;
    p->am_sent++;
    ucs_status_t s = wr_ucx_send(r, src, len);
    if (s == UCS_OK)
        return WEIR_OK;
    if (s == UCS_INPROGRESS)
        return copied ? WEIR_OK : WEIR_IN_PROGRESS;
    return wr_ucx_error(s, p, "a put", err);
}

/* The request waits among the peer's gets until wr_ucx_receive() has all of its data. */
static void get_ended(struct ucx_req *r, weir_status status)
{
    wr_ucx_complete_op(r, status);
}

weir_status wr_ucx_message_get(struct ucx_peer *p, void *dst, uint64_t len, struct wr_rkey *k, uint64_t offset,
                            struct wr_op *op, weir_error *err)
{
    struct ucx *u = p->u;
    struct ucx_req *r = wr_ucx_req_get(u, p, false);
    struct ucx_req *ask = r ? wr_ucx_req_get(u, p, false) : NULL;
    if (!ask) {
        if (r)
            wr_ucx_req_put(r);
        return WEIR_ERR_BUSY;
    }
    r->op = op;
    r->local = dst;
    r->left = len;
    r->mark = len;
    r->complete = get_ended;
    wr_list_push_back(&p->gets, &r->link);
    wr_ucx_header(ask, UCX_GET, UCX_WIRE_FULL);
    ask->wire.key_id = k->id;
    ask->wire.key_gen = k->gen;
    ask->wire.offset = offset;
    ask->wire.len = len;
    ask->wire.token = wr_ucx_req_token(r);
    ask->complete = wr_ucx_complete_op;
    ucs_status_t s = wr_ucx_send(ask, NULL, 0);
    if (s == UCS_OK || s == UCS_INPROGRESS)
        return WEIR_IN_PROGRESS;
    wr_list_remove(&r->link);
    wr_ucx_req_put(r);
    return wr_ucx_error(s, p, "a get", err);
}
