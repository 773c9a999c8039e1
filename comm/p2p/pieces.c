/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of middle length: all pieces are sent at once, from the sender's memory, and copied into the receiver's as they
 * come. Messages of a pair come in order and a message's pieces follow each other, so that one message at a time is arriving
 * from a peer. Its bytes count as those of a whole message from the first piece on, whether a receive waits for it or not; where
 * they would be more than the receiver allows, it is announced instead.
 */
#include <string.h>

#include "base/error.h"
#include "comm/p2p/p2p_impl.h"

/* Bytes of the message in a piece; 0: there are none. */
static uint64_t piece_of(const struct wr_transport *t, int rank)
{
    size_t most = t->ops->am_long_max ? t->ops->am_long_max(t, rank) : 0;
    return most <= sizeof(struct p2p_piece) ? 0 : most - sizeof(struct p2p_piece);
}

bool wr_p2p_in_pieces(struct wr_p2p *p2p, struct wr_transport *t, int rank, const void *buffer, uint64_t bytes,
                      struct wr_region **region)
{
    uint64_t unused, piece = piece_of(t, rank);
    *region = NULL;
    if (!piece || bytes > WR_MIN(WR_MAX(WR_P2P_PIECES_MOST * piece, (uint64_t)WR_P2P_PIECES_SHORT), (uint64_t)WR_P2P_IN_PIECES) ||
        p2p_cost(bytes) > p2p->credit / 2)
        return false;
    if (t->caps.needs_local_region && p2p->memory.find)
        *region = p2p->memory.find(p2p->memory.arg, t, buffer, bytes, &unused);
    return *region || !t->caps.needs_local_region;
}

/* ---- the sender ---- */

/* A message that broke off cannot be told from one whose rest is late, so the pair is given up. */
static void give_up(struct wr_p2p *p2p, int rank, weir_status status)
{
    if (status != WEIR_ERR_PEER_LOST)
        wr_engine_peer_lost(p2p->engine, rank, "a piece of a message could not be sent");
}

bool wr_p2p_may_send_pieces(const struct wr_p2p *p2p, const struct p2p_peer *peer, const struct p2p_send *send)
{
    return peer->sent - peer->credited + p2p_cost(send->bytes) <= p2p->credit - p2p->credit / 8; /* the rest is for short ones */
}

weir_status wr_p2p_send_pieces(struct wr_p2p *p2p, struct p2p_peer *peer, struct p2p_send *send)
{
    struct wr_transport *t = wr_engine_route(p2p->engine, peer->rank);
    uint64_t most = piece_of(t, peer->rank);
    while (send->moved < send->bytes) {
        weir_error err;
        struct p2p_piece header = {send->envelope, send->bytes, send->moved};
        size_t n = (size_t)WR_MIN(most, send->bytes - send->moved);
        send->in_flight++; /* wr_p2p_op_done() may come before am_long() returns */
        weir_status status = t->ops->am_long(t, peer->rank, WR_AM_PIECE, &header, sizeof header, send->buffer + send->moved,
                                             send->region, n, &send->op, &err);
        if (status != WEIR_IN_PROGRESS)
            send->in_flight--;
        if (status == WEIR_ERR_BUSY)
            return status;
        if (status != WEIR_OK && status != WEIR_IN_PROGRESS) {
            if (send->moved)
                give_up(p2p, peer->rank, status);
            return status;
        }
        if (!send->moved) {
            peer->sent += p2p_cost(send->bytes);
            send->state = SEND_PIECES;
        }
        send->moved += n;
    }
    return WEIR_OK;
}

void wr_p2p_piece_done(struct p2p_send *send, weir_status status)
{
    struct wr_p2p *p2p = send->p2p;
    if (status != WEIR_OK && send->result == WEIR_OK) {
        send->result = status;
        give_up(p2p, send->request.peer, status);
    }
    if (send->moved == send->bytes && !send->in_flight)
        wr_p2p_send_end(p2p, send, send->result);
}

