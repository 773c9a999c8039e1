/* SPDX-License-Identifier: BSD-3-Clause */
/* The switches and groups above the nodes: what crossing them costs, and what leaves a group at most. */
#include <stdlib.h>

#include "perf/weir-tune.h"

/* A group whose nodes together send less than this part of what each could alone is held up by its uplink. */
static const double HELD_UP = 0.8;

int find_levels(const weir_topo *topo, int index[LEVELS])
{
    int n = 0;
    for (int i = 0; i < weir_topo_nlevels(topo) && n < LEVELS; i++) {
        weir_level level = {.size = sizeof level};
        if (!weir_topo_level(topo, i, &level) && (level.kind == WEIR_LEVEL_SWITCH || level.kind == WEIR_LEVEL_GROUP))
            index[n++] = i;
    }
    return n;
}

/* Whether the way from rank 0 to `rank` crosses level l. */
static bool crosses(const struct tune *t, const int *index, int l, int rank)
{
    return weir_topo_group(t->topo, index[l], rank) != weir_topo_group(t->topo, index[l], 0);
}

/* A rank for which level l is the outermost that is crossed; -1: there is none. */
static int beyond(const struct tune *t, const int *index, int n, int l)
{
    for (int r = 1; r < t->size; r++)
        if (crosses(t, index, l, r) && (l + 1 == n || !crosses(t, index, l + 1, r)))
            return r;
    return -1;
}

/* What the way there takes longer than the one across the level below, half of it for leaving a group. */
static bool measure_hops(struct tune *t, const int *index, int n, double *hop)
{
    double before = 0;
    if (!one_way(t, t->far, &before))
        return false;
    for (int l = 0; l < n; l++) {
        int rank = beyond(t, index, n, l);
        double ns = 0;
        hop[l] = crosses(t, index, l, t->far) ? 0 : -1; /* 0: the latency has it */
        if (hop[l] == 0 || rank < 0)
            continue;
        if (!one_way(t, rank, &ns))
            return false;
        hop[l] = ns > before ? (ns - before) / 2 : 0;
        before = ns > before ? ns : before;
    }
    return true;
}

/* All nodes of rank 0's group send to nodes outside it at once, a rank each. */
static bool measure_uplink(struct tune *t, int level, double bandwidth, double *uplink)
{
    int nodes = weir_topo_nnodes(t->topo), senders = 0, receivers = 0;
    int *from = malloc(2 * (size_t)nodes * sizeof *from), *to = from + nodes;
    double rate = 0;
    bool ok = from != NULL;
    for (int node = 0; ok && node < nodes; node++) {
        int rank = rank_of(t, node, 0);
        bool inside = weir_topo_group(t->topo, level, rank) == weir_topo_group(t->topo, level, 0);
        if (inside)
            from[senders++] = rank;
        else
            to[receivers++] = rank;
    }
    int pairs = senders < receivers ? senders : receivers;
    *uplink = -1;
    if (ok && pairs > 1) {
        ok = rate_of(t, from, to, pairs, &rate);
        *uplink = rate < HELD_UP * pairs * bandwidth ? rate : 0;
    }
    free(from);
    return ok;
}

bool measure_levels(struct tune *t, double bandwidth, double *hop, double *uplink, int *levels)
{
    int index[LEVELS];
    *levels = find_levels(t->topo, index);
    if (*levels && !measure_hops(t, index, *levels, hop))
        return false;
    for (int l = 0; l < *levels; l++)
        if (!measure_uplink(t, index[l], bandwidth, &uplink[l]))
            return false;
    return true;
}
