/* SPDX-License-Identifier: BSD-3-Clause */
/* What builders share: the ranks of a node, orders of ranks and nodes, chunks. */
#ifndef WR_ALGO_H
#define WR_ALGO_H

#include "base/compiler.h"
#include "comm/plan/plan.h"

/* The ranks of a node, as one of them sees them. */
struct wr_mates {
    const int *rank;
    int n, me; /* me: index in rank[] */
};

static inline struct wr_mates wr_mates(const struct wr_plan_topo *topo, int rank)
{
    int node = topo->node_of[rank];
    return (struct wr_mates){topo->node_ranks[node], topo->node_size[node], topo->local_rank[rank]};
}

/* The i-th after me, i in 1 .. n - 1: everybody begins with another one. */
static inline int wr_mate(const struct wr_mates *m, int i)
{
    return m->rank[(m->me + i) % m->n];
}

void wr_signal_mates(struct wr_program *p, const struct wr_mates *m, uint32_t slot);
void wr_wait_mates(struct wr_program *p, const struct wr_mates *m, uint32_t slot, uint32_t value);
void wr_wait_mates_earlier(struct wr_program *p, const struct wr_mates *m, uint32_t slot, uint32_t per_execution);

/*
 * The order of nodes in which partial results for node `owner` travel: it ends at the owner, and it visits the
 * nodes of a group (a switch, say) one after the other, the owner's group last. Without levels: owner + 1,
 * owner + 2, .., owner.
 */
struct wr_hop {
    int at;         /* place of the node in the chain, 0 .. nnodes - 1 */
    int prev, next; /* nodes, -1 at the ends */
};
struct wr_hop wr_chain_hop(const struct wr_plan_topo *topo, int owner, int node);

/* Ranks node by node, nodes in the order of the chain that ends at the last: order[i], and place[rank] with the
 * inverse (may be NULL). Rings and circulants use it, so that most neighbours share a node. false: out of
 * memory. */
bool wr_rank_order(const struct wr_plan_topo *topo, int **order, int **place);

uint64_t wr_largest_share(const struct wr_plan_spec *spec);
bool wr_single_node(const struct wr_plan_spec *spec);

/* Length of chunk c of `len` elements. */
static inline uint64_t wr_chunk_len(uint64_t len, uint64_t chunk, uint64_t c)
{
    return c * chunk >= len ? 0 : WR_MIN(chunk, len - c * chunk);
}

/* A place that is `off` elements further. */
static inline struct wr_ref wr_ref_add(struct wr_ref ref, uint64_t off)
{
    ref.offset += off;
    return ref;
}

/* Appends `second` to `first`, lane by lane, as it is; both use the same SCRATCH. `second` is freed; on an
 * error both are. */
weir_status wr_program_append(struct wr_program *first, struct wr_program *second, weir_error *err);

extern const struct wr_algorithm wr_rs_direct, wr_rs_ring, wr_rs_bruck, wr_rs_hier, wr_rs_linear;
extern const struct wr_algorithm wr_ag_direct, wr_ag_ring, wr_ag_bruck, wr_ag_hier, wr_ag_hier_put;
extern const struct wr_algorithm wr_ar_direct, wr_ar_ring, wr_ar_bruck, wr_ar_hier, wr_ar_hier_put, wr_ar_latency,
    wr_ar_linear;
extern const struct wr_algorithm wr_barrier_dissemination, wr_barrier_hier;
extern const struct wr_algorithm wr_reduce_direct, wr_reduce_binomial, wr_reduce_chain, wr_reduce_linear, wr_scan_chain,
    wr_exscan_chain;
extern const struct wr_algorithm wr_reduce_split;
extern const struct wr_algorithm wr_gather_pairwise, wr_scatter_pairwise, wr_alltoall_pairwise;
extern const struct wr_algorithm wr_bcast_direct, wr_bcast_binomial, wr_bcast_chain;

#endif
