/* SPDX-License-Identifier: BSD-3-Clause */
/* Making a plan: what is asked for, agreement between the ranks, the steps that all take together. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "comm/coll/coll.h"
#include "comm/mem/mem.h"

enum { PARTIALS_FP32, PARTIALS_SAME }; /* WEIR_PARTIALS */

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
    int64_t form;
    int64_t window; /* number of the node's window that holds the output, -1 for none */
    uint64_t window_offset;
    int64_t remote; /* number of the handle by which this rank can put into outputs on other nodes, -1 for none */
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

static weir_status compare(struct wr_coll_state *state, const struct plan_card *cards, uint64_t number, weir_error *err)
{
    const weir_comm *comm = state->comm;
    for (int r = 1; r < comm->size; r++) {
        char first[160], other[160];
        if (!memcmp(&cards[0].key, &cards[r].key, sizeof cards[0].key) && cards[r].form == cards[0].form)
            continue;
        wr_coll_describe(&cards[0].key, first, sizeof first);
        wr_coll_describe(&cards[r].key, other, sizeof other);
        state->broken = true;
        wr_engine_stop(comm->engine, WEIR_ERR_MISMATCH, r,
                       "in collective call %llu rank 0 called %s%s, rank %d called %s%s", (unsigned long long)number, first,
                       wr_coll_form_text((enum wr_coll_form)cards[0].form), r, other,
                       wr_coll_form_text((enum wr_coll_form)cards[r].form));
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
    /* without a segment: by a rank that is alone on its node */
    *number = mem && (mem->segment || mem->private_memory) && !mem->node_shared ? (int64_t)wr_mem_number(mem) : -1;
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

/* The ranks of one node tell each other, in a blocking call, where their buffers are. */
weir_status wr_coll_find_buffers(struct wr_coll_state *state, const struct wr_coll_call *call, struct wr_coll_buffers *b,
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

/* Whether all ranks can put into each other's outputs. */
static bool outputs_are_remote(const weir_comm *comm, const struct plan_card *cards)
{
    for (int r = 0; r < comm->size; r++)
        if (cards[r].remote < 0 || cards[r].remote != cards[0].remote)
            return false;
    return true;
}

/* ---- the steps ---- */

struct wr_coll_making {
    struct wr_steps steps;
    struct wr_coll_state *state;
    const struct wr_coll_call *call;
    struct wr_coll_instance *instance;
    struct wr_plan_spec spec;
    struct wr_kernel kernel;
    struct wr_exec_params params;
    uint64_t number; /* of the call */
    struct plan_card card, *cards; /* mine, and all by rank */
    struct wr_coll_deciding deciding;
    struct wr_exec_making *exec;
};

static weir_status tell_call(void *arg, struct wr_steps *steps, weir_error *err)
{
    const struct wr_coll_making *m = arg;
    return wr_steps_gather(steps, &m->card, m->cards, sizeof m->card, err);
}

static weir_status decide(void *arg, struct wr_steps *steps, weir_error *err)
{
    struct wr_coll_making *m = arg;
    weir_status status = compare(m->state, m->cards, m->number, err);
    if (status)
        return status;
    map_all(&m->spec);
    for (int r = 0; r < steps->comm->size; r++)
        map_less(&m->spec, &m->cards[0].where, &m->cards[r].where);
    m->spec.out_shared = m->card.key.shared && same_windows(steps->comm, m->call, m->cards);
    if (m->spec.out_shared) {
        m->spec.out_mapped = true;
        m->spec.in_mapped |= m->spec.in_place;
    }
    m->spec.out_remote = outputs_are_remote(steps->comm, m->cards);
    steps->inner = wr_coll_decide(&m->deciding, m->state, &m->spec, &m->instance->choice);
    return WEIR_OK;
}

static weir_status make_exec(void *arg, struct wr_steps *steps, weir_error *err)
{
    struct wr_coll_making *m = arg;
    m->params.algorithm = m->instance->choice.algorithm;
    if (m->spec.reduces && wr_coll_kernel(steps->comm->ctx, m->call->type, m->call->op, &m->kernel))
        m->params.kernel = &m->kernel;
    weir_status status = wr_exec_make(&m->params, &m->exec, err);
    if (!status)
        steps->inner = wr_exec_making_steps(m->exec);
    return status;
}

/* The number of a handle by which this rank can put to all ranks on other nodes, else -1. */
static int64_t keys_of(const struct wr_coll_state *state, const struct weir_mem *mem)
{
    const weir_comm *comm = state->comm;
    for (int r = 0; r < comm->size && mem; r++)
        if (state->topo.node_of[r] != state->topo.node_of[comm->rank] && !wr_mem_has_key(mem, comm, r))
            return -1;
    return mem ? (int64_t)wr_mem_number(mem) : -1;
}

/* What this rank tells the others of its call. */
static weir_status fill_card(struct wr_coll_making *m, bool maps, enum wr_coll_form form, weir_error *err)
{
    const weir_comm *comm = m->state->comm;
    const struct wr_coll_call *call = m->call;
    weir_status status = WEIR_OK;
    m->card.key = wr_coll_key(comm, call);
    m->card.where = nowhere;
    m->card.window = -1;
    if (m->card.key.shared)
        m->card.window = (int64_t)wr_mem_number(wr_mem_containing(comm->mem, call->out, 1, &m->card.window_offset));
    m->card.form = form;
    if (call->vector)
        status = wr_coll_set_numbers(comm, call, true, &m->instance->numbers, &m->spec, err);
    if (!status && maps && !m->spec.local && !m->instance->numbers.places) /* else the plan works in a buffer of its own */
        m->card.where = find_memory(m->state, call, &m->spec, &m->params.in_mem, &m->params.out_mem);
    m->params.in_offset = m->card.where.in_offset;
    m->params.out_offset = m->card.where.out_offset;
    m->card.remote = !status && form == WR_COLL_PERSISTENT ? keys_of(m->state, m->params.out_mem) : -1;
    return status;
}

weir_status wr_coll_make(struct wr_coll_state *state, const struct wr_coll_call *call, enum wr_coll_form form, uint64_t number,
                         bool maps, struct wr_coll_instance *instance, struct wr_coll_making **making, weir_error *err)
{
    static const wr_step list[] = {tell_call, decide, make_exec, NULL};
    weir_comm *comm = state->comm;
    struct wr_coll_making *m = calloc(1, sizeof *m);
    if (m)
        m->cards = malloc((size_t)comm->size * sizeof *m->cards);
    if (!m || !m->cards) {
        wr_coll_made(m, false);
        return wr_error_memory(err, (size_t)comm->size * sizeof *m->cards, "a plan");
    }
    m->state = state;
    m->call = call;
    m->instance = instance;
    m->number = number;
    m->params = (struct wr_exec_params){.comm = comm, .spec = &m->spec, .divide_by = divisor(comm, call)};
    fill_spec(state, call, &m->spec);
    wr_steps_init(&m->steps, comm, list, m);
    weir_status status = fill_card(m, maps, form, err);
    if (status)
        wr_coll_made(m, false);
    else
        *making = m;
    return status;
}

struct wr_steps *wr_coll_making_steps(struct wr_coll_making *m)
{
    return &m->steps;
}

static void show(const struct wr_coll_state *state, const struct wr_coll_instance *instance)
{
    char text[500];
    if (state->comm->rank != 0 || !wr_log_on(&state->comm->ctx->log, WR_LOG_PLAN, WR_LOG_INFO))
        return;
    wr_coll_explain(state, instance, text, sizeof text);
    wr_info(&state->comm->ctx->log, PLAN, "%s", text);
}

void wr_coll_made(struct wr_coll_making *m, bool ok)
{
    if (!m)
        return;
    struct wr_exec *exec = wr_exec_made(m->exec, ok);
    if (ok) {
        const weir_ctx *ctx = m->state->comm->ctx;
        m->instance->exec = exec;
        m->instance->key = m->card.key;
        m->instance->timed = m->card.form == WR_COLL_PERSISTENT || wr_log_on(&ctx->log, WR_LOG_PLAN, WR_LOG_DEBUG);
        show(m->state, m->instance);
    }
    wr_coll_end_deciding(&m->deciding);
    free(m->cards);
    free(m);
}

weir_status wr_coll_bind_numbers(struct wr_coll_state *state, const struct wr_coll_call *call,
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
