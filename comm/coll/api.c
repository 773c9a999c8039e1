/* SPDX-License-Identifier: BSD-3-Clause */
/* What all public calls have in common: arguments are checked, the lock is taken, errors are remembered. */
#include <weir/coll.h>

#include "base/error.h"
#include "comm/coll/coll.h"

static bool has_input(const weir_comm *comm, const struct wr_coll_call *call)
{
    if (call->coll == WR_COLL_SCATTER)
        return comm->rank == call->root;
    return call->coll != WR_COLL_BARRIER && call->coll != WR_COLL_BCAST;
}

static bool has_output(const weir_comm *comm, const struct wr_coll_call *call)
{
    if (call->coll == WR_COLL_REDUCE || call->coll == WR_COLL_GATHER)
        return comm->rank == call->root || call->in == WEIR_IN_PLACE;
    return call->coll != WR_COLL_BARRIER;
}

/* Whether any element is meant to be there; of a v-form, where counts of 0 are usual, it is not asked. */
static bool has_elements(const struct wr_coll_call *call)
{
    return !call->vector && call->count;
}

static weir_status check(const weir_comm *comm, const struct wr_coll_call *call, weir_error *err)
{
    weir_status status = wr_comm_check_alive(comm, err);
    if (status)
        return status;
    if (wr_coll_combines(call->coll) && call->op >= WEIR_OP_USER) {
        struct wr_kernel kernel;
        if (!wr_coll_kernel(comm->ctx, call->type, call->op, &kernel))
            return wr_error_set(err, WEIR_ERR_INVALID, "give WEIR_OPAQUE, or a type of the operation's size",
                                "there is no operation %d for elements of type %d", (int)call->op, (int)call->type);
    } else if (!weir_type_size(call->type)) {
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "there is no type %d", (int)call->type);
    } else if (wr_coll_combines(call->coll) && !wr_kernel_exists(call->type, call->op)) {
        return wr_error_set(err, WEIR_ERR_INVALID, "and, or, xor work on integers only",
                            "elements of type %s cannot be combined by operation %s", weir_type_name(call->type),
                            weir_op_name(call->op) ? weir_op_name(call->op) : "?");
    }
    if (call->coll == WR_COLL_ALLTOALL && call->in == WEIR_IN_PLACE)
        return wr_error_set(err, WEIR_ERR_INVALID, "give the input a buffer of its own",
                            "an all-to-all cannot be done in place");
    if (has_elements(call) && !call->out && has_output(comm, call))
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "the output buffer is NULL");
    if (has_elements(call) && !call->in && has_input(comm, call))
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "the input buffer is NULL");
    if (call->count > UINT64_MAX / (2 * WEIR_OP_ELEMENT_MAX) / (uint64_t)comm->size)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "%llu elements are too many", (unsigned long long)call->count);
    status = wr_comm_check_rank(comm, "root", call->root, err);
    return status || !call->vector ? status : wr_coll_check_numbers(comm, call, err);
}

/* Whether calls can still be made on it. */
static weir_status check_state(const struct wr_coll_state *s, weir_error *err)
{
    if (s->broken)
        return wr_engine_stop_error(s->comm->engine, err);
    if (s->gave_up.status) {
        *err = s->gave_up;
        return err->status;
    }
    if (wr_comm_lost(s->comm) >= 0)
        return wr_engine_lost_error(s->comm->engine, &s->comm->group, -1, err);
    return WEIR_OK;
}

/* Starts a call, without waiting for anybody. */
static weir_status begin(struct wr_coll_state *s, const struct wr_coll_call *call, weir_request **request, weir_error *err)
{
    struct wr_coll_request *r;
    bool fast = s->opened && wr_fast_serves(s->fast, call);
    struct wr_coll_instance *instance =
        s->opened && !fast && wr_list_empty(&s->pending) ? wr_coll_plan_ready(s, call) : NULL;
    weir_status status = instance && call->vector ? wr_coll_bind_numbers(s, call, instance, err) : WEIR_OK;
    if (!status)
        status = wr_coll_request_new(s, call, instance, false, &r, err);
    if (status)
        return status;
    if (fast || instance)
        wr_coll_request_start(r);
    else
        status = wr_coll_defer(r, call, err);
    if (status)
        r->request.release(&r->request);
    else
        *request = &r->request;
    return status;
}

