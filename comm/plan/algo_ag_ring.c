/* SPDX-License-Identifier: BSD-3-Clause */
/* All-gather on a ring: every share travels round it, and every rank that it passes keeps a copy. */
#include "comm/plan/algo_ring.h"

/* SCRATCH: the buffers that messages come into, then one for the own chunk, which IN cannot be put from when
 * types differ. */
static uint64_t scratch(const struct wr_plan_spec *spec, int rank)
{
    (void)rank;
    return (WR_RING_BUFFERS + 1) * wr_ring_chunk(spec);
}

static void send(const struct wr_ring *g, struct wr_program *p, uint32_t k, struct wr_ref src, uint64_t len)
{
    struct wr_ref dst = wr_ring_dst(g, p, k);
    if (!g->remote)
        wr_program_copy(p, dst, src, len);
    wr_ring_announce(g, p, dst, src, len);
}

static void send_own(const struct wr_ring *g, struct wr_program *p, uint32_t c)
{
    const struct wr_plan_spec *spec = g->spec;
    uint64_t len = wr_chunk_len(wr_plan_share(spec, g->rank), g->chunk, c);
    struct wr_ref src = wr_ref(g->rank, WR_BUF_IN, c * g->chunk);
    if (!spec->in_place)
        wr_program_copy(p, wr_ref(g->rank, WR_BUF_OUT, wr_plan_share_offset(spec, g->rank) + c * g->chunk), src, len);
    if (g->remote && spec->elem_size != spec->partial_size) {
        struct wr_ref wide = wr_ref(g->rank, WR_BUF_SCRATCH, WR_RING_BUFFERS * g->chunk);
        if (c)
            wr_program_drain(p);
        wr_program_copy(p, wide, src, len);
        src = wide;
    }
    send(g, p, c * (uint32_t)(g->n - 1), src, len);
}

static void one_round(const struct wr_ring *g, struct wr_program *p, uint32_t c)
{
    const struct wr_plan_spec *spec = g->spec;
    uint32_t first = c * (uint32_t)(g->n - 1);
    send_own(g, p, c);
    for (int t = 1; t < g->n; t++) {
        uint32_t k = first + (uint32_t)t - 1;
        int s = wr_ring_rank(g, t);
        uint64_t len = wr_chunk_len(wr_plan_share(spec, s), g->chunk, c);
        struct wr_ref from = wr_ring_take(g, p, k);
        if (t < g->n - 1)
            send(g, p, k + 1, from, len);
        wr_program_copy(p, wr_ref(g->rank, WR_BUF_OUT, wr_plan_share_offset(spec, s) + c * g->chunk), from, len);
        if (g->remote && t < g->n - 1)
            wr_program_drain(p); /* the message went on from where it came in */
        wr_ring_taken(g, p);
    }
}

static bool applies(const struct wr_plan_spec *spec)
{
    return spec->topo->nranks > 1 && !spec->out_shared;
}

static weir_status build(const struct wr_plan_spec *spec, int rank, struct wr_program *p, weir_error *err)
{
    return wr_ring_build(spec, rank, one_round, scratch(spec, rank), p, err);
}

const struct wr_algorithm wr_ag_ring = {"ring", WR_COLL_ALLGATHER, applies, build, scratch, WR_RING_SLOTS};
