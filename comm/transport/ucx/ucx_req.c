/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: a fixed array with a free list, and the sending of messages. */
#include <stdlib.h>

#include "base/error.h"
#include "comm/transport/ucx/ucx.h"

weir_status wr_ucx_requests_open(struct ucx *u, weir_error *err)
{
    u->request_before = (ucx_api_request_bytes(u->context) + 63) & ~(size_t)63;
    u->request_stride = u->request_before + ((sizeof(struct ucx_req) + 63) & ~(size_t)63);
    size_t bytes = u->request_stride * UCX_REQUESTS;
    u->requests = aligned_alloc(64, bytes);
    if (!u->requests)
        return wr_error_memory(err, bytes, "requests of the UCX transport");
    for (unsigned i = 0; i < UCX_REQUESTS; i++) {
        struct ucx_req *r = (struct ucx_req *)(void *)(u->requests + i * u->request_stride + u->request_before);
        r->u = u;
        r->serial = 0;
        r->complete = NULL;
        wr_list_push_back(&u->free, &r->link);
    }
    u->nfree = UCX_REQUESTS;
    wr_pool_init(&u->buffers, UCX_MAX_AM, 0, UCX_BUFFERS, UCX_BUFFERS);
    wr_pool_init(&u->streams, sizeof(struct ucx_stream), 0, UCX_STREAMS, 0);
    wr_pool_init(&u->groups, sizeof(struct ucx_group), 0, UCX_STREAMS, UCX_STREAMS);
    weir_status status = wr_pool_reserve(&u->buffers, UCX_BUFFERS, err);
    if (status == WEIR_OK)
        status = wr_pool_reserve(&u->streams, UCX_STREAMS + UCX_RESERVED, err);
    if (status == WEIR_OK)
        status = wr_pool_reserve(&u->groups, UCX_STREAMS, err);
    return status;
}

void wr_ucx_requests_close(struct ucx *u)
{
    free(u->requests);
    wr_pool_destroy(&u->buffers);
    wr_pool_destroy(&u->streams);
    wr_pool_destroy(&u->groups);
}

struct ucx_req *wr_ucx_req_get(struct ucx *u, struct ucx_peer *p, bool reserved)
{
    if (u->nfree <= (reserved ? 0 : UCX_RESERVED))
        return NULL;
    struct ucx_req *r = wr_list_first(&u->free, struct ucx_req, link);
    wr_list_remove(&r->link);
    u->nfree--;
    r->peer = p;
    r->complete = NULL;
    r->op = NULL;
    r->next = NULL;
    r->stream = NULL;
    r->buffer = NULL;
    r->rkey = NULL;
    r->status = WEIR_OK;
    r->serial++;
    return r;
}

void wr_ucx_req_put(struct ucx_req *r)
{
    struct ucx *u = r->u;
    if (r->buffer)
        wr_pool_put(&u->buffers, r->buffer);
    r->buffer = NULL;
    r->complete = NULL;
    r->serial++;
    wr_list_push_front(&u->free, &r->link);
    u->nfree++;
}

uint64_t wr_ucx_req_token(const struct ucx_req *r)
{
    size_t index = (size_t)((const char *)r - r->u->requests) / r->u->request_stride;
    return (uint64_t)index << 32 | r->serial;
}

struct ucx_req *wr_ucx_req_find(struct ucx *u, uint64_t token)
{
    uint64_t index = token >> 32;
    if (index >= UCX_REQUESTS)
        return NULL;
    struct ucx_req *r = (struct ucx_req *)(void *)(u->requests + index * u->request_stride + u->request_before);
    return r->complete && r->serial == (uint32_t)token ? r : NULL;
}

void wr_ucx_header(struct ucx_req *r, enum ucx_kind kind, size_t header_len)
{
    memset(&r->wire, 0, sizeof r->wire);
    r->wire.header_len = (uint8_t)header_len;
    r->wire.kind = (uint8_t)kind;
    r->wire.source = (uint32_t)r->u->base.params.rank;
}

void wr_ucx_complete_op(struct ucx_req *r, weir_status status)
{
    struct wr_op *op = r->op;
    wr_ucx_req_put(r);
    if (op)
        op->done(op, status);
}

static ucs_status_t was_sent(struct ucx_req *r, ucs_status_t s)
{
    struct ucx_peer *p = r->peer;
    if (WR_UNLIKELY(!p->proven) && (s == UCS_OK || (s == UCS_INPROGRESS && !p->silent_since)))
        wr_ucx_note_sent(p, s == UCS_OK);
    if (s != UCS_INPROGRESS)
        wr_ucx_req_put(r);
    return s;
}

ucs_status_t wr_ucx_send(struct ucx_req *r, const void *data, size_t len)
{
    return was_sent(r, ucx_api_send(&r->u->api, r->peer->ep, &r->wire, r->wire.header_len, data, len, r->iov, r));
}

ucs_status_t wr_ucx_send_behind(struct ucx_req *r, size_t start_len, const void *data, size_t len)
{
    return was_sent(r, ucx_api_send_two(&r->u->api, r->peer->ep, &r->wire, r->wire.header_len, r->data, start_len, data, len,
                                        r->iov, r));
}
