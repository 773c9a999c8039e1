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

weir_status wr_ring_init(struct wr_ring *g, const struct wr_plan_spec *spec, int rank, weir_error *err)
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

void wr_ring_free(struct wr_ring *g)
{
    free(g->order);
    g->order = NULL;
}

struct wr_ref wr_ring_dst(const struct wr_ring *g, struct wr_program *p, uint32_t k)
{
    if (k >= WR_RING_BUFFERS)
        wr_program_wait(p, g->next, WR_RING_CREDIT, k - WR_RING_BUFFERS + 1);
    else if (k == 0)
        wr_program_wait_earlier(p, g->next, WR_RING_CREDIT, g->messages);
    return wr_ref(g->next, WR_BUF_SCRATCH, (k % WR_RING_BUFFERS) * g->chunk);
}
