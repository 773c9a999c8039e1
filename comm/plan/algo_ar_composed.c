/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce as reduce-scatter and all-gather over nearly equal shares. The result of the first lands in OUT,
 * where the share belongs, and the second is done in place. Lane by lane one follows the other, so that chunks
 * of different lanes overlap.
 */
#include <stdlib.h>

#include "base/error.h"
#include "comm/plan/algo.h"

struct parts {
    struct wr_plan_spec scatter, gather;
    uint64_t *counts, *offsets;
    uint64_t *scratch; /* by rank, 1 more than the first part has there; 0: not asked for yet */
};

static weir_status split(struct parts *parts, const struct wr_plan_spec *spec, weir_error *err)
{
    uint64_t n = (uint64_t)spec->topo->nranks;
    bool equal = spec->count % n == 0;
    parts->counts = calloc(3 * n + 1, sizeof *parts->counts);
    if (!parts->counts)
        return wr_error_memory(err, (3 * n + 1) * sizeof *parts->counts, "the program of a collective");
    parts->offsets = parts->counts + n;
    parts->scratch = parts->offsets + n + 1;
    parts->offsets[0] = 0;
    for (uint64_t r = 0; r < n; r++) {
        parts->counts[r] = spec->count / n + (r < spec->count % n);
        parts->offsets[r + 1] = parts->offsets[r] + parts->counts[r];
    }
    parts->scatter = *spec;
    parts->scatter.coll = WR_COLL_REDUCE_SCATTER;
    parts->scatter.count = spec->count / n;
    parts->scatter.counts = equal ? NULL : parts->counts; /* equal shares are found faster */
    parts->scatter.offsets = equal ? NULL : parts->offsets;
    parts->scatter.in_place = false; /* the share's result lands on the input of that share alone */
    parts->gather = parts->scatter;
    parts->gather.coll = WR_COLL_ALLGATHER;
    parts->gather.reduces = false;
    parts->gather.in_place = true;
    parts->gather.in_mapped = spec->out_mapped;
    return WEIR_OK;
}

/* From the buffers of the parts to those of the whole. */
static void place_scatter(struct wr_program *p, const struct parts *parts)
{
    for (uint32_t i = 0; i < p->nrefs; i++)
        if (p->refs[i].buffer == WR_BUF_OUT)
            p->refs[i].offset += parts->offsets[p->refs[i].rank];
}

/* Asked for by every ref, and not quickly answered. */
static uint64_t scratch_of(const struct parts *parts, const struct wr_algorithm *scatter, int rank)
{
    if (!parts->scratch[rank])
        parts->scratch[rank] = scatter->scratch(&parts->scatter, rank) + 1;
    return parts->scratch[rank] - 1;
}

static void place_gather(struct wr_program *p, const struct parts *parts, const struct wr_algorithm *scatter)
{
    for (uint32_t i = 0; i < p->nrefs; i++) {
        if (p->refs[i].buffer == WR_BUF_SCRATCH) {
            p->refs[i].offset += scratch_of(parts, scatter, p->refs[i].rank);
        } else if (p->refs[i].buffer == WR_BUF_IN) {
            p->refs[i].buffer = WR_BUF_OUT;
            p->refs[i].offset += parts->offsets[p->refs[i].rank];
        }
    }
    for (uint32_t i = 0; i < p->nsteps; i++) {
        p->steps[i].slot += scatter->slots;
        if (p->steps[i].op == WR_STEP_COPY)
            p->steps[i].flags |= WR_STEP_RESULT;
    }
    p->scratch += scratch_of(parts, scatter, p->rank);
}

static weir_status compose(const struct wr_plan_spec *spec, int rank, struct wr_program *p,
                           const struct wr_algorithm *scatter, const struct wr_algorithm *gather, weir_error *err)
{
    struct parts parts;
    struct wr_program second;
    weir_status status = split(&parts, spec, err);
    if (status != WEIR_OK)
        return status;
    status = scatter->build(&parts.scatter, rank, p, err);
    if (status != WEIR_OK)
        goto free_parts;
    status = gather->build(&parts.gather, rank, &second, err);
    if (status != WEIR_OK) {
        wr_program_free(p);
        goto free_parts;
    }
    place_scatter(p, &parts);
    place_gather(&second, &parts, scatter);
    status = wr_program_append(p, &second, err);
free_parts:
    free(parts.counts);
    return status;
}

static bool several(const struct wr_plan_spec *spec)
{
    return spec->topo->nranks > 1 && !spec->out_shared && !spec->reproducible;
}

static bool several_nodes(const struct wr_plan_spec *spec)
{
    return spec->topo->nnodes > 1 && !spec->out_shared && !spec->reproducible;
}

static weir_status direct(const struct wr_plan_spec *spec, int rank, struct wr_program *p, weir_error *err)
{
    return compose(spec, rank, p, &wr_rs_direct, &wr_ag_direct, err);
}

static weir_status ring(const struct wr_plan_spec *spec, int rank, struct wr_program *p, weir_error *err)
{
    return compose(spec, rank, p, &wr_rs_ring, &wr_ag_ring, err);
}

static weir_status bruck(const struct wr_plan_spec *spec, int rank, struct wr_program *p, weir_error *err)
{
    return compose(spec, rank, p, &wr_rs_bruck, &wr_ag_bruck, err);
}

static weir_status hier(const struct wr_plan_spec *spec, int rank, struct wr_program *p, weir_error *err)
{
    return compose(spec, rank, p, &wr_rs_hier, &wr_ag_hier, err);
}

/* Whatever the machine, the order of ranks. */
static weir_status linear(const struct wr_plan_spec *spec, int rank, struct wr_program *p, weir_error *err)
{
    return compose(spec, rank, p, &wr_rs_linear, spec->topo->nnodes > 1 ? &wr_ag_ring : &wr_ag_direct, err);
}

static bool is_linear(const struct wr_plan_spec *spec)
{
    return wr_rs_linear.applies(spec);
}

static bool remote(const struct wr_plan_spec *spec)
{
    return several_nodes(spec) && spec->out_remote && spec->out_mapped;
}

static weir_status hier_put(const struct wr_plan_spec *spec, int rank, struct wr_program *p, weir_error *err)
{
    return compose(spec, rank, p, &wr_rs_hier, &wr_ag_hier_put, err);
}

const struct wr_algorithm wr_ar_hier_put = {"hier_put", WR_COLL_ALLREDUCE, remote, hier_put, NULL, 0};
const struct wr_algorithm wr_ar_linear = {"linear", WR_COLL_ALLREDUCE, is_linear, linear, NULL, 0};
const struct wr_algorithm wr_ar_direct = {"direct", WR_COLL_ALLREDUCE, wr_single_node, direct, NULL, 0};
const struct wr_algorithm wr_ar_ring = {"ring", WR_COLL_ALLREDUCE, several, ring, NULL, 0};
const struct wr_algorithm wr_ar_bruck = {"bruck", WR_COLL_ALLREDUCE, several, bruck, NULL, 0};
const struct wr_algorithm wr_ar_hier = {"hier", WR_COLL_ALLREDUCE, several_nodes, hier, NULL, 0};
