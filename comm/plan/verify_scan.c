/* SPDX-License-Identifier: BSD-3-Clause */
/* What can be proven of more ranks than a symbolic run takes: rank by rank, each program built, looked at and freed. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/plan/verify_impl.h"

struct scan {
    struct wr_verifier v;
    const struct wr_algorithm *algorithm;
    struct wr_program *outline; /* by rank: scratch and slots only */
    uint64_t balance;           /* of signals and waits */
    uint32_t cap_lanes, cap_aux;
};

static weir_status no_memory(const struct scan *s)
{
    return wr_error_memory(s->v.err, (size_t)s->v.topo->nranks * sizeof *s->outline, "verifying a plan");
}

/* The lanes of one program, as if no other rank had any. */
static weir_status take_program(struct scan *s, const struct wr_program *p)
{
    struct wr_verifier *v = &s->v;
    if (!p->nlanes || p->lane[0] || p->lane[p->nlanes] != p->nsteps)
        return wr_error_set(v->err, WEIR_ERR_INTERNAL, NULL, "the lanes of rank %d are not its steps", p->rank);
    if (p->nlanes > s->cap_lanes || p->nsteps > s->cap_aux || !v->lane) {
        free(v->lane);
        free(v->aux);
        s->cap_lanes = 2 * p->nlanes;
        s->cap_aux = 2 * p->nsteps + 16;
        v->lane = calloc(s->cap_lanes, sizeof *v->lane);
        v->aux = calloc(s->cap_aux, sizeof *v->aux);
        if (!v->lane || !v->aux)
            return no_memory(s);
    }
    for (uint32_t i = 0; i < p->nlanes; i++)
        v->lane[i] = (struct wr_vlane){.rank = p->rank, .index = i, .first = p->lane[i], .steps = p->lane[i + 1] - p->lane[i]};
    v->nlanes = p->nlanes;
    v->rank[p->rank] = (struct wr_vrank){.program = p};
    v->result.steps += p->nsteps;
    v->result.refs += p->nrefs;
    v->result.max_lanes = WR_MAX(v->result.max_lanes, p->nlanes);
    return WEIR_OK;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
    return x ^ (x >> 32);
}

/*
 * The signals that a rank sends in a counter count for a number that belongs to that counter alone, those that a rank waits
 * for against it: the sum over all ranks is 0 when all are equal, and otherwise by a chance of 2^-64.
 */
static void count_signals(struct scan *s, int rank)
{
    struct wr_verifier *v = &s->v;
    for (uint32_t i = 0; i < v->ncounters; i++) {
        const struct wr_vcounter *c = &v->counter[i];
        uint64_t number = mix(mix((uint64_t)(uint32_t)c->from << 32 | (uint32_t)c->to) + c->slot);
        if (c->from == rank)
            s->balance += c->sent * number;
        if (c->to == rank)
            s->balance -= c->waited * number;
    }
    if (v->cap_hash)
        memset(v->counter_hash, 0, v->cap_hash * sizeof *v->counter_hash);
    v->ncounters = 0;
}

/* Builds the program of every rank: what others must know of it, or (look) everything. */
static weir_status visit(struct scan *s, bool look)
{
    struct wr_verifier *v = &s->v;
    weir_status status = WEIR_OK;
    for (int r = 0; r < v->topo->nranks && status == WEIR_OK; r++) {
        struct wr_program p;
        status = s->algorithm->build(v->spec, r, &p, v->err);
        if (status != WEIR_OK)
            return status;
        if (look) {
            status = take_program(s, &p);
            for (uint32_t i = 0; i < p.nlanes && status == WEIR_OK; i++)
                status = wr_verify_check_lane(v, &v->lane[i]);
            if (status == WEIR_OK)
                count_signals(s, r);
        } else {
            s->outline[r] = (struct wr_program){.rank = r, .scratch = p.scratch, .nslots = p.nslots};
            v->result.max_scratch = WR_MAX(v->result.max_scratch, p.scratch);
        }
        v->rank[r] = (struct wr_vrank){.program = &s->outline[r]};
        wr_program_free(&p);
    }
    return status;
}

weir_status wr_verify_scan(const struct wr_plan_spec *spec, const struct wr_algorithm *algorithm, struct wr_verify_result *result,
                           weir_error *err)
{
    struct scan s = {.v = {.spec = spec, .topo = spec->topo, .err = err, .period = spec->topo->nranks}, .algorithm = algorithm};
    struct wr_verifier *v = &s.v;
    size_t nodes = (size_t)spec->topo->nnodes, ranks = (size_t)spec->topo->nranks;
    v->result.nnodes = spec->topo->nnodes;
    v->rank = calloc(ranks, sizeof *v->rank);
    s.outline = calloc(ranks, sizeof *s.outline);
    v->result.egress = calloc(nodes, sizeof *v->result.egress);
    v->result.ingress = calloc(nodes, sizeof *v->result.ingress);
    weir_status status = v->rank && s.outline && v->result.egress && v->result.ingress ? WEIR_OK : no_memory(&s);
    if (status == WEIR_OK)
        status = visit(&s, false);
    if (status == WEIR_OK)
        status = visit(&s, true);
    if (status == WEIR_OK && s.balance)
        status = wr_error_set(err, WEIR_ERR_INTERNAL, "this is a defect of the algorithm; choose another with WEIR_ALGO",
                              "%s: the ranks do not wait for all signals that are sent", wr_collective_name(spec->coll));
    free(v->rank);
    free(s.outline);
    free(v->lane);
    free(v->aux);
    free(v->counter);
    free(v->counter_hash);
    if (status == WEIR_OK && result)
        *result = v->result;
    else
        wr_verify_result_free(&v->result);
    return status;
}
