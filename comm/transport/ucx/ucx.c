/* SPDX-License-Identifier: BSD-3-Clause */
/* The ops table of the UCX transport: opening, closing, progress, waiting, and the checks before each operation. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/transport/components.h"
#include "comm/transport/ucx/ucx.h"

weir_status wr_ucx_status(ucs_status_t status)
{
    switch (status) {
    case UCS_OK:
        return WEIR_OK;
    case UCS_INPROGRESS:
        return WEIR_IN_PROGRESS;
    case UCS_ERR_NO_MEMORY:
        return WEIR_ERR_NO_MEMORY;
    case UCS_ERR_UNSUPPORTED:
        return WEIR_ERR_UNSUPPORTED;
    case UCS_ERR_NO_RESOURCE:
        return WEIR_ERR_BUSY;
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_REJECTED:
    case UCS_ERR_CANCELED:
        return WEIR_ERR_PEER_LOST;
    default:
        return WEIR_ERR_TRANSPORT;
    }
}

weir_status wr_ucx_error(ucs_status_t s, const struct ucx_peer *peer, const char *what, weir_error *err)
{
    weir_status status = wr_ucx_status(s);
    if (status == WEIR_ERR_BUSY)
        return status;
    wr_error_set(err, status, "UCX_LOG_LEVEL=info shows what UCX does", "%s failed: %s", what, ucs_status_string(s));
    if (peer)
        wr_error_at(err, peer->rank, NULL);
    return status;
}

static void on_done(void *req, ucs_status_t status)
{
    struct ucx_req *r = req;
    r->status = wr_ucx_status(status);
    wr_list_push_back(&r->u->finished, &r->link);
}

static weir_status worker_open(struct ucx *u, weir_error *err)
{
    ucp_worker_params_t p = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                             .thread_mode = UCS_THREAD_MODE_SERIALIZED};
    ucs_status_t s = ucp_worker_create(u->context, &p, &u->worker);
    if (s != UCS_OK)
        return wr_ucx_error(s, NULL, "creating a UCX worker", err);
    u->api = (struct ucx_api){.message = wr_ucx_receive, .done = on_done, .arg = u};
    s = ucx_api_open(&u->api, u->worker);
    ucp_worker_attr_t a = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS,
                           .address_flags = u->own_shm ? 0 : UCP_WORKER_ADDRESS_FLAG_NET_ONLY};
    if (s == UCS_OK)
        s = ucp_worker_query(u->worker, &a);
    if (s != UCS_OK) {
        ucp_worker_destroy(u->worker);
        return wr_ucx_error(s, NULL, "preparing a UCX worker", err);
    }
    u->address = a.address;
    u->address_len = a.address_length;
    if (ucp_worker_get_efd(u->worker, &u->fd) != UCS_OK)
        u->fd = -1;
    return WEIR_OK;
}

static weir_status peers_open(struct ucx *u, weir_error *err)
{
    int n = u->base.params.size;
    u->peers = calloc((size_t)n, sizeof *u->peers);
    if (!u->peers)
        return wr_error_memory(err, (size_t)n * sizeof *u->peers, "the table of peers");
    for (int i = 0; i < n; i++) {
        struct ucx_peer *p = &u->peers[i];
        p->u = u;
        p->rank = i;
        wr_list_init(&p->streams);
        wr_list_init(&p->awaiting);
        wr_list_init(&p->gets);
        wr_list_init(&p->busy);
        wr_list_init(&p->link);
    }
    return WEIR_OK;
}

static weir_status open_ucx(const struct wr_transport_params *params, struct wr_transport **transport, weir_error *err)
{
    struct ucx *u = calloc(1, sizeof *u);
    if (!u)
        return wr_error_memory(err, sizeof *u, "the UCX transport");
    u->base.ops = &wr_ucx_ops;
    u->base.params = *params;
    u->next_gen = (uint32_t)wr_clock_ns();
    u->locked_limit = wr_ucx_locked_limit();
    wr_list_init(&u->connected);
    wr_list_init(&u->busy);
    wr_list_init(&u->finished);
    wr_list_init(&u->ended);
    wr_list_init(&u->free);
    weir_status status = wr_ucx_context_open(u, err);
    if (status != WEIR_OK)
        goto free_transport;
    status = worker_open(u, err);
    if (status != WEIR_OK)
        goto close_context;
    status = wr_ucx_requests_open(u, err);
    if (status == WEIR_OK)
        status = peers_open(u, err);
    if (status != WEIR_OK)
        goto close_worker;
    memcpy(u->provider, "ucx", sizeof "ucx");
    u->base.caps = (struct wr_transport_caps){.put = true,
                                              .get = true,
                                              .detects_peer_loss = !u->own_shm,
                                              .signal_kind = WR_SIGNAL_MESSAGE,
                                              .max_put = UCX_CHUNK,
                                              .max_am = UCX_MAX_AM,
                                              .inject = UCX_INLINE,
                                              .rails = 1,
                                              .provider = u->provider,
                                              .device = u->device};
    *transport = &u->base;
    return WEIR_OK;
close_worker:
    ucp_worker_release_address(u->worker, u->address);
    ucp_worker_destroy(u->worker);
    wr_ucx_requests_close(u);
close_context:
    ucp_cleanup(u->context);
free_transport:
    free(u);
    return status;
}

static weir_status address(struct wr_transport *t, void *buf, size_t *len, weir_error *err)
{
    struct ucx *u = ucx_of(t);
    if (*len < u->address_len)
        return wr_error_set(err, WEIR_ERR_LIMIT, "restrict the network devices with UCX_NET_DEVICES or UCX_TLS",
                            "the address of UCX has %zu bytes, %zu fit", u->address_len, *len);
    memcpy(buf, u->address, u->address_len);
    *len = u->address_len;
    return WEIR_OK;
}

static void close_ucx(struct wr_transport *t)
{
    struct ucx *u = ucx_of(t);
    u->closing = true;
    wr_ucx_peers_close(u);
    ucp_worker_release_address(u->worker, u->address);
    ucp_worker_destroy(u->worker);
    for (uint32_t i = 0; i < u->nregions; i++)
        if (u->regions[i])
            wr_ucx_dereg(t, u->regions[i]);
    ucp_cleanup(u->context);
    wr_ucx_requests_close(u);
    for (int i = 0; i < t->params.size; i++)
        free(u->peers[i].address);
    free(u->peers);
    free(u->regions);
    free(u);
}

static bool reaches(const struct wr_transport *t, int peer)
{
    return peer >= 0 && peer < t->params.size;
}

static weir_status put_signal_or_not(struct wr_transport *t, int peer, const void *src, uint64_t len, struct wr_rkey *k,
                                     uint64_t offset, const uint32_t *slot, unsigned flags, struct wr_op *op,
                                     weir_error *err)
{
    struct ucx_peer *p;
    weir_status status = wr_ucx_peer_usable(ucx_of(t), peer, &p, err);
    if (status != WEIR_OK)
        return status;
    bool message = p->messages || (slot && len <= UCX_SMALL_SIGNAL);
    if (len && (status = wr_ucx_rkey_check(p, k, offset, len, !message, err)) != WEIR_OK)
        return status;
    if (!len && !slot)
        return WEIR_OK;
    if (flags & WR_OP_FENCE && (status = wr_ucx_fence(p, message, err)) != WEIR_OK)
        return status;
    if (!len)
        return wr_ucx_signal_send(p, *slot, err);
    return message ? wr_ucx_message_put(p, src, len, k, offset, op, slot, err)
                   : wr_ucx_rma_put(p, src, len, k, offset, op, slot, err);
}

static weir_status put(struct wr_transport *t, int peer, const void *src, struct wr_region *region, uint64_t len,
                       struct wr_rkey *rkey, uint64_t offset, unsigned flags, struct wr_op *op, weir_error *err)
{
    (void)region;
    return put_signal_or_not(t, peer, src, len, rkey, offset, NULL, flags, op, err);
}

static weir_status put_signal(struct wr_transport *t, int peer, const void *src, struct wr_region *region, uint64_t len,
                              struct wr_rkey *rkey, uint64_t offset, uint32_t slot, unsigned flags, struct wr_op *op,
                              weir_error *err)
{
    (void)region;
    return put_signal_or_not(t, peer, src, len, rkey, offset, &slot, flags, op, err);
}

static weir_status get(struct wr_transport *t, int peer, void *dst, struct wr_region *region, uint64_t len,
                       struct wr_rkey *rkey, uint64_t offset, struct wr_op *op, weir_error *err)
{
    struct ucx_peer *p;
    (void)region;
    weir_status status = wr_ucx_peer_usable(ucx_of(t), peer, &p, err);
    if (status == WEIR_OK)
        status = wr_ucx_rkey_check(p, rkey, offset, len, !p->messages, err);
    if (status != WEIR_OK || !len)
        return status;
    return p->messages ? wr_ucx_message_get(p, dst, len, rkey, offset, op, err)
                       : wr_ucx_rma_get(p, dst, len, rkey, offset, op, err);
}

static weir_status am(struct wr_transport *t, int peer, unsigned id, const void *header, size_t header_len,
                      const void *payload, size_t len, unsigned flags, weir_error *err)
{
    struct ucx *u = ucx_of(t);
    struct ucx_peer *p;
    weir_status status = wr_ucx_peer_usable(u, peer, &p, err);
    if (status != WEIR_OK)
        return status;
    if (header_len > UCX_MAX_AM || len > UCX_MAX_AM - header_len || id >= WR_AM_HANDLERS)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "a message of %zu + %zu bytes to handler %u; %d bytes fit",
                            header_len, len, id, UCX_MAX_AM);
    if (flags & WR_OP_FENCE && (status = wr_ucx_fence(p, true, err)) != WEIR_OK)
        return status;
    struct ucx_req *r = wr_ucx_req_get(u, p, false);
    if (!r)
        return WEIR_ERR_BUSY;
    char *data = r->data;
    if (header_len + len > UCX_INLINE && !(data = r->buffer = wr_pool_get(&u->buffers))) {
        wr_ucx_req_put(r);
        return WEIR_ERR_BUSY;
    }
    if (header_len)
        memcpy(data, header, header_len);
    if (len)
        memcpy(data + header_len, payload, len);
    wr_ucx_header(r, UCX_MSG, UCX_WIRE_SHORT);
    r->wire.id = (uint8_t)id;
    r->complete = wr_ucx_complete_op;
    ucs_status_t s = wr_ucx_send(r, data, header_len + len);
    return s == UCS_OK || s == UCS_INPROGRESS ? WEIR_OK : wr_ucx_error(s, p, "a message", err);
}

/* Where data goes in messages anyway; UCX itself has better ways where there are puts. */
static size_t am_long_max(const struct wr_transport *t, int peer)
{
    const struct ucx *u = ucx_of(t);
    return u->peers[peer].messages ? (size_t)u->fragment : 0;
}

