/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/plan/algo_ring.h"

enum { CHUNK = 1 << 15 };

uint64_t wr_ring_chunk(const struct wr_plan_spec *spec)
{
    uint64_t most = WR_MAX(wr_largest_share(spec), 1);
    return WR_MIN(spec->chunk ? spec->chunk : CHUNK, most);
}

static weir_status start_ring(struct wr_ring *g, const struct wr_plan_spec *spec, int rank, weir_error *err)
{
    int *place;
    memset(g, 0, sizeof *g);
    if (!wr_rank_order(spec->topo, &g->order, &place))
        return wr_error_memory(err, (size_t)spec->topo->nranks * sizeof *place, "the program of a collective");
    g->spec = spec;
    g->rank = rank;
    g->n = spec->topo->nranks;
    g->at = place[rank];
    free(place);
    g->next = wr_ring_rank(g, -1);
    g->prev = wr_ring_rank(g, 1);
    g->remote = spec->topo->node_of[g->next] != spec->topo->node_of[rank];
    g->chunk = wr_ring_chunk(spec);
    g->rounds = (uint32_t)((wr_largest_share(spec) + g->chunk - 1) / g->chunk);
    g->messages = g->rounds * (uint32_t)(g->n - 1);
    return WEIR_OK;
}

weir_status wr_ring_build(const struct wr_plan_spec *spec, int rank, void (*one_round)(const struct wr_ring *, struct wr_program *, uint32_t),
                          uint64_t scratch, struct wr_program *p, weir_error *err)
{
    struct wr_ring g;
    weir_status status = start_ring(&g, spec, rank, err);
    if (status != WEIR_OK)
        return status;
    wr_program_init(p, rank);
    for (uint32_t c = 0; c < g.rounds; c++)
        one_round(&g, p, c);
    p->scratch = scratch;
    free(g.order);
    return wr_program_finish(p, err);
}

struct wr_ref wr_ring_take(const struct wr_ring *g, struct wr_program *p, uint32_t k)
{
    wr_program_wait(p, g->prev, WR_RING_DATA, k + 1);
    return wr_ref(g->rank, WR_BUF_SCRATCH, (k % WR_RING_BUFFERS) * g->chunk);
}

void wr_ring_taken(const struct wr_ring *g, struct wr_program *p)
{
    wr_program_signal(p, g->prev, WR_RING_CREDIT);
}

void wr_ring_announce(const struct wr_ring *g, struct wr_program *p, struct wr_ref dst, struct wr_ref src, uint64_t len)
{
    if (g->remote)
        wr_program_put_signal(p, dst, src, len, WR_RING_DATA);
    else
        wr_program_signal(p, g->next, WR_RING_DATA);
}

struct wr_ref wr_ring_dst(const struct wr_ring *g, struct wr_program *p, uint32_t k)
{
    if (k >= WR_RING_BUFFERS)
        wr_program_wait(p, g->next, WR_RING_CREDIT, k - WR_RING_BUFFERS + 1);
    else if (k == 0)
        wr_program_wait_earlier(p, g->next, WR_RING_CREDIT, g->messages);
    return wr_ref(g->next, WR_BUF_SCRATCH, (k % WR_RING_BUFFERS) * g->chunk);
}
