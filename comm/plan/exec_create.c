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

/* Slots of the transport that take turns in counting; none on the node. */
static uint32_t width_of(const struct wr_exec *x, const struct exec_counter *counter)
{
    if (is_here(x, counter->peer))
        return 0;
    const struct wr_transport *t = wr_engine_route(x->engine, wr_comm_world_rank(x->params.comm, counter->peer));
    return t->caps.ordered ? 1 : WR_MIN(WR_MAX(counter->most, 1U), (uint32_t)EXEC_WIDTH);
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
        }
        c->most = WR_MAX(c->most, s->value);
    }
    for (uint32_t i = 0; i < x->ncounters; i++) {
        x->counters[i].width = width_of(x, &x->counters[i]);
        x->nsignals += x->counters[i].width;
    }
    if (!x->nsignals)
        return WEIR_OK;
    weir_status status = wr_mem_take_signals(x->params.comm->mem, x->nsignals, &x->first_signal, err);
    if (status) {
        x->nsignals = 0;
        return status;
    }
    uint32_t next = x->first_signal;
    for (uint32_t i = 0; i < x->ncounters; i++) {
        x->counters[i].transport_slot = next;
        next += x->counters[i].width;
    }
    return WEIR_OK;
}

/* ---- telling other nodes' ranks which of our slots to signal ---- */

struct told {
    uint32_t slot;
    uint32_t transport_slot : 24, width : 8;
};

_Static_assert(WR_SIGNAL_MAX <= 1 << 24 && EXEC_WIDTH < 1 << 8, "what is told fits");

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

