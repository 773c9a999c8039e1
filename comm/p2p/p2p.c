/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting sends and receives, whole messages, credit, queues, lost peers. */
#include "comm/p2p/p2p.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/p2p/p2p_impl.h"

weir_status wr_p2p_create(struct weir_ctx *ctx, struct wr_engine *engine, uint64_t unexpected_limit, struct wr_p2p **out,
                          weir_error *err)
{
    struct wr_p2p *p2p = calloc(1, sizeof *p2p);
    if (!p2p)
        return wr_error_memory(err, sizeof *p2p, "messages");
    p2p->peer = calloc((size_t)engine->size, sizeof *p2p->peer);
    if (!p2p->peer) {
        free(p2p);
        return wr_error_memory(err, (size_t)engine->size * sizeof *p2p->peer, "the table of peers");
    }
    p2p->ctx = ctx;
    p2p->engine = engine;
    p2p->size = engine->size;
    p2p->credit = unexpected_limit / (uint64_t)engine->size;
    p2p->credit = WR_MAX(WR_MIN(p2p->credit, (uint64_t)WR_P2P_CREDIT_MAX), (uint64_t)WR_P2P_CREDIT_MIN);
    wr_pool_init(&p2p->sends, sizeof(struct p2p_send), 0, 64, 0);
    wr_pool_init(&p2p->recvs, sizeof(struct p2p_recv), 0, 64, 0);
    for (size_t i = 0; i < WR_P2P_ROOMS; i++)
        wr_pool_init(&p2p->rooms[i], sizeof(struct p2p_kept) + ((size_t)WR_P2P_ROOM_MIN << i), 0, 64 >> i ? 64 >> i : 1, 0);
    for (size_t i = 0; i < WR_ARRAY_SIZE(p2p->posted); i++)
        wr_list_init(&p2p->posted[i]);
    for (size_t i = 0; i < WR_ARRAY_SIZE(p2p->kept); i++)
        wr_list_init(&p2p->kept[i]);
    wr_list_init(&p2p->work);
    *out = p2p;
    return WEIR_OK;
}

void wr_p2p_destroy(struct wr_p2p *p2p)
{
    if (!p2p)
        return;
    for (size_t i = 0; i < WR_ARRAY_SIZE(p2p->kept); i++) {
        struct p2p_kept *kept, *next;
        wr_list_for_each_safe(kept, next, &p2p->kept[i], link) wr_p2p_kept_free(p2p, kept);
    }
    for (int i = 0; i < p2p->size; i++)
        free(p2p->peer[i]);
    free(p2p->peer);
    free(p2p->send_ids.slot);
    free(p2p->recv_ids.slot);
    wr_pool_destroy(&p2p->sends);
    wr_pool_destroy(&p2p->recvs);
    for (size_t i = 0; i < WR_P2P_ROOMS; i++)
        wr_pool_destroy(&p2p->rooms[i]);
    free(p2p);
}

void wr_p2p_set_memory(struct wr_p2p *p2p, const struct wr_p2p_memory *memory)
{
    p2p->memory = *memory;
}

const struct wr_list *wr_p2p_work(const struct wr_p2p *p2p)
{
    return &p2p->work;
}

uint64_t wr_p2p_kept_bytes(const struct wr_p2p *p2p)
{
    return p2p->kept_bytes;
}

struct p2p_peer *wr_p2p_peer(struct wr_p2p *p2p, int rank)
{
    struct p2p_peer *peer = p2p->peer[rank];
    if (peer)
        return peer;
    peer = calloc(1, sizeof *peer);
    if (!peer)
        return NULL;
    peer->rank = rank;
    wr_list_init(&peer->queue);
    wr_list_init(&peer->sends);
    wr_list_init(&peer->recvs);
    wr_list_init(&peer->work_link);
    p2p->peer[rank] = peer;
    return peer;
}

void wr_p2p_need_work(struct wr_p2p *p2p, struct p2p_peer *peer)
{
    if (wr_list_empty(&peer->work_link))
        wr_list_push_back(&p2p->work, &peer->work_link);
}

