/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of a communicator's collectives: topology, running requests, progress. */
#include "comm/coll/coll.h"

#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "base/error.h"

/* Where the ranks of a node share no memory (WEIR_TRANSPORT names a network) plans must take each for a node of its own. */
static weir_status make_topo(struct wr_coll_state *s, weir_error *err)
{
    bool together = s->comm->engine->shares_memory;
    int n = s->comm->size, nodes = together ? s->comm->nnodes : n;
    s->node_of = malloc((size_t)n * sizeof *s->node_of);
    s->local_rank = malloc((size_t)n * sizeof *s->local_rank);
    s->node_rank_store = malloc((size_t)n * sizeof *s->node_rank_store);
    s->node_size = calloc((size_t)nodes, sizeof *s->node_size);
    s->node_ranks = calloc((size_t)nodes, sizeof *s->node_ranks);
    if (!s->node_of || !s->local_rank || !s->node_rank_store || !s->node_size || !s->node_ranks)
        return wr_error_memory(err, (size_t)n * 3 * sizeof *s->node_of, "the ranks' nodes");
    for (int r = 0; r < n; r++) {
        s->node_of[r] = together ? s->comm->node_of[r] : r;
        s->local_rank[r] = s->node_size[s->node_of[r]]++;
    }
    for (int node = 0, at = 0; node < nodes; at += s->node_size[node++])
        s->node_ranks[node] = s->node_rank_store + at;
    for (int r = 0; r < n; r++)
        s->node_ranks[s->node_of[r]][s->local_rank[r]] = r;
    s->topo = (struct wr_plan_topo){.nranks = n,
                                    .nnodes = nodes,
                                    .node_of = s->node_of,
                                    .node_ranks = (const int *const *)s->node_ranks,
                                    .node_size = s->node_size,
                                    .local_rank = s->local_rank};
    return wr_coll_make_levels(s, err);
}

bool wr_coll_has_signals(const struct wr_coll_state *s)
{
    struct wr_coll_request *r;
    wr_list_for_each (r, &s->active, link)
        if (wr_exec_can_move(r->exec))
            return true;
    return s->fast && wr_fast_can_move(s->fast);
}

weir_status wr_coll_create(weir_comm *comm, struct wr_coll_state **state, weir_error *err)
{
    struct wr_coll_state *s = calloc(1, sizeof *s);
    if (!s)
        return wr_error_memory(err, sizeof *s, "collectives");
    s->comm = comm;
    comm->overdue = (struct wr_overdue){
        .after_ns = WR_MIN(comm->ctx->config.warn_after, comm->ctx->config.timeout), .look = wr_coll_overdue, .arg = s};
    wr_list_init(&s->plans);
    wr_list_init(&s->active);
    wr_list_init(&s->pending);
    wr_list_init(&s->failed);
    s->early = comm->rank == 0 ? calloc((size_t)comm->size, sizeof *s->early) : NULL;
    wr_pool_init(&s->requests, sizeof(struct wr_coll_request), 0, 16, 0);
    weir_status status = comm->rank == 0 && !s->early
                             ? wr_error_memory(err, (size_t)comm->size * sizeof *s->early, "collectives")
                             : make_topo(s, err);
    if (status) {
        wr_coll_destroy(s);
        return status;
    }
    *state = s;
    return WEIR_OK;
}

void wr_coll_destroy(struct wr_coll_state *s)
{
    if (!s)
        return;
    wr_coll_setup_destroy(s);
    wr_coll_forget_plans(s);
    wr_fast_forget(s->fast);
    wr_pool_destroy(&s->requests);
    free(s->early);
    free(s->late.seen);
    free(s->node_of);
    free(s->local_rank);
    free(s->node_rank_store);
    free(s->node_size);
    free(s->node_ranks);
    free(s->level_groups);
    free(s->group_of);
    free(s);
}

/* ---- completing ---- */

/* Copies shares between where the plan has them and where the user wants them. */
static void place_shares(const struct wr_coll_request *r, int first, int last, bool out)
{
    const struct wr_coll_instance *i = r->instance;
    const struct wr_coll_numbers *numbers = &i->numbers;
    for (int p = first; p <= last; p++) {
        char *user = (char *)r->call.out + numbers->places[p], *packed = i->packed + numbers->offsets[p];
        if (numbers->counts[p])
            wr_copy(out ? user : packed, out ? packed : user, numbers->counts[p]);
    }
}

static void complete(struct wr_coll_request *r)
{
    weir_status status = wr_exec_status(r->exec);
    if (r->instance->numbers.places && !status)
        place_shares(r, 0, r->state->comm->size - 1, true);
    if (r->instance->timed && !status)
        wr_coll_end_timed(r->state, r->instance);
    wr_request_complete(&r->request, status);
}

