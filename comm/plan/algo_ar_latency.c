/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce of few elements. On one node every rank leaves its input in SCRATCH and combines those of all. On
 * several nodes the first rank of each node, the leader, does so, the leaders double recursively, and the
 * others load the result. Acknowledgements are waited for in the next execution only.
 */
#include <stdlib.h>

#include "base/error.h"
#include "comm/plan/algo.h"

enum {
    READY,
    TAKEN,
    RESULT,
    RESULT_TAKEN,
    FOLD,
    FOLD_TAKEN,
    UNFOLD,
    UNFOLD_TAKEN,
    ROUND,
    ROUNDS = 31,
    SLOTS = ROUND + 2 * ROUNDS
};

/* SCRATCH, in vectors: the input; what comes in when odd nodes fold and unfold; then for each round the sum so
 * far and what comes in (the sum of before is still being put when the next is made). */
enum { INPUT, FOLDED, UNFOLDED, SUMS };

struct leader {
    const struct wr_plan_spec *spec;
    struct wr_program *p;
    int rank, node;
    struct wr_ref sum; /* the latest */
};

static struct wr_ref vector(const struct wr_plan_spec *spec, int rank, int index)
{
    return wr_ref(rank, WR_BUF_SCRATCH, (uint64_t)index * spec->count);
}

static int rounds_of(const struct wr_plan_spec *spec)
{
    int rounds = 0;
    while (2 << rounds <= spec->topo->nnodes)
        rounds++;
    return rounds;
}

static uint64_t scratch(const struct wr_plan_spec *spec)
{
    return spec->count * (uint64_t)(spec->topo->nnodes > 1 ? SUMS + 2 * (rounds_of(spec) + 1) : 1);
}

static void one_node(const struct wr_plan_spec *spec, int rank, struct wr_program *p, struct wr_ref *src)
{
    struct wr_mates mates = wr_mates(spec->topo, rank);
    wr_wait_mates_earlier(p, &mates, TAKEN, 1);
    wr_program_copy(p, vector(spec, rank, INPUT), wr_ref(rank, WR_BUF_IN, 0), spec->count);
    wr_signal_mates(p, &mates, READY);
    wr_wait_mates(p, &mates, READY, 1);
    for (int i = 0; i < mates.n; i++)
        src[i] = vector(spec, mates.rank[i], INPUT);
    wr_program_reduce(p, wr_ref(rank, WR_BUF_OUT, 0), src, (unsigned)mates.n, spec->count);
    wr_signal_mates(p, &mates, TAKEN);
}

static void follower(const struct wr_plan_spec *spec, int rank, struct wr_program *p)
{
    int leader = wr_mates(spec->topo, rank).rank[0];
    wr_program_copy(p, vector(spec, rank, INPUT), wr_ref(rank, WR_BUF_IN, 0), spec->count);
    wr_program_signal(p, leader, READY);
    wr_program_wait(p, leader, RESULT, 1);
    wr_program_copy(p, wr_ref(rank, WR_BUF_OUT, 0), vector(spec, leader, SUMS + 2 * rounds_of(spec) + 1), spec->count);
    wr_program_signal(p, leader, RESULT_TAKEN);
}

/* Puts the latest sum into vector `index` of the leader of a node. */
static void send(const struct leader *l, int node, int index, uint32_t slot, uint32_t taken)
{
    int peer = l->spec->topo->node_ranks[node][0];
    wr_program_wait_earlier(l->p, peer, taken, 1);
    wr_program_put_signal(l->p, vector(l->spec, peer, index), l->sum, l->spec->count, slot);
}

/* Combines what came from a node with the latest sum, the lower node first, into vector `result`. */
static void combine(struct leader *l, int node, int index, uint32_t slot, uint32_t taken, int result)
{
    int peer = l->spec->topo->node_ranks[node][0];
    struct wr_ref other = vector(l->spec, l->rank, index), dst = vector(l->spec, l->rank, result);
    struct wr_ref src[2] = {node < l->node ? other : l->sum, node < l->node ? l->sum : other};
    wr_program_wait(l->p, peer, slot, 1);
    wr_program_reduce(l->p, dst, src, 2, l->spec->count);
    wr_program_signal(l->p, peer, taken);
    l->sum = dst;
}