/* Makes a blocking call, or a persistent request. */
static weir_status make(struct wr_coll_state *s, const struct wr_coll_call *call, bool persistent, weir_request **request,
                        weir_error *err)
{
    struct wr_coll_request *r;
    struct wr_coll_instance *instance = NULL;
    weir_status status = WR_LIKELY(s->opened) ? WEIR_OK : wr_coll_open(s, err);
    if (status)
        return status;
    bool fast = wr_fast_serves(s->fast, call);
    if (fast && !persistent)
        return wr_fast_run(s, call, err);
    if (!fast)
        status = persistent ? wr_coll_plan_own(s, call, &instance, err) : wr_coll_plan_get(s, call, &instance, err);
    if (!status)
        status = wr_coll_request_new(s, call, instance, persistent, &r, err);
    if (status)
        return status;
    if (persistent) {
        *request = &r->request;
        return WEIR_OK;
    }
    wr_coll_request_start(r);
    return wr_request_finish(&r->request, err);
}

weir_status wr_coll_perform(weir_comm *comm, const struct wr_coll_call *call, enum wr_coll_form form,
                            weir_request **request)
{
    weir_error err;
    weir_request *started = NULL;
    wr_error_reset(&err);
    weir_status status = check(comm, call, &err);
    if (!status) {
        wr_engine_lock(comm->engine);
        status = check_state(comm->coll, &err);
        if (!status) {
            wr_coll_note(comm->coll, call, form);
            status = form == WR_COLL_STARTED ? begin(comm->coll, call, &started, &err)
                                             : make(comm->coll, call, form == WR_COLL_PERSISTENT, &started, &err);
        }
        wr_engine_unlock(comm->engine);
    }
    if (status)
        return wr_comm_fail(comm, &err, call->operation);
    if (request)
        *request = started;
    return WEIR_OK;
}

/* ---- persistent requests ---- */

static struct wr_coll_request *persistent_of(weir_request *request)
{
    return request && request->persistent ? WR_CONTAINER_OF(request, struct wr_coll_request, request) : NULL;
}

weir_status weir_start(weir_request *request)
{
    struct wr_coll_request *r = persistent_of(request);
    weir_error err;
    weir_status status = WEIR_OK;
    if (!r)
        return WEIR_ERR_INVALID;
    wr_error_reset(&err);
    struct wr_engine *e = request->engine;
    wr_engine_lock(e);
    if (!request->complete)
        status = wr_error_set(&err, WEIR_ERR_BUSY, "wait for it first", "the request is running");
    else
        wr_coll_request_start(r);
    wr_engine_unlock(e);
    return status ? wr_comm_fail(r->state->comm, &err, "weir_start") : WEIR_OK;
}

weir_status weir_request_free(weir_request **request)
{
    struct wr_coll_request *r = persistent_of(*request);
    weir_error err;
    weir_status status;
    if (!*request)
        return WEIR_OK;
    if (!r)
        return WEIR_ERR_INVALID;
    wr_error_reset(&err);
    const weir_comm *comm = r->state->comm;
    struct wr_engine *e = r->request.engine;
    wr_engine_lock(e);
    if (!r->request.complete) {
        status = wr_error_set(&err, WEIR_ERR_BUSY, "wait for it first", "the request is running");
    } else {
        status = wr_coll_instance_free(r->state, r->instance, &err);
        r->request.release(&r->request);
        *request = NULL;
    }
    wr_engine_unlock(e);
    return status ? wr_comm_fail(comm, &err, "weir_request_free") : WEIR_OK;
}
