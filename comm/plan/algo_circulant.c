/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/plan/algo_circulant.h"

weir_status wr_circulant_init(struct wr_circulant *g, const struct wr_plan_spec *spec, int rank, weir_error *err)
{
    int n = spec->topo->nranks, *order = NULL, *place = NULL;
    memset(g, 0, sizeof *g);
    g->order = malloc(2 * (size_t)n * sizeof *g->order);
    g->sum = malloc((2 * (size_t)n + 1) * sizeof *g->sum);
    if (!g->order || !g->sum || !wr_rank_order(spec->topo, &order, &place)) {
        wr_circulant_free(g);
        return wr_error_memory(err, 2 * (size_t)n * sizeof *g->sum, "the program of a collective");
    }
    g->spec = spec;
    g->rank = rank;
    g->n = n;
    g->at = place[rank];
    g->sum[0] = 0;
    for (int i = 0; i < 2 * n; i++) {
        g->order[i] = order[i % n];
        g->sum[i + 1] = g->sum[i] + wr_plan_share(spec, g->order[i]);
    }
    free(order);
    free(place);
    return WEIR_OK;
}

void wr_circulant_free(struct wr_circulant *g)
{
    free(g->order);
    free(g->sum);
    memset(g, 0, sizeof *g);
}

bool wr_circulant_applies(const struct wr_plan_spec *spec)
{
    return spec->topo->nranks > 1 && !spec->out_shared && !(spec->reproducible && spec->reduces);
}

void wr_circulant_send(const struct wr_circulant *g, struct wr_program *p, int peer, uint64_t dst, uint64_t src,
                       uint64_t len, int round)
{
    struct wr_ref to = wr_ref(peer, WR_BUF_SCRATCH, dst), from = wr_ref(g->rank, WR_BUF_SCRATCH, src);
    /* the receiver has read what it got in this round of the last execution */
    wr_program_wait_earlier(p, peer, (uint32_t)(WR_CIRCULANT_ROUNDS + round), 1);
    if (g->spec->topo->node_of[peer] != g->spec->topo->node_of[g->rank]) {
        wr_program_put_signal(p, to, from, len, (uint32_t)round);
    } else {
        wr_program_copy(p, to, from, len);
        wr_program_signal(p, peer, (uint32_t)round);
    }
}

int wr_circulant_run(const struct wr_circulant *g, int *b)
{
    int first = *b;
    uint64_t end = 0;
    for (; *b < g->n; ++*b) {
        int s = g->order[g->at + *b];
        if (*b > first && wr_plan_share_offset(g->spec, s) != end)
            break;
        end = wr_plan_share_offset(g->spec, s) + wr_plan_share(g->spec, s);
    }
    return first;
}
