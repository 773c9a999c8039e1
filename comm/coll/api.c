/* SPDX-License-Identifier: BSD-3-Clause */
/* The public calls: arguments are checked, the lock is taken, errors are remembered. */
#include <weir/coll.h>

#include "base/error.h"
#include "comm/coll/coll.h"

static weir_status check(const weir_comm *comm, const struct wr_coll_call *call, bool combines, weir_error *err)
{
    if (!weir_type_size(call->type))
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "there is no type %d", (int)call->type);
    if (combines && !wr_kernel_exists(call->type, call->op))
        return wr_error_set(err, WEIR_ERR_INVALID, "and, or, xor work on integers only",
                            "elements of type %s cannot be combined by operation %s", weir_type_name(call->type),
                            weir_op_name(call->op) ? weir_op_name(call->op) : "?");
    if (call->count && !call->out)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "the output buffer is NULL");
    if (call->count && !call->in && call->coll != WR_COLL_BCAST)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "the input buffer is NULL");
    if (call->count > UINT64_MAX / 16 / (uint64_t)comm->size)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "%llu elements are too many", (unsigned long long)call->count);
    return wr_comm_check_rank(comm, "root", call->root, err);
}

enum form { BLOCKING, STARTED, PERSISTENT };

static weir_status perform(weir_comm *comm, const struct wr_coll_call *call, enum form form, weir_request **request,
                           weir_error *err)
{
    struct wr_coll_state *s = comm->coll;
    struct wr_coll_request *r;
    struct wr_exec *exec = NULL;
    weir_status status = WEIR_OK;
    if (s->broken)
        return wr_engine_stop_error(comm->engine, err);
    if (WR_UNLIKELY(!s->opened)) {
        if ((status = wr_fast_open(s, err)))
            return status;
        s->opened = true;
    }
    wr_coll_note(s, call, form == PERSISTENT);
    bool fast = wr_fast_serves(s->fast, call);
    if (fast && form == BLOCKING)
        return wr_fast_run(s, call, err);
    if (!fast)
        status = wr_coll_plan_get(s, call, form == PERSISTENT, form == BLOCKING, &exec, err);
    if (!status)
        status = wr_coll_request_new(s, call, exec, form == PERSISTENT, &r, err);
    if (status)
        return status;
    if (form != PERSISTENT)
        wr_coll_request_start(r);
    if (form == BLOCKING)
        return wr_request_finish(&r->request, err);
    *request = &r->request;
    return WEIR_OK;
}

static weir_status collective(weir_comm *comm, const struct wr_coll_call *call, bool combines, enum form form,
                              weir_request **request)
{
    weir_error err = {.rank = -1};
    weir_request *started = NULL;
    weir_status status = check(comm, call, combines, &err);
    if (!status) {
        wr_engine_lock(comm->engine);
        status = perform(comm, call, form, &started, &err);
        wr_engine_unlock(comm->engine);
    }
    if (status)
        return wr_ctx_fail(comm->ctx, &err, call->operation);
    if (request)
        *request = started;
    return WEIR_OK;
}

weir_status weir_allreduce(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op)
{
    struct wr_coll_call call = {WR_COLL_ALLREDUCE, in, out, count, type, op, 0, "weir_allreduce"};
    return collective(comm, &call, true, BLOCKING, NULL);
}

weir_status weir_iallreduce(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op,
                            weir_request **request)
{
    struct wr_coll_call call = {WR_COLL_ALLREDUCE, in, out, count, type, op, 0, "weir_iallreduce"};
    return collective(comm, &call, true, STARTED, request);
}

weir_status weir_allreduce_init(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op,
                                weir_request **request)
{
    struct wr_coll_call call = {WR_COLL_ALLREDUCE, in, out, count, type, op, 0, "weir_allreduce_init"};
    return collective(comm, &call, true, PERSISTENT, request);
}

weir_status weir_reduce_scatter(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op)
{
    struct wr_coll_call call = {WR_COLL_REDUCE_SCATTER, in, out, count, type, op, 0, "weir_reduce_scatter"};
    return collective(comm, &call, true, BLOCKING, NULL);
}

weir_status weir_ireduce_scatter(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op,
                                 weir_request **request)
{
    struct wr_coll_call call = {WR_COLL_REDUCE_SCATTER, in, out, count, type, op, 0, "weir_ireduce_scatter"};
    return collective(comm, &call, true, STARTED, request);
}

weir_status weir_reduce_scatter_init(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type,
                                     weir_op op, weir_request **request)
{
    struct wr_coll_call call = {WR_COLL_REDUCE_SCATTER, in, out, count, type, op, 0, "weir_reduce_scatter_init"};
    return collective(comm, &call, true, PERSISTENT, request);
}

