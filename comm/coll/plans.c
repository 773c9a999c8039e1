/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans: what is asked for, agreement between the ranks, making, keeping and letting go. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "comm/coll/coll.h"
#include "comm/mem/exchange.h"
#include "comm/mem/mem.h"

enum { PARTIALS_FP32, PARTIALS_SAME }; /* WEIR_PARTIALS */

enum {
    INSTANCES = 4,  /* of one plan, for calls of one kind that run at once */
    MOST_PLANS = 64 /* that are kept */
};

struct wr_coll_plan {
    struct wr_list link;
    struct wr_coll_key key;
    unsigned mapped; /* for which buffers, see find_all_memory() */
    uint64_t *counts; /* those of the key's hash */
    struct wr_coll_instance instance[INSTANCES];
    unsigned next;
};

/* Whether an all-gather's output lies in a window of the node, of which there is one for all its ranks. */
static bool in_window(const weir_comm *comm, const struct wr_coll_call *call)
{
    uint64_t offset, bytes = weir_type_size(call->type) * (call->vector ? 1 : call->count * (uint64_t)comm->size);
    struct weir_mem *mem =
        comm->mem->windows && call->out && bytes ? wr_mem_containing(comm->mem, call->out, bytes, &offset) : NULL;
    return mem && mem->node_shared;
}

struct wr_coll_key wr_coll_key(const weir_comm *comm, const struct wr_coll_call *call)
{
    struct wr_coll_key key;
    memset(&key, 0, sizeof key);
    if (!call->vector)
        key.count = call->count;
    else if (!wr_coll_is_local(call))
        key.hash = wr_coll_hash_counts(comm, call, &key.count);
    key.coll = (int32_t)call->coll;
    key.type = (int32_t)call->type;
    key.op = (int32_t)call->op;
    key.root = call->root;
    key.in_place = call->in == WEIR_IN_PLACE && !wr_coll_is_rooted(call->coll);
    key.vector = call->vector;
    key.shared = call->coll == WR_COLL_ALLGATHER && in_window(comm, call);
    return key;
}

/* What ranks compare before they make a plan. */
struct plan_card {
    struct wr_coll_key key;
    struct wr_exec_where where;
    int64_t persistent;
    int64_t window; /* number of the node's window that holds the output, -1 for none */
    uint64_t window_offset;
};

void wr_coll_describe(const struct wr_coll_key *key, char *buf, size_t size)
{
    enum wr_collective coll = (enum wr_collective)key->coll;
    const char *op = wr_coll_combines(coll) ? weir_op_name((weir_op)key->op) : NULL;
    const char *type = key->type == WEIR_OPAQUE ? "elements" : weir_type_name((weir_type)key->type);
    char count[64] = "", user[32];
    if (key->op >= WEIR_OP_USER) {
        snprintf(user, sizeof user, "operation %d", (int)key->op - WEIR_OP_USER);
        op = user;
    }
    if (key->hash)
        snprintf(count, sizeof count, "%llu (counts %08x) ", (unsigned long long)key->count, (unsigned)key->hash);
    else if (!key->vector)
        snprintf(count, sizeof count, "%llu ", (unsigned long long)key->count);
    snprintf(buf, size, "%s%s of %s%s%s%s%s (root %d)", wr_collective_name(coll), key->vector ? "v" : "", count,
             type ? type : "?", op ? ", " : "", op ? op : "", key->in_place ? ", in place" : "", key->root);
}