static weir_status am_long(struct wr_transport *t, int peer, unsigned id, const void *header, size_t header_len,
                           const void *src, struct wr_region *region, size_t len, struct wr_op *op, weir_error *err)
{
    struct ucx *u = ucx_of(t);
    struct ucx_peer *p;
    (void)region;
    weir_status status = wr_ucx_peer_usable(u, peer, &p, err);
    if (status != WEIR_OK)
        return status;
    size_t most = am_long_max(t, peer);
    if (id >= WR_AM_HANDLERS || header_len > WR_AM_LONG_HEADER || header_len > most || len > most - header_len)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "a long message of %zu + %zu bytes to handler %u; %zu bytes fit",
                            header_len, len, id, most);
    struct ucx_req *r = wr_ucx_req_get(u, p, false);
    if (!r)
        return WEIR_ERR_BUSY;
    memcpy(r->data, header, header_len);
    wr_ucx_header(r, UCX_MSG, UCX_WIRE_SHORT);
    r->wire.id = (uint8_t)id;
    r->op = op;
    r->complete = wr_ucx_complete_op;
    ucs_status_t s = wr_ucx_send_behind(r, header_len, src, len);
    return s == UCS_OK ? WEIR_OK : s == UCS_INPROGRESS ? WEIR_IN_PROGRESS : wr_ucx_error(s, p, "a long message", err);
}

