/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages as they arrive, inside of UCX's callback: whatever has to be sent in answer is only noted. */
#include <stdlib.h>

#include "base/atomic.h"
#include "base/error.h"
#include "comm/transport/ucx/ucx.h"

static void count_signal(struct ucx *u, const struct ucx_peer *p, uint32_t slot)
{
    if (slot < u->base.params.nsignals)
        wr_store_release(&u->base.params.signals[slot], u->base.params.signals[slot] + 1);
    else
        wr_error(u->base.params.log, TRANSPORT, "ucx: rank %d signals slot %u, there are %u", p->rank, slot,
                 u->base.params.nsignals);
}

static void receive_message(struct ucx *u, struct ucx_peer *p, const struct ucx_wire *w, const void *data, size_t len)
{
    wr_am_handler handler = w->id < WR_AM_HANDLERS ? u->base.params.am[w->id] : NULL;
    if (u->closing)
        return;
    if (handler)
        handler(u->base.params.am_arg, p->rank, data, len);
    else
        wr_error(u->base.params.log, TRANSPORT, "ucx: rank %d sent a message for handler %u, which does not exist",
                 p->rank, w->id);
}

static void receive_put(struct ucx *u, struct ucx_peer *p, const struct ucx_wire *w, const void *data, size_t len)
{
    char *place = wr_ucx_region_place(u, w, len, WR_REG_REMOTE_WRITE);
    if (!place) {
        p->refused = true;
        wr_error(u->base.params.log, TRANSPORT,
                 "ucx: refused a put of rank %d: its key is not valid (region %u, bytes %llu..%llu)", p->rank,
                 w->key_id, (unsigned long long)w->offset, (unsigned long long)(w->offset + len));
        return;
    }
    memcpy(place, data, len);
    if (w->has_signal)
        count_signal(u, p, w->slot);
}

static void receive_get(struct ucx *u, struct ucx_peer *p, const struct ucx_wire *w)
{
    const char *place = wr_ucx_region_place(u, w, w->len, WR_REG_REMOTE_READ);
    struct ucx_stream *s = wr_ucx_stream_new(p, false);
    if (!s) {
        wr_error(u->base.params.log, TRANSPORT, "ucx: no memory to answer a get of rank %d", p->rank);
        return;
    }
    s->wire.header_len = UCX_WIRE_TOKEN;
    s->wire.kind = place ? UCX_GET_DATA : UCX_GET_FAIL;
    s->wire.token = w->token;
    s->src = place;
    s->left = place ? w->len : 0;
    wr_ucx_has_work(p);
}

static void receive_get_data(struct ucx *u, struct ucx_peer *p, const struct ucx_wire *w, const void *data, size_t len)
{
    struct ucx_req *r = wr_ucx_req_find(u, w->token);
    if (!r || r->peer != p || w->offset > r->mark || len > r->mark - w->offset || len > r->left) {
        wr_error(u->base.params.log, TRANSPORT, "ucx: rank %d sent data that nobody waits for", p->rank);
        return;
    }
    if (len)
        memcpy(r->local + w->offset, data, len);
    r->left -= len;
    if (w->kind == UCX_GET_FAIL)
        r->status = WEIR_ERR_STALE;
    if (!r->left || w->kind == UCX_GET_FAIL) {
        wr_list_remove(&r->link);
        wr_list_push_back(&u->finished, &r->link);
    }
}

static void receive_hello(struct ucx *u, struct ucx_peer *p, const void *data, size_t len)
{
    if (p->address || !len)
        return;
    p->address = malloc(len);
    if (!p->address) {
        wr_error(u->base.params.log, TRANSPORT, "ucx: no memory for the address of rank %d", p->rank);
        return;
    }
    memcpy(p->address, data, len);
    p->address_len = len;
}

void wr_ucx_receive(void *arg, const void *header, size_t header_len, const void *data, size_t len)
{
    struct ucx *u = arg;
    struct ucx_wire w = {0};
    memcpy(&w, header, WR_MIN(header_len, sizeof w));
    if (header_len < UCX_WIRE_SHORT || header_len != w.header_len || w.source >= (uint32_t)u->base.params.size) {
        wr_error(u->base.params.log, TRANSPORT, "ucx: dropped a message with a broken header of %zu bytes", header_len);
        return;
    }
    struct ucx_peer *p = &u->peers[w.source];
    switch ((enum ucx_kind)w.kind) {
    case UCX_MSG:
        receive_message(u, p, &w, data, len);
        break;
    case UCX_PUT:
        receive_put(u, p, &w, data, len);
        break;
    case UCX_SIGNAL:
        count_signal(u, p, w.slot);
        break;
    case UCX_GET:
        receive_get(u, p, &w);
        break;
    case UCX_GET_DATA:
    case UCX_GET_FAIL:
        receive_get_data(u, p, &w, data, len);
        break;
    case UCX_FLUSH:
        p->ack_owed = true;
        p->ack_token = w.token;
        wr_ucx_has_work(p);
        break;
    case UCX_ACK:
        wr_ucx_acked(p, w.token, w.has_signal);
        break;
    case UCX_HELLO:
        receive_hello(u, p, data, len);
        break;
    case UCX_BYE:
        p->departed = true;
        wr_ucx_has_work(p);
        break;
    default:
        wr_error(u->base.params.log, TRANSPORT, "ucx: dropped a message of kind %u from rank %d", w.kind, p->rank);
    }
}
