/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hierarchical reduce-scatter: agents combine the inputs of their node, by plain loads where these are mapped,
 * with the partial result that came from the node before, and pass it on; the last agent of a share is its
 * owner, who stores the result.
 */
#include <stdlib.h>

#include "base/error.h"
#include "comm/plan/algo_hier.h"

/* A run of elements that are contiguous in the vector and where they are combined. */
struct run {
    struct wr_ref dst;
    uint64_t input, staged; /* where it begins in the vector, and in a stage */
    uint64_t len;
};

/* In place the result must wait, in the tail of SCRATCH, until nobody needs the input any more that it lands on. */
static struct wr_ref tail(const struct wr_hier *h)
{
    return wr_ref(h->rank, WR_BUF_SCRATCH, wr_hier_scratch_rs(h->spec, h->rank) - wr_plan_share(h->spec, h->rank));
}

static void reduce_run(const struct wr_hier *h, struct wr_program *p, const struct run *run,
                       const struct wr_ref *partial, uint32_t lane, struct wr_ref *src)
{
    unsigned n = 0;
    if (partial)
        src[n++] = *partial;
    for (int i = 0; i < h->mates.n; i++)
        src[n++] = h->stages ? wr_ref(h->mates.rank[i], WR_BUF_SCRATCH, lane * h->stage + run->staged)
                             : wr_ref(h->mates.rank[i], WR_BUF_IN, run->input);
    wr_program_reduce(p, run->dst, src, n, run->len);
}

/* Combines chunk c of the shares of an item, in as few steps as their places allow. */
static void reduce_item(struct wr_hier *h, struct wr_program *p, const struct wr_hier_item *item, uint32_t lane,
                        uint64_t c, const uint64_t *staged, struct wr_ref *src)
{
    bool last = item->next < 0;
    struct wr_ref slot = wr_hier_slot(h, h->rank, item->owner, item->from, lane, c), partial = slot;
    struct wr_ref result = last && h->spec->in_place ? tail(h) : wr_ref(h->rank, WR_BUF_OUT, 0);
    struct run run = {.dst = last ? wr_ref_add(result, c * h->chunk) : slot};
    for (int j = item->from, first = j; (run.len = wr_hier_contiguous(h, item->owner, &j, item->to, c, &run.input)) > 0; first = j) {
        run.staged = h->stages ? staged[wr_hier_share(h, item->owner, first)] : 0; /* as contiguous as they are in the vector */
        reduce_run(h, p, &run, item->prev >= 0 ? &partial : NULL, lane, src);
        run.dst.offset += run.len;
        partial.offset += run.len;
    }
}

/* Copies chunk c of all shares to where mates can load it; staged[s]: where in the stage. */
static void stage(const struct wr_hier *h, struct wr_program *p, uint32_t lane, uint64_t c, uint64_t *staged)
{
    uint64_t at = 0, input = 0, first = 0, len = 0;
    uint32_t iteration = (uint32_t)(c / h->nlanes);
    if (iteration)
        wr_wait_mates(p, &h->mates, WR_HIER_TAKEN + lane, iteration);
    else
        wr_wait_mates_earlier(p, &h->mates, WR_HIER_TAKEN + lane, wr_hier_iterations(h, lane));
    for (int i = 0; i < h->topo->nnodes; i++)
        for (int m = (h->node + i) % h->topo->nnodes, j = 0; j < h->topo->node_size[m]; j++) {
            int s = wr_hier_share(h, m, j);
            uint64_t begin = wr_plan_share_offset(h->spec, s) + c * h->chunk, n = wr_hier_len(h, m, j, c);
            staged[s] = at;
            if (n && len && input + len != begin) {
                wr_program_copy(p, wr_ref(h->rank, WR_BUF_SCRATCH, lane * h->stage + first),
                                wr_ref(h->rank, WR_BUF_IN, input), len);
                len = 0;
            }
            if (!len) {
                input = begin;
                first = at;
            }
            len += n;
            at += n;
        }
    wr_program_copy(p, wr_ref(h->rank, WR_BUF_SCRATCH, lane * h->stage + first), wr_ref(h->rank, WR_BUF_IN, input),
                    len);
    wr_signal_mates(p, &h->mates, WR_HIER_READY + lane);
    wr_wait_mates(p, &h->mates, WR_HIER_READY + lane, iteration + 1);
}

static void one_lane(struct wr_hier *h, struct wr_program *p, uint32_t lane, uint64_t *staged, struct wr_ref *src)
{
    wr_hier_lane(h, p, lane, !h->stages || h->spec->in_place);
    for (uint64_t c = lane; c < h->rounds; c += h->nlanes) {
        if (h->stages)
            stage(h, p, lane, c, staged);
        for (int i = 0; i < h->topo->nnodes; i++) {
            if (h->item[i].from == h->item[i].to)
                continue;
            wr_hier_receive(h, p, &h->item[i], lane);
            reduce_item(h, p, &h->item[i], lane, c, staged, src);
            wr_hier_send(h, p, &h->item[i], lane, c);
        }
        if (h->stages)
            wr_signal_mates(p, &h->mates, WR_HIER_TAKEN + lane);
        wr_hier_end_round(h, p, lane, c);
    }
    if (!h->stages || h->spec->in_place)
        wr_hier_join(h, p, lane);
    if (h->spec->in_place && lane == 0)
        wr_program_copy(p, wr_ref(h->rank, WR_BUF_OUT, 0), tail(h), wr_plan_share(h->spec, h->rank));
}

static weir_status build(const struct wr_plan_spec *spec, int rank, struct wr_program *p, weir_error *err)
{
    struct wr_hier h;
    weir_status status = wr_hier_init(&h, spec, rank, true, err);
    if (status != WEIR_OK)
        return status;
    uint64_t *staged = calloc((size_t)h.topo->nranks, sizeof *staged);
    struct wr_ref *src = calloc((size_t)h.mates.n + 1, sizeof *src);
    wr_program_init(p, rank);
    p->failed = !staged || !src;
    for (uint32_t lane = 0; lane < h.nlanes && !p->failed; lane++)
        one_lane(&h, p, lane, staged, src);
    p->scratch = wr_hier_scratch_rs(spec, rank);
    free(staged);
    free(src);
    return wr_hier_finish(&h, p, err);
}

const struct wr_algorithm wr_rs_hier = {"hier", WR_COLL_REDUCE_SCATTER, wr_hier_applies,
                                        build,  wr_hier_scratch_rs,     WR_HIER_SLOTS};
