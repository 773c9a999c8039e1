/* SPDX-License-Identifier: BSD-3-Clause */
/* Reduce-scatter on a ring: the partial result of a share starts behind its owner, gathers the input of every
 * rank that it passes and ends at the owner. */
#include "comm/plan/algo_ring.h"

/* SCRATCH: the buffers that messages come into, then those that puts go out of. */
static uint64_t scratch(const struct wr_plan_spec *spec, int rank)
{
    (void)rank;
    return 2 * WR_RING_BUFFERS * wr_ring_chunk(spec);
}

/* Adds my input for share `s` in round c to message `from` (or begins with it) and sends it as message k. */
static void pass_on(const struct wr_ring *g, struct wr_program *p, uint32_t k, int s, uint32_t c,
                    const struct wr_ref *from)
{
    uint64_t len = wr_chunk_len(wr_plan_share(g->spec, s), g->chunk, c);
    struct wr_ref in = wr_ref(g->rank, WR_BUF_IN, wr_plan_share_offset(g->spec, s) + c * g->chunk);
    struct wr_ref dst = wr_ring_dst(g, p, k), out = dst, src[2] = {from ? *from : in, in};
    if (g->remote) {
        out = wr_ref(g->rank, WR_BUF_SCRATCH, (WR_RING_BUFFERS + k % WR_RING_BUFFERS) * g->chunk);
        if (k && k % WR_RING_BUFFERS == 0) /* a drain waits for all puts, so one for all buffers */
            wr_program_drain(p);
    }
    if (from)
        wr_program_reduce(p, out, src, 2, len);
    else
        wr_program_copy(p, out, in, len);
    wr_ring_announce(g, p, dst, out, len);
}

/* In a chunk's round all others come before the final store, which in place falls on inputs of this round or
 * earlier ones. */
static void one_round(const struct wr_ring *g, struct wr_program *p, uint32_t c)
{
    uint32_t first = c * (uint32_t)(g->n - 1);
    pass_on(g, p, first, wr_ring_rank(g, 1), c, NULL);
    for (int t = 1; t < g->n; t++) {
        uint32_t k = first + (uint32_t)t - 1; /* the message that comes in */
        struct wr_ref from = wr_ring_take(g, p, k);
        if (t < g->n - 1) {
            pass_on(g, p, k + 1, wr_ring_rank(g, 1 + t), c, &from);
        } else {
            struct wr_ref src[2] = {from,
                                    wr_ref(g->rank, WR_BUF_IN, wr_plan_share_offset(g->spec, g->rank) + c * g->chunk)};
            struct wr_ref out = wr_ref(g->rank, WR_BUF_OUT, c * g->chunk);
            uint64_t len = wr_chunk_len(wr_plan_share(g->spec, g->rank), g->chunk, c);
            /* in place the result may overlap the input beside it, so that it takes a step of its own */
            wr_program_reduce(p, g->spec->in_place ? from : out, src, 2, len);
            if (g->spec->in_place)
                wr_program_copy(p, out, from, len);
        }
        wr_ring_taken(g, p);
    }
}

static bool applies(const struct wr_plan_spec *spec)
{
    return spec->topo->nranks > 1 && !spec->out_shared && !spec->reproducible;
}

static weir_status build(const struct wr_plan_spec *spec, int rank, struct wr_program *p, weir_error *err)
{
    return wr_ring_build(spec, rank, one_round, scratch(spec, rank), p, err);
}

const struct wr_algorithm wr_rs_ring = {"ring", WR_COLL_REDUCE_SCATTER, applies, build, scratch, WR_RING_SLOTS};
