/* SPDX-License-Identifier: BSD-3-Clause */
/* Making an execution object: the program, memory, counters, and what ranks must tell each other. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/mem/exchange.h"
#include "comm/plan/exec_impl.h"

enum {
    STREAMED_OUT = 4 << 20,   /* bytes of OUT from which on it does not stay in a cache ... */
    STREAMED_STEP = 16 << 10  /* ... and of a step for which that is worth the fence */
};
enum { PUTS = 64 };

/* ---- counters ---- */

/* Programs ask for counters mostly in the order in which they were made. */
static struct exec_counter *find_counter(struct wr_exec *x, int peer, uint32_t slot)
{
    for (uint32_t i = 0, at = x->found; i < x->ncounters; i++, at++) {
        at = at < x->ncounters ? at : 0;
        if (x->counters[at].peer == peer && x->counters[at].slot == slot) {
            x->found = at;
            return &x->counters[at];
        }
    }
    return NULL;
}

static bool is_here(const struct wr_exec *x, int peer)
{
    const int *node_of = x->spec.topo->node_of;
    return node_of[peer] == node_of[x->params.comm->rank];
}

/* One counter for each (peer, slot) that the program waits for; those between nodes get slots of the transport. */
static weir_status make_counters(struct wr_exec *x, weir_error *err)
{
    x->counters = calloc(x->program.nsteps + 1, sizeof *x->counters);
    if (!x->counters)
        return wr_error_memory(err, x->program.nsteps * sizeof *x->counters, "counters");
    for (uint32_t i = 0; i < x->program.nsteps; i++) {
        const struct wr_step *s = &x->program.steps[i];
        if (s->op != WR_STEP_WAIT)
            continue;
        struct exec_counter *c = find_counter(x, s->peer, s->slot);
        if (!c) {
            c = &x->counters[x->ncounters++];
            *c = (struct exec_counter){.peer = s->peer, .slot = s->slot};
            x->nsignals += !is_here(x, s->peer);
        }
        c->most = WR_MAX(c->most, s->value);
    }
    if (!x->nsignals)
        return WEIR_OK;
    weir_status status = wr_mem_take_signals(x->params.comm->mem, x->nsignals, &x->first_signal, err);
    if (status) {
        x->nsignals = 0;
        return status;
    }
    uint32_t next = x->first_signal;
    for (uint32_t i = 0; i < x->ncounters; i++)
        if (!is_here(x, x->counters[i].peer))
            x->counters[i].transport_slot = next++;
    return WEIR_OK;
}

/* ---- telling other nodes' ranks which of our slots to signal ---- */

struct told {
    uint32_t slot, transport_slot;
};

/* Whether the program has a step of this kind with a peer on another node. */
static bool has_step(const struct wr_exec *x, int peer, bool waits)
{
    for (uint32_t i = 0; i < x->program.nsteps; i++) {
        const struct wr_step *s = &x->program.steps[i];
        bool signals = s->op == WR_STEP_SIGNAL || (s->op == WR_STEP_PUT && s->flags & WR_STEP_SIGNALS);
        if (s->peer == peer && (waits ? s->op == WR_STEP_WAIT : signals))
            return true;
    }
    return false;
}

static weir_status tell(struct wr_exec *x, int peer, weir_error *err)
{
    struct told list[256];
    uint32_t n = 0;
    weir_request *request = NULL;
    weir_comm *comm = x->params.comm;
    for (uint32_t i = 0; i < x->ncounters && n < WR_ARRAY_SIZE(list); i++)
        if (x->counters[i].peer == peer)
            list[n++] = (struct told){x->counters[i].slot, x->counters[i].transport_slot};
    weir_status status =
        wr_p2p_send(comm->p2p, &comm->group, WR_P2P_PLANS, list, n * sizeof *list, peer, 0, &request, err);
    return !status && request ? wr_exchange_finish(comm, request, wr_p2p_cancel_send, err) : status;
}

static weir_status hear(struct wr_exec *x, int peer, weir_error *err)
{
    struct told list[256];
    weir_message m = {.size = sizeof m};
    weir_request *request;
    weir_comm *comm = x->params.comm;
    weir_status status =
        wr_p2p_recv(comm->p2p, &comm->group, WR_P2P_PLANS, list, sizeof list, peer, 0, &m, &request, err);
    if (!status)
        status = wr_exchange_finish(comm, request, wr_p2p_cancel_recv, err);
    for (uint32_t i = 0; !status && i < m.bytes / sizeof *list; i++)
        x->remote[x->nremote++] = (struct exec_remote){peer, list[i].slot, list[i].transport_slot};
    return status;
}

