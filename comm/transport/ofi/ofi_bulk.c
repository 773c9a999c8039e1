/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations of several steps: post the pieces of each lane; with a signal on more than one lane, or without an ordered
 * stream, wait for the pieces, make them visible, and only then send the signal as a message.
 */
#include "comm/transport/ofi/ofi.h"

enum { WR_OFI_STRIPE_ALIGN = 4096 };

/* Cuts [0, len) into one part a lane; only the last may have an odd length. */
static void wr_ofi_bulk_cut(struct wr_ofi_bulk *bulk, uint64_t len)
{
    uint64_t share = len / bulk->nlanes / WR_OFI_STRIPE_ALIGN * WR_OFI_STRIPE_ALIGN, at = 0;
    for (unsigned i = 0; i < bulk->nlanes; i++) {
        bulk->lane[i].at = at;
        at = i + 1 == bulk->nlanes ? len : at + share;
        bulk->lane[i].end = at;
    }
}

static weir_status wr_ofi_bulk_post_piece(struct wr_ofi *ofi, struct wr_ofi_bulk *bulk, unsigned lane)
{
    struct wr_ofi_peer *peer = bulk->peer;
    struct wr_ofi_rail *rail = &ofi->rail[peer->own_rail[lane]];
    uint64_t at = bulk->lane[lane].at;
    struct wr_ofi_req *req = wr_ofi_req_get(ofi, peer, lane, NULL);
    if (!req)
        return WEIR_ERR_BUSY;
    req->bulk = bulk;
    struct wr_ofi_post post = {.req = req,
                               .local = bulk->local + at,
                               .desc = wr_ofi_desc(ofi, bulk->region, rail->index),
                               .len = WR_MIN(bulk->lane[lane].end - at, rail->max_post),
                               .remote = bulk->rkey->base[lane] + bulk->offset + at,
                               .key = bulk->rkey->key[lane],
                               .write = bulk->write};
    weir_error err;
    weir_status status = wr_ofi_post(ofi, peer, lane, &post, &err);
    if (status) {
        req->bulk = NULL;
        wr_ofi_req_put(ofi, req);
        if (status != WEIR_ERR_BUSY)
            wr_error(ofi->base.params.log, TRANSPORT, "ofi: %s", err.message);
        return status;
    }
    bulk->inflight++;
    bulk->lane[lane].at += post.len;
    return WEIR_OK;
}

/* Posts what can be posted; true when all pieces are. */
static bool wr_ofi_bulk_post(struct wr_ofi *ofi, struct wr_ofi_bulk *bulk)
{
    bool all = true;
    for (unsigned i = 0; i < bulk->nlanes && bulk->status == WEIR_OK; i++)
        while (bulk->lane[i].at < bulk->lane[i].end) {
            weir_status status = wr_ofi_bulk_post_piece(ofi, bulk, i);
            if (status == WEIR_ERR_BUSY) {
                all = false;
                break;
            }
            if (status) {
                if (bulk->status == WEIR_OK)
                    bulk->status = status;
                break;
            }
        }
    return all || bulk->status != WEIR_OK;
}

/* A stream on each lane: a read behind the pieces says that they are visible. True when all have been posted. */
static bool wr_ofi_bulk_read_behind(struct wr_ofi *ofi, struct wr_ofi_bulk *bulk)
{
    for (unsigned i = 0; i < bulk->nlanes && bulk->status == WEIR_OK; i++) {
        weir_error err;
        if (bulk->reads_posted & (1u << i))
            continue;
        weir_status status = wr_ofi_sync_read(ofi, bulk->peer, i, bulk, &err);
        if (status == WEIR_ERR_BUSY)
            return false;
        if (status) {
            bulk->status = status;
            return true;
        }
        bulk->reads_posted |= (uint8_t)(1u << i);
        bulk->inflight++;
    }
    return true;
}

static void wr_ofi_bulk_uncount(struct wr_ofi_bulk *bulk)
{
    if (bulk->counted)
        bulk->peer->open_bulks[bulk->epoch]--;
    bulk->counted = false;
}

