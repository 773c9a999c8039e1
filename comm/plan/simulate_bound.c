/* SPDX-License-Identifier: BSD-3-Clause */
/* What no plan can do without: bytes between nodes, loads and stores within. */
#include "comm/plan/simulate_impl.h"

/* Elements of the shares of a node. */
static uint64_t own_shares(const struct wr_plan_spec *spec, int node)
{
    uint64_t sum = 0;
    for (int i = 0; i < spec->topo->node_size[node]; i++)
        sum += wr_plan_share(spec, spec->topo->node_ranks[node][i]);
    return sum;
}

/* Elements of an all-to-all between the ranks of a node and those of others. */
static uint64_t exchanged(const struct wr_plan_spec *spec, int node, bool sent)
{
    const struct wr_plan_topo *topo = spec->topo;
    size_t n = (size_t)topo->nranks;
    uint64_t sum = 0;
    if (!spec->counts)
        return spec->count * (uint64_t)topo->node_size[node] * (uint64_t)(topo->nranks - topo->node_size[node]);
    for (int i = 0; i < topo->node_size[node]; i++)
        for (size_t p = 0; p < n; p++) {
            size_t r = (size_t)topo->node_ranks[node][i];
            if (topo->node_of[p] != node)
                sum += spec->counts[sent ? r * n + p : p * n + r];
        }
    return sum;
}

/* Bytes; narrow: a contribution that is sent alone may go in the type of the data. */
static void must_move(const struct wr_plan_spec *spec, int node, bool narrow, uint64_t *egress, uint64_t *ingress)
{
    const struct wr_plan_topo *topo = spec->topo;
    int n = topo->nnodes;
    bool root = topo->node_of[spec->root] == node;
    uint64_t out = 0, in = 0, wide = spec->reduces ? spec->partial_size : spec->elem_size;
    uint64_t out_size = narrow && topo->node_size[node] == 1 ? spec->elem_size : wide;
    uint64_t in_size = narrow && topo->nranks - topo->node_size[node] == 1 ? spec->elem_size : wide;
    switch (n > 1 ? spec->coll : WR_COLL_BARRIER) {
    case WR_COLL_REDUCE_SCATTER: /* a partial result of each share of others; one of each of its own comes in */
        in = own_shares(spec, node);
        out = wr_plan_total(spec) - in;
        break;
    case WR_COLL_ALLGATHER:
        out = own_shares(spec, node);
        in = wr_plan_total(spec) - out;
        break;
    case WR_COLL_ALLREDUCE: /* Patarasuk and Yuan, 2009: 2 (n - 1) / n of the vector, on the node with most */
        out_size = in_size = spec->elem_size; /* half of it could be inputs, the other half are results */
        out = in = (2 * (uint64_t)(n - 1) * spec->count + (uint64_t)n - 1) / (uint64_t)n;
        break;
    case WR_COLL_BCAST:
        *(root ? &out : &in) = spec->count;
        break;
    case WR_COLL_REDUCE:
        *(root ? &in : &out) = spec->count;
        break;
    case WR_COLL_GATHER:
        *(root ? &in : &out) = root ? wr_plan_total(spec) - own_shares(spec, node) : own_shares(spec, node);
        break;
    case WR_COLL_SCATTER:
        *(root ? &out : &in) = root ? wr_plan_total(spec) - own_shares(spec, node) : own_shares(spec, node);
        break;
    case WR_COLL_ALLTOALL:
        out = exchanged(spec, node, true);
        in = exchanged(spec, node, false);
        break;
    case WR_COLL_SCAN: /* the last rank needs the others */
    case WR_COLL_EXSCAN:
        in = topo->node_of[topo->nranks - 1] == node ? spec->count : 0;
        break;
    case WR_COLL_BARRIER:
    case WR_COLL_COUNT:
        break;
    }
    *egress = out * out_size;
    *ingress = in * in_size;
}

void wr_sim_node_bound(const struct wr_plan_spec *spec, int node, uint64_t *egress, uint64_t *ingress)
{
    must_move(spec, node, false, egress, ingress);
}

/* Elements that the ranks of a node must load from inputs and store to results. */
static uint64_t touched(const struct wr_plan_spec *spec, int node)
{
    uint64_t sum = 0;
    bool reads = spec->coll == WR_COLL_REDUCE_SCATTER || spec->coll == WR_COLL_ALLREDUCE || spec->coll == WR_COLL_REDUCE;
    for (int i = 0; i < spec->topo->node_size[node]; i++) {
        int r = spec->topo->node_ranks[node][i];
        uint64_t out = wr_plan_out_len(spec, r), own = 0;
        if (spec->in_place && (spec->coll == WR_COLL_ALLGATHER || spec->coll == WR_COLL_GATHER))
            own = wr_plan_in_len(spec, r);
        else if (spec->in_place && !spec->reduces)
            own = out;
        if (spec->coll == WR_COLL_EXSCAN || spec->coll == WR_COLL_SCAN)
            own = r == 0 ? out : 0;
        if (i == 0 || !spec->out_shared)
            sum += out - WR_MIN(own, out);
        if (reads)
            sum += wr_plan_in_len(spec, r);
    }
    if (spec->out_shared) /* what is already there in place differs by rank; the others' shares are stored once */
        sum = wr_plan_total(spec) - own_shares(spec, node);
    return sum * spec->elem_size;
}

double wr_sim_bound(const struct wr_plan_spec *spec, const struct wr_cost *cost)
{
    const struct wr_plan_topo *topo = spec->topo;
    double network = 0, memory = 0;
    bool rooted = spec->coll == WR_COLL_GATHER || spec->coll == WR_COLL_SCATTER || spec->coll == WR_COLL_ALLTOALL;
    bool barrier = spec->coll == WR_COLL_BARRIER;
    for (int n = 0; n < topo->nnodes; n++) {
        uint64_t out, in;
        must_move(spec, n, true, &out, &in);
        network = WR_MAX(network, (double)WR_MAX(out, in) / (cost->bandwidth * (double)(int)cost->rails));
        memory = WR_MAX(memory, (double)touched(spec, n) / cost->memory);
    }
    if (topo->nnodes > 1 && (barrier || network > 0))
        network += cost->latency + cost->overhead;
    else if (topo->nranks > 1 && !rooted && (barrier || wr_plan_in_len(spec, spec->root) || wr_plan_out_len(spec, spec->root)))
        network = cost->flag; /* of the others, whose part is in the result */
    return WR_MAX(network, memory);
}
