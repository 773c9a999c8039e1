/* SPDX-License-Identifier: BSD-3-Clause */
/* Completions, their errors, and blocking until there are some. */
#include "comm/transport/ofi/ofi.h"

#include <errno.h>
#include <string.h>

enum { WR_OFI_ROUNDS = 8 }; /* batches of completions in one progress() */

bool wr_ofi_says_lost(int error)
{
    switch (error) {
    case FI_ECONNRESET:
    case FI_ECONNABORTED:
    case FI_ENOTCONN:
    case FI_ESHUTDOWN:
    case FI_EHOSTDOWN:
    case FI_EHOSTUNREACH:
    case FI_ECONNREFUSED:
    case EPIPE:
        return true;
    default:
        return false;
    }
}

/* Nothing can be known any more: everything in flight ends, and everything later fails with the same words. */
void wr_ofi_break(struct wr_ofi *ofi, const char *what, long code)
{
    if (ofi->broken)
        return;
    ofi->broken = true;
    wr_ofi_error(ofi, &ofi->failure, what, code);
    wr_error(ofi->base.params.log, TRANSPORT, "ofi: %s", ofi->failure.message);
    for (int i = 0; i < ofi->base.params.size; i++) {
        struct wr_ofi_peer *peer = ofi->peers[i];
        struct wr_ofi_req *req;
        if (!peer)
            continue;
        wr_list_for_each (req, &peer->inflight, link) {
            struct wr_op *op = req->op;
            req->op = NULL;
            req->copy_to = NULL;
            if (op)
                op->done(op, ofi->failure.status);
        }
        wr_ofi_sync_fail(ofi, peer, ofi->failure.status);
    }
    struct wr_ofi_bulk *bulk;
    wr_list_for_each (bulk, &ofi->bulks, link) {
        struct wr_op *op = bulk->op;
        bulk->status = ofi->failure.status;
        bulk->op = NULL;
        if (op)
            op->done(op, bulk->status);
    }
}

static void wr_ofi_req_complete(struct wr_ofi *ofi, struct wr_ofi_req *req, weir_status status)
{
    struct wr_op *op = req->op;
    if (status == WEIR_OK && req->copy_to)
        memcpy(req->copy_to, req->buffer, req->copy_len);
    if (req->bulk)
        wr_ofi_bulk_piece(req->bulk, status);
    else if (req->is_sync)
        wr_ofi_sync_completed(ofi, req, status);
    wr_ofi_req_put(ofi, req);
    if (op)
        op->done(op, status);
}

static void wr_ofi_rx_back(struct wr_ofi *ofi, struct wr_ofi_rx *rx)
{
    ofi->rx_posted--;
    wr_list_push_back(&ofi->rx_idle, &rx->link);
}

static void wr_ofi_completion(struct wr_ofi *ofi, const struct fi_cq_data_entry *e)
{
    struct wr_ofi_context *ctx = e->op_context;
    if (e->flags & FI_REMOTE_CQ_DATA) { /* only puts carry data */
        if (WR_LIKELY(WR_OFI_IMMEDIATE_OK(e->data)))
            wr_ofi_count_signal(ofi, WR_OFI_IMMEDIATE_SLOT(e->data));
        else
            wr_error(ofi->base.params.log, TRANSPORT, "ofi: unknown immediate data %#llx; dropped",
                     (unsigned long long)e->data);
        if ((ofi->mode & FI_RX_CQ_DATA) && ctx) /* it has used up a receive */
            wr_ofi_rx_back(ofi, (struct wr_ofi_rx *)(void *)ctx);
        return;
    }
    if (WR_UNLIKELY(!ctx))
        return;
    if (ctx->type == WR_OFI_CTX_RX) {
        ofi->rx_posted--;
        wr_ofi_received(ofi, (struct wr_ofi_rx *)(void *)ctx, e->len);
    } else {
        wr_ofi_req_complete(ofi, (struct wr_ofi_req *)(void *)ctx, WEIR_OK);
    }
}