/* The lists are short messages: they are sent whole, so that sending first to all cannot block for ever. */
static weir_status exchange_slots(struct wr_exec *x, weir_error *err)
{
    weir_status status = WEIR_OK;
    int n = x->params.comm->size;
    x->remote = calloc(x->program.nsteps + 1, sizeof *x->remote);
    if (!x->remote)
        return wr_error_memory(err, x->program.nsteps * sizeof *x->remote, "slots");
    for (int p = 0; p < n && !status; p++)
        if (!is_here(x, p) && has_step(x, p, true))
            status = tell(x, p, err);
    for (int p = 0; p < n && !status; p++)
        if (!is_here(x, p) && has_step(x, p, false))
            status = hear(x, p, err);
    return status;
}

static weir_status find_remote(const struct wr_exec *x, int peer, uint32_t slot, uint32_t *transport_slot,
                               weir_error *err)
{
    for (uint32_t i = 0; i < x->nremote; i++)
        if (x->remote[i].peer == peer && x->remote[i].slot == slot) {
            *transport_slot = x->remote[i].transport_slot;
            return WEIR_OK;
        }
    return wr_error_set(err, WEIR_ERR_INTERNAL, "report this with the output of weir-plan --verify",
                        "rank %d does not wait for slot %u of this plan", peer, slot);
}

/* ---- steps with addresses ---- */

/* Bytes of control at the beginning of a rank's memory. */
static uint64_t control_bytes(const struct wr_exec *x, int rank)
{
    const struct wr_plan_topo *topo = x->spec.topo;
    return (uint64_t)topo->node_size[topo->node_of[rank]] * x->slots * WR_FLAG_LINE;
}

static char *memory_of(struct wr_exec *x, int rank)
{
    return wr_mem_peer_address(x->mem, rank);
}

/* The flag at rank `to` that rank `from` of the same node writes for a slot. */
static uint32_t *flag_of(struct wr_exec *x, int to, int from, uint32_t slot)
{
    uint64_t index = (uint64_t)x->spec.topo->local_rank[from] * x->slots + slot;
    return (uint32_t *)(void *)(memory_of(x, to) + index * WR_FLAG_LINE);
}

static struct exec_place resolve_place(struct wr_exec *x, const struct wr_ref *ref, const struct wr_exec_card *cards)
{
    int me = x->params.comm->rank;
    bool partial = ref->buffer == WR_BUF_SCRATCH;
    struct exec_place p = {.at = ref->offset * (partial ? x->spec.partial_size : x->spec.elem_size),
                           .buffer = (uint8_t)ref->buffer,
                           .partial = partial && x->spec.partial_size != x->spec.elem_size};
    if (!is_here(x, ref->rank))
        return p; /* the target of a put: an offset, not an address */
    if (ref->buffer == WR_BUF_SCRATCH)
        p.base = memory_of(x, ref->rank) + control_bytes(x, ref->rank);
    else if (ref->rank != me && ref->buffer == WR_BUF_IN)
        p.base = (char *)wr_mem_member_address(x->params.in_mem, x->params.comm, ref->rank) + cards[ref->rank].in_offset;
    else if (ref->rank != me)
        p.base = (char *)wr_mem_member_address(x->params.out_mem, x->params.comm, ref->rank) + cards[ref->rank].out_offset;
    return p;
}

void wr_exec_rebind(struct wr_exec *x, struct weir_mem *in_mem, struct weir_mem *out_mem, const struct wr_exec_where *where)
{
    for (uint32_t i = 0; i < x->program.nrefs; i++) {
        const struct wr_ref *ref = &x->program.refs[i];
        if (ref->rank == x->params.comm->rank || ref->buffer == WR_BUF_SCRATCH)
            continue;
        bool in = ref->buffer == WR_BUF_IN;
        const struct wr_exec_where *w = &where[ref->rank];
        char *base = wr_mem_member_address(in ? in_mem : out_mem, x->params.comm, ref->rank);
        x->places[i].base = base + (in ? w->in_offset : w->out_offset);
    }
}