/* ---- the receiver ---- */

static void give_to(struct p2p_peer *peer, struct p2p_recv *recv, int32_t tag, uint64_t bytes)
{
    recv->source = peer->rank;
    recv->request.peer = peer->rank;
    recv->envelope.tag = tag;
    recv->bytes = bytes;
    recv->is_arriving = true;
    wr_list_push_back(&peer->recvs, &recv->link);
    peer->arriving.recv = recv;
}

/* The first piece of a message: finds out where it goes. */
static bool begin(struct wr_p2p *p2p, struct p2p_peer *peer, const struct p2p_piece *piece)
{
    struct p2p_arriving *a = &peer->arriving;
    struct p2p_recv *recv = wr_p2p_match_posted(p2p, peer->rank, &piece->envelope);
    *a = (struct p2p_arriving){.bytes = piece->bytes};
    if (recv) {
        give_to(peer, recv, piece->envelope.tag, piece->bytes);
        return true;
    }
    a->kept = wr_p2p_keep(p2p, peer->rank, &piece->envelope, false, piece->bytes, 0, NULL);
    if (a->kept) {
        a->kept->is_arriving = true;
        return true;
    }
    a->bytes = 0;
    wr_engine_peer_lost(p2p->engine, peer->rank, "no memory was left to keep its message");
    return false;
}

/* Everything has come. */
static void end(struct wr_p2p *p2p, struct p2p_peer *peer)
{
    struct p2p_arriving a = peer->arriving;
    peer->arriving = (struct p2p_arriving){0};
    if (a.kept) {
        a.kept->is_arriving = false;
        return;
    }
    wr_p2p_recv_end(p2p, a.recv, WEIR_OK);
    wr_p2p_consumed(p2p, peer->rank, p2p_cost(a.bytes));
}

static void store(struct p2p_recv *recv, uint64_t offset, const void *data, uint64_t n)
{
    if (offset < recv->room)
        memcpy(recv->buffer + offset, data, WR_MIN(n, recv->room - offset));
}

void wr_p2p_on_piece(void *arg, int source, const void *data, size_t len)
{
    struct wr_p2p *p2p = arg;
    struct p2p_piece piece;
    struct p2p_peer *peer = wr_p2p_peer(p2p, source);
    if (len <= sizeof piece || !peer || p2p->engine->lost[source])
        return;
    memcpy(&piece, data, sizeof piece);
    struct p2p_arriving *a = &peer->arriving;
    const char *bytes = (const char *)data + sizeof piece;
    uint64_t n = len - sizeof piece;
    bool first = !a->bytes && !piece.offset;
    if (!first && (piece.bytes != a->bytes || piece.offset != a->got)) {
        wr_engine_peer_lost(p2p->engine, source, "a piece of a message came that fits none");
        return;
    }
    if (n > piece.bytes - piece.offset || (first && !begin(p2p, peer, &piece)))
        return;
    if (a->recv)
        store(a->recv, a->got, bytes, n);
    else
        memcpy(a->kept->data + a->got, bytes, n);
    a->got += n;
    if (a->got == a->bytes)
        end(p2p, peer);
}

void wr_p2p_recv_rest(struct wr_p2p *p2p, struct p2p_recv *recv, struct p2p_kept *kept)
{
    struct p2p_peer *peer = p2p->peer[kept->source];
    store(recv, 0, kept->data, peer->arriving.got);
    give_to(peer, recv, kept->envelope.tag, kept->bytes);
    peer->arriving.kept = NULL;
}

void wr_p2p_drop_arriving(struct wr_p2p *p2p, struct p2p_peer *peer)
{
    struct p2p_kept *kept = peer->arriving.kept;
    peer->arriving = (struct p2p_arriving){0};
    if (!kept)
        return;
    wr_p2p_kept_take(p2p, kept);
    wr_p2p_kept_free(p2p, kept);
}