/* ---- credit ---- */

static bool send_credit(struct wr_p2p *p2p, struct p2p_peer *peer)
{
    struct p2p_credit credit = {peer->consumed};
    weir_error err;
    if (!wr_engine_ready(p2p->engine, peer->rank))
        return false; /* connected from wr_p2p_progress() */
    struct wr_transport *t = wr_engine_route(p2p->engine, peer->rank);
    weir_status status = t->ops->am(t, peer->rank, WR_AM_CREDIT, &credit, sizeof credit, NULL, 0, 0, &err);
    if (status != WEIR_ERR_BUSY)
        peer->reported = credit.consumed;
    return status != WEIR_ERR_BUSY;
}

static bool credit_is_due(const struct wr_p2p *p2p, const struct p2p_peer *peer)
{
    return peer->consumed - peer->reported >= p2p->credit / 2;
}

void wr_p2p_consumed(struct wr_p2p *p2p, int source, uint64_t cost)
{
    struct p2p_peer *peer = wr_p2p_peer(p2p, source);
    if (!peer)
        return;
    peer->consumed += cost;
    if (credit_is_due(p2p, peer) && !send_credit(p2p, peer))
        wr_p2p_need_work(p2p, peer);
}

void wr_p2p_on_credit(void *arg, int source, const void *data, size_t len)
{
    struct wr_p2p *p2p = arg;
    struct p2p_credit credit;
    struct p2p_peer *peer = wr_p2p_peer(p2p, source);
    if (len != sizeof credit || !peer)
        return;
    memcpy(&credit, data, sizeof credit);
    if (credit.consumed - peer->credited > peer->sent - peer->credited)
        return; /* more than was sent */
    peer->credited = credit.consumed;
    if (!wr_list_empty(&peer->queue))
        wr_p2p_need_work(p2p, peer);
}

/* ---- sending ---- */

static uint64_t whole_limit(const struct wr_p2p *p2p, const struct wr_transport *t)
{
    return WR_MIN(t->caps.max_am - sizeof(struct p2p_envelope), p2p->credit / 4);
}

/* Sends a whole message or, with an id, an announcement; WEIR_ERR_BUSY when there is no credit or no room. */
static weir_status send_first(struct wr_p2p *p2p, struct p2p_peer *peer, struct wr_transport *t, const struct p2p_envelope *envelope,
                              const void *buffer, uint64_t bytes, uint64_t id, weir_error *err)
{
    bool whole = !id;
    uint64_t cost = p2p_cost(whole ? bytes : 0);
    weir_status status;
    if (peer->sent - peer->credited + cost > p2p->credit)
        return WEIR_ERR_BUSY;
    if (whole) {
        status = t->ops->am(t, peer->rank, WR_AM_EAGER, envelope, sizeof *envelope, buffer, bytes, 0, err);
    } else {
        struct p2p_ready ready = {*envelope, bytes, id};
        status = t->ops->am(t, peer->rank, WR_AM_READY, &ready, sizeof ready, NULL, 0, 0, err);
    }
    if (!status)
        peer->sent += cost;
    return status;
}

static void release_send(struct weir_request *request)
{
    struct p2p_send *send = WR_CONTAINER_OF(request, struct p2p_send, request);
    if (send->in_flight)
        send->released = true;
    else
        wr_pool_put(&send->p2p->sends, send);
}

