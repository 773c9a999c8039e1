/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Circulant reduce-scatter, the all-gather backwards: in the round with distance d a rank sends its partial
 * results of blocks d .. 2d - 1 to the rank d places further, which adds them to its blocks 0 .. d - 1. In the
 * end block 0 is whole.
 */
#include "comm/plan/algo_circulant.h"

/* SCRATCH: the own blocks; then, for each round, what comes in: d - 1 blocks came in the rounds with smaller
 * distances than d. */
static uint64_t scratch(const struct wr_plan_spec *spec, int rank)
{
    (void)rank;
    return wr_plan_total(spec) + (uint64_t)(spec->topo->nranks - 1) * wr_largest_share(spec);
}

static uint64_t incoming(const struct wr_circulant *g, int d)
{
    return wr_plan_total(g->spec) + (uint64_t)(d - 1) * wr_largest_share(g->spec);
}

static void begin(const struct wr_circulant *g, struct wr_program *p)
{
    for (int b = 0; b < g->n;) {
        int first = wr_circulant_run(g, &b);
        wr_program_copy(p, wr_ref(g->rank, WR_BUF_SCRATCH, wr_circulant_len(g, g->at, 0, first)),
                        wr_ref(g->rank, WR_BUF_IN, wr_plan_share_offset(g->spec, g->order[g->at + first])),
                        wr_circulant_len(g, g->at, first, b));
    }
}

static void one_round(const struct wr_circulant *g, struct wr_program *p, int d, int round)
{
    int blocks = WR_MIN(d, g->n - d), to = wr_circulant_place(g, d), from = wr_circulant_place(g, -d);
    wr_circulant_send(g, p, g->order[to], incoming(g, d), wr_circulant_len(g, g->at, 0, d),
                      wr_circulant_len(g, g->at, d, d + blocks), round);
    wr_program_wait(p, g->order[from], (uint32_t)round, 1);
    struct wr_ref sum = wr_ref(g->rank, WR_BUF_SCRATCH, 0);
    struct wr_ref src[2] = {sum, wr_ref(g->rank, WR_BUF_SCRATCH, incoming(g, d))};
    wr_program_reduce(p, d > 1 ? sum : wr_ref(g->rank, WR_BUF_OUT, 0), src, 2, wr_circulant_len(g, g->at, 0, blocks));
    wr_program_signal(p, g->order[from], (uint32_t)(WR_CIRCULANT_ROUNDS + round));
}

static weir_status build(const struct wr_plan_spec *spec, int rank, struct wr_program *p, weir_error *err)
{
    struct wr_circulant g;
    int distance[WR_CIRCULANT_ROUNDS], rounds = 0;
    weir_status status = wr_circulant_init(&g, spec, rank, err);
    if (status != WEIR_OK)
        return status;
    for (int d = 1; d < g.n && rounds < WR_CIRCULANT_ROUNDS; d *= 2)
        distance[rounds++] = d;
    wr_program_init(p, rank);
    begin(&g, p);
    for (int i = rounds; i-- > 0;)
        one_round(&g, p, distance[i], i);
    p->scratch = scratch(spec, rank);
    wr_circulant_free(&g);
    return wr_program_finish(p, err);
}

const struct wr_algorithm wr_rs_bruck = {"bruck", WR_COLL_REDUCE_SCATTER, wr_circulant_applies, build,
                                         scratch, WR_CIRCULANT_SLOTS};
