/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages: READY -> CLEAR -> put, FINISH; or, where memory cannot be registered, CLEAR -> DATA ... , FINISH.
 */
#include <string.h>

#include "base/error.h"
#include "comm/p2p/p2p_impl.h"

static struct wr_transport *transport_of(const struct wr_p2p *p2p, int peer)
{
    return wr_engine_route(p2p->engine, peer);
}

/* A registration for [addr, addr + len): one that exists, or one for this transfer; NULL when it is refused. */
static struct wr_region *region_for(struct wr_p2p *p2p, struct wr_transport *t, const void *addr, uint64_t len, unsigned flags,
                                    uint64_t *offset, bool *own)
{
    struct wr_region *region = NULL;
    *offset = 0;
    *own = false;
    if (p2p->memory.find && (region = p2p->memory.find(p2p->memory.arg, t, addr, len, offset)))
        return region;
    weir_error why;
    if (t->ops->reg(t, (void *)(uintptr_t)addr, len, flags, &region, &why)) {
        wr_engine_warn_staging(p2p->engine, t, 1, &why);
        return NULL;
    }
    *own = true;
    return region;
}

/* ---- the sender ---- */

void wr_p2p_send_clean(struct wr_p2p *p2p, struct p2p_send *send)
{
    struct wr_transport *t = transport_of(p2p, send->request.peer);
    if (send->rkey)
        t->ops->key_close(t, send->rkey);
    if (send->own_region)
        t->ops->dereg(t, send->region);
    send->rkey = NULL;
    send->region = NULL;
    send->own_region = false;
}

void wr_p2p_send_end(struct wr_p2p *p2p, struct p2p_send *send, weir_status status)
{
    if (!send->in_flight)
        wr_p2p_send_clean(p2p, send);
    if (send->id)
        wr_p2p_id_free(&p2p->send_ids, send->id);
    send->id = 0;
    send->state = SEND_DONE;
    wr_list_remove(&send->link);
    wr_request_complete(&send->request, status);
}

void wr_p2p_op_done(struct wr_op *op, weir_status status)
{
    struct p2p_send *send = WR_CONTAINER_OF(op, struct p2p_send, op);
    struct wr_p2p *p2p = send->p2p;
    send->in_flight--;
    if (send->state == SEND_DONE) { /* the peer was lost meanwhile, and the request has ended */
        if (send->in_flight)
            return;
        wr_p2p_send_clean(p2p, send);
        if (send->released)
            wr_pool_put(&p2p->sends, send);
        return;
    }
    if (send->way == P2P_IN_PIECES) {
        wr_p2p_piece_done(send, status);
        return;
    }
    send->result = status;
    send->state = SEND_FINISH;
    if (!wr_p2p_send_advance(p2p, send))
        wr_p2p_need_work(p2p, wr_p2p_peer(p2p, send->request.peer));
}

static bool advance_put(struct p2p_send *send, struct wr_transport *t)
{
    weir_error err;
    if (send->in_flight)
        return true;
    send->in_flight = 1; /* wr_p2p_op_done() may come before put() returns */
    weir_status status = t->ops->put(t, send->request.peer, send->buffer, send->region, send->wanted, send->rkey,
                                     send->offset, 0, &send->op, &err);
    if (status == WEIR_IN_PROGRESS)
        return true;
    send->in_flight = 0;
    if (status == WEIR_ERR_BUSY)
        return false;
    send->result = status;
    send->state = SEND_FINISH;
    return wr_p2p_send_advance(send->p2p, send);
}

static bool advance_data(struct p2p_send *send, struct wr_transport *t)
{
    weir_error err;
    size_t most = t->caps.max_am - sizeof(struct p2p_data);
    while (send->moved < send->wanted) {
        struct p2p_data header = {send->receiver_id, send->moved};
        size_t n = (size_t)WR_MIN(most, send->wanted - send->moved);
        weir_status status = t->ops->am(t, send->request.peer, WR_AM_DATA, &header, sizeof header,
                                        send->buffer + send->moved, n, 0, &err);
        if (status == WEIR_ERR_BUSY)
            return false;
        if (status) {
            send->result = status;
            break;
        }
        send->moved += n;
    }
    send->state = SEND_FINISH;
    return wr_p2p_send_advance(send->p2p, send);
}