void wr_ucx_drop_finished(struct ucx *u)
{
    while (!wr_list_empty(&u->finished)) {
        struct ucx_req *r = wr_list_first(&u->finished, struct ucx_req, link);
        wr_list_remove(&r->link);
        wr_ucx_req_put(r);
    }
}

/* Works off what UCX completed; the callbacks may start operations. */
static int work_off(struct ucx *u)
{
    int n = 0;
    while (!wr_list_empty(&u->finished)) {
        struct ucx_req *r = wr_list_first(&u->finished, struct ucx_req, link);
        wr_list_remove(&r->link);
        if (r->peer && WR_UNLIKELY(!r->peer->proven) && r->status == WEIR_OK)
            wr_ucx_note_sent(r->peer, true);
        r->complete(r, r->status);
        n++;
    }
    while (!wr_list_empty(&u->ended)) {
        wr_ucx_stream_end(wr_list_first(&u->ended, struct ucx_stream, link));
        n++;
    }
    if (wr_list_empty(&u->busy))
        return n;
    struct wr_list now; /* what is added meanwhile has its turn at the next call */
    wr_list_insert_between(&now, u->busy.prev, &u->busy);
    wr_list_remove(&u->busy);
    while (!wr_list_empty(&now)) {
        struct ucx_peer *p = wr_list_first(&now, struct ucx_peer, busy);
        wr_list_remove(&p->busy);
        wr_ucx_pump(p);
        n++;
    }
    return n;
}

