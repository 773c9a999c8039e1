/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hierarchical all-gather without SCRATCH, for results that other nodes may put into: shares travel as in
 * algo_ag_hier.c, but land where they belong in the agent's OUT and go on from there. Nothing is overwritten,
 * so there are no credits: who receives only says once that it has started. The other ranks of the node load
 * from the agent's OUT; when the node shares one result, there is nothing left to do.
 */
#include "comm/plan/algo_hier.h"

static struct wr_ref place(const struct wr_hier *h, int rank, int share, uint64_t c)
{
    return wr_ref(rank, WR_BUF_OUT, wr_plan_share_offset(h->spec, share) + c * h->chunk);
}

/* The elements from share *j of `owner` on (below `to`), which is not empty, that are contiguous in the vector;
 * *j: behind. */
static uint64_t run_of(const struct wr_hier *h, int owner, int *j, int to, uint64_t c)
{
    uint64_t begin = wr_plan_share_offset(h->spec, wr_hier_share(h, owner, *j)) + c * h->chunk, len = 0;
    for (; *j < to; ++*j) {
        uint64_t n = wr_hier_len(h, owner, *j, c);
        if (n && len && wr_plan_share_offset(h->spec, wr_hier_share(h, owner, *j)) + c * h->chunk != begin + len)
            break;
        len += n;
    }
    return len;
}

/* The first share from j on that has a chunk c, or `to`. */
static int skip_empty(const struct wr_hier *h, int owner, int j, int to, uint64_t c)
{
    while (j < to && !wr_hier_len(h, owner, j, c))
        j++;
    return j;
}

/* Puts the shares from .. to - 1 into the result of `agent` and signals once. */
static void send_run(const struct wr_hier *h, struct wr_program *p, int agent, int owner, int from, int to,
                     uint32_t lane, uint64_t c)
{
    int first = skip_empty(h, owner, from, to, c);
    for (int j = first; j < to;) {
        bool begins = j == first;
        int share = wr_hier_share(h, owner, j);
        struct wr_ref src = owner == h->node ? wr_ref(h->rank, WR_BUF_IN, c * h->chunk) : place(h, h->rank, share, c);
        uint64_t len = run_of(h, owner, &j, to, c);
        if (begins && j == to) {
            wr_program_put_signal(p, place(h, agent, share, c), src, len, WR_HIER_DATA + lane);
            return;
        }
        wr_program_put(p, place(h, agent, share, c), src, len);
    }
    wr_program_signal(p, agent, WR_HIER_DATA + lane);
}

static void send(struct wr_hier *h, struct wr_program *p, const struct wr_hier_item *item, uint32_t lane, uint64_t c)
{
    for (int j = item->from, end, agent; item->next >= 0 && j < item->to; j = end) {
        end = wr_hier_run(h, item->next, item->owner, j, item->to, &agent);
        if (h->grant[agent] != lane + 1)
            wr_program_wait(p, agent, WR_HIER_CREDIT + lane, 1);
        h->grant[agent] = lane + 1;
        send_run(h, p, agent, item->owner, j, end, lane, c);
    }
}

/* Tells those who put into this rank's result that it has started. */
static void open_result(struct wr_hier *h, struct wr_program *p, uint32_t lane)
{
    for (int i = 0; i < h->topo->nnodes && h->rounds; i++) {
        const struct wr_hier_item *item = &h->item[i];
        for (int j = item->from, end, agent; item->prev >= 0 && j < item->to; j = end) {
            end = wr_hier_run(h, item->prev, item->owner, j, item->to, &agent);
            if (h->credit[agent] != lane + 1)
                wr_program_signal(p, agent, WR_HIER_CREDIT + lane);
            h->credit[agent] = lane + 1;
        }
    }
}

/* Copies what a mate has in its result in this round: its own share, and those that it is the agent of. */
static void take(const struct wr_hier *h, struct wr_program *p, int mate, uint64_t c)
{
    for (int m = 0; m < h->topo->nnodes; m++) {
        int from, to;
        wr_hier_range(h->spec, h->node, h->topo->local_rank[mate], m, &from, &to);
        for (int j = skip_empty(h, m, from, to, c); j < to;) {
            int share = wr_hier_share(h, m, j);
            uint64_t len = run_of(h, m, &j, to, c);
            wr_program_copy(p, place(h, h->rank, share, c), place(h, mate, share, c), len);
        }
    }
}

static void one_round(struct wr_hier *h, struct wr_program *p, uint32_t lane, uint64_t c)
{
    if (!h->spec->in_place)
        wr_program_copy(p, place(h, h->rank, h->rank, c), wr_ref(h->rank, WR_BUF_IN, c * h->chunk),
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
        wr_program_lane(p);
        if (spec->out_shared)
            wr_hier_fork(&h, p, lane);
        open_result(&h, p, lane);
        for (int i = 0; i < h.topo->nranks; i++)
            h.received[i] = 0;
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