static weir_status resolve_step(struct wr_exec *x, uint32_t index, const struct wr_exec_card *cards, weir_error *err)
{
    const struct wr_step *s = &x->program.steps[index];
    struct exec_step *out = &x->steps[index];
    int me = x->params.comm->rank;
    *out = (struct exec_step){.op = s->op,
                              .flags = s->flags,
                              .nplaces = s->nrefs,
                              .place = s->first_ref,
                              .len = s->len,
                              .peer = s->peer,
                              .divide_by = 1,
                              .world = wr_comm_world_rank(x->params.comm, s->peer),
                              .value = s->flags & WR_STEP_EARLIER ? 0 : s->value};
    for (uint32_t i = 0; i < s->nrefs; i++)
        x->places[s->first_ref + i] = resolve_place(x, &x->program.refs[s->first_ref + i], cards);
    if (s->op == WR_STEP_COPY)
        out->streams = x->program.refs[s->first_ref].buffer == WR_BUF_OUT && s->len * x->spec.elem_size >= STREAMED_STEP &&
                       wr_plan_out_len(&x->spec, x->program.refs[s->first_ref].rank) * x->spec.elem_size >= STREAMED_OUT;
    bool stores = s->op == WR_STEP_REDUCE || (s->op == WR_STEP_COPY && !(s->flags & WR_STEP_RESULT));
    if (x->divides && stores && x->places[s->first_ref].buffer == WR_BUF_OUT)
        out->divide_by = x->params.divide_by;
    switch (s->op) {
    case WR_STEP_PUT:
        out->remote = true;
        out->offset = control_bytes(x, s->peer) + x->places[s->first_ref].at;
        return s->flags & WR_STEP_SIGNALS ? find_remote(x, s->peer, s->slot, &out->slot, err) : WEIR_OK;
    case WR_STEP_SIGNAL:
        out->remote = !is_here(x, s->peer);
        if (out->remote)
            return find_remote(x, s->peer, s->slot, &out->slot, err);
        out->flag = flag_of(x, s->peer, me, s->slot);
        out->sent = &x->sent[(uint32_t)x->spec.topo->local_rank[s->peer] * x->slots + s->slot];
        return WEIR_OK;
    case WR_STEP_WAIT:
        out->remote = !is_here(x, s->peer);
        out->counter = find_counter(x, s->peer, s->slot);
        if (!out->counter)
            return wr_error_set(err, WEIR_ERR_INTERNAL, "report this with the arguments of the call",
                                "the plan waits in slot %u of rank %d, which it was not made with", s->slot, s->peer);
        out->slot = out->counter->transport_slot;
        if (!out->remote)
            out->flag = flag_of(x, me, s->peer, s->slot);
        return WEIR_OK;
    default:
        return WEIR_OK;
    }
}

weir_status wr_exec_resolve_steps(struct wr_exec *x, const struct wr_exec_card *cards, weir_error *err)
{
    weir_status status = WEIR_OK;
    x->steps = calloc(x->program.nsteps + 1, sizeof *x->steps);
    x->places = calloc(x->program.nrefs + 1, sizeof *x->places);
    x->lanes = calloc(x->program.nlanes + 1, sizeof *x->lanes);
    if (!x->steps || !x->places || !x->lanes)
        return wr_error_memory(err, x->program.nsteps * sizeof *x->steps, "a plan");
    for (uint32_t i = 0; i < x->program.nsteps && !status; i++)
        status = resolve_step(x, i, cards, err);
    return status;
}

static weir_status resolve(struct wr_exec *x, const struct wr_exec_card *cards, weir_error *err)
{
    const struct wr_plan_topo *topo = x->spec.topo;
    size_t mates = (size_t)topo->node_size[topo->node_of[x->params.comm->rank]];
    x->sent = calloc(mates * x->slots + 1, sizeof *x->sent);
    x->nputs = PUTS;
    x->puts = calloc(x->nputs, sizeof *x->puts);
    if (!x->sent || !x->puts)
        return wr_error_memory(err, mates * x->slots * sizeof *x->sent, "a plan");
    for (uint32_t i = 0; i < x->nputs; i++) {
        x->puts[i] = (struct exec_put){.op = {wr_exec_put_done}, .x = x, .next_free = x->free_put};
        x->free_put = &x->puts[i];
    }
    return wr_exec_resolve_steps(x, cards, err);
}

