/* SPDX-License-Identifier: BSD-3-Clause */
/* The public calls: arguments are checked, the lock is taken, errors are remembered. */
#include <weir/p2p.h>

#include "base/error.h"
#include "comm/comm.h"

static weir_status check_send(const weir_comm *comm, const void *buffer, uint64_t bytes, int dest, int tag, weir_error *err)
{
    if (tag < 0)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "tag %d is negative", tag);
    if (!buffer && bytes)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "the buffer of %llu bytes is NULL", (unsigned long long)bytes);
    return wr_comm_check_rank(comm, "destination", dest, err);
}

static weir_status check_recv(const weir_comm *comm, const void *buffer, uint64_t bytes, int source, int tag, const weir_message *message,
                              weir_error *err)
{
    if (tag < 0 && tag != WEIR_ANY_TAG)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "tag %d is negative and not WEIR_ANY_TAG", tag);
    if (!buffer && bytes)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "the buffer of %llu bytes is NULL", (unsigned long long)bytes);
    if (message && message->size < sizeof message->size)
        return wr_error_set(err, WEIR_ERR_INVALID, "set size to sizeof(weir_message)", "the message's size is %zu", message->size);
    return source == WEIR_ANY_SOURCE ? WEIR_OK : wr_comm_check_rank(comm, "source", source, err);
}

/* Ends a public call that had a failure. */
static weir_status failed(weir_comm *comm, weir_error *err, const char *operation)
{
    return wr_comm_fail(comm, err, operation);
}

static weir_status start_send(weir_comm *comm, const void *buffer, uint64_t bytes, int dest, int tag, bool finish, weir_request **request,
                              weir_error *err)
{
    weir_status status = check_send(comm, buffer, bytes, dest, tag, err);
    if (status)
        return status;
    wr_engine_lock(comm->engine);
    status = wr_p2p_send(comm->p2p, &comm->group, WR_P2P_USER, buffer, bytes, dest, tag, request, err);
    if (!status && finish && *request)
        status = wr_request_finish(*request, err);
    wr_engine_unlock(comm->engine);
    return status;
}

static weir_status start_recv(weir_comm *comm, void *buffer, uint64_t bytes, int source, int tag, weir_message *message, bool finish,
                              weir_request **request, weir_error *err)
{
    weir_status status = check_recv(comm, buffer, bytes, source, tag, message, err);
    if (status)
        return status;
    wr_engine_lock(comm->engine);
    status = wr_p2p_recv(comm->p2p, &comm->group, WR_P2P_USER, buffer, bytes, source, tag, message, request, err);
    if (!status && finish)
        status = wr_request_finish(*request, err);
    wr_engine_unlock(comm->engine);
    return status;
}

weir_status weir_send(weir_comm *comm, const void *buffer, uint64_t bytes, int dest, int tag)
{
    weir_error err;
    weir_request *request = NULL;
    wr_error_reset(&err);
    weir_status status = start_send(comm, buffer, bytes, dest, tag, true, &request, &err);
    return status ? failed(comm, &err, "weir_send") : WEIR_OK;
}

weir_status weir_isend(weir_comm *comm, const void *buffer, uint64_t bytes, int dest, int tag, weir_request **request)
{
    weir_error err;
    weir_request *started = NULL;
    wr_error_reset(&err);
    weir_status status = start_send(comm, buffer, bytes, dest, tag, false, &started, &err);
    if (status)
        return failed(comm, &err, "weir_isend");
    *request = started;
    return WEIR_OK;
}

weir_status weir_recv(weir_comm *comm, void *buffer, uint64_t bytes, int source, int tag, weir_message *message)
{
    weir_error err;
    weir_request *request = NULL;
    wr_error_reset(&err);
    weir_status status = start_recv(comm, buffer, bytes, source, tag, message, true, &request, &err);
    return status ? failed(comm, &err, "weir_recv") : WEIR_OK;
}

weir_status weir_irecv(weir_comm *comm, void *buffer, uint64_t bytes, int source, int tag, weir_message *message,
                       weir_request **request)
{
    weir_error err;
    weir_request *started = NULL;
    wr_error_reset(&err);
    weir_status status = start_recv(comm, buffer, bytes, source, tag, message, false, &started, &err);
    if (status)
        return failed(comm, &err, "weir_irecv");
    *request = started;
    return WEIR_OK;
}
