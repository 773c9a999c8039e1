/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls of UCX that changed over its versions, in one form. From 1.10 on requests live in our own memory, so that an
 * operation allocates nothing; before, UCX owns them and remembers ours.
 *
 * Each call returns UCS_OK (complete, no callback), UCS_INPROGRESS (the callback given to ucx_api_open() will be called
 * with `req` from ucp_worker_progress()) or an error (no callback).
 */
#ifndef WR_UCX_API_H
#define WR_UCX_API_H

#include <string.h>

#include "base/ucx.h"

/* The completion of a call: `req` is what the call was given. */
typedef void (*ucx_api_done)(void *req, ucs_status_t status);

/* A message: `header` and `data` are two pieces that need not be aligned. */
typedef void (*ucx_api_message)(void *arg, const void *header, size_t header_len, const void *data, size_t len);

#define UCX_API_AM 0 /* the one message id that we use */

#if UCX_API_NBX

struct ucx_api {
    ucx_api_message message;
    ucx_api_done done;
    void *arg;
};

static inline void ucx_api_callback(void *request, ucs_status_t status, void *user)
{
    ((struct ucx_api *)user)->done(request, status);
}

static inline ucp_request_param_t ucx_api_param(struct ucx_api *api, void *req)
{
    ucp_request_param_t p;
    p.op_attr_mask = UCP_OP_ATTR_FIELD_REQUEST | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    p.request = req;
    p.cb.send = ucx_api_callback;
    p.user_data = api;
    return p;
}

static inline ucs_status_t ucx_api_status(ucs_status_ptr_t p)
{
    return p == NULL ? UCS_OK : UCS_PTR_IS_ERR(p) ? UCS_PTR_STATUS(p) : UCS_INPROGRESS;
}

/* Bytes that must stand before each `req`. */
static inline size_t ucx_api_request_bytes(ucp_context_h context)
{
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_REQUEST_SIZE};
    return ucp_context_query(context, &attr) == UCS_OK ? attr.request_size : 4096;
}

static inline void ucx_api_params(ucp_params_t *params)
{
    (void)params;
}

static inline ucs_status_t ucx_api_on_message(void *arg, const void *header, size_t header_len, void *data, size_t len,
                                              const ucp_am_recv_param_t *param)
{
    struct ucx_api *api = arg;
    if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)
        return UCS_ERR_UNSUPPORTED; /* we always ask for eager */
    api->message(api->arg, header, header_len, data, len);
    return UCS_OK;
}

static inline ucs_status_t ucx_api_open(struct ucx_api *api, ucp_worker_h worker)
{
    ucp_am_handler_param_t p = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                                              UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                .id = UCX_API_AM,
                                .cb = ucx_api_on_message,
                                .arg = api};
    return ucp_worker_set_am_recv_handler(worker, &p);
}

static inline ucs_status_t ucx_api_put(struct ucx_api *api, ucp_ep_h ep, const void *src, size_t len, uint64_t to,
                                       ucp_rkey_h rkey, void *req)
{
    ucp_request_param_t p = ucx_api_param(api, req);
    return ucx_api_status(ucp_put_nbx(ep, src, len, to, rkey, &p));
}

static inline ucs_status_t ucx_api_get(struct ucx_api *api, ucp_ep_h ep, void *dst, size_t len, uint64_t from,
                                       ucp_rkey_h rkey, void *req)
{
    ucp_request_param_t p = ucx_api_param(api, req);
    return ucx_api_status(ucp_get_nbx(ep, dst, len, from, rkey, &p));
}

static inline ucs_status_t ucx_api_flush(struct ucx_api *api, ucp_ep_h ep, void *req)
{
    ucp_request_param_t p = ucx_api_param(api, req);
    return ucx_api_status(ucp_ep_flush_nbx(ep, &p));
}

static inline ucs_status_t ucx_api_flush_worker(struct ucx_api *api, ucp_worker_h worker, void *req)
{
    ucp_request_param_t p = ucx_api_param(api, req);
    return ucx_api_status(ucp_worker_flush_nbx(worker, &p));
}

/* Header and data must stay where they are until the send is complete. `iov` is 2 entries in the request. */
static inline ucs_status_t ucx_api_send(struct ucx_api *api, ucp_ep_h ep, const void *header, size_t header_len,
                                        const void *data, size_t len, ucp_dt_iov_t *iov, void *req)
{
    (void)iov;
    ucp_request_param_t p = ucx_api_param(api, req);
    p.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    p.flags = UCP_AM_SEND_FLAG_EAGER;
    return ucx_api_status(ucp_am_send_nbx(ep, UCX_API_AM, header, header_len, data, len, &p));
}

/* The same with data in two pieces, `start` and `data`, which arrive as one. `iov` is 3 entries in the request. */
static inline ucs_status_t ucx_api_send_two(struct ucx_api *api, ucp_ep_h ep, const void *header, size_t header_len,
                                            const void *start, size_t start_len, const void *data, size_t len,
                                            ucp_dt_iov_t *iov, void *req)
{
    ucp_request_param_t p = ucx_api_param(api, req);
    p.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_DATATYPE;
    p.flags = UCP_AM_SEND_FLAG_EAGER;
    p.datatype = ucp_dt_make_iov();
    iov[0] = (ucp_dt_iov_t){(void *)(uintptr_t)start, start_len};
    iov[1] = (ucp_dt_iov_t){(void *)(uintptr_t)data, len};
    return ucx_api_status(ucp_am_send_nbx(ep, UCX_API_AM, header, header_len, iov, len ? 2 : 1, &p));
}

