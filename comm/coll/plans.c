/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans: what is asked for, agreement between the ranks, making, keeping and letting go. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "comm/coll/coll.h"
#include "comm/mem/exchange.h"

enum {
    INSTANCES = 4,  /* of one plan, for calls of one kind that run at once */
    MOST_PLANS = 64 /* that are kept */
};

struct wr_coll_plan {
    struct wr_list link;
    struct wr_coll_key key;
    struct wr_exec *instance[INSTANCES];
    unsigned next;
};

struct wr_coll_key wr_coll_key(const struct wr_coll_call *call)
{
    struct wr_coll_key key;
    memset(&key, 0, sizeof key);
    key.count = call->count;
    key.coll = (int32_t)call->coll;
    key.type = (int32_t)call->type;
    key.op = (int32_t)call->op;
    key.root = call->root;
    key.in_place = call->in == WEIR_IN_PLACE;
    return key;
}

static bool combines(enum wr_collective coll)
{
    return coll == WR_COLL_REDUCE || coll == WR_COLL_ALLREDUCE || coll == WR_COLL_REDUCE_SCATTER ||
           coll == WR_COLL_SCAN || coll == WR_COLL_EXSCAN;
}

/* What ranks compare before they make a plan. */
struct plan_card {
    struct wr_coll_key key;
    int64_t in_mem, out_mem; /* number of the memory handle that holds the buffer, -1 for none */
    uint64_t in_offset, out_offset;
    int64_t persistent;
};

void wr_coll_describe(const struct wr_coll_key *key, char *buf, size_t size)
{
    const char *op = combines((enum wr_collective)key->coll) ? weir_op_name((weir_op)key->op) : NULL;
    const char *type = weir_type_name((weir_type)key->type);
    snprintf(buf, size, "%s of %llu %s%s%s%s (root %d)", wr_collective_name((enum wr_collective)key->coll),
             (unsigned long long)key->count, type ? type : "?", op ? ", " : "", op ? op : "",
             key->in_place ? ", in place" : "", key->root);
}

static weir_status compare(struct wr_coll_state *state, const struct plan_card *cards, weir_error *err)
{
    const weir_comm *comm = state->comm;
    for (int r = 1; r < comm->size; r++) {
        struct wr_coll_key a = cards[0].key, b = cards[r].key;
        char first[160], other[160];
        a.in_place = b.in_place = 0; /* may differ by rank only where the root's differs */
        if (!memcmp(&a, &b, sizeof a) && cards[r].persistent == cards[0].persistent &&
            cards[r].key.in_place == cards[0].key.in_place)
            continue;
        wr_coll_describe(&cards[0].key, first, sizeof first);
        wr_coll_describe(&cards[r].key, other, sizeof other);
        state->broken = true;
        wr_engine_stop(comm->engine, WEIR_ERR_MISMATCH, r,
                       "in collective call %llu rank 0 called %s, rank %d called %s",
                       (unsigned long long)(state->calls - 1), first, r, other);
        return wr_engine_stop_error(comm->engine, err);
    }
    return WEIR_OK;
}

static void fill_spec(const struct wr_coll_state *state, const struct wr_coll_call *call, struct wr_plan_spec *spec)
{
    size_t size = weir_type_size(call->type);
    *spec = (struct wr_plan_spec){.coll = call->coll,
                                  .topo = &state->topo,
                                  .root = call->root,
                                  .in_place = call->in == WEIR_IN_PLACE};
    spec->reduces = combines(call->coll);
    if (spec->reduces) {
        struct wr_kernel k;
        wr_kernel_find(call->type, call->op, NULL, &k);
        spec->count = call->count;
        spec->elem_size = (uint32_t)k.size;
        spec->partial_size = (uint32_t)k.partial_size;
    } else { /* bytes */
        spec->count = call->count * size;
        spec->elem_size = spec->partial_size = 1;
    }
}

/* Where IN is, seen from OUT, for an in-place call. */
static const void *input_of(const struct wr_coll_call *call, const struct wr_plan_spec *spec, int rank)
{
    if (call->in != WEIR_IN_PLACE)
        return call->in;
    return (const char *)call->out + wr_plan_in_offset(spec, rank) * spec->elem_size;
}

/* The memory handle of a buffer, and where the buffer begins in it. */
static struct weir_mem *handle_of(struct wr_coll_state *state, const void *buffer, uint64_t bytes, int64_t *number,
                                  uint64_t *offset)
{
    struct weir_mem *mem = bytes ? wr_mem_containing(state->comm->mem, buffer, bytes, offset) : NULL;
    *number = mem && mem->segment && !mem->node_shared ? (int64_t)mem->id : -1;
    return mem;
}

/* Whether all ranks of each node can reach each other's buffers: all are in memory handles of one making. */
static bool all_mapped(const weir_comm *comm, const struct plan_card *cards, bool in)
{
    for (int r = 0; r < comm->size; r++) {
        int64_t mine = in ? cards[r].in_mem : cards[r].out_mem, first = in ? cards[0].in_mem : cards[0].out_mem;
        if (mine < 0 || mine != first)
            return false;
    }
    return true;
}