void wr_coll_progress(struct wr_coll_state *s)
{
    struct wr_coll_request *r, *next;
    wr_coll_agree_progress(s);
    if (s->fast)
        wr_fast_progress(s->fast);
    wr_list_for_each_safe (r, next, &s->active, link) {
        wr_exec_progress(r->exec);
        if (!wr_exec_done(r->exec))
            continue;
        wr_list_remove(&r->link);
        complete(r);
    }
    if (WR_UNLIKELY(!wr_list_empty(&s->pending)))
        wr_coll_setup_progress(s);
}

void wr_coll_peer_lost(struct wr_coll_state *s, int peer)
{
    struct wr_coll_request *r;
    wr_coll_break_plans(s);
    wr_fast_break(s->fast, WEIR_ERR_PEER_LOST, peer);
    wr_list_for_each (r, &s->active, link) {
        r->request.peer = peer;
        wr_exec_break(r->exec, WEIR_ERR_PEER_LOST);
    }
}

/* ---- requests ---- */

static void release(struct weir_request *request)
{
    struct wr_coll_request *r = WR_CONTAINER_OF(request, struct wr_coll_request, request);
    wr_coll_setup_free(r->pending);
    wr_pool_put(&r->state->requests, r);
}

unsigned wr_coll_in_use(const struct wr_coll_state *s)
{
    return (unsigned)s->requests.in_use;
}

bool wr_coll_is_request(const struct weir_request *request)
{
    return request->release == release;
}

weir_status wr_coll_request_new(struct wr_coll_state *s, const struct wr_coll_call *call,
                                struct wr_coll_instance *instance, bool persistent, struct wr_coll_request **request,
                                weir_error *err)
{
    struct wr_coll_request *r = wr_pool_get(&s->requests);
    if (!r)
        return wr_error_memory(err, sizeof *r, "a request");
    memset(r, 0, sizeof *r);
    wr_request_init(&r->request, s->comm->ctx, s->comm->engine, &s->comm->group, -1, call->operation, release);
    wr_list_init(&r->link);
    r->state = s;
    r->overdue = s->comm->overdue;
    r->request.overdue = &r->overdue;
    r->instance = instance;
    r->exec = instance ? instance->exec : NULL;
    r->request.hurry = instance ? NULL : wr_fast_hurry;
    r->hash = s->hash;
    r->call = *call;
    r->call.counts = r->call.offsets = r->call.in_counts = r->call.in_offsets = NULL; /* the caller's */
    r->request.persistent = persistent;
    r->request.complete = persistent; /* not running */
    *request = r;
    return WEIR_OK;
}

void wr_coll_addresses(const weir_comm *comm, const struct wr_coll_call *call, const struct wr_plan_spec *spec,
                       const void **in, void **out)
{
    char *buffer = call->out;
    *in = call->in;
    *out = call->out;
    if (call->in != WEIR_IN_PLACE)
        return;
    if (call->coll == WR_COLL_SCATTER) { /* the root's own part is copied onto itself */
        *in = buffer;
        if (comm->rank == call->root)
            *out = buffer + wr_plan_share_offset(spec, comm->rank) * spec->elem_size;
    } else {
        *in = buffer + wr_plan_in_offset(spec, comm->rank) * spec->elem_size;
    }
}

void wr_coll_request_start(struct wr_coll_request *r)
{
    struct wr_coll_state *s = r->state;
    if (r->request.persistent) {
        wr_comm_step(s->comm, NULL);
        r->overdue.step = s->comm->overdue.step;
    }
    struct wr_coll_instance *i = r->instance;
    const void *in;
    void *out;
    if (!i) {
        if (r->request.persistent) {
            wr_coll_note(s, &r->call, WR_COLL_PERSISTENT);
            r->hash = s->hash;
        }
        wr_fast_start(r);
        return;
    }
    if (i->timed)
        wr_coll_begin_timed(i);
    wr_coll_addresses(s->comm, &r->call, wr_exec_spec(r->exec), &in, &out);
    if (i->numbers.places) {
        int me = s->comm->rank;
        if (r->call.in == WEIR_IN_PLACE) {
            place_shares(r, me, me, false);
            in = i->packed + i->numbers.offsets[me];
        }
        out = i->packed;
    }
    r->request.complete = false;
    r->request.status = WEIR_OK;
    wr_exec_start(r->exec, in, out);
    wr_exec_progress(r->exec);
    if (wr_exec_done(r->exec))
        complete(r);
    else
        wr_list_push_back(&s->active, &r->link);
}
