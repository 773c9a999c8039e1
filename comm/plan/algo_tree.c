/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/plan/algo_tree.h"

/* The leader of the node that is number v from the root's node. */
static int leader(const struct wr_plan_spec *spec, int v)
{
    int root = spec->topo->node_of[spec->root], node = (root + v) % spec->topo->nnodes;
    return v ? spec->topo->node_ranks[node][0] : spec->root;
}

struct wr_tree wr_tree(const struct wr_plan_spec *spec, int rank, enum wr_tree_shape shape)
{
    int n = spec->topo->nnodes, v = (spec->topo->node_of[rank] - spec->topo->node_of[spec->root] + n) % n;
    struct wr_tree t = {.leader = leader(spec, v), .parent = -1};
    if (shape == WR_TREE_CHAIN) {
        t.parent = v ? leader(spec, v - 1) : -1;
        if (v + 1 < n)
            t.child[t.nchildren++] = leader(spec, v + 1);
        return t;
    }
    /* the parent lacks the lowest bit of v; children have one more bit, below that */
    int64_t low = v ? v & -v : n;
    t.parent = v ? leader(spec, v - (int)low) : -1;
    for (int64_t d = 1 << 30; d; d /= 2)
        if (d < low && v + d < n)
            t.child[t.nchildren++] = leader(spec, v + (int)d);
    for (int64_t d = 1 << 30, p = v - low; v && d > low; d /= 2)
        if (d < (p ? (p & -p) : n) && p + d < n)
            t.index++;
    return t;
}
