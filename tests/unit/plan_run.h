/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A plain interpreter of plans on 64-bit numbers, for tests: lanes advance in random order, puts arrive in
 * random parts at random times, not in the order of issue but when a later wait depends on it, and every buffer
 * begins as garbage. It shares nothing with the verifier. plan_run() says whether all results of three
 * executions, each on other data, were right.
 */
#ifndef WR_PLAN_RUN_H
#define WR_PLAN_RUN_H

#include "tests/unit/plan_world.h"

enum { PLAN_RUN_EXECUTIONS = 3, PLAN_RUN_PUTS = 128, PLAN_RUN_SLOTS = 160, PLAN_RUN_IDLE = 500 };

struct plan_put {
    bool live;
    uint64_t *dst;
    const uint64_t *src;
    uint64_t len, done;
    int from, to;
    uint32_t lane, order; /* order among the steps of its lane */
};

/* A signal on its way; it is counted when the puts that it covers have arrived, and after earlier ones of its
 * counter. */
struct plan_signal {
    bool live;
    int from, to;
    uint32_t slot, lane, order;
    bool alone; /* covers the put of its own step only */
};

struct plan_rank {
    uint64_t *in, *out, *scratch;
    uint32_t pc[8];
    uint32_t execution;
    bool done;
    uint64_t *count; /* [peer * PLAN_RUN_SLOTS + slot] */
};

struct plan_machine {
    const struct wr_plan_spec *s;
    const struct wr_program *programs;
    struct plan_rank *rank;
    struct plan_put put[PLAN_RUN_PUTS];
    struct plan_signal signal[PLAN_RUN_PUTS];
    uint32_t order;
    uint64_t state, moves;
    bool broken; /* it cannot go on */
};

static inline bool plan_in_place(const struct wr_plan_spec *s, int rank)
{
    bool at_root = s->coll == WR_COLL_GATHER || s->coll == WR_COLL_REDUCE || s->coll == WR_COLL_SCATTER;
    return s->in_place && (!at_root || rank == s->root);
}

static inline uint64_t plan_input(int rank, uint64_t i, uint32_t execution)
{
    uint64_t x = ((uint64_t)rank * 1000003 + i + 1) * 0x9e3779b97f4a7c15u + execution * 0xbf58476d1ce4e5b9u;
    return x ^ (x >> 31);
}

static inline uint64_t *plan_place(struct plan_machine *m, struct wr_ref ref)
{
    struct plan_rank *r = &m->rank[ref.rank];
    if (ref.buffer == WR_BUF_SCRATCH)
        return r->scratch + ref.offset;
    return (ref.buffer == WR_BUF_IN ? r->in : r->out) + ref.offset;
}

static inline void plan_fill(struct plan_machine *m, int rank)
{
    struct plan_rank *r = &m->rank[rank];
    uint64_t in = wr_plan_in_len(m->s, rank), out = wr_plan_out_len(m->s, rank);
    for (uint64_t i = 0; i < out; i++)
        r->out[i] = 0xdeadbeef;
    for (uint64_t i = 0; i < in; i++)
        r->in[i] = plan_input(rank, i, r->execution);
}

/* What element i of a rank's OUT must be. */
static inline uint64_t plan_result(const struct wr_plan_spec *s, int rank, uint64_t i, uint32_t e)
{
    int n = s->topo->nranks, from = 0, to = n;
    uint64_t sum = 0;
    switch (s->coll) {
    case WR_COLL_BCAST:
        return plan_input(s->root, i, e);
    case WR_COLL_SCATTER:
        return plan_input(s->root, i + wr_plan_share_offset(s, rank), e);
    case WR_COLL_GATHER:
    case WR_COLL_ALLGATHER:
        for (; from < n - 1 && i >= wr_plan_share_offset(s, from + 1); from++)
            ;
        return plan_input(from, i - wr_plan_share_offset(s, from), e);
    case WR_COLL_ALLTOALL:
        return plan_input((int)(i / s->count), (uint64_t)rank * s->count + i % s->count, e);
    case WR_COLL_REDUCE_SCATTER:
        i += wr_plan_share_offset(s, rank);
        break;
    case WR_COLL_SCAN:
        to = rank + 1;
        break;
    case WR_COLL_EXSCAN:
        to = rank;
        break;
    default:
        break;
    }
    for (; from < to; from++)
        sum += plan_input(from, i, e);
    return sum;
}

