/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Started calls whose plan is not there yet, or still runs: they stand in a queue, in the order of calls, which is the same at all
 * ranks. The first of them is set up, step by step, by whatever makes progress; when it has been, its request starts, and the next
 * one's turn comes. Those that need no plan start as soon as the first call of the communicator has been set up.
 *
 * While the queue is not empty, started calls go through it even if their plan is there: what is kept, and which instance a call
 * takes, must follow from the order of calls alone.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/coll/coll.h"

struct wr_coll_pending {
    struct wr_list link; /* in pending, or in failed */
    struct wr_coll_request *request;
    struct wr_coll_getting getting;
    weir_error err; /* why it failed */
    uint64_t numbers[]; /* of a v-form: what the caller's arrays hold */
};

/* ---- the queue ---- */

static const uint64_t *keep(const uint64_t *numbers, size_t n, uint64_t **to)
{
    uint64_t *kept = *to;
    if (!numbers)
        return NULL;
    memcpy(kept, numbers, n * sizeof *kept);
    *to += n;
    return kept;
}

/* The arrays of the caller that this rank uses. */
static void keep_numbers(struct wr_coll_pending *p, const struct wr_coll_call *call, const weir_comm *comm)
{
    struct wr_coll_call *own = &p->request->call;
    size_t n = (size_t)comm->size;
    uint64_t *to = p->numbers;
    bool used = !(call->coll == WR_COLL_GATHER || call->coll == WR_COLL_SCATTER) || comm->rank == call->root;
    own->counts = used ? keep(call->counts, n, &to) : NULL;
    own->offsets = used ? keep(call->offsets, n, &to) : NULL;
    own->in_counts = keep(call->in_counts, n, &to);
    own->in_offsets = keep(call->in_offsets, n, &to);
}

weir_status wr_coll_defer(struct wr_coll_request *r, const struct wr_coll_call *call, weir_error *err)
{
    struct wr_coll_state *s = r->state;
    size_t numbers = call->vector ? 4 * (size_t)s->comm->size : 0;
    struct wr_coll_pending *p = calloc(1, sizeof *p + numbers * sizeof p->numbers[0]);
    if (!p)
        return wr_error_memory(err, sizeof *p + numbers * sizeof p->numbers[0], "a started call");
    p->request = r;
    r->pending = p;
    r->request.hurry = NULL;
    if (call->vector)
        keep_numbers(p, call, s->comm);
    wr_coll_get(&p->getting, s, &r->call, WR_COLL_STARTED, s->calls - 1, 0);
    wr_list_push_back(&s->pending, &p->link);
    s->comm->setups++;
    wr_coll_setup_progress(s);
    return WEIR_OK;
}

static void leave(struct wr_coll_state *s, struct wr_coll_pending *p)
{
    struct wr_coll_call *call = &p->request->call;
    call->counts = call->offsets = call->in_counts = call->in_offsets = NULL;
    wr_list_remove(&p->link);
    s->comm->setups--;
}

static void start(struct wr_coll_state *s, struct wr_coll_pending *p)
{
    struct wr_coll_request *r = p->request;
    leave(s, p);
    r->instance = p->getting.instance;
    r->exec = r->instance ? r->instance->exec : NULL;
    r->request.hurry = r->instance ? NULL : wr_fast_hurry;
    r->pending = NULL;
    free(p);
    wr_coll_request_start(r);
}

static void fail(struct wr_coll_state *s, struct wr_coll_pending *p)
{
    wr_steps_cancel(&p->getting.steps);
    wr_coll_get_failed(&p->getting);
    leave(s, p);
    wr_list_push_back(&s->failed, &p->link);
    p->request->request.why = &p->err;
    wr_request_complete(&p->request->request, p->err.status);
}

void wr_coll_setup_free(struct wr_coll_pending *p)
{
    if (!p)
        return;
    wr_list_remove(&p->link);
    free(p);
}

/* ---- progress ---- */

/* What the first call of a communicator sets up. */
static weir_status open_progress(struct wr_coll_state *s, weir_error *err)
{
    weir_status status = s->opening ? WEIR_OK : wr_fast_open(s, &s->opening, err);
    if (!status)
        status = wr_steps_progress(wr_fast_opening_steps(s->opening), err);
    if (status == WEIR_IN_PROGRESS)
        return status;
    struct wr_fast_opening *opening = s->opening;
    s->opening = NULL;
    wr_fast_opened(opening, !status);
    return status;
}

/* Starts those that need no plan. */
static void start_fast(struct wr_coll_state *s)
{
    struct wr_coll_pending *p, *next;
    wr_list_for_each_safe (p, next, &s->pending, link)
        if (wr_fast_serves(s->fast, &p->request->call))
            start(s, p);
}

/* Why nothing can be set up any more. */
static weir_status given_up(const struct wr_coll_state *s, weir_error *err)
{
    if (s->gave_up.status)
        *err = s->gave_up;
    else if (s->comm->engine->stopped.status)
        wr_engine_stop_error(s->comm->engine, err);
    else
        return WEIR_OK;
    return err->status;
}

void wr_coll_setup_progress(struct wr_coll_state *s)
{
    if (s->setting_up)
        return;
    s->setting_up = true;
    while (!wr_list_empty(&s->pending)) {
        struct wr_coll_pending *p = wr_list_first(&s->pending, struct wr_coll_pending, link);
        bool opens = !s->opened;
        weir_status status = given_up(s, &p->err);
        if (status && s->opening) {
            wr_steps_cancel(wr_fast_opening_steps(s->opening));
            wr_fast_opened(s->opening, false);
            s->opening = NULL;
        }
        if (!status)
            status = opens ? open_progress(s, &p->err) : wr_steps_progress(&p->getting.steps, &p->err);
        if (status == WEIR_IN_PROGRESS)
            break;
        if (status)
            fail(s, p);
        else if (opens)
            start_fast(s);
        else
            start(s, p);
    }
    s->setting_up = false;
}

weir_status wr_coll_open(struct wr_coll_state *s, weir_error *err)
{
    struct wr_fast_opening *opening;
    weir_status status = wr_exchange_settle(s->comm, err); /* a started call may do it */
    if (status || s->opened)
        return status;
    status = wr_fast_open(s, &opening, err);
    if (status)
        return status;
    status = wr_steps_run(wr_fast_opening_steps(opening), err);
    wr_fast_opened(opening, !status);
    return status;
}

void wr_coll_setup_destroy(struct wr_coll_state *s)
{
    struct wr_coll_pending *p, *next;
    if (s->opening)
        wr_steps_cancel(wr_fast_opening_steps(s->opening));
    wr_fast_opened(s->opening, false);
    s->opening = NULL;
    wr_list_for_each_safe (p, next, &s->pending, link) {
        wr_steps_cancel(&p->getting.steps);
        wr_coll_get_failed(&p->getting);
        wr_coll_setup_free(p);
    }
    wr_list_for_each_safe (p, next, &s->failed, link)
        wr_coll_setup_free(p);
}
