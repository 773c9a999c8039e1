/* SPDX-License-Identifier: BSD-3-Clause */
/* What can be said of the programs before they run: sound references, locality, counters, which signal covers
 * which put. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/plan/verify_impl.h"

static const char *const buffer_name[] = {"IN", "OUT", "SCRATCH"};

const char *wr_step_name(const struct wr_step *step)
{
    static const char *const names[] = {"COPY", "REDUCE", "PUT", "SIGNAL", "WAIT", "DRAIN"};
    return step->op < WR_ARRAY_SIZE(names) ? names[step->op] : "unknown step";
}

bool wr_verify_in_place(const struct wr_plan_spec *spec, int rank)
{
    bool at_root_only = spec->coll == WR_COLL_GATHER || spec->coll == WR_COLL_REDUCE || spec->coll == WR_COLL_SCATTER;
    return spec->in_place && (!at_root_only || rank == spec->root);
}

weir_status wr_verify_fail(struct wr_verifier *v, const struct wr_vlane *lane, const char *fmt, ...)
{
    char what[320];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    const struct wr_program *p = v->rank[lane->rank].program;
    bool at_step = lane->pc < lane->steps;
    return wr_error_set(v->err, WEIR_ERR_INTERNAL, "this is a defect of the algorithm; choose another with WEIR_ALGO",
                        "%s: rank %d, lane %u, step %u (%s): %s", wr_collective_name(v->spec->coll), lane->rank,
                        lane->index, lane->pc, at_step ? wr_step_name(&p->steps[lane->first + lane->pc]) : "end", what);
}

static uint64_t buffer_len(const struct wr_verifier *v, int rank, uint32_t buffer)
{
    if (buffer == WR_BUF_IN)
        return wr_plan_in_len(v->spec, rank);
    return buffer == WR_BUF_OUT ? wr_plan_out_len(v->spec, rank) : v->rank[wr_vmodel(v, rank)].program->scratch;
}

static uint64_t element(const struct wr_verifier *v, const struct wr_ref *ref)
{
    return ref->buffer == WR_BUF_SCRATCH ? v->spec->partial_size : v->spec->elem_size;
}

static weir_status check_ref(struct wr_verifier *v, struct wr_vlane *lane, const struct wr_step *step,
                             const struct wr_ref *ref)
{
    const struct wr_plan_spec *spec = v->spec;
    bool own = ref->rank == lane->rank;
    if (ref->rank < 0 || ref->rank >= v->topo->nranks || ref->buffer > WR_BUF_SCRATCH)
        return wr_verify_fail(v, lane, "buffer %u of rank %d does not exist", ref->buffer, ref->rank);
    uint64_t len = buffer_len(v, ref->rank, ref->buffer);
    if (ref->offset > len || step->len > len - ref->offset)
        return wr_verify_fail(v, lane, "elements %llu..%llu of %s of rank %d, which has %llu",
                              (unsigned long long)ref->offset, (unsigned long long)(ref->offset + step->len),
                              buffer_name[ref->buffer], ref->rank, (unsigned long long)len);
    if (step->op == WR_STEP_PUT)
        return WEIR_OK;
    if (v->topo->node_of[ref->rank] != v->topo->node_of[lane->rank])
        return wr_verify_fail(v, lane, "memory of rank %d is on another node", ref->rank);
    bool mapped = ref->buffer == WR_BUF_SCRATCH || (ref->buffer == WR_BUF_IN ? spec->in_mapped : spec->out_mapped);
    if (!own && !mapped)
        return wr_verify_fail(v, lane, "%s of rank %d is not mapped", buffer_name[ref->buffer], ref->rank);
    v->result.local_bytes += step->len * element(v, ref);
    return WEIR_OK;
}

static weir_status check_move(struct wr_verifier *v, struct wr_vlane *lane, const struct wr_step *step,
                              const struct wr_ref *refs)
{
    if ((step->op == WR_STEP_REDUCE) ? step->nrefs < 2 : step->nrefs != 2)
        return wr_verify_fail(v, lane, "it has %u places", step->nrefs);
    if (!step->len)
        return wr_verify_fail(v, lane, "it has no elements");
    for (unsigned i = 0; i < step->nrefs; i++) {
        weir_status status = check_ref(v, lane, step, &refs[i]);
        if (status != WEIR_OK)
            return status;
    }
    if (refs[0].buffer == WR_BUF_IN)
        return wr_verify_fail(v, lane, "it writes IN of rank %d", refs[0].rank);
    if (step->op == WR_STEP_REDUCE && !v->spec->reduces)
        return wr_verify_fail(v, lane, "this collective combines nothing");
    if (step->op != WR_STEP_PUT)
        return WEIR_OK;
    int from = v->topo->node_of[lane->rank], to = v->topo->node_of[refs[0].rank];
    if (from == to || refs[0].rank != step->peer)
        return wr_verify_fail(v, lane, "to rank %d, peer %d: a put goes to another node", refs[0].rank, step->peer);
    if (refs[0].buffer == WR_BUF_OUT && !v->spec->out_remote)
        return wr_verify_fail(v, lane, "OUT of rank %d cannot be put into", refs[0].rank);
    if (refs[1].rank != lane->rank)
        return wr_verify_fail(v, lane, "its source is memory of rank %d", refs[1].rank);
    if (element(v, &refs[0]) != element(v, &refs[1]))
        return wr_verify_fail(v, lane, "a put cannot convert between element types");
    uint64_t bytes = step->len * element(v, &refs[0]);
    v->result.network_bytes += bytes;
    v->result.egress[from] += bytes;
    v->result.ingress[to] += bytes;
    return WEIR_OK;
}

/* ---- counters ---- */

