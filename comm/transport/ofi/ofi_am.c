/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages: active messages, signals, and put_signals whose data is small enough to travel along. */
#include "comm/transport/ofi/ofi.h"

#include <string.h>

#include "base/atomic.h"

/* ---- buffers ---- */

void *wr_ofi_tx_get(struct wr_ofi *ofi)
{
    void *buffer = ofi->tx_free;
    if (buffer)
        memcpy(&ofi->tx_free, buffer, sizeof ofi->tx_free);
    return buffer;
}

void wr_ofi_tx_put(struct wr_ofi *ofi, void *buffer)
{
    memcpy(buffer, &ofi->tx_free, sizeof ofi->tx_free);
    ofi->tx_free = buffer;
}

weir_status wr_ofi_rx_post(struct wr_ofi *ofi, weir_error *err)
{
    struct wr_ofi_rail *rail = &ofi->rail[0];
    void *desc = wr_ofi_desc(ofi, ofi->buffers, 0);
    while (!wr_list_empty(&ofi->rx_idle) && ofi->rx_posted < ofi->rx_target) {
        struct wr_ofi_rx *rx = wr_list_first(&ofi->rx_idle, struct wr_ofi_rx, link);
        ssize_t rc = fi_recv(rail->ep, rx->data, ofi->rx_size, desc, FI_ADDR_UNSPEC, &rx->ctx);
        if (rc == -FI_EAGAIN)
            return WEIR_OK;
        if (rc)
            return wr_ofi_error(ofi, err, "posting a receive", rc);
        wr_list_remove(&rx->link);
        ofi->rx_posted++;
    }
    return WEIR_OK;
}

/* ---- sending ---- */

struct wr_ofi_part {
    const void *data;
    size_t len;
};

static size_t wr_ofi_gather(char *out, const struct wr_ofi_header *header, const struct wr_ofi_part *part, size_t n)
{
    memcpy(out, header, sizeof *header);
    size_t at = sizeof *header;
    for (size_t i = 0; i < n; i++)
        if (part[i].len) {
            memcpy(out + at, part[i].data, part[i].len);
            at += part[i].len;
        }
    return at;
}

/* Reads as: the message could not be sent. */
static weir_status wr_ofi_send_failed(struct wr_ofi *ofi, struct wr_ofi_peer *peer, ssize_t rc, weir_error *err)
{
    if (rc == -FI_EAGAIN)
        return WEIR_ERR_BUSY;
    if (wr_ofi_says_lost((int)-rc)) {
        wr_ofi_peer_lost(ofi, peer, fi_strerror((int)-rc));
        return wr_error_set(err, WEIR_ERR_PEER_LOST, NULL, "rank %d was lost: %s", peer->rank, fi_strerror((int)-rc));
    }
    return wr_ofi_error(ofi, err, "sending a message", rc);
}

static weir_status wr_ofi_send(struct wr_ofi *ofi, struct wr_ofi_peer *peer, struct wr_ofi_header *header,
                               const struct wr_ofi_part *part, size_t n, weir_error *err)
{
    struct wr_ofi_rail *rail = &ofi->rail[peer->own_rail[0]];
    size_t len = sizeof *header;
    char small[256];
    ssize_t rc;
    for (size_t i = 0; i < n; i++)
        len += part[i].len;
    header->source = (uint32_t)ofi->base.params.rank;
    header->seq = peer->seq;
    header->reserved = 0;
    if (len <= rail->inject && len <= sizeof small) {
        wr_ofi_gather(small, header, part, n);
        rc = fi_inject(rail->ep, small, len, peer->addr[0]);
        if (WR_UNLIKELY(rc))
            return wr_ofi_send_failed(ofi, peer, rc, err);
        peer->seq++;
        return WEIR_OK;
    }
    void *buffer = wr_ofi_tx_get(ofi);
    struct wr_ofi_req *req = buffer ? wr_ofi_req_get(ofi, peer, 0, NULL) : NULL;
    if (!req) {
        if (buffer)
            wr_ofi_tx_put(ofi, buffer);
        return WEIR_ERR_BUSY;
    }
    req->buffer = buffer;
    wr_ofi_gather(buffer, header, part, n);
    rc = fi_send(rail->ep, buffer, len, wr_ofi_desc(ofi, ofi->buffers, rail->index), peer->addr[0], &req->ctx);
    if (WR_UNLIKELY(rc)) {
        wr_ofi_req_put(ofi, req);
        return wr_ofi_send_failed(ofi, peer, rc, err);
    }
    peer->seq++;
    return WEIR_OK;
}

