/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/engine/request.h"

#include "base/clock.h"
#include "base/error.h"

static bool is_complete(void *arg)
{
    return ((const struct weir_request *)arg)->complete;
}

/* Gives a complete request back; fills in the error when the operation failed. */
static weir_status end_request(struct weir_request *request, weir_error *err)
{
    weir_status status = request->status;
    int peer = request->group && request->peer >= 0 ? wr_group_rank(request->group, request->peer) : request->peer;
    if (status && request->why)
        *err = *request->why;
    else if (status == WEIR_ERR_PEER_LOST)
        wr_engine_lost_error(request->engine, request->group, request->peer, err);
    else if (status && request->engine->stopped.status == status)
        wr_engine_stop_error(request->engine, err);
    else if (status == WEIR_ERR_TRUNCATED)
        wr_error_set(err, status, "receive into a larger buffer; weir_message.bytes tells the length",
                     "the message from rank %d is longer than the buffer", peer);
    else if (status)
        wr_error_set(err, status, NULL, "the operation with rank %d failed: %s", peer, weir_status_message(status));
    if (status)
        wr_error_operation(err, request->operation);
    if (!request->persistent)
        request->release(request);
    return status;
}

weir_status wr_request_finish(struct weir_request *request, weir_error *err)
{
    if (request->hurry && !request->complete)
        request->hurry(request);
    if (request->complete)
        return end_request(request, err);
    weir_status status = wr_engine_wait_long(request->engine, is_complete, request, request->overdue, err);
    if (!status)
        return end_request(request, err);
    if (request->complete && !request->persistent) /* it was given up */
        request->release(request);
    return status;
}

weir_status weir_wait(weir_request **request)
{
    struct weir_request *r = *request;
    weir_error err;
    if (!r)
        return WEIR_OK;
    wr_error_reset(&err);
    struct wr_engine *e = r->engine;
    bool stays = r->persistent;
    wr_engine_lock(e);
    weir_status status = wr_request_finish(r, &err);
    wr_engine_unlock(e);
    if (status != WEIR_ERR_CANCELED && !stays)
        *request = NULL;
    return status ? wr_ctx_fail(e->ctx, &err, "weir_wait") : WEIR_OK;
}

weir_status weir_test(weir_request **request)
{
    struct weir_request *r = *request;
    weir_error err;
    if (!r)
        return WEIR_OK;
    wr_error_reset(&err);
    struct wr_engine *e = r->engine;
    weir_status status = WEIR_IN_PROGRESS;
    wr_engine_lock(e);
    if (!r->complete)
        wr_engine_progress(e);
    if (r->complete) {
        bool stays = r->persistent;
        status = end_request(r, &err);
        if (!stays)
            *request = NULL;
    }
    wr_engine_unlock(e);
    return status < 0 ? wr_ctx_fail(e->ctx, &err, "weir_test") : status;
}

weir_status weir_waitall(size_t n, weir_request **requests)
{
    weir_status first = WEIR_OK;
    for (size_t i = 0; i < n; i++) {
        weir_status status = weir_wait(&requests[i]);
        if (!first)
            first = status;
        if (status == WEIR_ERR_CANCELED)
            break;
    }
    return first;
}

struct any {
    size_t n, index;
    weir_request **requests;
};

static bool one_is_complete(void *arg)
{
    struct any *any = arg;
    for (size_t i = 0; i < any->n; i++)
        if (any->requests[i] && any->requests[i]->complete) {
            any->index = i;
            return true;
        }
    return false;
}

/* Which of them to look after when none completes for long: the first that can tell who has not come. */
static size_t first_overdue(const struct any *any)
{
    size_t i = 0;
    while (i < any->n && (!any->requests[i] || !any->requests[i]->overdue))
        i++;
    return i;
}

weir_status weir_waitany(size_t n, weir_request **requests, size_t *index)
{
    struct any any = {n, n, requests};
    struct wr_engine *e = NULL;
    weir_error err;
    wr_error_reset(&err);
    for (size_t i = 0; i < n && !e; i++)
        if (requests[i])
            e = requests[i]->engine;
    *index = n;
    if (!e)
        return WEIR_OK;
    wr_engine_lock(e);
    size_t watched = first_overdue(&any);
    weir_status status =
        wr_engine_wait_long(e, one_is_complete, &any, watched < n ? requests[watched]->overdue : NULL, &err);
    if (!status || (watched < n && requests[watched]->complete)) { /* the one that was watched may have been given up */
        weir_error other;
        *index = status ? watched : any.index;
        weir_request *r = requests[*index];
        if (!r->persistent)
            requests[*index] = NULL;
        weir_status ended = end_request(r, status ? &other : &err);
        status = status ? status : ended;
    }
    wr_engine_unlock(e);
    return status ? wr_ctx_fail(e->ctx, &err, "weir_waitany") : WEIR_OK;
}
