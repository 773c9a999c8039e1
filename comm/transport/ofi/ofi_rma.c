/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts and gets that are one post of libfabric; everything else becomes a bulk. */
#include "comm/transport/ofi/ofi.h"

#include <inttypes.h>
#include <string.h>

/* ---- requests ---- */

/* A request of `peer`, or NULL when as many are in flight as the queues hold. */
struct wr_ofi_req *wr_ofi_req_get(struct wr_ofi *ofi, struct wr_ofi_peer *peer, unsigned lane, struct wr_op *op)
{
    struct wr_ofi_rail *rail = &ofi->rail[peer->own_rail[lane]];
    if (rail->tx_used >= rail->tx_max)
        return NULL;
    struct wr_ofi_req *req = wr_pool_get(&ofi->reqs);
    if (!req)
        return NULL;
    rail->tx_used++;
    *req = (struct wr_ofi_req){.ctx.type = WR_OFI_CTX_REQ, .peer = peer, .op = op, .lane = (uint8_t)lane};
    wr_list_push_back(&peer->inflight, &req->link);
    return req;
}

void wr_ofi_req_put(struct wr_ofi *ofi, struct wr_ofi_req *req)
{
    struct wr_ofi_peer *peer = req->peer;
    wr_list_remove(&req->link);
    ofi->rail[peer->own_rail[req->lane]].tx_used--;
    if (req->is_put)
        peer->open_puts[req->epoch]--;
    if (req->buffer)
        wr_ofi_tx_put(ofi, req->buffer);
    wr_pool_put(&ofi->reqs, req);
}

/* ---- one post ---- */

weir_status wr_ofi_post(struct wr_ofi *ofi, struct wr_ofi_peer *peer, unsigned lane, const struct wr_ofi_post *p,
                        weir_error *err)
{
    struct wr_ofi_rail *rail = &ofi->rail[peer->own_rail[lane]];
    struct iovec iov = {.iov_base = p->local, .iov_len = p->len};
    struct fi_rma_iov remote = {.addr = p->remote, .len = p->len, .key = p->key};
    void *desc = p->desc;
    struct fi_msg_rma msg = {.msg_iov = &iov,
                             .desc = &desc,
                             .iov_count = 1,
                             .addr = peer->addr[lane],
                             .rma_iov = &remote,
                             .rma_iov_count = 1,
                             .context = &p->req->ctx,
                             .data = p->data};
    uint64_t flags = p->flags | FI_COMPLETION;
    ssize_t rc;
    if (p->write) {
        if (ofi->delivery_complete)
            flags |= FI_DELIVERY_COMPLETE;
        rc = fi_writemsg(rail->ep, &msg, flags);
    } else {
        rc = fi_readmsg(rail->ep, &msg, flags);
    }
    if (WR_UNLIKELY(rc)) {
        if (rc == -FI_EAGAIN)
            return WEIR_ERR_BUSY;
        if (wr_ofi_says_lost((int)-rc)) {
            wr_ofi_peer_lost(ofi, peer, fi_strerror((int)-rc));
            return wr_error_set(err, WEIR_ERR_PEER_LOST, NULL, "rank %d was lost: %s", peer->rank,
                                fi_strerror((int)-rc));
        }
        return wr_ofi_error(ofi, err, p->write ? "posting a write" : "posting a read", rc);
    }
    if (p->write) {
        p->req->is_put = true;
        p->req->epoch = peer->epoch;
        peer->open_puts[peer->epoch]++;
        peer->dirty |= 1u << lane;
    }
    return WEIR_OK;
}

/* ---- checks that all operations share ---- */

static weir_status wr_ofi_check(struct wr_ofi *ofi, int peer, const struct wr_region *region, const void *local,
                                uint64_t len, const struct wr_rkey *rkey, uint64_t offset, weir_error *err)
{
    if (!rkey || rkey->peer != peer)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "the key does not belong to rank %d", peer);
    if (offset > rkey->len || len > rkey->len - offset)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL,
                            "%" PRIu64 " bytes at offset %" PRIu64 " leave the region of %" PRIu64 " bytes of rank %d",
                            len, offset, rkey->len, peer);
    if (region) {
        uintptr_t at = (uintptr_t)local, start = (uintptr_t)region->addr;
        if (at < start || at - start > region->len || len > region->len - (at - start))
            return wr_error_set(err, WEIR_ERR_INVALID, NULL, "the local region does not cover the buffer");
    } else if ((ofi->mr_mode & FI_MR_LOCAL) && len > ofi->base.caps.inject) {
        return wr_error_set(err, WEIR_ERR_INVALID, "register the memory first",
                            "provider %s needs registered local memory for %" PRIu64 " bytes", ofi->provider, len);
    }
    return WEIR_OK;
}