weir_status wr_p2p_send(struct wr_p2p *p2p, const struct wr_group *group, enum wr_p2p_space space, const void *buffer,
                        uint64_t bytes, int dest, int32_t tag, struct weir_request **request, weir_error *err)
{
    struct p2p_envelope envelope = {group->id ^ (uint32_t)space, tag};
    struct wr_transport *t = wr_engine_member(p2p->engine, group, dest, err);
    if (!t)
        return err->status;
    struct p2p_peer *peer = wr_p2p_peer(p2p, wr_group_world(group, dest));
    if (!peer)
        return wr_error_memory(err, sizeof *peer, "a peer");
    struct wr_region *region = NULL;
    enum p2p_way way = bytes <= whole_limit(p2p, t)                                       ? P2P_WHOLE
                       : wr_p2p_in_pieces(p2p, t, peer->rank, buffer, bytes, &region) ? P2P_IN_PIECES
                                                                                          : P2P_ANNOUNCED;
    if (way == P2P_WHOLE && wr_list_empty(&peer->queue)) {
        weir_status status = send_first(p2p, peer, t, &envelope, buffer, bytes, 0, err);
        if (status != WEIR_ERR_BUSY) {
            *request = NULL;
            return status;
        }
    }
    struct p2p_send *send = wr_pool_get(&p2p->sends);
    if (!send)
        return wr_error_memory(err, sizeof *send, "a send");
    memset(send, 0, sizeof *send);
    if (way == P2P_ANNOUNCED && !wr_p2p_id_new(&p2p->send_ids, send, &send->id)) {
        wr_pool_put(&p2p->sends, send);
        return wr_error_memory(err, sizeof *send, "the number of a send");
    }
    wr_request_init(&send->request, p2p->ctx, p2p->engine, group, peer->rank, "weir_isend", release_send);
    send->p2p = p2p;
    send->op.done = wr_p2p_op_done;
    send->way = way;
    send->region = region;
    send->envelope = envelope;
    send->buffer = buffer;
    send->bytes = bytes;
    wr_list_push_back(&peer->queue, &send->link);
    wr_p2p_need_work(p2p, peer);
    if (way != P2P_WHOLE)
        wr_p2p_progress(p2p);
    *request = &send->request;
    return WEIR_OK;
}

/* Sends the first of a peer's queue, or what of it can be sent now. */
static weir_status advance_first(struct wr_p2p *p2p, struct p2p_peer *peer, struct p2p_send *send)
{
    weir_error err;
    if (send->way == P2P_IN_PIECES && (send->moved || wr_p2p_may_send_pieces(p2p, peer, send)))
        return wr_p2p_send_pieces(p2p, peer, send);
    if (send->way == P2P_IN_PIECES) { /* announced, it needs no room at the receiver, and those behind it need not wait */
        if (!wr_p2p_id_new(&p2p->send_ids, send, &send->id))
            return WEIR_ERR_NO_MEMORY;
        send->way = P2P_ANNOUNCED;
        send->region = NULL;
    }
    return send_first(p2p, peer, wr_engine_route(p2p->engine, peer->rank), &send->envelope, send->buffer, send->bytes, send->id,
                      &err);
}

static bool waits_for_credit(const struct wr_p2p *p2p, const struct p2p_peer *peer, const struct p2p_send *send)
{
    return send->way != P2P_IN_PIECES && peer->sent - peer->credited + p2p_cost(send->id ? 0 : send->bytes) > p2p->credit;
}

/* Sends what waits in a peer's queue, in order; false when something must wait for room (not: for credit). */
static bool advance_queue(struct wr_p2p *p2p, struct p2p_peer *peer)
{
    while (!wr_list_empty(&peer->queue)) {
        struct p2p_send *send = wr_list_first(&peer->queue, struct p2p_send, link);
        weir_status status = advance_first(p2p, peer, send);
        if (status == WEIR_ERR_BUSY)
            return waits_for_credit(p2p, peer, send);
        if (status || send->way == P2P_WHOLE || (send->way == P2P_IN_PIECES && !send->in_flight)) {
            wr_p2p_send_end(p2p, send, status ? status : send->result);
            continue;
        }
        if (send->way == P2P_ANNOUNCED)
            send->state = SEND_READY;
        wr_list_remove(&send->link);
        wr_list_push_back(&peer->sends, &send->link);
    }
    return true;
}