static void wr_ofi_completion_error(struct wr_ofi *ofi, struct wr_ofi_rail *rail)
{
    struct fi_cq_err_entry e;
    char text[128] = "";
    memset(&e, 0, sizeof e);
    ssize_t n = fi_cq_readerr(rail->cq, &e, 0);
    if (n == -FI_EAGAIN)
        return;
    if (n < 0) {
        wr_ofi_break(ofi, "reading an error of the completion queue", n);
        return;
    }
    const char *provider = fi_cq_strerror(rail->cq, e.prov_errno, e.err_data, text, sizeof text);
    struct wr_ofi_context *ctx = e.op_context;
    if (ctx && ctx->type == WR_OFI_CTX_RX) {
        if (e.err != FI_ECANCELED)
            wr_warn(ofi->base.params.log, TRANSPORT, "ofi: a receive failed: %s (%s)", fi_strerror(e.err),
                    provider ? provider : "");
        wr_ofi_rx_back(ofi, (struct wr_ofi_rx *)(void *)ctx);
        return;
    }
    if (!ctx) {
        if (e.err == FI_EOVERRUN)
            wr_ofi_break(ofi, "the completion queue has overrun", -FI_EOVERRUN);
        else
            wr_warn(ofi->base.params.log, TRANSPORT, "ofi: %s (%s)", fi_strerror(e.err), provider ? provider : "");
        return;
    }
    struct wr_ofi_req *req = (struct wr_ofi_req *)(void *)ctx;
    struct wr_ofi_peer *peer = req->peer;
    /* nobody but the provider cancels: it flushes what was in flight on a connection that broke */
    int error = e.err == FI_ECANCELED ? (e.prov_errno < 0 ? -e.prov_errno : e.prov_errno) : e.err;
    if (wr_ofi_says_lost(error))
        wr_ofi_peer_lost(ofi, peer, fi_strerror(error)); /* tells everyone, this one included */
    else
        wr_error(ofi->base.params.log, TRANSPORT, "ofi: an operation on rank %d failed: %s (%s)", peer->rank,
                 fi_strerror(e.err), provider ? provider : "");
    wr_ofi_req_complete(ofi, req, peer->lost ? WEIR_ERR_PEER_LOST : WEIR_ERR_TRANSPORT);
}

static int wr_ofi_rail_progress(struct wr_ofi *ofi, struct wr_ofi_rail *rail)
{
    struct fi_cq_data_entry entry[WR_OFI_CQ_BATCH];
    int events = 0;
    for (int round = 0; round < WR_OFI_ROUNDS; round++) {
        ssize_t n = fi_cq_read(rail->cq, entry, WR_OFI_CQ_BATCH);
        if (n == -FI_EAGAIN || n == 0)
            break;
        if (n == -FI_EAVAIL) {
            wr_ofi_completion_error(ofi, rail);
            events++;
            continue;
        }
        if (n < 0) {
            wr_ofi_break(ofi, n == -FI_EOVERRUN ? "the completion queue has overrun" : "reading the completion queue",
                         n);
            break;
        }
        for (ssize_t i = 0; i < n; i++)
            wr_ofi_completion(ofi, &entry[i]);
        events += (int)n;
        if (n < WR_OFI_CQ_BATCH)
            break;
    }
    return events;
}

int wr_ofi_progress(struct wr_transport *t)
{
    struct wr_ofi *ofi = wr_ofi_of(t);
    int events = 0;
    if (WR_UNLIKELY(ofi->broken))
        return 0;
    for (unsigned i = 0; i < ofi->nrails && !ofi->broken; i++)
        events += wr_ofi_rail_progress(ofi, &ofi->rail[i]);
    if (!wr_list_empty(&ofi->rx_idle) && ofi->rx_posted < ofi->rx_target) {
        weir_error err;
        if (wr_ofi_rx_post(ofi, &err))
            wr_ofi_break(ofi, "posting a receive", -FI_EIO);
    }
    if (!wr_list_empty(&ofi->bulks))
        events += wr_ofi_bulk_pump(ofi);
    if (!wr_list_empty(&ofi->syncing))
        events += wr_ofi_sync_pump(ofi);
    return events;
}