static bool wr_ofi_needs_bulk(const struct wr_ofi *ofi, const struct wr_ofi_peer *peer, uint64_t len)
{
    return len > ofi->rail[peer->own_rail[0]].max_post || (peer->nlanes > 1 && len >= WR_OFI_STRIPE_MIN);
}

/* ---- put ---- */

/* Copies the data, so that the operation is complete for the caller when it is posted. */
static weir_status wr_ofi_put_copied(struct wr_ofi *ofi, struct wr_ofi_peer *peer, const void *src, uint64_t len,
                                     const struct wr_rkey *rkey, uint64_t offset, uint64_t flags, weir_error *err)
{
    struct wr_ofi_rail *rail = &ofi->rail[peer->own_rail[0]];
    if (ofi->stream && len <= rail->inject && !flags) {
        ssize_t rc = fi_inject_write(rail->ep, src, len, peer->addr[0], rkey->base[0] + offset, rkey->key[0]);
        if (!rc) {
            peer->dirty |= 1;
            return WEIR_OK;
        }
        if (rc == -FI_EAGAIN)
            return WEIR_ERR_BUSY;
        return wr_ofi_error(ofi, err, "injecting a write", rc);
    }
    void *buffer = wr_ofi_tx_get(ofi);
    struct wr_ofi_req *req = buffer ? wr_ofi_req_get(ofi, peer, 0, NULL) : NULL;
    if (!req) {
        if (buffer)
            wr_ofi_tx_put(ofi, buffer);
        return WEIR_ERR_BUSY;
    }
    memcpy(buffer, src, len);
    req->buffer = buffer;
    struct wr_ofi_post post = {.req = req,
                               .local = buffer,
                               .desc = wr_ofi_desc(ofi, ofi->buffers, rail->index),
                               .len = len,
                               .remote = rkey->base[0] + offset,
                               .key = rkey->key[0],
                               .flags = flags,
                               .write = true};
    weir_status status = wr_ofi_post(ofi, peer, 0, &post, err);
    if (status)
        wr_ofi_req_put(ofi, req);
    return status;
}

/* One post from or into the caller's memory: WEIR_IN_PROGRESS, BUSY or an error. */
static weir_status wr_ofi_direct(struct wr_ofi *ofi, struct wr_ofi_peer *peer, struct wr_ofi_post *post,
                                 struct wr_op *op, weir_error *err)
{
    post->req = wr_ofi_req_get(ofi, peer, 0, op);
    if (!post->req)
        return WEIR_ERR_BUSY;
    weir_status status = wr_ofi_post(ofi, peer, 0, post, err);
    if (status) {
        wr_ofi_req_put(ofi, post->req);
        return status;
    }
    return WEIR_IN_PROGRESS;
}

/*
 * Between the caller's memory and the target's: one post, with the signal as its immediate, where that can be, else a bulk.
 * `fence`: the post is to carry FI_FENCE.
 */
static weir_status wr_ofi_transfer(struct wr_ofi *ofi, struct wr_ofi_peer *peer, const struct wr_ofi_bulk_args *a, bool fence,
                                   struct wr_op *op, weir_error *err)
{
    if (wr_ofi_needs_bulk(ofi, peer, a->len) || (a->signal && !ofi->immediate))
        return fence ? WEIR_ERR_BUSY /* one for each piece costs more than waiting once */
                     : wr_ofi_bulk_start(ofi, peer, a, op, err);
    struct wr_ofi_post post = {.local = a->local,
                               .desc = wr_ofi_desc(ofi, a->region, peer->own_rail[0]),
                               .len = a->len,
                               .remote = a->rkey->base[0] + a->offset,
                               .key = a->rkey->key[0],
                               .flags = (a->signal ? FI_REMOTE_CQ_DATA : 0) | (fence ? FI_FENCE : 0),
                               .data = a->signal ? WR_OFI_IMMEDIATE(a->slot) : 0,
                               .write = a->write};
    return wr_ofi_direct(ofi, peer, &post, op, err);
}