static weir_status find_remote(const struct wr_exec *x, int peer, uint32_t slot, struct exec_remote **remote,
                               weir_error *err)
{
    for (uint32_t i = 0; i < x->nremote; i++)
        if (x->remote[i].peer == peer && x->remote[i].slot == slot) {
            *remote = &x->remote[i];
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
    else if (!cards || ref->rank == me)
        return p;
    else if (ref->buffer == WR_BUF_IN)
        p.base = (char *)wr_mem_member_address(x->params.in_mem, x->params.comm, ref->rank) + cards[ref->rank].in_offset;
    else
        p.base = (char *)wr_mem_member_address(x->params.out_mem, x->params.comm, ref->rank) + cards[ref->rank].out_offset;
    return p;
}

void wr_exec_rebind(struct wr_exec *x, struct weir_mem *in_mem, struct weir_mem *out_mem, const struct wr_exec_where *where)
{
    for (uint32_t i = 0; i < x->program.nrefs; i++) {
        const struct wr_ref *ref = &x->program.refs[i];
        if (ref->rank == x->params.comm->rank || ref->buffer == WR_BUF_SCRATCH || !is_here(x, ref->rank))
            continue;
        bool in = ref->buffer == WR_BUF_IN;
        const struct wr_exec_where *w = &where[ref->rank];
        char *base = wr_mem_member_address(in ? in_mem : out_mem, x->params.comm, ref->rank);
        x->places[i].base = base + (in ? w->in_offset : w->out_offset);
    }
}

/* Where a put goes to. */
static void aim(const struct wr_exec *x, const struct wr_step *s, struct exec_step *out)
{
    bool result = x->program.refs[s->first_ref].buffer == WR_BUF_OUT;
    out->target = result ? x->params.out_mem : x->mem;
    out->member = result ? wr_mem_member(out->target, x->params.comm, s->peer) : s->peer;
    out->offset = (result ? x->out_at[s->peer] : control_bytes(x, s->peer)) + x->places[s->first_ref].at;
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
        aim(x, s, out);
        return s->flags & WR_STEP_SIGNALS ? find_remote(x, s->peer, s->slot, &out->signal, err) : WEIR_OK;
    case WR_STEP_SIGNAL:
        out->remote = !is_here(x, s->peer);
        if (out->remote)
            return find_remote(x, s->peer, s->slot, &out->signal, err);
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
    x->out_at = x->spec.out_remote ? malloc((size_t)topo->nranks * sizeof *x->out_at) : NULL;
    if (!x->sent || !x->puts || (x->spec.out_remote && !x->out_at))
        return wr_error_memory(err, mates * x->slots * sizeof *x->sent, "a plan");
    for (int r = 0; r < topo->nranks && x->out_at; r++)
        x->out_at[r] = cards[r].out_offset;
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
    free(x->out_at);
    free(x->puts);
    free(x);
}

/* ---- the steps of making, each agreed upon by all ranks before the next ---- */

struct wr_exec_making {
    struct wr_steps steps;
    struct wr_exec *x;
    struct wr_exec_card card, *cards; /* mine, and all by rank */
    struct wr_mem_making *mem;
    int peer;              /* who is told, or heard, next */
    weir_request *message; /* to or from it ... */
    bool (*cancel)(weir_request *message); /* ... and what takes it back */
    weir_message heard;
    weir_status failed; /* these messages, and why */
    weir_error why;
    struct told list[256];
};

static weir_status build(void *arg, struct wr_steps *steps, weir_error *err)
{
    struct wr_exec *x = ((struct wr_exec_making *)arg)->x;
    return wr_steps_agree(steps, x->params.algorithm->build(&x->spec, steps->comm->rank, &x->program, err), err);
}

static weir_status tell_card(void *arg, struct wr_steps *steps, weir_error *err)
{
    struct wr_exec_making *m = arg;
    m->card.slots = slots_of(&m->x->program);
    return wr_steps_gather(steps, &m->card, m->cards, sizeof m->card, err);
}

static weir_status begin_memory(void *arg, struct wr_steps *steps, weir_error *err)
{
    struct wr_exec_making *m = arg;
    struct wr_exec *x = m->x;
    for (int r = 0; r < steps->comm->size; r++)
        x->slots = WR_MAX(x->slots, m->cards[r].slots);
    struct wr_mem_wish wish = {.kind = WR_MEM_ALLOC,
                               .bytes = control_bytes(x, steps->comm->rank) + x->program.scratch * x->spec.partial_size};
    weir_status status = wr_mem_make(steps->comm, &wish, &m->mem, err);
    if (!status)
        steps->inner = wr_mem_making_steps(m->mem);
    return status;
}

static weir_status connect_all(void *arg, struct wr_steps *steps, weir_error *err)
{
    struct wr_exec_making *m = arg;
    m->x->mem = wr_mem_made(m->mem, true);
    m->mem = NULL;
    weir_status status = connect_peers(m->x, err);
    if (!status)
        status = make_counters(m->x, err);
    if (!status) {
        m->x->remote = calloc(m->x->program.nsteps + 1, sizeof *m->x->remote);
        if (!m->x->remote)
            status = wr_error_memory(err, m->x->program.nsteps * sizeof *m->x->remote, "slots");
    }
    return wr_steps_agree(steps, status, err);
}

static weir_status tell(struct wr_exec_making *m, int peer, weir_error *err)
{
    const struct wr_exec *x = m->x;
    weir_comm *comm = x->params.comm;
    uint32_t n = 0;
    for (uint32_t i = 0; i < x->ncounters && n < WR_ARRAY_SIZE(m->list); i++)
        if (x->counters[i].peer == peer)
            m->list[n++] = (struct told){x->counters[i].slot, x->counters[i].transport_slot, x->counters[i].width};
    m->cancel = wr_p2p_cancel_send;
    return wr_p2p_send(comm->p2p, &comm->group, WR_P2P_PLANS, m->list, n * sizeof m->list[0], peer, 0, &m->message, err);
}

static weir_status hear(struct wr_exec_making *m, weir_error *err)
{
    weir_comm *comm = m->x->params.comm;
    m->heard = (weir_message){.size = sizeof m->heard};
    m->cancel = wr_p2p_cancel_recv;
    return wr_p2p_recv(comm->p2p, &comm->group, WR_P2P_PLANS, m->list, sizeof m->list, m->peer, 0, &m->heard, &m->message,
                       err);
}

static void keep_heard(struct wr_exec_making *m)
{
    struct wr_exec *x = m->x;
    for (uint32_t i = 0; i < m->heard.bytes / sizeof m->list[0]; i++)
        x->remote[x->nremote++] =
            (struct exec_remote){m->peer, m->list[i].slot, m->list[i].transport_slot, m->list[i].width, 0};
}

/* The other ranks learn of it in the next agreement. */
static void note_failure(struct wr_exec_making *m, weir_status status, const weir_error *err)
{
    m->failed = status;
    if (status)
        m->why = *err;
}

/* The lists are short messages: they are sent whole, so that telling all before anybody is heard cannot last for ever. */
static weir_status tell_slots(void *arg, struct wr_steps *steps, weir_error *err)
{
    struct wr_exec_making *m = arg;
    while (!m->failed && (m->message || m->peer < steps->comm->size)) {
        weir_status status = wr_exchange_await(steps->comm, &m->message, m->cancel, err);
        if (status == WEIR_IN_PROGRESS)
            return status;
        int peer = m->peer++;
        if (!status && peer < steps->comm->size && !is_here(m->x, peer) && has_step(m->x, peer, true))
            status = tell(m, peer, err);
        note_failure(m, status, err);
    }
    m->peer = -1;
    return WEIR_OK;
}

static weir_status hear_slots(void *arg, struct wr_steps *steps, weir_error *err)
{
    struct wr_exec_making *m = arg;
    while (!m->failed) {
        bool hears = m->message != NULL;
        weir_status status = wr_exchange_await(steps->comm, &m->message, m->cancel, err);
        if (status == WEIR_IN_PROGRESS)
            return status;
        if (hears && !status)
            keep_heard(m);
        do
            m->peer++;
        while (m->peer < steps->comm->size && (is_here(m->x, m->peer) || !has_step(m->x, m->peer, false)));
        if (!status && m->peer >= steps->comm->size)
            break;
        if (!status)
            status = hear(m, err);
        note_failure(m, status, err);
    }
    return WEIR_OK;
}

static weir_status resolve_all(void *arg, struct wr_steps *steps, weir_error *err)
{
    struct wr_exec_making *m = arg;
    weir_status status = m->failed;
    if (status)
        *err = m->why;
    else
        status = resolve(m->x, m->cards, err);
    return wr_steps_agree(steps, status, err);
}

weir_status wr_exec_make(const struct wr_exec_params *params, struct wr_exec_making **making, weir_error *err)
{
    static const wr_step list[] = {build, tell_card, begin_memory, connect_all, tell_slots, hear_slots, resolve_all, NULL};
    weir_comm *comm = params->comm;
    struct wr_exec_making *m = calloc(1, sizeof *m);
    if (m) {
        m->x = calloc(1, sizeof *m->x);
        m->cards = malloc((size_t)comm->size * sizeof *m->cards);
    }
    if (!m || !m->x || !m->cards) {
        wr_exec_made(m, false);
        return wr_error_memory(err, (size_t)comm->size * sizeof *m->cards, "a plan");
    }
    struct wr_exec *x = m->x;
    x->params = *params;
    x->spec = *params->spec;
    x->engine = comm->engine;
    if (params->kernel)
        x->kernel = *params->kernel;
    /* sums that are rounded when they are stored are divided before; only results are stored in OUT then */
    x->divides = params->divide_by > 1 && x->kernel.loops.divide && x->spec.partial_size != x->spec.elem_size;
    m->card = (struct wr_exec_card){params->in_offset, params->out_offset, 0};
    wr_steps_init(&m->steps, comm, list, m);
    *making = m;
    return WEIR_OK;
}

struct wr_steps *wr_exec_making_steps(struct wr_exec_making *m)
{
    return &m->steps;
}

struct wr_exec *wr_exec_made(struct wr_exec_making *m, bool ok)
{
    struct wr_exec *x = ok ? m->x : NULL;
    if (!m)
        return NULL;
    if (!ok && m->x) {
        wr_mem_made(m->mem, false);
        if (m->x->mem)
            wr_mem_abandon(m->x->mem); /* nobody has used it */
        free_parts(m->x);
    }
    free(m->cards);
    if (wr_exchange_take_back(m->message, m->cancel)) /* else something may still come for it */
        free(m);
    return x;
}

bool wr_exec_is_quiet(const struct wr_exec *x)
{
    return !x->running && !x->puts_running;
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