/* ---- making and ending ---- */

/* Connections to all that the program signals, puts to or waits for. */
static weir_status connect_peers(struct wr_exec *x, weir_error *err)
{
    for (uint32_t i = 0; i < x->program.nsteps; i++) {
        const struct wr_step *s = &x->program.steps[i];
        if (s->op != WR_STEP_PUT && s->op != WR_STEP_SIGNAL && s->op != WR_STEP_WAIT)
            continue;
        if (!wr_engine_member(x->engine, &x->params.comm->group, s->peer, err))
            return err->status;
    }
    return WEIR_OK;
}

static uint32_t slots_of(const struct wr_program *p)
{
    uint32_t slots = 0;
    for (uint32_t i = 0; i < p->nsteps; i++)
        if (p->steps[i].op == WR_STEP_SIGNAL || p->steps[i].op == WR_STEP_WAIT)
            slots = WR_MAX(slots, p->steps[i].slot + 1);
    return slots;
}

static void free_parts(struct wr_exec *x)
{
    if (x->nsignals)
        wr_mem_give_signals(x->params.comm->mem, x->first_signal, x->nsignals);
    wr_exec_drop_regions(x);
    wr_program_free(&x->program);
    free(x->steps);
    free(x->places);
    free(x->lanes);
    free(x->counters);
    free(x->sent);
    free(x->remote);
    free(x->puts);
    free(x);
}

weir_status wr_exec_create(const struct wr_exec_params *params, struct wr_exec **exec, weir_error *err)
{
    weir_comm *comm = params->comm;
    struct wr_exec *x = calloc(1, sizeof *x);
    struct wr_exec_card card = {params->in_offset, params->out_offset, 0},
                       *cards = malloc((size_t)comm->size * sizeof *cards);
    weir_status status = x && cards ? WEIR_OK : wr_error_memory(err, (size_t)comm->size * sizeof *cards, "a plan");
    if (!status) {
        x->params = *params;
        x->spec = *params->spec;
        x->engine = comm->engine;
        if (params->kernel)
            x->kernel = *params->kernel;
        /* sums that are rounded when they are stored are divided before; only results are stored in OUT then */
        x->divides = params->divide_by > 1 && x->kernel.loops.divide && x->spec.partial_size != x->spec.elem_size;
        status = params->algorithm->build(&x->spec, comm->rank, &x->program, err);
    }
    status = wr_exchange_agree(comm, status, err);
    if (status)
        goto failed;
    card.slots = slots_of(&x->program);
    status = wr_exchange_allgather(comm, &card, cards, sizeof card, err);
    if (status)
        goto failed;
    for (int r = 0; r < comm->size; r++)
        x->slots = WR_MAX(x->slots, cards[r].slots);
    status = wr_mem_alloc(comm, control_bytes(x, comm->rank) + x->program.scratch * x->spec.partial_size, &x->mem, err);
    if (status)
        goto failed;
    status = connect_peers(x, err);
    if (!status)
        status = make_counters(x, err);
    status = wr_exchange_agree(comm, status, err);
    if (!status)
        status = exchange_slots(x, err);
    if (!status)
        status = resolve(x, cards, err);
    status = wr_exchange_agree(comm, status, err);
    if (status) {
        wr_mem_free(x->mem, NULL);
        goto failed;
    }
    free(cards);
    *exec = x;
    return WEIR_OK;
failed:
    if (x)
        free_parts(x);
    free(cards);
    return status;
}

weir_status wr_exec_destroy(struct wr_exec *x, weir_error *err)
{
    if (!x)
        return WEIR_OK;
    if (wr_comm_lost(x->params.comm) >= 0) {
        wr_exec_abandon(x);
        return WEIR_OK;
    }
    weir_status status = wr_mem_free(x->mem, err);
    free_parts(x);
    return status;
}

void wr_exec_forget(struct wr_exec *x)
{
    if (x && !x->puts_running) /* otherwise the transport may still use what they point to */
        free_parts(x);
}

void wr_exec_abandon(struct wr_exec *x)
{
    if (!x || x->puts_running)
        return;
    wr_mem_abandon(x->mem);
    free_parts(x);
}

const struct wr_plan_spec *wr_exec_spec(const struct wr_exec *x)
{
    return &x->spec;
}
