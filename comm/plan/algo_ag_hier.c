/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hierarchical all-gather, the mirror of reduce-scatter: a share goes from its owner along the chain of nodes,
 * from agent to agent; on each node every rank copies it from the agent's slot to its own result. When the node
 * shares one result, the agent copies it there, and that is all: there is no phase inside the node.
 */
#include "comm/plan/algo_hier.h"

static struct wr_ref out_of(const struct wr_hier *h, int share, uint64_t c)
{
    return wr_ref(h->rank, WR_BUF_OUT, wr_plan_share_offset(h->spec, share) + c * h->chunk);
}

/* Copies what `agent`, of this node, has of the shares from .. to - 1 of a node to OUT, in as few steps as the
 * places allow. */
static void take(struct wr_hier *h, struct wr_program *p, int agent, int owner, int from, int to, uint32_t lane,
                 uint64_t c)
{
    struct wr_ref src = wr_hier_slot(h, agent, owner, from, lane, c);
    uint64_t len, at = 0;
    for (int j = from; (len = wr_hier_contiguous(h, owner, &j, to, c, &at)) > 0; src.offset += len)
        wr_program_copy(p, wr_ref(h->rank, WR_BUF_OUT, at), src, len);
}

/* Chunk c of the share of `mate` (or of oneself). */
static void take_own(struct wr_hier *h, struct wr_program *p, int mate, uint32_t lane, uint64_t c)
{
    const struct wr_plan_spec *spec = h->spec;
    uint64_t len = wr_chunk_len(wr_plan_share(spec, mate), h->chunk, c);
    if (mate == h->rank && spec->in_place)
        return;
    if (spec->in_mapped || mate == h->rank)
        wr_program_copy(p, out_of(h, mate, c), wr_ref(mate, WR_BUF_IN, c * h->chunk), len);
    else
        wr_program_copy(p, out_of(h, mate, c), wr_hier_slot(h, mate, h->node, h->topo->local_rank[mate], lane, c), len);
}

/* Copies everything that the ranks of this node have in this round. */
static void take_all(struct wr_hier *h, struct wr_program *p, uint32_t lane, uint64_t c)
{
    for (int i = 0; i < h->mates.n; i++) {
        int mate = wr_mate(&h->mates, i);
        if (i)
            wr_program_wait(p, mate, WR_HIER_READY + lane, (uint32_t)(c / h->nlanes) + 1);
        take_own(h, p, mate, lane, c);
        for (int k = 1; k < h->topo->nnodes; k++) {
            int from, to, m = (h->node + k) % h->topo->nnodes;
            wr_hier_range(h->spec, h->node, h->topo->local_rank[mate], m, &from, &to);
            if (from < to)
                take(h, p, mate, m, from, to, lane, c);
        }
        if (i)
            wr_program_signal(p, mate, WR_HIER_TAKEN + lane);
    }
}

static void one_round(struct wr_hier *h, struct wr_program *p, uint32_t lane, uint64_t c)
{
    uint64_t own = wr_chunk_len(wr_plan_share(h->spec, h->rank), h->chunk, c);
    bool window = h->spec->out_shared;
    if (h->own_slot)
        wr_program_copy(p, wr_hier_slot(h, h->rank, h->node, h->local, lane, c),
                        wr_ref(h->rank, WR_BUF_IN, c * h->chunk), own);
    for (int i = 0; i < h->topo->nnodes; i++) {
        const struct wr_hier_item *item = &h->item[i];
        if (item->from == item->to)
            continue;
        wr_hier_receive(h, p, item, lane);
        wr_hier_send(h, p, item, lane, c);
        if (window && item->owner == h->node)
            take_own(h, p, h->rank, lane, c);
        else if (window)
            take(h, p, h->rank, item->owner, item->from, item->to, lane, c);
    }
    if (!window) {
        wr_signal_mates(p, &h->mates, WR_HIER_READY + lane);
        take_all(h, p, lane, c);
        wr_wait_mates(p, &h->mates, WR_HIER_TAKEN + lane, (uint32_t)(c / h->nlanes) + 1);
    }
    wr_hier_end_round(h, p, lane, c);
}

static weir_status build(const struct wr_plan_spec *spec, int rank, struct wr_program *p, weir_error *err)
{
    struct wr_hier h;
    weir_status status = wr_hier_init(&h, spec, rank, false, err);
    if (status != WEIR_OK)
        return status;
    wr_program_init(p, rank);
    for (uint32_t lane = 0; lane < h.nlanes; lane++) {
        wr_hier_lane(&h, p, lane, spec->out_shared);
        for (uint64_t c = lane; c < h.rounds; c += h.nlanes)
            one_round(&h, p, lane, c);
        if (spec->out_shared)
            wr_hier_join(&h, p, lane);
    }
    p->scratch = wr_hier_scratch_ag(spec, rank);
    return wr_hier_finish(&h, p, err);
}

const struct wr_algorithm wr_ag_hier = {"hier", WR_COLL_ALLGATHER,  wr_hier_applies,
                                        build,  wr_hier_scratch_ag, WR_HIER_SLOTS};