/* One step; false when it has to wait for something. */
static bool wr_ofi_bulk_step(struct wr_ofi *ofi, struct wr_ofi_bulk *bulk)
{
    weir_error err;
    if (bulk->status != WEIR_OK && bulk->stage != WR_OFI_END) {
        bulk->stage = WR_OFI_END;
        return true;
    }
    switch (bulk->stage) {
    case WR_OFI_POST:
        if (!wr_ofi_bulk_post(ofi, bulk))
            return false;
        if (!bulk->signal || bulk->status != WEIR_OK)
            bulk->stage = WR_OFI_END;
        else if (!ofi->stream)
            bulk->stage = WR_OFI_DRAIN;
        else
            bulk->stage = bulk->nlanes > 1 ? WR_OFI_VISIBLE : WR_OFI_NOTIFY;
        if (bulk->stage == WR_OFI_END && ofi->stream)
            wr_ofi_bulk_uncount(bulk); /* what comes after it on the lanes comes after it at the target */
        return true;
    case WR_OFI_VISIBLE:
        if (!wr_ofi_bulk_read_behind(ofi, bulk))
            return false;
        bulk->stage = WR_OFI_DRAIN;
        return true;
    case WR_OFI_DRAIN:
        if (bulk->inflight)
            return false;
        bulk->stage = WR_OFI_NOTIFY;
        return true;
    case WR_OFI_NOTIFY: {
        weir_status status = wr_ofi_send_signal(ofi, bulk->peer, bulk->slot, &err);
        if (status == WEIR_ERR_BUSY)
            return false;
        if (status)
            bulk->status = status;
        bulk->stage = WR_OFI_END;
        return true;
    }
    case WR_OFI_END:
        break;
    }
    return false;
}

int wr_ofi_bulk_pump(struct wr_ofi *ofi)
{
    struct wr_ofi_bulk *bulk, *next;
    int ended = 0;
    wr_list_for_each_safe (bulk, next, &ofi->bulks, link) {
        while (wr_ofi_bulk_step(ofi, bulk))
            ;
        if (bulk->stage != WR_OFI_END || bulk->inflight)
            continue;
        struct wr_op *op = bulk->op;
        weir_status status = bulk->status;
        wr_ofi_bulk_uncount(bulk);
        wr_list_remove(&bulk->link);
        wr_pool_put(&ofi->bulk_pool, bulk);
        ended++;
        if (op)
            op->done(op, status);
    }
    return ended;
}

void wr_ofi_bulk_piece(struct wr_ofi_bulk *bulk, weir_status status)
{
    bulk->inflight--;
    if (status != WEIR_OK && bulk->status == WEIR_OK)
        bulk->status = status;
}

weir_status wr_ofi_bulk_start(struct wr_ofi *ofi, struct wr_ofi_peer *peer, const struct wr_ofi_bulk_args *args,
                              struct wr_op *op, weir_error *err)
{
    (void)err;
    struct wr_ofi_bulk *bulk = wr_pool_get(&ofi->bulk_pool);
    if (!bulk)
        return WEIR_ERR_BUSY;
    *bulk = (struct wr_ofi_bulk){.peer = peer,
                                 .op = op,
                                 .local = args->local,
                                 .region = args->region,
                                 .rkey = args->rkey,
                                 .offset = args->offset,
                                 .slot = args->slot,
                                 .write = args->write,
                                 .signal = args->signal,
                                 .epoch = peer->epoch,
                                 .nlanes = args->len >= WR_OFI_STRIPE_MIN ? peer->nlanes : 1,
                                 .stage = WR_OFI_POST};
    wr_ofi_bulk_cut(bulk, args->len);
    if (args->write) {
        bulk->counted = true;
        peer->open_bulks[peer->epoch]++;
    }
    wr_list_push_back(&ofi->bulks, &bulk->link);
    while (wr_ofi_bulk_step(ofi, bulk)) /* the rest, and the end, in progress() */
        ;
    return WEIR_IN_PROGRESS;
}