weir_status wr_ofi_am(struct wr_transport *t, int rank, unsigned id, const void *header, size_t header_len,
                      const void *payload, size_t len, unsigned flags, weir_error *err)
{
    struct wr_ofi *ofi = wr_ofi_of(t);
    weir_status status;
    struct wr_ofi_peer *peer = wr_ofi_peer_get(ofi, rank, &status, err);
    if (!peer)
        return status;
    if (id >= WR_AM_HANDLERS || header_len > WR_OFI_PAYLOAD || len > WR_OFI_PAYLOAD - header_len)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL,
                            "message %u of %zu + %zu bytes; at most %d bytes and handlers 0..%d", id, header_len, len,
                            (int)WR_OFI_PAYLOAD, WR_AM_HANDLERS - 1);
    bool use_flag;
    if ((flags & WR_OP_FENCE) && !wr_ofi_fence_ready(ofi, peer, false, &use_flag))
        return WEIR_ERR_BUSY;
    struct wr_ofi_header head = {.kind = WR_OFI_AM, .id = (uint8_t)id};
    struct wr_ofi_part part[2] = {{header, header_len}, {payload, len}};
    return wr_ofi_send(ofi, peer, &head, part, 2, err);
}

size_t wr_ofi_am_long_max(const struct wr_transport *t, int rank)
{
    const struct wr_ofi *ofi = WR_CONTAINER_OF(t, const struct wr_ofi, base);
    (void)rank;
    return ofi->rx_size > WR_OFI_BUFFER ? ofi->quirks->long_am : 0;
}

/* Header from a buffer of ours, payload from the caller's memory. */
weir_status wr_ofi_am_long(struct wr_transport *t, int rank, unsigned id, const void *header, size_t header_len,
                           const void *src, struct wr_region *region, size_t len, struct wr_op *op, weir_error *err)
{
    struct wr_ofi *ofi = wr_ofi_of(t);
    weir_status status;
    struct wr_ofi_peer *peer = wr_ofi_peer_get(ofi, rank, &status, err);
    if (!peer)
        return status;
    size_t most = wr_ofi_am_long_max(t, rank);
    if (id >= WR_AM_HANDLERS || header_len > WR_AM_LONG_HEADER || header_len > most || len > most - header_len)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "long message %u of %zu + %zu bytes; at most %zu", id, header_len,
                            len, most);
    struct wr_ofi_rail *rail = &ofi->rail[peer->own_rail[0]];
    char *buffer = wr_ofi_tx_get(ofi);
    struct wr_ofi_req *req = buffer ? wr_ofi_req_get(ofi, peer, 0, op) : NULL;
    if (!req) {
        if (buffer)
            wr_ofi_tx_put(ofi, buffer);
        return WEIR_ERR_BUSY;
    }
    struct wr_ofi_header head = {
        .source = (uint32_t)t->params.rank, .seq = peer->seq, .kind = WR_OFI_AM, .id = (uint8_t)id};
    struct wr_ofi_part part = {header, header_len};
    req->buffer = buffer;
    struct iovec iov[2] = {{buffer, wr_ofi_gather(buffer, &head, &part, 1)}, {(void *)(uintptr_t)src, len}};
    void *desc[2] = {wr_ofi_desc(ofi, ofi->buffers, rail->index), wr_ofi_desc(ofi, region, rail->index)};
    struct fi_msg msg = {
        .msg_iov = iov, .desc = desc, .iov_count = len ? 2 : 1, .addr = peer->addr[0], .context = &req->ctx};
    ssize_t rc = fi_sendmsg(rail->ep, &msg, FI_COMPLETION);
    if (WR_UNLIKELY(rc)) {
        wr_ofi_req_put(ofi, req);
        return wr_ofi_send_failed(ofi, peer, rc, err);
    }
    peer->seq++;
    return WEIR_IN_PROGRESS;
}

weir_status wr_ofi_send_signal(struct wr_ofi *ofi, struct wr_ofi_peer *peer, uint32_t slot, weir_error *err)
{
    struct wr_ofi_header head = {.kind = WR_OFI_SIGNAL, .slot = slot};
    return wr_ofi_send(ofi, peer, &head, NULL, 0, err);
}

weir_status wr_ofi_send_eager(struct wr_ofi *ofi, struct wr_ofi_peer *peer, const void *data, size_t len,
                              const struct wr_rkey *rkey, uint64_t offset, uint32_t slot, weir_error *err)
{
    struct wr_ofi_header head = {.kind = WR_OFI_EAGER, .slot = slot};
    struct wr_ofi_eager eager = {.index = rkey->index, .generation = rkey->generation, .offset = offset};
    struct wr_ofi_part part[2] = {{&eager, sizeof eager}, {data, len}};
    weir_status status = wr_ofi_send(ofi, peer, &head, part, 2, err);
    if (status == WEIR_OK)
        peer->eager_sent++;
    return status;
}

/* ---- receiving ---- */