static bool advance_finish(struct p2p_send *send, struct wr_transport *t)
{
    weir_error err;
    struct p2p_finish finish = {send->receiver_id, send->result};
    weir_status status =
        t->ops->am(t, send->request.peer, WR_AM_FINISH, &finish, sizeof finish, NULL, 0, WR_OP_FENCE, &err);
    if (status == WEIR_ERR_BUSY)
        return false;
    wr_p2p_send_end(send->p2p, send, send->result ? send->result : status);
    return true;
}

bool wr_p2p_send_advance(struct wr_p2p *p2p, struct p2p_send *send)
{
    struct wr_transport *t = transport_of(p2p, send->request.peer);
    switch (send->state) {
    case SEND_PUT:
        return advance_put(send, t);
    case SEND_DATA:
        return advance_data(send, t);
    case SEND_FINISH:
        return advance_finish(send, t);
    case SEND_QUEUED: /* in the peer's queue: wr_p2p_progress() sends it in order */
    case SEND_PIECES: /* likewise, or all have been handed over */
    case SEND_READY:  /* waits for the receiver */
    case SEND_DONE:
        break;
    }
    return true;
}

void wr_p2p_on_clear(void *arg, int source, const void *data, size_t len)
{
    struct wr_p2p *p2p = arg;
    struct wr_transport *t = transport_of(p2p, source);
    struct p2p_clear clear;
    if (len < sizeof clear)
        return;
    memcpy(&clear, data, sizeof clear);
    struct p2p_send *send = wr_p2p_id_find(&p2p->send_ids, clear.sender_id);
    if (!send && clear.bytes) { /* it was taken back: the receiver must not wait for it */
        struct p2p_finish finish = {clear.receiver_id, WEIR_ERR_CANCELED};
        weir_error err;
        t->ops->am(t, source, WR_AM_FINISH, &finish, sizeof finish, NULL, 0, 0, &err);
    }
    if (!send || send->state != SEND_READY || send->request.peer != source || clear.key_len != len - sizeof clear ||
        clear.bytes > send->bytes) {
        wr_warn(&p2p->engine->ctx->log, P2P, "dropped an answer of rank %d that fits no message", source);
        return;
    }
    send->receiver_id = clear.receiver_id;
    send->wanted = clear.bytes;
    send->offset = clear.offset;
    if (!clear.bytes) { /* the receiver has no room at all and has ended already */
        wr_p2p_send_end(p2p, send, WEIR_OK);
        return;
    }
    send->state = SEND_DATA;
    if (clear.key_len) {
        uint64_t unused;
        bool usable = true;
        if (t->caps.needs_local_region) {
            send->region = region_for(p2p, t, send->buffer, send->wanted, 0, &unused, &send->own_region);
            usable = send->region != NULL;
        }
        if (usable && !t->ops->key_import(t, source, (const char *)data + sizeof clear, clear.key_len, &send->rkey, NULL))
            send->state = SEND_PUT;
    }
    if (!wr_p2p_send_advance(p2p, send))
        wr_p2p_need_work(p2p, wr_p2p_peer(p2p, source));
}

/* ---- the receiver ---- */

void wr_p2p_recv_end(struct wr_p2p *p2p, struct p2p_recv *recv, weir_status status)
{
    if (recv->own_region) {
        struct wr_transport *t = transport_of(p2p, recv->source);
        t->ops->dereg(t, recv->region);
    }
    recv->region = NULL;
    recv->own_region = false;
    if (recv->id)
        wr_p2p_id_free(&p2p->recv_ids, recv->id);
    recv->id = 0;
    recv->clear_pending = false;
    recv->is_arriving = false;
    wr_list_remove(&recv->link);
    if (!status && recv->bytes > recv->room)
        status = WEIR_ERR_TRUNCATED;
    if (recv->message) {
        weir_message m = {recv->message->size, recv->source, recv->envelope.tag, recv->bytes};
        if (m.source >= 0)
            m.source = wr_group_rank(recv->request.group, m.source);
        memcpy(recv->message, &m, WR_MIN(m.size, sizeof m));
    }
    wr_request_complete(&recv->request, status);
}

