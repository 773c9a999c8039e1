/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Barriers. Dissemination: in round k every rank tells the one 2^k places further that it, and all of whom it
 * knows, have come. Hierarchical: the same among one rank a node, which has heard from its mates before and
 * tells them after.
 */
#include <stdlib.h>

#include "base/error.h"
#include "comm/plan/algo.h"

enum { ROUNDS = 31, ARRIVED = ROUNDS, RELEASED, SLOTS };

/* n parties, of which this is number `at`: rank of party i is ranks[i], or the first of node i. */
static void disseminate(struct wr_program *p, const struct wr_plan_topo *topo, const int *ranks, int n, int at)
{
    uint32_t round = 0;
    for (int64_t d = 1; d < n; d *= 2, round++) {
        int to = (int)((at + d) % n), from = (int)((at - d + n) % n);
        wr_program_signal(p, ranks ? ranks[to] : topo->node_ranks[to][0], round);
        wr_program_wait(p, ranks ? ranks[from] : topo->node_ranks[from][0], round, 1);
    }
}

static weir_status dissemination(const struct wr_plan_spec *spec, int rank, struct wr_program *p, weir_error *err)
{
    int *order, *place;
    if (!wr_rank_order(spec->topo, &order, &place))
        return wr_error_memory(err, (size_t)spec->topo->nranks * sizeof *order, "the program of a collective");
    wr_program_init(p, rank);
    disseminate(p, spec->topo, order, spec->topo->nranks, place[rank]);
    free(order);
    free(place);
    return wr_program_finish(p, err);
}

static weir_status hier(const struct wr_plan_spec *spec, int rank, struct wr_program *p, weir_error *err)
{
    struct wr_mates mates = wr_mates(spec->topo, rank);
    wr_program_init(p, rank);
    if (mates.me) {
        wr_program_signal(p, mates.rank[0], ARRIVED);
        wr_program_wait(p, mates.rank[0], RELEASED, 1);
    } else {
        wr_wait_mates(p, &mates, ARRIVED, 1);
        disseminate(p, spec->topo, NULL, spec->topo->nnodes, spec->topo->node_of[rank]);
        wr_signal_mates(p, &mates, RELEASED);
    }
    return wr_program_finish(p, err);
}

static bool always(const struct wr_plan_spec *spec)
{
    (void)spec;
    return true;
}

const struct wr_algorithm wr_barrier_dissemination =
    {"dissemination", WR_COLL_BARRIER, always, dissemination, NULL, SLOTS};
const struct wr_algorithm wr_barrier_hier = {"hier", WR_COLL_BARRIER, always, hier, NULL, SLOTS};