static weir_status compare(struct wr_coll_state *state, const struct plan_card *cards, weir_error *err)
{
    const weir_comm *comm = state->comm;
    for (int r = 1; r < comm->size; r++) {
        char first[160], other[160];
        if (!memcmp(&cards[0].key, &cards[r].key, sizeof cards[0].key) && cards[r].persistent == cards[0].persistent)
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
    *spec = (struct wr_plan_spec){.coll = call->coll, .topo = &state->topo, .root = call->root};
    /* Of rooted collectives the root alone says whether it is in place, so that the plan must be good for both: a reduction may
     * find its input in its result; gather and scatter copy the root's part onto itself then. */
    if (wr_coll_is_rooted(call->coll))
        spec->in_place = call->coll == WR_COLL_BCAST || call->coll == WR_COLL_REDUCE;
    else
        spec->in_place = call->in == WEIR_IN_PLACE;
    spec->reduces = wr_coll_combines(call->coll);
    if (spec->reduces) {
        const weir_ctx *ctx = state->comm->ctx;
        spec->count = call->count;
        if (call->op >= WEIR_OP_USER)
            size = wr_coll_op_size(ctx, call->op);
        spec->elem_size = spec->partial_size = (uint32_t)size;
        if (call->op < WEIR_OP_USER && ctx->config.partials == PARTIALS_FP32)
            spec->partial_size = (uint32_t)wr_kernel_partial_size(call->type);
        spec->reproducible = ctx->config.reproducible || wr_coll_op_ordered(ctx, call->op);
    } else { /* bytes */
        spec->count = call->count * size;
        spec->elem_size = spec->partial_size = 1;
    }
}

/* What a result is divided by at this rank: the number of ranks in it. */
static uint64_t divisor(const weir_comm *comm, const struct wr_coll_call *call)
{
    if (call->op != WEIR_AVG)
        return 1;
    if (call->coll == WR_COLL_SCAN)
        return (uint64_t)comm->rank + 1;
    return (uint64_t)(call->coll == WR_COLL_EXSCAN ? comm->rank : comm->size);
}

/* The memory handle of a buffer, which may be of another communicator, and where the buffer begins in it. */
static struct weir_mem *handle_of(struct wr_coll_state *state, const void *buffer, uint64_t bytes, int64_t *number,
                                  uint64_t *offset)
{
    struct weir_mem *mem = bytes ? wr_mem_containing(state->comm->mem, buffer, bytes, offset) : NULL;
    *number = mem && mem->segment && !mem->node_shared ? (int64_t)wr_mem_number(mem) : -1;
    return mem;
}

/* Peers on the node can work in buffers that are in memory handles of one making at all ranks: starts with all that is so ... */
static void map_all(struct wr_plan_spec *spec)
{
    spec->in_mapped = spec->out_mapped = true;
}

/* ... and takes in what a rank says. */
static void map_less(struct wr_plan_spec *spec, const struct wr_exec_where *first, const struct wr_exec_where *w)
{
    spec->in_mapped &= w->in_mem >= 0 && w->in_mem == first->in_mem;
    spec->out_mapped &= w->out_mem >= 0 && w->out_mem == first->out_mem;
}

static const struct wr_exec_where nowhere = {-1, -1, 0, 0};

/* Finds this rank's buffers. Of a broadcast all know the handle that the root's is in. */
static struct wr_exec_where find_memory(struct wr_coll_state *state, const struct wr_coll_call *call,
                                        const struct wr_plan_spec *spec, struct weir_mem **in_mem, struct weir_mem **out_mem)
{
    const weir_comm *comm = state->comm;
    struct wr_exec_where w = nowhere;
    const void *in;
    void *out;
    wr_coll_addresses(comm, call, spec, &in, &out);
    *out_mem = handle_of(state, out, wr_plan_out_len(spec, comm->rank) * spec->elem_size, &w.out_mem, &w.out_offset);
    if (call->coll == WR_COLL_BCAST) {
        *in_mem = *out_mem;
        w.in_mem = w.out_mem;
        w.in_offset = w.out_offset;
    } else {
        *in_mem = handle_of(state, in, wr_plan_in_len(spec, comm->rank) * spec->elem_size, &w.in_mem, &w.in_offset);
    }
    return w;
}

/* The buffers of this time, for a plan that is kept. */
struct buffers {
    struct wr_exec_where where[WR_FAST_RANKS];
    struct weir_mem *in_mem, *out_mem;
    unsigned mapped; /* 0 where nothing was asked; else 1, 2 for a mapped IN, 4 for a mapped OUT */
};

/* The ranks of one node tell each other, in a blocking call, where their buffers are. */
static weir_status find_all_memory(struct wr_coll_state *state, const struct wr_coll_call *call, struct buffers *b,
                                   weir_error *err)
{
    struct wr_plan_spec spec;
    fill_spec(state, call, &spec);
    map_all(&spec);
    struct wr_exec_where mine = find_memory(state, call, &spec, &b->in_mem, &b->out_mem);
    struct wr_coll_call exchange = {.coll = WR_COLL_ALLGATHER,
                                    .in = &mine,
                                    .out = b->where,
                                    .count = sizeof mine,
                                    .type = WEIR_INT8,
                                    .operation = call->operation};
    weir_status status = wr_fast_run(state, &exchange, err);
    for (int r = 0; r < state->comm->size && !status; r++)
        map_less(&spec, &b->where[0], &b->where[r]);
    b->mapped = 1 + 2u * spec.in_mapped + 4u * spec.out_mapped;
    return status;
}

/* Whether the ranks of each node give the same place in the same window. */
static bool same_windows(const weir_comm *comm, const struct wr_coll_call *call, const struct plan_card *cards)
{
    for (int r = 0; r < comm->size; r++) {
        const struct plan_card *leader = &cards[comm->node_leader[comm->node_of[r]]];
        if (cards[r].window < 0 || cards[r].window != leader->window || cards[r].window_offset != leader->window_offset)
            return false;
    }
    return !call->vector;
}

/* Collective. Of a local v-form the plan is made for any numbers, and those of the call are still to be put in. */
static weir_status make_plan(struct wr_coll_state *state, const struct wr_coll_call *call, bool persistent, bool maps,
                             struct wr_coll_instance *instance, weir_error *err)
{
    weir_comm *comm = state->comm;
    struct wr_plan_spec spec;
    struct wr_kernel kernel;
    struct plan_card card, *cards = malloc((size_t)comm->size * sizeof *cards);
    struct wr_exec_params params = {.comm = comm, .spec = &spec, .divide_by = divisor(comm, call)};
    memset(&card, 0, sizeof card);
    fill_spec(state, call, &spec);
    card.key = wr_coll_key(comm, call);
    card.where = nowhere;
    card.window = -1;
    if (card.key.shared)
        card.window = (int64_t)wr_mem_number(wr_mem_containing(comm->mem, call->out, 1, &card.window_offset));
    card.persistent = persistent;
    weir_status status = cards ? WEIR_OK : wr_error_memory(err, (size_t)comm->size * sizeof *cards, "a plan");
    if (!status && call->vector)
        status = wr_coll_set_numbers(comm, call, true, &instance->numbers, &spec, err);
    if (!status && maps && !spec.local && !instance->numbers.places) /* else the plan works in a buffer of its own */
        card.where = find_memory(state, call, &spec, &params.in_mem, &params.out_mem);
    params.in_offset = card.where.in_offset;
    params.out_offset = card.where.out_offset;
    if (!status)
        status = wr_exchange_allgather(comm, &card, cards, sizeof card, err);
    if (!status)
        status = compare(state, cards, err);
    if (status)
        goto out;
    map_all(&spec);
    for (int r = 0; r < comm->size; r++)
        map_less(&spec, &cards[0].where, &cards[r].where);
    spec.out_shared = card.key.shared && same_windows(comm, call, cards);
    if (spec.out_shared) {
        spec.out_mapped = true;
        spec.in_mapped |= spec.in_place;
    }
    status = wr_coll_decide(state, &spec, &instance->choice, err);
    if (status)
        goto out;
    params.algorithm = instance->choice.algorithm;
    if (spec.reduces && wr_coll_kernel(comm->ctx, call->type, call->op, &kernel))
        params.kernel = &kernel;
    status = wr_exec_create(&params, &instance->exec, err);
    if (status)
        goto out;
    instance->key = card.key;
    instance->timed = persistent || wr_log_on(&comm->ctx->log, WR_LOG_PLAN, WR_LOG_DEBUG);
    if (comm->rank == 0 && wr_log_on(&comm->ctx->log, WR_LOG_PLAN, WR_LOG_INFO)) {
        char text[500];
        wr_coll_explain(state, instance, text, sizeof text);
        wr_info(&comm->ctx->log, PLAN, "%s", text);
    }
out:
    free(cards);
    return status;
}

/* Readies an instance that is not running for a v-form's numbers. */
static weir_status bind_numbers(struct wr_coll_state *state, const struct wr_coll_call *call,
                                struct wr_coll_instance *instance, weir_error *err)
{
    const weir_comm *comm = state->comm;
    struct wr_plan_spec spec = *wr_exec_spec(instance->exec);
    weir_status status = wr_coll_set_numbers(comm, call, false, &instance->numbers, &spec, err);
    if (status)
        return status;
    if (spec.local)
        return wr_exec_reshape(instance->exec, &spec, err);
    uint64_t bytes = instance->numbers.places ? wr_plan_out_len(&spec, comm->rank) * spec.elem_size : 0;
    if (bytes <= instance->packed_bytes)
        return WEIR_OK;
    free(instance->packed);
    instance->packed_bytes = 0;
    instance->packed = malloc(bytes);
    if (!instance->packed)
        return wr_error_memory(err, bytes, "a result in parts");
    instance->packed_bytes = bytes;
    return WEIR_OK;
}

/* ---- keeping ---- */

static bool exec_is_done(void *arg)
{
    return wr_exec_done(arg);
}

static void free_numbers(struct wr_coll_instance *instance)
{
    free(instance->numbers.counts);
    free(instance->packed);
}

weir_status wr_coll_instance_free(struct wr_coll_instance *instance, weir_error *err)
{
    if (!instance)
        return WEIR_OK;
    weir_status status = wr_exec_destroy(instance->exec, err);
    free_numbers(instance);
    free(instance);
    return status;
}

static void free_plan(struct wr_coll_state *state, struct wr_coll_plan *plan)
{
    for (int i = 0; i < INSTANCES; i++)
        free_numbers(&plan->instance[i]);
    wr_list_remove(&plan->link);
    state->nplans--;
    free(plan->counts);
    free(plan);
}

static weir_status let_go(struct wr_coll_state *state, struct wr_coll_plan *plan, weir_error *err)
{
    weir_status status = WEIR_OK;
    for (int i = 0; i < INSTANCES && !status; i++) {
        struct wr_exec *x = plan->instance[i].exec;
        if (!x)
            continue;
        status = wr_comm_wait(state->comm, exec_is_done, x, err);
        state->plan_bytes -= wr_exec_bytes(x);
        if (!status)
            status = wr_exec_destroy(x, err);
    }
    free_plan(state, plan);
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

static bool is_of(const struct wr_coll_plan *plan, const struct wr_coll_key *key, unsigned mapped, const uint64_t *counts, size_t n)
{
    return plan->mapped == mapped && !memcmp(&plan->key, key, sizeof *key) && (!plan->counts || !memcmp(plan->counts, counts, n * sizeof *counts));
}

static weir_status add(struct wr_coll_state *state, const struct wr_coll_key *key, const uint64_t *counts, size_t n,
                       struct wr_coll_plan **added, weir_error *err)
{
    weir_status status = make_room(state, err);
    if (status)
        return status;
    struct wr_coll_plan *plan = calloc(1, sizeof *plan);
    if (plan && key->hash)
        plan->counts = malloc(n * sizeof *counts);
    if (!plan || (key->hash && !plan->counts)) {
        free(plan);
        return wr_error_memory(err, sizeof *plan + n * sizeof *counts, "a plan");
    }
    if (plan->counts)
        memcpy(plan->counts, counts, n * sizeof *counts);
    plan->key = *key;
    wr_list_push_front(&state->plans, &plan->link);
    state->nplans++;
    *added = plan;
    return WEIR_OK;
}

static weir_status find_or_add(struct wr_coll_state *state, const struct wr_coll_call *call, unsigned mapped,
                               struct wr_coll_plan **found, weir_error *err)
{
    struct wr_coll_key key = wr_coll_key(state->comm, call);
    size_t n = (size_t)state->comm->size;
    struct wr_coll_plan *plan;
    wr_list_for_each (plan, &state->plans, link) {
        if (!is_of(plan, &key, mapped, call->counts, n))
            continue;
        wr_list_remove(&plan->link);
        wr_list_push_front(&state->plans, &plan->link);
        *found = plan;
        return WEIR_OK;
    }
    weir_status status = add(state, &key, call->counts, n, found, err);
    if (!status)
        (*found)->mapped = mapped;
    return status;
}

/* A plan that belongs to a persistent request. */
static weir_status make_own(struct wr_coll_state *state, const struct wr_coll_call *call, struct wr_coll_instance **out,
                            weir_error *err)
{
    struct wr_coll_instance *instance = calloc(1, sizeof *instance);
    weir_status status = instance ? make_plan(state, call, true, true, instance, err)
                                  : wr_error_memory(err, sizeof *instance, "a plan");
    if (!status && call->vector)
        status = bind_numbers(state, call, instance, err);
    if (!status) {
        *out = instance;
        return WEIR_OK;
    }
    if (instance)
        free_numbers(instance);
    free(instance);
    return status;
}

weir_status wr_coll_plan_get(struct wr_coll_state *state, const struct wr_coll_call *call, bool persistent,
                             bool blocking, struct wr_coll_instance **instance, weir_error *err)
{
    struct wr_coll_plan *plan = NULL;
    if (persistent)
        return make_own(state, call, instance, err);
    struct buffers buffers;
    buffers.mapped = 0;
    weir_status status = blocking && state->fast && !call->vector ? find_all_memory(state, call, &buffers, err) : WEIR_OK;
    if (!status)
        status = find_or_add(state, call, buffers.mapped, &plan, err);
    if (status)
        return status;
    /* which instance follows from the order of calls alone, so that all ranks take the same */
    struct wr_coll_instance *i = &plan->instance[blocking ? 0 : plan->next++ % INSTANCES];
    if (!i->exec) {
        status = make_plan(state, call, false, buffers.mapped, i, err);
        if (status) {
            if (!plan->instance[0].exec)
                free_plan(state, plan);
            return status;
        }
        state->plan_bytes += wr_exec_bytes(i->exec);
    }
    status = wr_comm_wait(state->comm, exec_is_done, i->exec, err);
    if (!status && call->vector)
        status = bind_numbers(state, call, i, err);
    if (!status && buffers.mapped > 1)
        wr_exec_rebind(i->exec, buffers.in_mem, buffers.out_mem, buffers.where);
    if (!status)
        *instance = i;
    return status;
}

weir_status wr_coll_drop_plans(struct wr_coll_state *state, weir_error *err)
{
    weir_status status = WEIR_OK;
    while (!status && !wr_list_empty(&state->plans))
        status = let_go(state, wr_list_first(&state->plans, struct wr_coll_plan, link), err);
    return status;
}

void wr_coll_abandon_plans(struct wr_coll_state *state)
{
    struct wr_coll_plan *plan;
    wr_list_for_each (plan, &state->plans, link)
        for (int i = 0; i < INSTANCES; i++) {
            wr_exec_abandon(plan->instance[i].exec);
            plan->instance[i].exec = NULL;
        }
    wr_coll_forget_plans(state);
}

void wr_coll_forget_plans(struct wr_coll_state *state)
{
    struct wr_coll_plan *plan, *next;
    wr_list_for_each_safe (plan, next, &state->plans, link) {
        for (int i = 0; i < INSTANCES; i++)
            wr_exec_forget(plan->instance[i].exec);
        free_plan(state, plan);
    }
    wr_list_init(&state->plans);
}

void wr_coll_break_plans(struct wr_coll_state *state)
{
    struct wr_coll_plan *plan;
    wr_list_for_each (plan, &state->plans, link) {
        for (int i = 0; i < INSTANCES; i++)
            if (plan->instance[i].exec)
                wr_exec_break(plan->instance[i].exec, WEIR_ERR_PEER_LOST);
    }
}
