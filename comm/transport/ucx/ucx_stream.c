/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams: long puts, answers to gets and flushes, handed to UCX in pieces and in order. */
#include "base/error.h"
#include "comm/transport/ucx/ucx.h"

enum { PUMP_FRAGMENTS = 16 }; /* most pieces of one peer before others, and receiving, have their turn */

void wr_ucx_has_work(struct ucx_peer *p)
{
    if (wr_list_empty(&p->busy))
        wr_list_push_back(&p->u->busy, &p->busy);
}

struct ucx_stream *wr_ucx_stream_new(struct ucx_peer *p, bool counted)
{
    struct ucx *u = p->u;
    if (counted && u->nstreams >= UCX_STREAMS)
        return NULL;
    struct ucx_stream *s = wr_pool_get(&u->streams);
    if (!s)
        return NULL;
    memset(s, 0, sizeof *s);
    s->peer = p;
    s->counted = counted;
    u->nstreams += counted;
    s->wire.source = (uint32_t)u->base.params.rank;
    wr_list_push_back(&p->streams, &s->link);
    return s;
}

void wr_ucx_stream_free(struct ucx_stream *s)
{
    struct ucx *u = s->peer->u;
    wr_list_remove(&s->link);
    u->nstreams -= s->counted;
    wr_pool_put(&u->streams, s);
}

void wr_ucx_stream_end(struct ucx_stream *s)
{
    struct ucx *u = s->peer->u;
    struct wr_op *op = s->op;
    struct ucx_group *g = s->group;
    weir_status status = s->status;
    wr_ucx_stream_free(s);
    if (op)
        op->done(op, status);
    if (g)
        wr_ucx_group_done(u, g, status);
}

static void stream_ended(struct ucx_stream *s)
{
    wr_list_remove(&s->link);
    wr_list_push_back(&s->peer->u->ended, &s->link);
}

static void fragment_done(struct ucx_req *r, weir_status status)
{
    struct ucx_stream *s = r->stream;
    wr_ucx_req_put(r);
    if (status != WEIR_OK && s->status == WEIR_OK)
        s->status = status;
    s->in_flight--;
    if (s->left)
        wr_ucx_has_work(s->peer);
    else if (!s->in_flight)
        stream_ended(s);
}

/* Sends one piece; false when nothing more can be sent now. */
static bool stream_fragment(struct ucx_stream *s)
{
    struct ucx_peer *p = s->peer;
    if (s->in_flight >= UCX_WINDOW)
        return false; /* fragment_done() goes on */
    struct ucx_req *r = wr_ucx_req_get(p->u, p, true);
    if (!r) {
        wr_ucx_has_work(p);
        return false;
    }
    uint64_t n = WR_MIN(s->left, p->u->fragment);
    const char *data = s->src;
    r->wire = s->wire;
    r->wire.has_signal = s->signal && n == s->left;
    r->stream = s;
    r->complete = fragment_done;
    s->src += n;
    s->left -= n;
    s->wire.offset += n;
    s->in_flight++;
    ucs_status_t st = wr_ucx_send(r, data, n);
    if (st != UCS_INPROGRESS)
        s->in_flight--;
    if (st != UCS_OK && st != UCS_INPROGRESS) {
        s->status = wr_ucx_status(st);
        s->left = 0;
    }
    return true;
}

static bool send_flush(struct ucx_stream *s)
{
    struct ucx_peer *p = s->peer;
    struct ucx_req *r = wr_ucx_req_get(p->u, p, true);
    if (!r) {
        wr_ucx_has_work(p);
        return false;
    }
    s->wire.token = ++p->flush_token;
    r->wire = s->wire;
    r->complete = wr_ucx_complete_op;
    wr_list_remove(&s->link);
    wr_list_push_back(&p->awaiting, &s->link);
    ucs_status_t st = wr_ucx_send(r, NULL, 0);
    if (st != UCS_OK && st != UCS_INPROGRESS) {
        s->status = wr_ucx_status(st);
        stream_ended(s);
    }
    return true;
}

static bool send_ack(struct ucx_peer *p)
{
    struct ucx_req *r = wr_ucx_req_get(p->u, p, true);
    if (!r) {
        wr_ucx_has_work(p);
        return false;
    }
    wr_ucx_header(r, UCX_ACK, UCX_WIRE_TOKEN);
    r->wire.token = p->ack_token;
    r->wire.has_signal = p->refused;
    r->complete = wr_ucx_complete_op;
    p->ack_owed = p->refused = false;
    wr_ucx_send(r, NULL, 0);
    return true;
}

/* The endpoint for answers to a peer that connected to us and to which we did not. */
static bool answering(struct ucx_peer *p)
{
    weir_error err;
    if (p->ep)
        return true;
    if (!p->address || p->lost || p->departed)
        return false;
    if (wr_ucx_peer_open(p, p->address, p->address_len, &err) == WEIR_OK)
        return true;
    wr_ucx_peer_fail(p, err.message);
    return false;
}

void wr_ucx_pump(struct ucx_peer *p)
{
    if (p->failed || p->departed)
        wr_ucx_peer_fail(p, "UCX reports an error of the connection");
    if ((!p->ack_owed && wr_list_empty(&p->streams)) || !answering(p))
        return;
    if (p->ack_owed && !send_ack(p))
        return;
    for (int i = 0; !wr_list_empty(&p->streams); i++) {
        struct ucx_stream *s = wr_list_first(&p->streams, struct ucx_stream, link);
        if (i == PUMP_FRAGMENTS) {
            wr_ucx_has_work(p);
            return;
        }
        if (s->wire.kind == UCX_FLUSH) {
            if (!send_flush(s))
                return;
            continue;
        }
        if (!stream_fragment(s))
            return;
        if (!s->left) {
            wr_list_remove(&s->link);
            if (!s->in_flight)
                stream_ended(s);
        }
    }
}