static weir_status make_plan(struct wr_coll_state *state, const struct wr_coll_call *call, bool persistent,
                             struct wr_exec **exec, weir_error *err)
{
    weir_comm *comm = state->comm;
    struct wr_plan_spec spec;
    struct wr_kernel kernel;
    struct wr_coll_choice choice;
    struct plan_card card, *cards = malloc((size_t)comm->size * sizeof *cards);
    struct wr_exec_params params = {.comm = comm, .spec = &spec, .divide_by = 1};
    memset(&card, 0, sizeof card);
    fill_spec(state, call, &spec);
    card.key = wr_coll_key(call);
    card.in_mem = card.out_mem = -1;
    card.persistent = persistent;
    if (persistent) {
        params.in_mem = handle_of(state, input_of(call, &spec, comm->rank),
                                  wr_plan_in_len(&spec, comm->rank) * spec.elem_size, &card.in_mem, &card.in_offset);
        params.out_mem = handle_of(state, call->out, wr_plan_out_len(&spec, comm->rank) * spec.elem_size, &card.out_mem,
                                   &card.out_offset);
    }
    weir_status status = cards ? WEIR_OK : wr_error_memory(err, (size_t)comm->size * sizeof *cards, "a plan");
    if (!status)
        status = wr_exchange_allgather(comm, &card, cards, sizeof card, err);
    if (!status)
        status = compare(state, cards, err);
    if (status)
        goto out;
    spec.in_mapped = all_mapped(comm, cards, true);
    spec.out_mapped = all_mapped(comm, cards, false);
    status = wr_coll_decide(state, &spec, &choice, err);
    if (status)
        goto out;
    params.algorithm = choice.algorithm;
    params.in_offset = card.in_offset;
    params.out_offset = card.out_offset;
    if (spec.reduces && wr_kernel_find(call->type, call->op, NULL, &kernel)) {
        params.kernel = &kernel;
        params.divide_by = call->op == WEIR_AVG ? (uint64_t)comm->size : 1;
    }
    if (comm->rank == 0)
        wr_info(&comm->ctx->log, PLAN, "%s: %s of %llu elements of %u bytes%s%s", params.algorithm->name,
                wr_collective_name(call->coll), (unsigned long long)spec.count, spec.elem_size,
                spec.in_mapped ? ", input mapped" : "", spec.out_mapped ? ", output mapped" : "");
    status = wr_exec_create(&params, exec, err);
out:
    free(cards);
    return status;
}

/* ---- keeping ---- */

static bool exec_is_done(void *arg)
{
    return wr_exec_done(arg);
}

static weir_status let_go(struct wr_coll_state *state, struct wr_coll_plan *plan, weir_error *err)
{
    weir_status status = WEIR_OK;
    for (int i = 0; i < INSTANCES && !status; i++) {
        struct wr_exec *x = plan->instance[i];
        if (!x)
            continue;
        status = wr_engine_wait(state->comm->engine, exec_is_done, x, WR_TIME_INF, err);
        state->plan_bytes -= wr_exec_bytes(x);
        if (!status)
            status = wr_exec_destroy(x, err);
    }
    wr_list_remove(&plan->link);
    state->nplans--;
    free(plan);
    return status;
}

/* Room for one more: the least recently used goes. The same at all ranks, since all make the same calls. */
static weir_status make_room(struct wr_coll_state *state, weir_error *err)
{
    weir_status status = WEIR_OK;
    uint64_t most = state->comm->ctx->config.plan_cache;
    while (!status && state->nplans && (state->nplans >= MOST_PLANS || state->plan_bytes > most))
        status = let_go(state, wr_list_entry(state->plans.prev, struct wr_coll_plan, link), err);
    return status;
}

static weir_status find_or_add(struct wr_coll_state *state, const struct wr_coll_key *key, struct wr_coll_plan **found,
                               weir_error *err)
{
    struct wr_coll_plan *plan;
    wr_list_for_each (plan, &state->plans, link) {
        if (memcmp(&plan->key, key, sizeof *key) != 0)
            continue;
        wr_list_remove(&plan->link);
        wr_list_push_front(&state->plans, &plan->link);
        *found = plan;
        return WEIR_OK;
    }
    weir_status status = make_room(state, err);
    if (status)
        return status;
    plan = calloc(1, sizeof *plan);
    if (!plan)
        return wr_error_memory(err, sizeof *plan, "a plan");
    plan->key = *key;
    wr_list_push_front(&state->plans, &plan->link);
    state->nplans++;
    *found = plan;
    return WEIR_OK;
}

weir_status wr_coll_plan_get(struct wr_coll_state *state, const struct wr_coll_call *call, bool persistent,
                             bool blocking, struct wr_exec **exec, weir_error *err)
{
    struct wr_coll_key key = wr_coll_key(call);
    struct wr_coll_plan *plan = NULL;
    if (persistent)
        return make_plan(state, call, true, exec, err);
    weir_status status = find_or_add(state, &key, &plan, err);
    if (status)
        return status;
    /* which instance follows from the order of calls alone, so that all ranks take the same */
    unsigned i = blocking ? 0 : plan->next++ % INSTANCES;
    if (!plan->instance[i]) {
        status = make_plan(state, call, false, &plan->instance[i], err);
        if (status) {
            if (!plan->instance[0]) {
                wr_list_remove(&plan->link);
                state->nplans--;
                free(plan);
            }
            return status;
        }
        state->plan_bytes += wr_exec_bytes(plan->instance[i]);
    }
    status = wr_engine_wait(state->comm->engine, exec_is_done, plan->instance[i], WR_TIME_INF, err);
    if (!status)
        *exec = plan->instance[i];
    return status;
}

void wr_coll_forget_plans(struct wr_coll_state *state)
{
    struct wr_coll_plan *plan, *next;
    wr_list_for_each_safe (plan, next, &state->plans, link) {
        for (int i = 0; i < INSTANCES; i++)
            wr_exec_forget(plan->instance[i]);
        free(plan);
    }
    wr_list_init(&state->plans);
}

void wr_coll_break_plans(struct wr_coll_state *state)
{
    struct wr_coll_plan *plan;
    wr_list_for_each (plan, &state->plans, link) {
        for (int i = 0; i < INSTANCES; i++)
            if (plan->instance[i])
                wr_exec_break(plan->instance[i], WEIR_ERR_PEER_LOST);
    }
}