#else /* before 1.10 */

struct ucx_api {
    ucx_api_message message;
    ucx_api_done done;
    void *arg;
};

/* What UCX keeps for us in its own request. */
struct ucx_api_cell {
    struct ucx_api *api;
    void *req;
};

static inline size_t ucx_api_request_bytes(ucp_context_h context)
{
    (void)context;
    return 0;
}

static inline void ucx_api_cell_init(void *request)
{
    memset(request, 0, sizeof(struct ucx_api_cell));
}

static inline void ucx_api_params(ucp_params_t *params)
{
    params->field_mask |= UCP_PARAM_FIELD_REQUEST_SIZE | UCP_PARAM_FIELD_REQUEST_INIT;
    params->request_size = sizeof(struct ucx_api_cell);
    params->request_init = ucx_api_cell_init;
}

static inline void ucx_api_callback(void *request, ucs_status_t status)
{
    struct ucx_api_cell cell = *(struct ucx_api_cell *)request;
    ucx_api_cell_init(request);
    ucp_request_free(request);
    cell.api->done(cell.req, status);
}

static inline ucs_status_t ucx_api_keep(struct ucx_api *api, ucs_status_ptr_t p, void *req)
{
    if (p == NULL)
        return UCS_OK;
    if (UCS_PTR_IS_ERR(p))
        return UCS_PTR_STATUS(p);
    struct ucx_api_cell *cell = p;
    cell->api = api;
    cell->req = req;
    return UCS_INPROGRESS;
}

static inline ucs_status_t ucx_api_on_message(void *arg, void *data, size_t len, ucp_ep_h reply, unsigned flags)
{
    struct ucx_api *api = arg;
    (void)reply;
    (void)flags;
    /* The header's length is its first byte. */
    size_t header_len = len ? WR_MIN((size_t) * (unsigned char *)data, len) : 0;
    api->message(api->arg, data, header_len, (char *)data + header_len, len - header_len);
    return UCS_OK;
}

static inline ucs_status_t ucx_api_open(struct ucx_api *api, ucp_worker_h worker)
{
    return ucp_worker_set_am_handler(worker, UCX_API_AM, ucx_api_on_message, api, UCP_AM_FLAG_WHOLE_MSG);
}

static inline ucs_status_t ucx_api_put(struct ucx_api *api, ucp_ep_h ep, const void *src, size_t len, uint64_t to,
                                       ucp_rkey_h rkey, void *req)
{
    return ucx_api_keep(api, ucp_put_nb(ep, src, len, to, rkey, ucx_api_callback), req);
}

static inline ucs_status_t ucx_api_get(struct ucx_api *api, ucp_ep_h ep, void *dst, size_t len, uint64_t from,
                                       ucp_rkey_h rkey, void *req)
{
    return ucx_api_keep(api, ucp_get_nb(ep, dst, len, from, rkey, ucx_api_callback), req);
}

static inline ucs_status_t ucx_api_flush(struct ucx_api *api, ucp_ep_h ep, void *req)
{
    return ucx_api_keep(api, ucp_ep_flush_nb(ep, 0, ucx_api_callback), req);
}

static inline ucs_status_t ucx_api_flush_worker(struct ucx_api *api, ucp_worker_h worker, void *req)
{
    return ucx_api_keep(api, ucp_worker_flush_nb(worker, 0, ucx_api_callback), req);
}

static inline ucs_status_t ucx_api_send(struct ucx_api *api, ucp_ep_h ep, const void *header, size_t header_len,
                                        const void *data, size_t len, ucp_dt_iov_t *iov, void *req)
{
    iov[0].buffer = (void *)(uintptr_t)header;
    iov[0].length = header_len;
    iov[1].buffer = (void *)(uintptr_t)data;
    iov[1].length = len;
    return ucx_api_keep(api,
                        ucp_am_send_nb(ep, UCX_API_AM, iov, len ? 2 : 1, ucp_dt_make_iov(), ucx_api_callback, 0), req);
}

static inline ucs_status_t ucx_api_send_two(struct ucx_api *api, ucp_ep_h ep, const void *header, size_t header_len,
                                            const void *start, size_t start_len, const void *data, size_t len,
                                            ucp_dt_iov_t *iov, void *req)
{
    iov[0] = (ucp_dt_iov_t){(void *)(uintptr_t)header, header_len};
    iov[1] = (ucp_dt_iov_t){(void *)(uintptr_t)start, start_len};
    iov[2] = (ucp_dt_iov_t){(void *)(uintptr_t)data, len};
    return ucx_api_keep(api,
                        ucp_am_send_nb(ep, UCX_API_AM, iov, len ? 3 : 2, ucp_dt_make_iov(), ucx_api_callback, 0), req);
}

#endif

#endif