weir_status weir_allgather(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type)
{
    struct wr_coll_call call = {WR_COLL_ALLGATHER, in, out, count, type, WEIR_SUM, 0, "weir_allgather"};
    return collective(comm, &call, false, BLOCKING, NULL);
}

weir_status weir_iallgather(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type,
                            weir_request **request)
{
    struct wr_coll_call call = {WR_COLL_ALLGATHER, in, out, count, type, WEIR_SUM, 0, "weir_iallgather"};
    return collective(comm, &call, false, STARTED, request);
}

weir_status weir_allgather_init(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type,
                                weir_request **request)
{
    struct wr_coll_call call = {WR_COLL_ALLGATHER, in, out, count, type, WEIR_SUM, 0, "weir_allgather_init"};
    return collective(comm, &call, false, PERSISTENT, request);
}

/* The root's buffer is input and output: the plan reads it as IN and leaves OUT of the root alone or copies it onto itself. */
static struct wr_coll_call bcast_call(void *buffer, uint64_t count, weir_type type, int root, const char *operation)
{
    return (struct wr_coll_call){WR_COLL_BCAST, WEIR_IN_PLACE, buffer, count, type, WEIR_SUM, root, operation};
}

weir_status weir_bcast(weir_comm *comm, void *buffer, uint64_t count, weir_type type, int root)
{
    struct wr_coll_call call = bcast_call(buffer, count, type, root, "weir_bcast");
    return collective(comm, &call, false, BLOCKING, NULL);
}

weir_status weir_ibcast(weir_comm *comm, void *buffer, uint64_t count, weir_type type, int root, weir_request **request)
{
    struct wr_coll_call call = bcast_call(buffer, count, type, root, "weir_ibcast");
    return collective(comm, &call, false, STARTED, request);
}

weir_status weir_bcast_init(weir_comm *comm, void *buffer, uint64_t count, weir_type type, int root,
                            weir_request **request)
{
    struct wr_coll_call call = bcast_call(buffer, count, type, root, "weir_bcast_init");
    return collective(comm, &call, false, PERSISTENT, request);
}

static struct wr_coll_call barrier_call(const char *operation)
{
    return (struct wr_coll_call){WR_COLL_BARRIER, NULL, NULL, 0, WEIR_INT8, WEIR_SUM, 0, operation};
}

weir_status weir_barrier(weir_comm *comm)
{
    struct wr_coll_call call = barrier_call("weir_barrier");
    return collective(comm, &call, false, BLOCKING, NULL);
}

weir_status weir_ibarrier(weir_comm *comm, weir_request **request)
{
    struct wr_coll_call call = barrier_call("weir_ibarrier");
    return collective(comm, &call, false, STARTED, request);
}

weir_status weir_barrier_init(weir_comm *comm, weir_request **request)
{
    struct wr_coll_call call = barrier_call("weir_barrier_init");
    return collective(comm, &call, false, PERSISTENT, request);
}

/* ---- persistent requests ---- */

static struct wr_coll_request *persistent_of(weir_request *request)
{
    return request && request->persistent ? WR_CONTAINER_OF(request, struct wr_coll_request, request) : NULL;
}

weir_status weir_start(weir_request *request)
{
    struct wr_coll_request *r = persistent_of(request);
    weir_error err = {.rank = -1};
    weir_status status = WEIR_OK;
    if (!r)
        return WEIR_ERR_INVALID;
    struct wr_engine *e = request->engine;
    wr_engine_lock(e);
    if (!request->complete)
        status = wr_error_set(&err, WEIR_ERR_BUSY, "wait for it first", "the request is running");
    else
        wr_coll_request_start(r);
    wr_engine_unlock(e);
    return status ? wr_ctx_fail(request->ctx, &err, "weir_start") : WEIR_OK;
}

weir_status weir_request_free(weir_request **request)
{
    struct wr_coll_request *r = persistent_of(*request);
    weir_error err = {.rank = -1};
    weir_status status;
    if (!*request)
        return WEIR_OK;
    if (!r)
        return WEIR_ERR_INVALID;
    weir_ctx *ctx = r->request.ctx;
    struct wr_engine *e = r->request.engine;
    wr_engine_lock(e);
    if (!r->request.complete) {
        status = wr_error_set(&err, WEIR_ERR_BUSY, "wait for it first", "the request is running");
    } else {
        status = wr_exec_destroy(r->exec, &err);
        r->request.release(&r->request);
        *request = NULL;
    }
    wr_engine_unlock(e);
    return status ? wr_ctx_fail(ctx, &err, "weir_request_free") : WEIR_OK;
}
