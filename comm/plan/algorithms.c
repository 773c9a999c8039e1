/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of algorithms. Where the cost model does not tell two apart the earlier one is taken: of those between nodes the
 * hierarchical ones first, which load the network least, and of these the one that needs no SCRATCH. */
#include <string.h>

#include "comm/plan/algo.h"

const struct wr_algorithm *const wr_algorithms[] = {
    &wr_barrier_dissemination,
    &wr_barrier_hier,
    &wr_bcast_direct,
    &wr_bcast_chain,
    &wr_bcast_binomial,
    &wr_reduce_direct,
    &wr_reduce_split,
    &wr_reduce_binomial,
    &wr_reduce_chain,
    &wr_reduce_linear,
    &wr_ar_direct,
    &wr_ar_hier_put,
    &wr_ar_hier,
    &wr_ar_ring,
    &wr_ar_bruck,
    &wr_ar_latency,
    &wr_ar_linear,
    &wr_rs_direct,
    &wr_rs_hier,
    &wr_rs_ring,
    &wr_rs_bruck,
    &wr_rs_linear,
    &wr_ag_direct,
    &wr_ag_hier_put,
    &wr_ag_hier,
    &wr_ag_ring,
    &wr_ag_bruck,
    &wr_gather_pairwise,
    &wr_scatter_pairwise,
    &wr_alltoall_pairwise,
    &wr_scan_chain,
    &wr_exscan_chain,
    NULL,
};

const struct wr_algorithm *wr_algorithm_find(enum wr_collective coll, const char *name)
{
    for (int i = 0; wr_algorithms[i]; i++)
        if (wr_algorithms[i]->coll == coll && !strcmp(wr_algorithms[i]->name, name))
            return wr_algorithms[i];
    return NULL;
}