/* Does what a peer has waiting; true when nothing is left that only needs room. */
static bool advance_peer(struct wr_p2p *p2p, struct p2p_peer *peer)
{
    struct p2p_send *send, *next_send;
    struct p2p_recv *recv, *next_recv;
    bool idle = !credit_is_due(p2p, peer) || send_credit(p2p, peer);
    wr_list_for_each_safe(recv, next_recv, &peer->recvs, link) if (recv->clear_pending) idle &= wr_p2p_send_clear(p2p, recv);
    wr_list_for_each_safe(send, next_send, &peer->sends, link) idle &= wr_p2p_send_advance(p2p, send);
    return advance_queue(p2p, peer) && idle;
}

void wr_p2p_progress(struct wr_p2p *p2p)
{
    struct p2p_peer *peer, *next;
    wr_list_for_each_safe(peer, next, &p2p->work, work_link)
    {
        weir_error err;
        if (p2p->engine->lost[peer->rank]) {
            wr_list_remove(&peer->work_link);
            continue;
        }
        if (!wr_engine_peer(p2p->engine, peer->rank, &err))
            wr_engine_peer_lost(p2p->engine, peer->rank, err.message);
        else if (advance_peer(p2p, peer))
            wr_list_remove(&peer->work_link);
    }
}

/* ---- receiving ---- */

static void release_recv(struct weir_request *request)
{
    struct p2p_recv *recv = WR_CONTAINER_OF(request, struct p2p_recv, request);
    wr_pool_put(&recv->p2p->recvs, recv);
}

static void deliver_whole(struct wr_p2p *p2p, struct p2p_recv *recv, int source, int32_t tag, const void *data, uint64_t bytes)
{
    uint64_t n = WR_MIN(bytes, recv->room);
    if (n)
        memcpy(recv->buffer, data, n);
    recv->source = source;
    recv->envelope.tag = tag;
    recv->bytes = bytes;
    wr_p2p_recv_end(p2p, recv, WEIR_OK);
    wr_p2p_consumed(p2p, source, p2p_cost(bytes));
}

weir_status wr_p2p_recv(struct wr_p2p *p2p, const struct wr_group *group, enum wr_p2p_space space, void *buffer,
                        uint64_t bytes, int rank, int32_t tag, weir_message *message, struct weir_request **request,
                        weir_error *err)
{
    struct p2p_recv *recv = wr_pool_get(&p2p->recvs);
    int source = rank == WEIR_ANY_SOURCE ? rank : wr_group_world(group, rank);
    if (!recv)
        return wr_error_memory(err, sizeof *recv, "a receive");
    memset(recv, 0, sizeof *recv);
    wr_request_init(&recv->request, p2p->ctx, p2p->engine, group, source, "weir_irecv", release_recv);
    wr_list_init(&recv->link);
    recv->p2p = p2p;
    recv->envelope = (struct p2p_envelope){group->id ^ (uint32_t)space, tag};
    recv->source = source;
    recv->buffer = buffer;
    recv->room = bytes;
    recv->message = message;
    *request = &recv->request;
    struct p2p_kept *kept = wr_p2p_match_kept(p2p, recv);
    if (!kept) {
        if (source != WEIR_ANY_SOURCE && p2p->engine->lost[source])
            wr_p2p_recv_end(p2p, recv, WEIR_ERR_PEER_LOST);
        else
            wr_p2p_post(p2p, recv);
        return WEIR_OK;
    }
    if (kept->is_ready) {
        recv->envelope.tag = kept->envelope.tag;
        wr_p2p_consumed(p2p, kept->source, p2p_cost(0));
        wr_p2p_recv_long(p2p, recv, kept->source, kept->bytes, kept->sender_id);
    } else if (kept->is_arriving) {
        wr_p2p_recv_rest(p2p, recv, kept);
    } else {
        deliver_whole(p2p, recv, kept->source, kept->envelope.tag, kept->data, kept->bytes);
    }
    wr_p2p_kept_free(p2p, kept);
    return WEIR_OK;
}

