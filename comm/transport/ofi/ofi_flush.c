/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fences and flushes. A flush waits for a sync round of each peer that begins after it; a round covers everything that
 * was started before it and has three parts: operations of its epoch have been posted (completed, where completion means
 * delivery); on a stream, a read behind the writes of each lane has come back; and the target's control word says that
 * it has copied all put_signals that were sent as messages.
 */
#include "comm/transport/ofi/ofi.h"

#include <string.h>

#include "base/clock.h"

enum { WR_OFI_PAUSE_MIN = 2000, WR_OFI_PAUSE_MAX = 500000 }; /* ns between two looks at the control word */

static bool wr_ofi_peer_clean(const struct wr_ofi *ofi, const struct wr_ofi_peer *peer)
{
    if (peer->open_bulks[0] + peer->open_bulks[1] || peer->eager_sent != peer->eager_acked)
        return false;
    return ofi->stream ? !peer->dirty : !(peer->open_puts[0] + peer->open_puts[1]);
}

static void wr_ofi_round_begin(struct wr_ofi *ofi, struct wr_ofi_peer *peer)
{
    peer->syncing = true;
    peer->round++;
    peer->epoch ^= 1; /* what starts from now on belongs to the next round */
    peer->round_eager = peer->eager_sent;
    peer->round_lanes = UINT32_MAX; /* decided when the bulks of the epoch have been posted */
    peer->round_reads = 0;
    peer->round_next = 0;
    peer->round_pause = WR_OFI_PAUSE_MIN;
    if (wr_list_empty(&peer->sync_link)) /* a failed round is still in the list until the next pump */
        wr_list_push_back(&ofi->syncing, &peer->sync_link);
}

/* The round that will have covered everything so far. */
static uint64_t wr_ofi_round_wanted(struct wr_ofi *ofi, struct wr_ofi_peer *peer)
{
    if (peer->syncing)
        return peer->round + 1;
    wr_ofi_round_begin(ofi, peer);
    return peer->round;
}

bool wr_ofi_fence_ready(struct wr_ofi *ofi, struct wr_ofi_peer *peer, bool rma, bool *use_flag)
{
    *use_flag = false;
    if (rma && peer->eager_acked != peer->eager_sent) {
        if (!peer->syncing)
            wr_ofi_round_begin(ofi, peer);
        return false;
    }
    if (peer->open_bulks[0] + peer->open_bulks[1])
        return false;
    if (ofi->stream) {
        if (!(peer->dirty & ~1u))
            return true; /* lane 0 keeps the order itself */
        if (!peer->syncing)
            wr_ofi_round_begin(ofi, peer);
        return false;
    }
    if (!(peer->open_puts[0] + peer->open_puts[1]))
        return true;
    *use_flag = rma && ofi->fence_flag && peer->nlanes == 1;
    return *use_flag;
}

weir_status wr_ofi_sync_read(struct wr_ofi *ofi, struct wr_ofi_peer *peer, unsigned lane, struct wr_ofi_bulk *bulk,
                             weir_error *err)
{
    void *buffer = wr_ofi_tx_get(ofi);
    struct wr_ofi_req *req = buffer ? wr_ofi_req_get(ofi, peer, lane, NULL) : NULL;
    if (!req) {
        if (buffer)
            wr_ofi_tx_put(ofi, buffer);
        return WEIR_ERR_BUSY;
    }
    uint64_t word = sizeof(uint64_t) * (uint64_t)ofi->base.params.rank;
    req->buffer = buffer;
    req->bulk = bulk;
    req->is_sync = !bulk;
    req->round = peer->round;
    struct wr_ofi_post post = {.req = req,
                               .local = buffer,
                               .desc = wr_ofi_desc(ofi, ofi->buffers, peer->own_rail[lane]),
                               .len = sizeof(uint64_t),
                               .remote = peer->control_base[lane] + word,
                               .key = peer->control_key[lane]};
    weir_status status = wr_ofi_post(ofi, peer, lane, &post, err);
    if (status) {
        req->bulk = NULL;
        wr_ofi_req_put(ofi, req);
    }
    return status;
}

/* Tells the waiters of rounds up to `round`. */
static void wr_ofi_waiters_tell(struct wr_ofi *ofi, struct wr_ofi_peer *peer, uint64_t round, weir_status status)
{
    /* they stand in the order of their rounds; a callback may add some, and may lose the peer, which takes all away */
    while (!wr_list_empty(&peer->waiters)) {
        struct wr_ofi_waiter *w = wr_list_first(&peer->waiters, struct wr_ofi_waiter, link);
        if (w->round > round)
            break;
        struct wr_ofi_flush *flush = w->flush;
        wr_list_remove(&w->link);
        wr_pool_put(&ofi->waiter_pool, w);
        if (status != WEIR_OK && flush->status == WEIR_OK)
            flush->status = status;
        if (--flush->pending)
            continue;
        struct wr_op *op = flush->op;
        weir_status result = flush->status;
        wr_pool_put(&ofi->flush_pool, flush);
        op->done(op, result);
    }
}

void wr_ofi_sync_fail(struct wr_ofi *ofi, struct wr_ofi_peer *peer, weir_status status)
{
    peer->syncing = false; /* taken out of the list by the next pump */
    wr_ofi_waiters_tell(ofi, peer, UINT64_MAX, status);
}