static inline bool plan_right(struct plan_machine *m, int rank)
{
    for (uint64_t i = 0; i < wr_plan_out_len(m->s, rank); i++)
        if (m->rank[rank].out[i] != plan_result(m->s, rank, i, m->rank[rank].execution) &&
            !(m->s->coll == WR_COLL_EXSCAN && rank == 0))
            return false;
    for (int p = 0; p < m->s->topo->nranks && m->s->coll == WR_COLL_BARRIER; p++)
        if (m->rank[p].execution < m->rank[rank].execution)
            return false;
    return true;
}

/* Moves a part of a put. */
static inline void plan_arrive(struct plan_machine *m, struct plan_put *put)
{
    uint64_t part = 1 + plan_random(&m->state, (unsigned)(put->len - put->done));
    memcpy(put->dst + put->done, put->src + put->done, part * sizeof *put->dst);
    put->done += part;
    m->moves++;
    put->live = put->done < put->len;
}

/* Counts a signal if it may come now. */
static inline void plan_deliver(struct plan_machine *m, struct plan_signal *g)
{
    for (int i = 0; i < PLAN_RUN_PUTS; i++) {
        struct plan_put *p = &m->put[i];
        struct plan_signal *h = &m->signal[i];
        if (h->live && h->from == g->from && h->to == g->to && h->slot == g->slot && h->order < g->order)
            return;
        bool covered = p->live && p->from == g->from && p->to == g->to && p->lane == g->lane &&
                       (g->alone ? p->order == g->order : p->order <= g->order);
        if (covered)
            return;
    }
    m->moves++;
    m->rank[g->to].count[g->from * PLAN_RUN_SLOTS + (int)g->slot]++;
    g->live = false;
}

static inline void plan_network(struct plan_machine *m)
{
    unsigned at = plan_random(&m->state, PLAN_RUN_PUTS);
    for (unsigned i = 0; i < PLAN_RUN_PUTS; i++) {
        struct plan_put *p = &m->put[(at + i) % PLAN_RUN_PUTS];
        struct plan_signal *g = &m->signal[(at + i) % PLAN_RUN_PUTS];
        if (p->live)
            plan_arrive(m, p);
        if (g->live)
            plan_deliver(m, g);
        if (p->live || g->live)
            return;
    }
}

static inline void plan_post(struct plan_machine *m, const struct wr_step *step, int rank, uint32_t lane, bool put,
                             bool signal)
{
    const struct wr_program *p = &m->programs[rank];
    int i = 0, k = 0;
    while (i < PLAN_RUN_PUTS && m->put[i].live)
        i++;
    while (k < PLAN_RUN_PUTS && m->signal[k].live)
        k++;
    if (i == PLAN_RUN_PUTS || k == PLAN_RUN_PUTS) {
        m->broken = true;
        return;
    }
    if (put)
        m->put[i] = (struct plan_put){true,
                                      plan_place(m, p->refs[step->first_ref]),
                                      plan_place(m, p->refs[step->first_ref + 1]),
                                      step->len,
                                      0,
                                      rank,
                                      step->peer,
                                      lane,
                                      m->order};
    if (signal)
        m->signal[k] = (struct plan_signal){true, rank, step->peer, step->slot, lane, m->order, put};
    m->order++;
}

static inline bool plan_sends(const struct plan_machine *m, int rank, int lane)
{
    for (int i = 0; i < PLAN_RUN_PUTS; i++)
        if (m->put[i].live && m->put[i].from == rank && (lane < 0 || m->put[i].lane == (uint32_t)lane))
            return true;
    return false;
}

/* One execution's signals in a counter: as many as the largest value waited for. */
static inline uint64_t plan_total(const struct wr_program *p, int peer, uint32_t slot)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < p->nsteps; i++)
        if (p->steps[i].op == WR_STEP_WAIT && p->steps[i].peer == peer && p->steps[i].slot == slot &&
            p->steps[i].value > most)
            most = p->steps[i].value;
    return most;
}