static int progress(struct wr_transport *t)
{
    struct ucx *u = ucx_of(t);
    /* Once: over tcp another round would cost a system call before the caller sees what this one brought. */
    int n = (int)ucp_worker_progress(u->worker);
    n += work_off(u);
    return n || WR_LIKELY(!u->nsilent) ? n : wr_ucx_look_for_silent(u);
}

static int wait_fd(struct wr_transport *t)
{
    return ucx_of(t)->fd;
}

static bool arm(struct wr_transport *t)
{
    struct ucx *u = ucx_of(t);
    if (!wr_list_empty(&u->finished) || !wr_list_empty(&u->ended) || !wr_list_empty(&u->busy))
        return false;
    return ucp_worker_arm(u->worker) == UCS_OK;
}

static void disarm(struct wr_transport *t)
{
    (void)t; /* ucp_worker_progress() clears the event */
}

const struct wr_transport_ops wr_ucx_ops = {
    .name = "ucx",
    .open = open_ucx,
    .address = address,
    .close = close_ucx,
    .reaches = reaches,
    .connect = wr_ucx_connect,
    .reg = wr_ucx_reg,
    .dereg = wr_ucx_dereg,
    .key_export = wr_ucx_key_export,
    .key_import = wr_ucx_key_import,
    .key_close = wr_ucx_key_close,
    .put = put,
    .put_signal = put_signal,
    .get = get,
    .am = am,
    .am_long = am_long,
    .am_long_max = am_long_max,
    .flush = wr_ucx_flush,
    .progress = progress,
    .wait_fd = wait_fd,
    .arm = arm,
    .disarm = disarm,
};