void wr_ofi_sync_completed(struct wr_ofi *ofi, struct wr_ofi_req *req, weir_status status)
{
    struct wr_ofi_peer *peer = req->peer;
    if (!peer->syncing || req->round != peer->round)
        return;
    peer->round_reads--;
    if (status != WEIR_OK) {
        wr_ofi_sync_fail(ofi, peer, status);
        return;
    }
    uint64_t seen;
    memcpy(&seen, req->buffer, sizeof seen);
    if (seen > peer->eager_acked && seen <= peer->eager_sent)
        peer->eager_acked = seen;
}

/* Posts reads on the lanes that still want one; false when it has to go on later. */
static bool wr_ofi_round_read(struct wr_ofi *ofi, struct wr_ofi_peer *peer)
{
    for (unsigned i = 0; i < peer->nlanes; i++) {
        weir_error err;
        if (!(peer->round_lanes & (1u << i)))
            continue;
        weir_status status = wr_ofi_sync_read(ofi, peer, i, NULL, &err);
        if (status == WEIR_ERR_BUSY)
            return false;
        if (status) {
            if (!peer->lost) /* otherwise it has been told already */
                wr_ofi_sync_fail(ofi, peer, status);
            return false;
        }
        peer->round_lanes &= ~(1u << i);
        peer->round_reads++;
    }
    return true;
}

/* Moves one round; true when it has ended. */
static bool wr_ofi_round_step(struct wr_ofi *ofi, struct wr_ofi_peer *peer)
{
    unsigned old = peer->epoch ^ 1u;
    if (peer->open_bulks[old] || (!ofi->stream && peer->open_puts[old]))
        return false;
    if (peer->round_lanes == UINT32_MAX) {
        peer->round_lanes = ofi->stream ? peer->dirty : 0;
        if (peer->round_eager > peer->eager_acked)
            peer->round_lanes |= 1;
        peer->dirty = 0;
    }
    if (!wr_ofi_round_read(ofi, peer) || peer->round_reads)
        return false;
    if (peer->round_eager <= peer->eager_acked)
        return true;
    /* the target has not handled all messages yet: look again, less and less often */
    int64_t now = wr_clock_ns();
    if (!peer->round_next)
        peer->round_next = now + peer->round_pause;
    if (now < peer->round_next)
        return false;
    peer->round_pause = WR_MIN(2 * peer->round_pause, (int64_t)WR_OFI_PAUSE_MAX);
    peer->round_next = 0;
    peer->round_lanes = 1;
    return false;
}

int wr_ofi_sync_pump(struct wr_ofi *ofi)
{
    struct wr_ofi_peer *peer, *next;
    int ended = 0;
    wr_list_for_each_safe (peer, next, &ofi->syncing, sync_link) {
        if (peer->syncing && !wr_ofi_round_step(ofi, peer))
            continue;
        if (!peer->syncing) {
            wr_list_remove(&peer->sync_link);
            continue;
        }
        ended++;
        peer->syncing = false;
        wr_list_remove(&peer->sync_link);
        uint64_t done = peer->round;
        bool more = !wr_list_empty(&peer->waiters) &&
                    wr_list_entry(peer->waiters.prev, struct wr_ofi_waiter, link)->round > done;
        if (more)
            wr_ofi_round_begin(ofi, peer);
        wr_ofi_waiters_tell(ofi, peer, done, WEIR_OK);
    }
    return ended;
}

/* ---- flush ---- */

/* Lets `flush` wait for `peer`, or does nothing when there is nothing to wait for. */
static void wr_ofi_flush_add(struct wr_ofi *ofi, struct wr_ofi_peer *peer, struct wr_ofi_flush *flush)
{
    if (!peer->syncing && wr_ofi_peer_clean(ofi, peer))
        return;
    struct wr_ofi_waiter *w = wr_pool_get(&ofi->waiter_pool);
    *w = (struct wr_ofi_waiter){.flush = flush, .round = wr_ofi_round_wanted(ofi, peer)};
    wr_list_push_back(&peer->waiters, &w->link);
    flush->pending++;
}

weir_status wr_ofi_flush(struct wr_transport *t, int rank, struct wr_op *op, weir_error *err)
{
    struct wr_ofi *ofi = wr_ofi_of(t);
    weir_status status;
    int first = rank < 0 ? 0 : rank, last = rank < 0 ? t->params.size - 1 : rank;
    size_t need = 0;
    if (rank >= 0 && !wr_ofi_peer_get(ofi, rank, &status, err))
        return status;
    if (ofi->broken) {
        if (err)
            *err = ofi->failure;
        return ofi->failure.status;
    }
    for (int i = first; i <= last; i++) {
        struct wr_ofi_peer *peer = ofi->peers[i];
        if (!peer || (!peer->lost && !peer->syncing && wr_ofi_peer_clean(ofi, peer)))
            continue;
        if (peer->lost) { /* asked of all: what was put to it is not visible there */
            status = wr_error_set(err, WEIR_ERR_PEER_LOST, NULL, "rank %d was lost", i);
            wr_error_at(err, i, NULL);
            return status;
        }
        need++;
    }
    if (!need)
        return WEIR_OK;
    if (ofi->waiter_pool.in_use + need > ofi->waiter_pool.max)
        return WEIR_ERR_BUSY;
    struct wr_ofi_flush *flush = wr_pool_get(&ofi->flush_pool);
    if (!flush)
        return WEIR_ERR_BUSY;
    *flush = (struct wr_ofi_flush){.op = op};
    for (int i = first; i <= last; i++)
        if (ofi->peers[i])
            wr_ofi_flush_add(ofi, ofi->peers[i], flush);
    return WEIR_IN_PROGRESS;
}