static uint32_t hash_of(int from, int to, uint32_t slot)
{
    uint64_t x = ((uint64_t)(uint32_t)from << 32 | (uint32_t)to) * 0x9e3779b97f4a7c15u + slot * 0xbf58476d1ce4e5b9u;
    return (uint32_t)(x >> 32) ^ (uint32_t)(x >> 11);
}

static bool grow_counters(struct wr_verifier *v)
{
    if (v->ncounters == v->cap_counters) {
        uint32_t cap = v->cap_counters ? v->cap_counters * 2 : 256;
        struct wr_vcounter *larger = realloc(v->counter, cap * sizeof *larger);
        if (!larger)
            return false;
        v->counter = larger;
        v->cap_counters = cap;
    }
    if (v->ncounters * 2 < v->cap_hash)
        return true;
    uint32_t cap = v->cap_hash ? v->cap_hash * 2 : 512;
    uint32_t *hash = calloc(cap, sizeof *hash);
    if (!hash)
        return false;
    for (uint32_t i = 0; i < v->ncounters; i++) {
        uint32_t at = hash_of(v->counter[i].from, v->counter[i].to, v->counter[i].slot) & (cap - 1);
        while (hash[at])
            at = (at + 1) & (cap - 1);
        hash[at] = i + 1;
    }
    free(v->counter_hash);
    v->counter_hash = hash;
    v->cap_hash = cap;
    return true;
}

/* In the frame of the receiver. */
static uint32_t counter_of(struct wr_verifier *v, int from, int to, uint32_t slot)
{
    int n = v->topo->nranks, back = to - wr_vmodel(v, to);
    to -= back;
    from = (from - back + n) % n;
    if (!grow_counters(v))
        return WR_VERIFY_NONE;
    uint32_t at = hash_of(from, to, slot) & (v->cap_hash - 1);
    for (; v->counter_hash[at]; at = (at + 1) & (v->cap_hash - 1)) {
        const struct wr_vcounter *c = &v->counter[v->counter_hash[at] - 1];
        if (c->from == from && c->to == to && c->slot == slot)
            return v->counter_hash[at] - 1;
    }
    v->counter[v->ncounters] = (struct wr_vcounter){.from = from,
                                                    .to = to,
                                                    .slot = slot,
                                                    .shift = wr_vshift_of(v, from),
                                                    .channel = WR_VERIFY_NONE,
                                                    .from_lane = WR_VERIFY_NONE,
                                                    .to_lane = WR_VERIFY_NONE};
    v->counter_hash[at] = ++v->ncounters;
    return v->ncounters - 1;
}

static weir_status use_counter(struct wr_verifier *v, struct wr_vlane *lane, const struct wr_step *step,
                               struct wr_vaux *aux)
{
    bool waits = step->op == WR_STEP_WAIT;
    uint32_t me = (uint32_t)(lane - v->lane);
    if (step->peer < 0 || step->peer >= v->topo->nranks)
        return wr_verify_fail(v, lane, "rank %d does not exist", step->peer);
    int from = waits ? step->peer : lane->rank, to = waits ? lane->rank : step->peer;
    uint32_t nslots = v->rank[wr_vmodel(v, to)].program->nslots;
    if (step->slot >= nslots)
        return wr_verify_fail(v, lane, "slot %u of rank %d, which has %u", step->slot, to, nslots);
    if (waits && !step->value)
        return wr_verify_fail(v, lane, "it waits for nothing");
    aux->counter = counter_of(v, from, to, step->slot);
    if (aux->counter == WR_VERIFY_NONE)
        return wr_error_memory(v->err, v->ncounters * sizeof *v->counter, "verifying a plan");
    struct wr_vcounter *c = &v->counter[aux->counter];
    uint32_t *lanes = waits ? &c->to_lane : &c->from_lane;
    if (*lanes != WR_VERIFY_NONE && *lanes != me)
        return wr_verify_fail(v, lane, "lane %u uses the same counter (rank %d to %d, slot %u)", v->lane[*lanes].index,
                              from, to, step->slot);
    *lanes = me;
    if (waits)
        c->waited = WR_MAX(c->waited, step->value);
    else
        c->sent++;
    v->result.signals += !waits;
    return WEIR_OK;
}

