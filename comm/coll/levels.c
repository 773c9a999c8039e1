/* SPDX-License-Identifier: BSD-3-Clause */
/* The levels of the network above the nodes of a communicator, as its plans see them. */
#include <stdlib.h>

#include "base/error.h"
#include "comm/coll/coll.h"

/*
 * A communicator has all levels of the job, so that a level's costs are found by its number; groups that it does not touch are
 * just not there. Groups are numbered anew, in the order of nodes, which chains and rings follow.
 */
weir_status wr_coll_make_levels(struct wr_coll_state *s, weir_error *err)
{
    const weir_comm *comm = s->comm;
    const weir_ctx *ctx = comm->ctx;
    int nodes = s->topo.nnodes, levels = WR_MIN(ctx->nlevels, WR_COST_LEVELS);
    if (!levels || nodes < 2)
        return WEIR_OK;
    int *number = malloc((size_t)ctx->nnodes * sizeof *number); /* by group of the job */
    s->level_groups = malloc((size_t)levels * (size_t)nodes * sizeof *s->level_groups);
    s->group_of = malloc((size_t)levels * sizeof *s->group_of);
    if (!number || !s->level_groups || !s->group_of) {
        free(number);
        return wr_error_memory(err, (size_t)levels * (size_t)nodes * sizeof *number, "the levels of the network");
    }
    for (int l = 0; l < levels; l++) {
        int ngroups = 0, *group = s->level_groups + (size_t)l * (size_t)nodes;
        for (int g = 0; g < ctx->nnodes; g++)
            number[g] = -1;
        for (int n = 0; n < nodes; n++) {
            int of_job = ctx->node_of[wr_comm_world_rank(comm, s->topo.node_ranks[n][0])];
            int *known = &number[ctx->level_groups[(size_t)l * (size_t)ctx->nnodes + (size_t)of_job]];
            if (*known < 0)
                *known = ngroups++;
            group[n] = *known;
        }
        s->group_of[l] = group;
    }
    free(number);
    s->topo.nlevels = levels;
    s->topo.group_of = s->group_of;
    return WEIR_OK;
}
