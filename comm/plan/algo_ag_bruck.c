/* SPDX-License-Identifier: BSD-3-Clause */
/* Circulant all-gather: in round k a rank has blocks 0 .. 2^k - 1 and sends them 2^k places back, where they
 * are the next ones. */
#include "comm/plan/algo_circulant.h"

static uint64_t scratch(const struct wr_plan_spec *spec, int rank)
{
    (void)rank;
    return wr_plan_total(spec);
}

static weir_status build(const struct wr_plan_spec *spec, int rank, struct wr_program *p, weir_error *err)
{
    struct wr_circulant g;
    weir_status status = wr_circulant_init(&g, spec, rank, err);
    if (status != WEIR_OK)
        return status;
    wr_program_init(p, rank);
    wr_program_copy(p, wr_ref(rank, WR_BUF_SCRATCH, 0), wr_ref(rank, WR_BUF_IN, 0), wr_plan_share(spec, rank));
    int round = 0;
    for (int d = 1; d < g.n; d *= 2, round++) {
        int blocks = WR_MIN(d, g.n - d), to = wr_circulant_place(&g, -d), from = wr_circulant_place(&g, d);
        wr_circulant_send(&g, p, g.order[to], wr_circulant_len(&g, to, 0, d), 0, wr_circulant_len(&g, g.at, 0, blocks),
                          round);
        wr_program_wait(p, g.order[from], (uint32_t)round, 1);
    }
    for (int b = 0; b < g.n;) {
        int first = wr_circulant_run(&g, &b);
        wr_program_copy(p, wr_ref(rank, WR_BUF_OUT, wr_plan_share_offset(spec, g.order[g.at + first])),
                        wr_ref(rank, WR_BUF_SCRATCH, wr_circulant_len(&g, g.at, 0, first)),
                        wr_circulant_len(&g, g.at, first, b));
    }
    wr_program_drain(p); /* what came in was sent on from where it lies */
    round = 0;
    for (int d = 1; d < g.n; d *= 2, round++)
        wr_program_signal(p, g.order[wr_circulant_place(&g, d)], (uint32_t)(WR_CIRCULANT_ROUNDS + round));
    p->scratch = scratch(spec, rank);
    wr_circulant_free(&g);
    return wr_program_finish(p, err);
}

const struct wr_algorithm wr_ag_bruck = {"bruck", WR_COLL_ALLGATHER, wr_circulant_applies,
                                         build,   scratch,           WR_CIRCULANT_SLOTS};