bool wr_p2p_send_clear(struct wr_p2p *p2p, struct p2p_recv *recv)
{
    struct wr_transport *t = transport_of(p2p, recv->source);
    struct p2p_clear clear = {.sender_id = recv->sender_id,
                              .receiver_id = recv->id,
                              .bytes = WR_MIN(recv->bytes, recv->room)};
    unsigned char key[WR_KEY_MAX];
    size_t key_len = sizeof key;
    weir_error err;
    if (clear.bytes && !recv->region_tried) {
        recv->region_tried = true;
        recv->region = region_for(p2p, t, recv->buffer, clear.bytes, WR_REG_REMOTE_WRITE, &recv->region_offset, &recv->own_region);
    }
    clear.offset = recv->region_offset;
    if (recv->region && !t->ops->key_export(t, recv->region, key, &key_len, &err) &&
        sizeof clear + key_len <= t->caps.max_am)
        clear.key_len = (uint32_t)key_len;
    weir_status status = t->ops->am(t, recv->source, WR_AM_CLEAR, &clear, sizeof clear, key, clear.key_len, 0, &err);
    recv->clear_pending = status == WEIR_ERR_BUSY;
    if (recv->clear_pending)
        return false;
    if (status || !clear.bytes)
        wr_p2p_recv_end(p2p, recv, status);
    return true;
}

void wr_p2p_recv_long(struct wr_p2p *p2p, struct p2p_recv *recv, int source, uint64_t bytes, uint64_t sender_id)
{
    struct p2p_peer *peer = wr_p2p_peer(p2p, source);
    recv->source = source;
    recv->request.peer = source;
    recv->bytes = bytes;
    recv->sender_id = sender_id;
    if (p2p->engine->lost[source]) { /* it was announced before */
        wr_p2p_recv_end(p2p, recv, WEIR_ERR_PEER_LOST);
        return;
    }
    if (!peer || !wr_p2p_id_new(&p2p->recv_ids, recv, &recv->id)) {
        wr_p2p_recv_end(p2p, recv, WEIR_ERR_NO_MEMORY);
        return;
    }
    wr_list_push_back(&peer->recvs, &recv->link);
    recv->clear_pending = true;
    wr_p2p_need_work(p2p, peer);
    if (wr_engine_ready(p2p->engine, source))
        wr_p2p_send_clear(p2p, recv);
}

void wr_p2p_on_data(void *arg, int source, const void *data, size_t len)
{
    struct wr_p2p *p2p = arg;
    struct p2p_data header;
    if (len < sizeof header)
        return;
    memcpy(&header, data, sizeof header);
    struct p2p_recv *recv = wr_p2p_id_find(&p2p->recv_ids, header.receiver_id);
    uint64_t n = len - sizeof header;
    if (!recv || recv->source != source || header.offset > WR_MIN(recv->room, recv->bytes) ||
        n > WR_MIN(recv->room, recv->bytes) - header.offset) {
        wr_warn(&p2p->engine->ctx->log, P2P, "dropped a piece from rank %d that fits no receive", source);
        return;
    }
    memcpy(recv->buffer + header.offset, (const char *)data + sizeof header, n);
}

void wr_p2p_on_finish(void *arg, int source, const void *data, size_t len)
{
    struct wr_p2p *p2p = arg;
    struct p2p_finish finish;
    if (len != sizeof finish)
        return;
    memcpy(&finish, data, sizeof finish);
    struct p2p_recv *recv = wr_p2p_id_find(&p2p->recv_ids, finish.receiver_id);
    if (!recv || recv->source != source)
        wr_warn(&p2p->engine->ctx->log, P2P, "dropped an end from rank %d that fits no receive", source);
    else
        wr_p2p_recv_end(p2p, recv, finish.status > 0 ? WEIR_ERR_PROTOCOL : (weir_status)finish.status);
}