/* Odd nodes beyond a power of two fold into their neighbours; then all that are left double. */
static void exchange(struct leader *l)
{
    int nodes = l->spec->topo->nnodes, rounds = rounds_of(l->spec), power = 1 << rounds, extra = nodes - power;
    bool folds = l->node < 2 * extra;
    if (folds && l->node % 2) {
        int even = l->spec->topo->node_ranks[l->node - 1][0];
        send(l, l->node - 1, FOLDED, FOLD, FOLD_TAKEN);
        wr_program_wait(l->p, even, UNFOLD, 1);
        l->sum = vector(l->spec, l->rank, UNFOLDED);
        return;
    }
    if (folds)
        combine(l, l->node + 1, FOLDED, FOLD, FOLD_TAKEN, SUMS);
    int id = folds ? l->node / 2 : l->node - extra;
    for (int i = 0; i < rounds; i++) {
        int other = id ^ (1 << i), node = other < extra ? 2 * other : other + extra;
        int incoming = SUMS + 2 * i + 1, next = SUMS + 2 * (i + 1);
        send(l, node, incoming, (uint32_t)(ROUND + i), (uint32_t)(ROUND + ROUNDS + i));
        combine(l, node, incoming, (uint32_t)(ROUND + i), (uint32_t)(ROUND + ROUNDS + i), next);
    }
    if (folds)
        send(l, l->node + 1, UNFOLDED, UNFOLD, UNFOLD_TAKEN);
}

static void lead(const struct wr_plan_spec *spec, int rank, struct wr_program *p, struct wr_ref *src)
{
    struct wr_mates mates = wr_mates(spec->topo, rank);
    struct leader l = {.spec = spec, .p = p, .rank = rank, .node = spec->topo->node_of[rank]};
    int extra = spec->topo->nnodes - (1 << rounds_of(spec));
    bool even = l.node < 2 * extra && l.node % 2 == 0, odd = l.node < 2 * extra && l.node % 2;
    /* an even node that takes the neighbour in makes its own sum where the neighbour's will not be combined yet */
    l.sum = even ? vector(spec, rank, INPUT) : vector(spec, rank, SUMS);
    src[0] = wr_ref(rank, WR_BUF_IN, 0);
    for (int i = 1; i < mates.n; i++)
        src[i] = vector(spec, mates.rank[i], INPUT);
    wr_wait_mates(p, &mates, READY, 1);
    wr_program_reduce(p, l.sum, src, (unsigned)mates.n, spec->count);
    exchange(&l);
    struct wr_ref result = vector(spec, rank, SUMS + 2 * rounds_of(spec) + 1);
    wr_program_copy(p, wr_ref(rank, WR_BUF_OUT, 0), l.sum, spec->count);
    if (mates.n > 1) {
        wr_wait_mates_earlier(p, &mates, RESULT_TAKEN, 1);
        wr_program_copy(p, result, l.sum, spec->count);
        wr_signal_mates(p, &mates, RESULT);
    }
    if (odd)
        wr_program_signal(p, spec->topo->node_ranks[l.node - 1][0], UNFOLD_TAKEN);
}

static bool applies(const struct wr_plan_spec *spec)
{
    return !spec->out_shared && !(spec->reproducible && spec->topo->nnodes > 1);
}

static weir_status build(const struct wr_plan_spec *spec, int rank, struct wr_program *p, weir_error *err)
{
    size_t n = (size_t)spec->topo->node_size[spec->topo->node_of[rank]];
    struct wr_ref *src = malloc(n * sizeof *src);
    if (!src)
        return wr_error_memory(err, n * sizeof *src, "the program of a collective");
    wr_program_init(p, rank);
    if (spec->topo->nnodes == 1)
        one_node(spec, rank, p, src);
    else if (spec->topo->local_rank[rank])
        follower(spec, rank, p);
    else
        lead(spec, rank, p, src);
    p->scratch = scratch(spec);
    free(src);
    return wr_program_finish(p, err);
}

const struct wr_algorithm wr_ar_latency = {"latency", WR_COLL_ALLREDUCE, applies, build, NULL, SLOTS};