weir_status wr_ofi_put(struct wr_transport *t, int rank, const void *src, struct wr_region *region, uint64_t len,
                       struct wr_rkey *rkey, uint64_t offset, unsigned flags, struct wr_op *op, weir_error *err)
{
    struct wr_ofi *ofi = wr_ofi_of(t);
    weir_status status;
    struct wr_ofi_peer *peer = wr_ofi_peer_get(ofi, rank, &status, err);
    if (!peer)
        return status;
    status = wr_ofi_check(ofi, rank, region, src, len, rkey, offset, err);
    if (status || !len)
        return status;
    bool use_flag = false;
    if ((flags & WR_OP_FENCE) && !wr_ofi_fence_ready(ofi, peer, true, &use_flag))
        return WEIR_ERR_BUSY;
    if (len <= t->caps.inject)
        return wr_ofi_put_copied(ofi, peer, src, len, rkey, offset, use_flag ? FI_FENCE : 0, err);
    struct wr_ofi_bulk_args args = {.local = (char *)(uintptr_t)src,
                                    .region = region,
                                    .len = len,
                                    .rkey = rkey,
                                    .offset = offset,
                                    .write = true};
    return wr_ofi_transfer(ofi, peer, &args, use_flag, op, err);
}

/* ---- put with signal ---- */

weir_status wr_ofi_put_signal(struct wr_transport *t, int rank, const void *src, struct wr_region *region, uint64_t len,
                              struct wr_rkey *rkey, uint64_t offset, uint32_t slot, unsigned flags, struct wr_op *op,
                              weir_error *err)
{
    struct wr_ofi *ofi = wr_ofi_of(t);
    weir_status status;
    struct wr_ofi_peer *peer = wr_ofi_peer_get(ofi, rank, &status, err);
    if (!peer)
        return status;
    if (slot >= WR_SIGNAL_MAX)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "signal %u is past the last one, %d", slot, WR_SIGNAL_MAX - 1);
    if (len) {
        status = wr_ofi_check(ofi, rank, region, src, len, rkey, offset, err);
        if (status)
            return status;
    }
    bool as_message = len <= t->caps.eager_put, use_flag = false;
    if ((flags & WR_OP_FENCE) && !wr_ofi_fence_ready(ofi, peer, !as_message, &use_flag))
        return WEIR_ERR_BUSY;
    if (as_message && use_flag)
        return WEIR_ERR_BUSY;
    if (!len)
        return wr_ofi_send_signal(ofi, peer, slot, err);
    if (as_message)
        return wr_ofi_send_eager(ofi, peer, src, len, rkey, offset, slot, err);
    struct wr_ofi_bulk_args args = {.local = (char *)(uintptr_t)src,
                                    .region = region,
                                    .len = len,
                                    .rkey = rkey,
                                    .offset = offset,
                                    .slot = slot,
                                    .write = true,
                                    .signal = true};
    return wr_ofi_transfer(ofi, peer, &args, use_flag, op, err);
}

/* ---- get ---- */

weir_status wr_ofi_get(struct wr_transport *t, int rank, void *dst, struct wr_region *region, uint64_t len,
                       struct wr_rkey *rkey, uint64_t offset, struct wr_op *op, weir_error *err)
{
    struct wr_ofi *ofi = wr_ofi_of(t);
    weir_status status;
    struct wr_ofi_peer *peer = wr_ofi_peer_get(ofi, rank, &status, err);
    if (!peer)
        return status;
    status = wr_ofi_check(ofi, rank, region, dst, len, rkey, offset, err);
    if (status || !len)
        return status;
    struct wr_ofi_bulk_args args = {.local = dst, .region = region, .len = len, .rkey = rkey, .offset = offset};
    if (region || !(ofi->mr_mode & FI_MR_LOCAL) || wr_ofi_needs_bulk(ofi, peer, len))
        return wr_ofi_transfer(ofi, peer, &args, false, op, err);
    /* small, and the provider wants registered memory: by way of one of our buffers */
    void *buffer = wr_ofi_tx_get(ofi);
    struct wr_ofi_req *req = buffer ? wr_ofi_req_get(ofi, peer, 0, op) : NULL;
    if (!req) {
        if (buffer)
            wr_ofi_tx_put(ofi, buffer);
        return WEIR_ERR_BUSY;
    }
    req->buffer = buffer;
    req->copy_to = dst;
    req->copy_len = len;
    struct wr_ofi_post post = {.req = req,
                               .local = buffer,
                               .desc = wr_ofi_desc(ofi, ofi->buffers, peer->own_rail[0]),
                               .len = len,
                               .remote = rkey->base[0] + offset,
                               .key = rkey->key[0]};
    status = wr_ofi_post(ofi, peer, 0, &post, err);
    if (status)
        wr_ofi_req_put(ofi, req);
    return status ? status : WEIR_IN_PROGRESS;
}