void wr_ofi_count_signal(struct wr_ofi *ofi, uint32_t slot)
{
    const struct wr_transport_params *params = &ofi->base.params;
    if (WR_LIKELY(slot < params->nsignals))
        wr_store_release(&params->signals[slot], params->signals[slot] + 1);
    else
        wr_error(params->log, TRANSPORT, "ofi: a signal for slot %u, there are %u; dropped", slot, params->nsignals);
}

static void wr_ofi_handle_eager(struct wr_ofi *ofi, const struct wr_ofi_header *head, const char *data, size_t len)
{
    struct wr_ofi_eager eager;
    struct wr_region *region = NULL;
    if (len >= sizeof eager) {
        memcpy(&eager, data, sizeof eager);
        data += sizeof eager;
        len -= sizeof eager;
        if (eager.index < ofi->nregions)
            region = ofi->regions[eager.index];
    }
    if (region && region->generation == eager.generation && (region->flags & WR_REG_REMOTE_WRITE) &&
        eager.offset <= region->len && len <= region->len - eager.offset) {
        memcpy((char *)region->addr + eager.offset, data, len);
        wr_ofi_count_signal(ofi, head->slot);
    } else {
        wr_error(ofi->base.params.log, TRANSPORT,
                 "ofi: rank %u put %zu bytes into a region that does not exist any more; dropped", head->source, len);
    }
    uint64_t *word = &ofi->control[head->source];
    wr_store_release(word, *word + 1);
}

static void wr_ofi_dispatch(struct wr_ofi *ofi, const char *data, size_t len)
{
    const struct wr_transport_params *params = &ofi->base.params;
    struct wr_ofi_header head;
    memcpy(&head, data, sizeof head);
    data += sizeof head;
    len -= sizeof head;
    switch (head.kind) {
    case WR_OFI_AM:
        if (head.id < WR_AM_HANDLERS && params->am[head.id])
            params->am[head.id](params->am_arg, (int)head.source, data, len);
        else
            wr_error(params->log, TRANSPORT, "ofi: rank %u sent a message for handler %u, which there is not; dropped",
                     head.source, head.id);
        break;
    case WR_OFI_SIGNAL:
        wr_ofi_count_signal(ofi, head.slot);
        break;
    case WR_OFI_EAGER:
        wr_ofi_handle_eager(ofi, &head, data, len);
        break;
    default:
        wr_error(params->log, TRANSPORT, "ofi: rank %u sent a message of unknown kind %u; dropped", head.source,
                 head.kind);
    }
}

static uint32_t wr_ofi_seq_of(const struct wr_ofi_rx *rx)
{
    struct wr_ofi_header head;
    memcpy(&head, rx->data, sizeof head);
    return head.seq;
}

static void wr_ofi_rx_idle(struct wr_ofi *ofi, struct wr_ofi_rx *rx)
{
    wr_list_push_back(&ofi->rx_idle, &rx->link);
}

/* Holds a message that came before its turn, or handles it and those that waited for it. */
static void wr_ofi_in_turn(struct wr_ofi *ofi, struct wr_ofi_source *source, struct wr_ofi_rx *rx, uint32_t seq)
{
    if (seq != source->expected) {
        struct wr_ofi_rx *other;
        wr_list_for_each (other, &source->held, link) {
            if ((int32_t)(wr_ofi_seq_of(other) - seq) > 0)
                break;
        }
        wr_list_insert_between(&rx->link, other->link.prev, &other->link);
        return;
    }
    for (;;) {
        source->expected++;
        wr_ofi_dispatch(ofi, rx->data, rx->len);
        wr_ofi_rx_idle(ofi, rx);
        if (wr_list_empty(&source->held))
            return;
        rx = wr_list_first(&source->held, struct wr_ofi_rx, link);
        if (wr_ofi_seq_of(rx) != source->expected)
            return;
        wr_list_remove(&rx->link);
    }
}

void wr_ofi_received(struct wr_ofi *ofi, struct wr_ofi_rx *rx, size_t len)
{
    struct wr_ofi_header head;
    rx->len = len;
    if (len >= sizeof head)
        memcpy(&head, rx->data, sizeof head);
    if (len < sizeof head || head.source >= (uint32_t)ofi->base.params.size) {
        wr_error(ofi->base.params.log, TRANSPORT, "ofi: a message of %zu bytes that no rank can have sent; dropped",
                 len);
        wr_ofi_rx_idle(ofi, rx);
    } else if (ofi->ordered_messages) {
        wr_ofi_dispatch(ofi, rx->data, len);
        wr_ofi_rx_idle(ofi, rx);
    } else {
        wr_ofi_in_turn(ofi, &ofi->sources[head.source], rx, head.seq);
        if (!ofi->rx_posted && wr_list_empty(&ofi->rx_idle))
            wr_ofi_break(ofi, "more messages arrived out of order than there are buffers", -FI_ENOSPC);
    }
}