/* Finds, from the end of a lane to its beginning, what covers and what drains each put. */
static weir_status cover_puts(struct wr_verifier *v, struct wr_vlane *lane)
{
    const struct wr_program *p = v->rank[lane->rank].program;
    struct wr_vaux *aux = v->aux + v->rank[lane->rank].aux + lane->first;
    uint32_t drain = lane->steps;
    for (uint32_t i = lane->steps; i-- > 0;) {
        const struct wr_step *step = &p->steps[lane->first + i];
        if (step->op == WR_STEP_DRAIN)
            drain = i;
        if (step->op != WR_STEP_PUT)
            continue;
        uint32_t k = i;
        if (!(step->flags & WR_STEP_SIGNALS))
            for (k = i + 1; k < lane->steps; k++)
                if (p->steps[lane->first + k].op == WR_STEP_SIGNAL && p->steps[lane->first + k].peer == step->peer)
                    break;
        lane->pc = i;
        if (k == lane->steps)
            return wr_verify_fail(v, lane, "no later signal to rank %d covers it", step->peer);
        aux[i] = (struct wr_vaux){aux[k].counter, k, drain};
        struct wr_vcounter *c = &v->counter[aux[k].counter];
        if (c->channel == WR_VERIFY_NONE)
            c->channel = v->ndims++;
    }
    return WEIR_OK;
}

weir_status wr_verify_check_lane(struct wr_verifier *v, struct wr_vlane *lane)
{
    const struct wr_program *p = v->rank[lane->rank].program;
    struct wr_vaux *aux = v->aux + v->rank[lane->rank].aux + lane->first;
    weir_status status = WEIR_OK;
    for (lane->pc = 0; lane->pc < lane->steps && status == WEIR_OK; lane->pc++) {
        const struct wr_step *step = &p->steps[lane->first + lane->pc];
        if (step->op > WR_STEP_DRAIN || step->first_ref > p->nrefs || step->nrefs > p->nrefs - step->first_ref)
            return wr_verify_fail(v, lane, "the step makes no sense");
        if (step->op <= WR_STEP_PUT)
            status = check_move(v, lane, step, p->refs + step->first_ref);
        bool signals = step->op == WR_STEP_PUT && step->flags & WR_STEP_SIGNALS;
        if (status == WEIR_OK && (signals || step->op == WR_STEP_SIGNAL || step->op == WR_STEP_WAIT))
            status = use_counter(v, lane, step, &aux[lane->pc]);
        v->noperands = WR_MAX(v->noperands, step->nrefs);
        if (status != WEIR_OK)
            return status;
    }
    status = cover_puts(v, lane);
    lane->pc = 0;
    return status;
}

static weir_status check_counters(struct wr_verifier *v)
{
    for (uint32_t i = 0; i < v->ncounters; i++) {
        const struct wr_vcounter *c = &v->counter[i];
        if (c->sent != c->waited)
            return wr_error_set(v->err, WEIR_ERR_INTERNAL,
                                "this is a defect of the algorithm; choose another with WEIR_ALGO",
                                "%s: rank %d sends %u signals in slot %u to rank %d, which waits for %u",
                                wr_collective_name(v->spec->coll), c->from, c->sent, c->slot, c->to, c->waited);
    }
    return WEIR_OK;
}

static weir_status find_channels(struct wr_verifier *v)
{
    v->dim_lane = calloc((size_t)v->ndims + 1, sizeof *v->dim_lane);
    if (!v->dim_lane)
        return wr_error_memory(v->err, v->ndims * sizeof *v->dim_lane, "verifying a plan");
    for (uint32_t i = 0; i < v->nlanes; i++)
        v->dim_lane[i] = i;
    for (uint32_t i = 0; i < v->ncounters; i++)
        if (v->counter[i].channel != WR_VERIFY_NONE)
            v->dim_lane[v->counter[i].channel] = v->counter[i].from_lane;
    return WEIR_OK;
}

weir_status wr_verify_prepare(struct wr_verifier *v)
{
    weir_status status = WEIR_OK;
    v->ndims = v->nlanes;
    for (uint32_t i = 0; i < v->nlanes && status == WEIR_OK; i++)
        status = wr_verify_check_lane(v, &v->lane[i]);
    if (status == WEIR_OK)
        status = check_counters(v);
    if (status == WEIR_OK)
        status = find_channels(v);
    return status == WEIR_OK ? wr_verify_find_users(v) : status;
}
