/* SPDX-License-Identifier: BSD-3-Clause */
/* Building programs, and the arithmetic of shares. */
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/error.h"
#include "comm/plan/plan.h"

void wr_program_init(struct wr_program *p, int rank)
{
    memset(p, 0, sizeof *p);
    p->rank = rank;
}

void wr_program_free(struct wr_program *p)
{
    free(p->steps);
    free(p->refs);
    free(p->lane);
    memset(p, 0, sizeof *p);
}

/* Makes room for `n` more of `size` bytes; false when memory is exhausted. */
static bool grow(void **array, uint32_t *cap, uint32_t used, uint32_t n, size_t size)
{
    if (n <= *cap - used)
        return true;
    uint32_t more = *cap ? *cap : 16;
    while (more - used < n) {
        if (more > UINT32_MAX / 2)
            return false;
        more *= 2;
    }
    void *larger = realloc(*array, more * size);
    if (!larger)
        return false;
    *array = larger;
    *cap = more;
    return true;
}

void wr_program_lane(struct wr_program *p)
{
    if (!grow((void **)&p->lane, &p->cap_lanes, p->nlanes, 2, sizeof *p->lane)) {
        p->failed = true;
        return;
    }
    p->lane[p->nlanes++] = p->nsteps;
    p->lane[p->nlanes] = p->nsteps;
}

static void add(struct wr_program *p, struct wr_step step, const struct wr_ref *dst, const struct wr_ref *src, unsigned nsrc)
{
    uint32_t nrefs = (dst ? 1 : 0) + nsrc;
    if (!p->nlanes)
        wr_program_lane(p);
    if (p->failed || nrefs > UINT16_MAX || !grow((void **)&p->steps, &p->cap_steps, p->nsteps, 1, sizeof *p->steps) ||
        !grow((void **)&p->refs, &p->cap_refs, p->nrefs, nrefs, sizeof *p->refs)) {
        p->failed = true;
        return;
    }
    step.nrefs = (uint16_t)nrefs;
    step.first_ref = p->nrefs;
    if (dst)
        p->refs[p->nrefs++] = *dst;
    for (unsigned i = 0; i < nsrc; i++)
        p->refs[p->nrefs++] = src[i];
    p->steps[p->nsteps++] = step;
    p->lane[p->nlanes] = p->nsteps;
}

void wr_program_step(struct wr_program *p, const struct wr_step *step, const struct wr_ref *refs)
{
    add(p, *step, NULL, refs, step->nrefs);
    if (step->op == WR_STEP_WAIT)
        p->nslots = WR_MAX(p->nslots, step->slot + 1);
}

void wr_program_copy(struct wr_program *p, struct wr_ref dst, struct wr_ref src, uint64_t len)
{
    if (len)
        add(p, (struct wr_step){.op = WR_STEP_COPY, .len = len}, &dst, &src, 1);
}

void wr_program_reduce(struct wr_program *p, struct wr_ref dst, const struct wr_ref *src, unsigned nsrc, uint64_t len)
{
    if (len)
        add(p, (struct wr_step){.op = WR_STEP_REDUCE, .len = len}, &dst, src, nsrc);
}

void wr_program_put(struct wr_program *p, struct wr_ref dst, struct wr_ref src, uint64_t len)
{
    if (len)
        add(p, (struct wr_step){.op = WR_STEP_PUT, .len = len, .peer = dst.rank}, &dst, &src, 1);
}

void wr_program_put_signal(struct wr_program *p, struct wr_ref dst, struct wr_ref src, uint64_t len, uint32_t slot)
{
    if (len)
        add(p, (struct wr_step){.op = WR_STEP_PUT, .flags = WR_STEP_SIGNALS, .len = len, .peer = dst.rank, .slot = slot}, &dst, &src, 1);
    else
        wr_program_signal(p, dst.rank, slot);
}

void wr_program_signal(struct wr_program *p, int peer, uint32_t slot)
{
    add(p, (struct wr_step){.op = WR_STEP_SIGNAL, .peer = peer, .slot = slot}, NULL, NULL, 0);
}

void wr_program_wait(struct wr_program *p, int peer, uint32_t slot, uint32_t value)
{
    if (!value)
        return;
    add(p, (struct wr_step){.op = WR_STEP_WAIT, .peer = peer, .slot = slot, .value = value}, NULL, NULL, 0);
    p->nslots = WR_MAX(p->nslots, slot + 1);
}

void wr_program_wait_earlier(struct wr_program *p, int peer, uint32_t slot, uint32_t per_execution)
{
    if (!per_execution)
        return;
    add(p, (struct wr_step){.op = WR_STEP_WAIT, .flags = WR_STEP_EARLIER, .peer = peer, .slot = slot, .value = per_execution},
        NULL, NULL, 0);
    p->nslots = WR_MAX(p->nslots, slot + 1);
}

void wr_program_drain(struct wr_program *p)
{
    add(p, (struct wr_step){.op = WR_STEP_DRAIN}, NULL, NULL, 0);
}

