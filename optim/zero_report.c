/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a step report counts: bytes by level of the machine, and the time in which communication is under way.
 *
 * A collective of a communicator counts as the least that it takes: level by level from the innermost, where a vector of S bytes is
 * 1/g of it above a level at which this rank is in a group of g. Level l then moves S (1/g(l-1) - 1/g(l)), all levels together
 * S (1 - 1/n).
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "optim/zero.h"

/* ---- levels ---- */

/* Ranks of `all` that are in a communicator of the engine. */
static int rank_of(const weir_zero *zero, bool replica, int member)
{
    return replica ? member * zero->nshard + zero->my_shard : zero->my_replica * zero->nshard + member;
}

/* The shares of levels in what a collective of `n` ranks moves. */
static void share(weir_zero *zero, const weir_topo *topo, bool replica, int n, double shares[WEIR_ZERO_LEVELS])
{
    double below = 1, all = 1 - 1.0 / n;
    int nlevels = weir_topo_nlevels(topo);
    for (int l = 0; l < nlevels && n > 1; l++) {
        int group = 0;
        for (int r = 0; r < n; r++)
            group += weir_topo_group(topo, l, rank_of(zero, replica, r)) == weir_topo_group(topo, l, zero->me);
        shares[WR_MIN(l, WEIR_ZERO_LEVELS - 1)] += (below - 1.0 / group) / all;
        below = 1.0 / group;
    }
}

weir_status wr_zero_levels_find(weir_zero *zero)
{
    struct wr_zero_levels_of *v = &zero->levels;
    const weir_topo *topo;
    weir_status status = weir_comm_topo(zero->all, &topo);
    if (status != WEIR_OK)
        return wr_zero_fail(zero, status, NULL, "ZeRO engine: the topology of its ranks is not known");
    v->of_peer = calloc((size_t)zero->nshard, 1);
    if (!v->of_peer)
        return wr_zero_fail(zero, WEIR_ERR_NO_MEMORY, NULL, "no memory for the levels of %d ranks", zero->nshard);
    v->n = (uint64_t)WR_MIN(weir_topo_nlevels(topo), WEIR_ZERO_LEVELS);
    for (uint64_t l = 0; l < v->n; l++) {
        weir_level level = {.size = sizeof level};
        weir_topo_level(topo, (int)l, &level);
        v->kind[l] = (uint64_t)level.kind;
    }
    for (int r = 0; r < zero->nshard; r++)
        v->of_peer[r] = (uint8_t)WR_MIN(weir_topo_common_level(topo, zero->me, rank_of(zero, false, r)), WEIR_ZERO_LEVELS - 1);
    share(zero, topo, false, zero->nshard, v->of_shard);
    share(zero, topo, true, zero->nreplica, v->of_replica);
    return WEIR_OK;
}

/* The last level that has a share takes what rounding leaves, so that the sum is right. */
static void spread(const double shares[WEIR_ZERO_LEVELS], uint64_t bytes, uint64_t levels[WEIR_ZERO_LEVELS])
{
    uint64_t left = bytes;
    int last = 0;
    for (int l = 0; l < WEIR_ZERO_LEVELS; l++) {
        uint64_t part = WR_MIN((uint64_t)(shares[l] * (double)bytes), left);
        levels[l] += part;
        left -= part;
        last = shares[l] > 0 ? l : last;
    }
    levels[last] += left;
}

void wr_zero_count_reduce(weir_zero *zero, bool replica, uint64_t bytes)
{
    zero->report.reduce_bytes += bytes;
    spread(replica ? zero->levels.of_replica : zero->levels.of_shard, bytes, zero->report.reduce_level_bytes);
}

void wr_zero_count_gather(weir_zero *zero, uint64_t bytes)
{
    zero->report.gather_bytes += bytes;
    spread(zero->levels.of_shard, bytes, zero->report.gather_level_bytes);
}

void wr_zero_count_read(weir_zero *zero, int owner, uint64_t bytes, bool mapped)
{
    zero->report.gather_bytes += bytes;
    zero->report.gather_level_bytes[zero->levels.of_peer[owner]] += bytes;
    zero->report.gather_node_bytes += mapped ? bytes : 0;
}

void wr_zero_count_sent(weir_zero *zero, bool in_node, uint64_t bytes)
{
    uint64_t level = zero->levels.n - 1;
    while (in_node && level > 0 && zero->levels.kind[level] > WEIR_LEVEL_NODE)
        level--;
    zero->report.reduce_bytes += bytes;
    zero->report.reduce_level_bytes[level] += bytes;
}

/* ---- time ---- */

void wr_zero_flight_begin(weir_zero *zero)
{
    if (zero->flights++ == 0)
        zero->flying = wr_clock_ns();
}

void wr_zero_flight_end(weir_zero *zero)
{
    if (--zero->flights == 0)
        zero->report.hidden_ns += wr_clock_ns() - zero->flying;
}

void wr_zero_compute_end(weir_zero *zero)
{
    if (zero->open_hooks)
        zero->report.compute_ns += wr_clock_ns() - zero->left;
}

void wr_zero_compute_begin(weir_zero *zero)
{
    zero->left = wr_clock_ns();
}

void wr_zero_report_take(weir_zero *zero, weir_zero_report *to)
{
    weir_zero_report *r = &zero->report;
    int64_t now = wr_clock_ns();
    if (zero->flights) {
        r->hidden_ns += now - zero->flying;
        zero->flying = now;
    }
    r->total_ns = zero->begun ? now - zero->begun : 0;
    r->hidden_ns = WR_MAX(r->hidden_ns - r->exposed_ns, 0);
    r->memory_bytes = zero->memory;
    r->memory_formula = zero->formula;
    r->levels = zero->levels.n;
    for (uint64_t l = 0; l < zero->levels.n; l++)
        r->level_kind[l] = zero->levels.kind[l];
    *to = *r;
    *r = (weir_zero_report){.memory_peak = r->memory_peak, .differs_unit = -1};
    zero->begun = 0;
}