/* Does the next step of a lane if it can. */
static inline void plan_advance(struct plan_machine *m, int rank, uint32_t lane)
{
    const struct wr_program *p = &m->programs[rank];
    struct plan_rank *r = &m->rank[rank];
    uint32_t at = p->lane[lane] + r->pc[lane];
    if (at == p->lane[lane + 1])
        return;
    const struct wr_step *s = &p->steps[at];
    const struct wr_ref *refs = p->refs + s->first_ref;
    if (s->op == WR_STEP_WAIT) {
        uint64_t before = r->execution * plan_total(p, s->peer, s->slot);
        if (r->count[s->peer * PLAN_RUN_SLOTS + (int)s->slot] < before + (s->flags & WR_STEP_EARLIER ? 0 : s->value))
            return;
    } else if (s->op == WR_STEP_DRAIN) {
        if (plan_sends(m, rank, (int)lane))
            return;
    } else if (s->op == WR_STEP_SIGNAL || s->op == WR_STEP_PUT) {
        plan_post(m, s, rank, lane, s->op == WR_STEP_PUT, s->op == WR_STEP_SIGNAL || s->flags & WR_STEP_SIGNALS);
    } else {
        for (uint64_t i = 0; i < s->len; i++) {
            uint64_t sum = 0;
            for (unsigned k = 1; k < s->nrefs; k++)
                sum += plan_place(m, refs[k])[i];
            plan_place(m, refs[0])[i] = sum;
        }
    }
    r->pc[lane]++;
    m->moves++;
}

/* Ends an execution of a rank when all lanes have, and begins the next; false when its result is wrong. */
static inline bool plan_turn(struct plan_machine *m, int rank)
{
    const struct wr_program *p = &m->programs[rank];
    struct plan_rank *r = &m->rank[rank];
    for (uint32_t lane = 0; lane < p->nlanes; lane++)
        if (p->lane[lane] + r->pc[lane] < p->lane[lane + 1])
            return true;
    if (r->done || plan_sends(m, rank, -1))
        return true;
    if (!plan_right(m, rank))
        return false;
    memset(r->pc, 0, sizeof r->pc);
    r->done = ++r->execution == PLAN_RUN_EXECUTIONS;
    plan_fill(m, rank); /* at once: others must be through with it */
    return true;
}

static inline void plan_machine_init(struct plan_machine *m, const struct wr_plan_spec *s,
                                     const struct wr_program *programs, uint64_t seed)
{
    int n = s->topo->nranks;
    memset(m, 0, sizeof *m);
    m->s = s;
    m->programs = programs;
    m->state = seed;
    m->rank = calloc((size_t)n, sizeof *m->rank);
    for (int i = 0; i < n; i++) {
        struct plan_rank *r = &m->rank[i];
        uint64_t in = wr_plan_in_len(s, i), out = wr_plan_out_len(s, i), at = wr_plan_in_offset(s, i);
        r->out = calloc(in + out + at + 1, sizeof *r->out);
        r->in = plan_in_place(s, i) ? r->out + at : calloc(in + 1, sizeof *r->in);
        r->scratch = calloc(programs[i].scratch + 1, sizeof *r->scratch);
        r->count = calloc((size_t)n * PLAN_RUN_SLOTS, sizeof *r->count);
        for (uint64_t k = 0; k < programs[i].scratch; k++)
            r->scratch[k] = 0xfeedface;
        plan_fill(m, i);
    }
}

static inline void plan_machine_free(struct plan_machine *m)
{
    for (int i = 0; i < m->s->topo->nranks; i++) {
        if (!plan_in_place(m->s, i))
            free(m->rank[i].in);
        free(m->rank[i].out);
        free(m->rank[i].scratch);
        free(m->rank[i].count);
    }
    free(m->rank);
}

static inline bool plan_run(const struct wr_plan_spec *s, const struct wr_program *programs, uint64_t seed)
{
    struct plan_machine m;
    int n = s->topo->nranks, left = n;
    bool right = true;
    plan_machine_init(&m, s, programs, seed);
    long idle = 0; /* turns in which nothing moved */
    while (left && right && !m.broken) {
        uint64_t before = m.moves;
        int rank = (int)plan_random(&m.state, (unsigned)n);
        struct plan_rank *r = &m.rank[rank];
        for (unsigned k = 1 + plan_random(&m.state, 8); k && !r->done; k--)
            plan_advance(&m, rank, plan_random(&m.state, programs[rank].nlanes));
        bool done = r->done;
        right = plan_turn(&m, rank);
        left -= r->done && !done;
        m.moves += r->done && !done;
        for (unsigned k = plan_random(&m.state, 4); k; k--)
            plan_network(&m);
        idle = m.moves == before ? idle + 1 : 0;
        m.broken |= idle > PLAN_RUN_IDLE * (long)n;
    }
    right = right && !m.broken;
    plan_machine_free(&m);
    return right;
}

#endif