weir_status wr_program_finish(struct wr_program *p, weir_error *err)
{
    if (!p->nlanes && !p->failed)
        wr_program_lane(p);
    if (!p->failed)
        return WEIR_OK;
    wr_program_free(p);
    return wr_error_memory(err, sizeof(struct wr_step), "the program of a collective");
}

/* ---- shares ---- */

uint64_t wr_plan_share(const struct wr_plan_spec *spec, int rank)
{
    return spec->counts ? spec->counts[rank] : spec->count;
}

uint64_t wr_plan_share_offset(const struct wr_plan_spec *spec, int rank)
{
    return spec->counts ? spec->offsets[rank] : spec->count * (uint64_t)rank;
}

uint64_t wr_plan_total(const struct wr_plan_spec *spec)
{
    return wr_plan_share_offset(spec, spec->topo->nranks);
}

/* The end of the last part. */
static uint64_t pairs_end(const uint64_t *len, const uint64_t *at, int n)
{
    uint64_t end = 0;
    for (int p = 0; p < n; p++)
        end = WR_MAX(end, len[p] ? at[p] + len[p] : 0);
    return end;
}

static uint64_t alltoall_sum(const struct wr_plan_spec *spec, int rank, bool sent)
{
    int n = spec->topo->nranks;
    uint64_t sum = 0;
    if (spec->pairs)
        return sent ? pairs_end(spec->pairs->to, spec->pairs->to_at, n)
                    : pairs_end(spec->pairs->from, spec->pairs->from_at, n);
    if (!spec->counts)
        return spec->count * (uint64_t)n;
    for (int p = 0; p < n; p++)
        sum += sent ? spec->counts[(size_t)rank * (size_t)n + (size_t)p] : spec->counts[(size_t)p * (size_t)n + (size_t)rank];
    return sum;
}

uint64_t wr_plan_in_len(const struct wr_plan_spec *spec, int rank)
{
    bool root = rank == spec->root;
    switch (spec->coll) {
    case WR_COLL_BARRIER:
        return 0;
    case WR_COLL_BCAST:
        return root ? spec->count : 0;
    case WR_COLL_REDUCE:
    case WR_COLL_ALLREDUCE:
    case WR_COLL_SCAN:
    case WR_COLL_EXSCAN:
        return spec->count;
    case WR_COLL_REDUCE_SCATTER:
        return wr_plan_total(spec);
    case WR_COLL_ALLGATHER:
    case WR_COLL_GATHER:
        return wr_plan_share(spec, rank);
    case WR_COLL_SCATTER:
        return root ? wr_plan_total(spec) : 0;
    case WR_COLL_ALLTOALL:
        return alltoall_sum(spec, rank, true);
    case WR_COLL_COUNT:
        break;
    }
    return 0;
}

uint64_t wr_plan_out_len(const struct wr_plan_spec *spec, int rank)
{
    bool root = rank == spec->root;
    switch (spec->coll) {
    case WR_COLL_BARRIER:
        return 0;
    case WR_COLL_BCAST:
    case WR_COLL_ALLREDUCE:
    case WR_COLL_SCAN:
    case WR_COLL_EXSCAN:
        return spec->count;
    case WR_COLL_REDUCE:
        return root ? spec->count : 0;
    case WR_COLL_REDUCE_SCATTER:
    case WR_COLL_SCATTER:
        return wr_plan_share(spec, rank);
    case WR_COLL_ALLGATHER:
        return wr_plan_total(spec);
    case WR_COLL_GATHER:
        return root ? wr_plan_total(spec) : 0;
    case WR_COLL_ALLTOALL:
        return alltoall_sum(spec, rank, false);
    case WR_COLL_COUNT:
        break;
    }
    return 0;
}

uint64_t wr_plan_in_offset(const struct wr_plan_spec *spec, int rank)
{
    /* all-gather and gather: the rank's share inside the result; the others: the same buffer from its beginning */
    if (spec->coll == WR_COLL_ALLGATHER || (spec->coll == WR_COLL_GATHER && rank == spec->root))
        return wr_plan_share_offset(spec, rank);
    return 0;
}

const char *wr_collective_name(enum wr_collective coll)
{
    static const char *const names[WR_COLL_COUNT] = {
        [WR_COLL_BARRIER] = "barrier",
        [WR_COLL_BCAST] = "bcast",
        [WR_COLL_REDUCE] = "reduce",
        [WR_COLL_ALLREDUCE] = "allreduce",
        [WR_COLL_REDUCE_SCATTER] = "reduce_scatter",
        [WR_COLL_ALLGATHER] = "allgather",
        [WR_COLL_GATHER] = "gather",
        [WR_COLL_SCATTER] = "scatter",
        [WR_COLL_ALLTOALL] = "alltoall",
        [WR_COLL_SCAN] = "scan",
        [WR_COLL_EXSCAN] = "exscan",
    };
    return coll < WR_COLL_COUNT ? names[coll] : "unknown";
}
