/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hierarchical all-gather without SCRATCH, for results that other nodes may put into: shares travel as in
 * algo_ag_hier.c, but land where they belong in the agent's OUT and go on from there. Nothing is overwritten,
 * so there are no credits: who receives only says once that it has started. The other ranks of the node load
 * from the agent's OUT; when the node shares one result, there is nothing left to do.
 */
#include "comm/plan/algo_hier.h"

/* Puts the shares from .. to - 1 where they belong in the result of `agent`, and signals once. */
static void send_part(const struct wr_hier *h, struct wr_program *p, const struct wr_hier_item *item,
                      const struct wr_hier_part *part, uint32_t lane, uint64_t c)
{
    uint64_t len, at = 0;
    for (int j = part->from, runs = 0; (len = wr_hier_contiguous(h, item->owner, &j, part->to, c, &at)) > 0; runs++) {
        bool own = item->owner == h->node;
        struct wr_ref src = own ? wr_ref(h->rank, WR_BUF_IN, c * h->chunk) : wr_ref(h->rank, WR_BUF_OUT, at);
        struct wr_ref dst = wr_ref(part->agent, WR_BUF_OUT, at);
        if (!runs && j == part->to) {
            wr_program_put_signal(p, dst, src, len, WR_HIER_DATA + lane);
            return;
        }
        wr_program_put(p, dst, src, len);
    }
    wr_program_signal(p, part->agent, WR_HIER_DATA + lane);
}

static void send(struct wr_hier *h, struct wr_program *p, const struct wr_hier_item *item, uint32_t lane, uint64_t c)
{
    struct wr_hier_part part = {.to = item->from};
    while (wr_hier_next_part(h, item, item->next, &part)) {
        if (h->grant[part.agent] != lane + 1)
            wr_program_wait(p, part.agent, WR_HIER_CREDIT + lane, 1);
        h->grant[part.agent] = lane + 1;
        send_part(h, p, item, &part, lane, c);
    }
}

/* Tells those who put into this rank's result that it has started. */
static void open_result(struct wr_hier *h, struct wr_program *p, uint32_t lane)
{
    for (int i = 0; i < h->topo->nnodes && h->rounds; i++) {
        struct wr_hier_part part = {.to = h->item[i].from};
        while (wr_hier_next_part(h, &h->item[i], h->item[i].prev, &part)) {
            if (h->credit[part.agent] != lane + 1)
                wr_program_signal(p, part.agent, WR_HIER_CREDIT + lane);
            h->credit[part.agent] = lane + 1;
        }
    }
}

/* Copies what a mate has in its result in this round: its own share, and those that it is the agent of. */
static void take(const struct wr_hier *h, struct wr_program *p, int mate, uint64_t c)
{
    for (int i = 0; i < h->topo->nnodes; i++) {
        int from, to, m = (h->node + i) % h->topo->nnodes;
        uint64_t len, at = 0;
        wr_hier_range(h->spec, h->node, h->topo->local_rank[mate], m, &from, &to);
        for (int j = from; (len = wr_hier_contiguous(h, m, &j, to, c, &at)) > 0;)
            wr_program_copy(p, wr_ref(h->rank, WR_BUF_OUT, at), wr_ref(mate, WR_BUF_OUT, at), len);
    }
}

static void one_round(struct wr_hier *h, struct wr_program *p, uint32_t lane, uint64_t c)
{
    if (!h->spec->in_place)
        wr_program_copy(p, wr_ref(h->rank, WR_BUF_OUT, wr_plan_share_offset(h->spec, h->rank) + c * h->chunk),
                        wr_ref(h->rank, WR_BUF_IN, c * h->chunk),
                        wr_chunk_len(wr_plan_share(h->spec, h->rank), h->chunk, c));
    for (int i = 0; i < h->topo->nnodes; i++) {
        if (h->item[i].from == h->item[i].to)
            continue;
        wr_hier_receive(h, p, &h->item[i], lane);
        send(h, p, &h->item[i], lane, c);
    }
    if (h->spec->out_shared)
        return;
    wr_signal_mates(p, &h->mates, WR_HIER_READY + lane);
    for (int i = 1; i < h->mates.n; i++) {
        wr_program_wait(p, wr_mate(&h->mates, i), WR_HIER_READY + lane, (uint32_t)(c / h->nlanes) + 1);
        take(h, p, wr_mate(&h->mates, i), c);
    }
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
        open_result(&h, p, lane);
        for (uint64_t c = lane; c < h.rounds; c += h.nlanes)
            one_round(&h, p, lane, c);
        if (spec->out_shared) {
            wr_hier_join(&h, p, lane);
        } else {
            wr_signal_mates(p, &h.mates, WR_HIER_TAKEN + lane);
            wr_wait_mates(p, &h.mates, WR_HIER_TAKEN + lane, 1);
        }
    }
    return wr_hier_finish(&h, p, err);
}

static bool applies(const struct wr_plan_spec *spec)
{
    return spec->topo->nnodes > 1 && spec->out_remote &&
           (spec->out_mapped || spec->out_shared || spec->topo->nranks == spec->topo->nnodes);
}

static uint64_t scratch(const struct wr_plan_spec *spec, int rank)
{
    (void)spec;
    (void)rank;
    return 0;
}

const struct wr_algorithm wr_ag_hier_put = {"hier_put", WR_COLL_ALLGATHER, applies, build, scratch, WR_HIER_SLOTS};