bool wr_p2p_cancel_recv(struct weir_request *request)
{
    struct p2p_recv *recv = WR_CONTAINER_OF(request, struct p2p_recv, request);
    if (request->complete || recv->id || recv->is_arriving)
        return false;
    wr_list_remove(&recv->link);
    release_recv(request);
    return true;
}

bool wr_p2p_cancel_send(struct weir_request *request)
{
    struct p2p_send *send = WR_CONTAINER_OF(request, struct p2p_send, request);
    if (request->complete || (send->state != SEND_QUEUED && send->state != SEND_READY))
        return false;
    wr_p2p_send_end(send->p2p, send, WEIR_ERR_CANCELED);
    release_send(request);
    return true;
}

static void keep_or_lose(struct wr_p2p *p2p, int source, const struct p2p_envelope *envelope, bool is_ready, uint64_t bytes,
                         uint64_t sender_id, const void *data)
{
    if (!wr_p2p_keep(p2p, source, envelope, is_ready, bytes, sender_id, data))
        wr_engine_peer_lost(p2p->engine, source, "no memory was left to keep its message");
}

void wr_p2p_on_eager(void *arg, int source, const void *data, size_t len)
{
    struct wr_p2p *p2p = arg;
    struct p2p_envelope envelope;
    if (len < sizeof envelope)
        return;
    memcpy(&envelope, data, sizeof envelope);
    const void *payload = (const char *)data + sizeof envelope;
    struct p2p_recv *recv = wr_p2p_match_posted(p2p, source, &envelope);
    if (recv)
        deliver_whole(p2p, recv, source, envelope.tag, payload, len - sizeof envelope);
    else
        keep_or_lose(p2p, source, &envelope, false, len - sizeof envelope, 0, payload);
}

void wr_p2p_on_ready(void *arg, int source, const void *data, size_t len)
{
    struct wr_p2p *p2p = arg;
    struct p2p_ready ready;
    if (len != sizeof ready)
        return;
    memcpy(&ready, data, sizeof ready);
    struct p2p_recv *recv = wr_p2p_match_posted(p2p, source, &ready.envelope);
    if (!recv) {
        keep_or_lose(p2p, source, &ready.envelope, true, ready.bytes, ready.sender_id, NULL);
        return;
    }
    recv->envelope.tag = ready.envelope.tag;
    wr_p2p_consumed(p2p, source, p2p_cost(0));
    wr_p2p_recv_long(p2p, recv, source, ready.bytes, ready.sender_id);
}

/* ---- lost peers ---- */

static void lose_posted(struct wr_p2p *p2p, struct wr_list *bin, int peer)
{
    struct p2p_recv *recv, *next;
    wr_list_for_each_safe(recv, next, bin, link)
    {
        if (recv->source != peer &&
            (recv->source != WEIR_ANY_SOURCE || wr_group_rank(recv->request.group, peer) < 0))
            continue;
        recv->request.peer = peer;
        wr_p2p_recv_end(p2p, recv, WEIR_ERR_PEER_LOST);
    }
}

void wr_p2p_peer_lost(struct wr_p2p *p2p, int rank)
{
    struct p2p_peer *peer = p2p->peer[rank];
    lose_posted(p2p, &p2p->posted[p2p_bin(rank)], rank);
    lose_posted(p2p, &p2p->posted[WR_P2P_BINS], rank);
    if (!peer)
        return;
    wr_p2p_drop_arriving(p2p, peer);
    while (!wr_list_empty(&peer->recvs))
        wr_p2p_recv_end(p2p, wr_list_first(&peer->recvs, struct p2p_recv, link), WEIR_ERR_PEER_LOST);
    while (!wr_list_empty(&peer->sends))
        wr_p2p_send_end(p2p, wr_list_first(&peer->sends, struct p2p_send, link), WEIR_ERR_PEER_LOST);
    while (!wr_list_empty(&peer->queue))
        wr_p2p_send_end(p2p, wr_list_first(&peer->queue, struct p2p_send, link), WEIR_ERR_PEER_LOST);
}
