/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "comm/plan/algo.h"

void wr_signal_mates(struct wr_program *p, const struct wr_mates *m, uint32_t slot)
{
    for (int i = 1; i < m->n; i++)
        wr_program_signal(p, wr_mate(m, i), slot);
}

void wr_wait_mates(struct wr_program *p, const struct wr_mates *m, uint32_t slot, uint32_t value)
{
    for (int i = 1; i < m->n; i++)
        wr_program_wait(p, wr_mate(m, i), slot, value);
}

void wr_wait_mates_earlier(struct wr_program *p, const struct wr_mates *m, uint32_t slot, uint32_t per_execution)
{
    for (int i = 1; i < m->n; i++)
        wr_program_wait_earlier(p, wr_mate(m, i), slot, per_execution);
}

/* How far b is behind a, going round; 0 for the next one, n - 1 for a itself. */
static inline uint64_t behind(int a, int b, int n)
{
    int distance = b - a - 1;
    return (uint64_t)(distance < 0 ? distance + n : distance);
}

enum { KEY_LEVELS = 2, KEY_BITS = 21 }; /* levels and the node itself that fit into a key; more are compared one by one */

/* Orders nodes as the chain that ends at `owner` does,
 * as far as the innermost KEY_LEVELS levels and the node itself tell. */
static inline uint64_t chain_key(const struct wr_plan_topo *topo, int owner, int node)
{
    uint64_t key = 0;
    for (int level = WR_MIN(topo->nlevels, KEY_LEVELS) - 1; level >= 0; level--)
        key = key << KEY_BITS | behind(topo->group_of[level][owner], topo->group_of[level][node], topo->nnodes);
    return key << KEY_BITS | behind(owner, node, topo->nnodes);
}

/* Whether node a, whose key is `x`, comes before node b in that chain. */
static inline bool before(const struct wr_plan_topo *topo, int owner, int a, uint64_t x, int b, uint64_t y)
{
    for (int level = topo->nlevels - 1; level >= KEY_LEVELS; level--) {
        const int *group = topo->group_of[level];
        if (group[a] != group[b])
            return behind(group[owner], group[a], topo->nnodes) < behind(group[owner], group[b], topo->nnodes);
    }
    return x < y;
}

struct wr_hop wr_chain_hop(const struct wr_plan_topo *topo, int owner, int node)
{
    int n = topo->nnodes;
    struct wr_hop hop = {.at = 0, .prev = -1, .next = -1};
    if (!topo->nlevels) {
        hop.at = (node - owner - 1 + n) % n;
        hop.prev = hop.at > 0 ? (node - 1 + n) % n : -1;
        hop.next = hop.at < n - 1 ? (node + 1) % n : -1;
        return hop;
    }
    uint64_t mine = chain_key(topo, owner, node), prev = 0, next = 0;
    for (int k = 0; k < n; k++) {
        uint64_t key = chain_key(topo, owner, k);
        if (k == node)
            continue;
        if (before(topo, owner, k, key, node, mine)) {
            hop.at++;
            if (hop.prev < 0 || before(topo, owner, hop.prev, prev, k, key)) {
                hop.prev = k;
                prev = key;
            }
        } else if (hop.next < 0 || before(topo, owner, k, key, hop.next, next)) {
            hop.next = k;
            next = key;
        }
    }
    return hop;
}

bool wr_rank_order(const struct wr_plan_topo *topo, int **order, int **place)
{
    int n = topo->nranks, nodes = topo->nnodes, at = 0;
    int *o = malloc((size_t)n * sizeof *o), *p = malloc((size_t)n * sizeof *p),
        *node = malloc((size_t)nodes * sizeof *node);
    bool ok = o && p && node;
    for (int k = 0; ok && k < nodes; k++)
        node[wr_chain_hop(topo, nodes - 1, k).at] = k;
    for (int k = 0; ok && k < nodes; k++)
        for (int i = 0; i < topo->node_size[node[k]]; i++) {
            o[at] = topo->node_ranks[node[k]][i];
            p[o[at]] = at;
            at++;
        }
    free(node);
    if (!ok || !place) {
        free(p);
        p = NULL;
    }
    if (!ok) {
        free(o);
        return false;
    }
    *order = o;
    if (place)
        *place = p;
    return true;
}

uint64_t wr_largest_share(const struct wr_plan_spec *spec)
{
    uint64_t most = 0;
    if (!spec->counts)
        return spec->count;
    for (int r = 0; r < spec->topo->nranks; r++)
        most = WR_MAX(most, spec->counts[r]);
    return most;
}

bool wr_single_node(const struct wr_plan_spec *spec)
{
    return spec->topo->nnodes == 1 && !(spec->out_shared && spec->coll != WR_COLL_ALLGATHER);
}

/* Copies lane `lane` of `from`, if there is one, into the latest lane of `to`. */
static bool copy_lane(struct wr_program *to, const struct wr_program *from, uint32_t lane)
{
    for (uint32_t i = lane < from->nlanes ? from->lane[lane] : 0; lane < from->nlanes && i < from->lane[lane + 1]; i++)
        wr_program_step(to, &from->steps[i], from->refs + from->steps[i].first_ref);
    return !to->failed;
}

weir_status wr_program_append(struct wr_program *first, struct wr_program *second, weir_error *err)
{
    struct wr_program both;
    wr_program_init(&both, first->rank);
    for (uint32_t lane = 0; lane < WR_MAX(first->nlanes, second->nlanes); lane++) {
        wr_program_lane(&both);
        if (!copy_lane(&both, first, lane) || !copy_lane(&both, second, lane))
            break;
    }
    both.scratch = WR_MAX(first->scratch, second->scratch);
    wr_program_free(first);
    wr_program_free(second);
    *first = both;
    return wr_program_finish(first, err);
}
