/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce along a tree of leaders, one a node: chunk by chunk a leader combines the inputs of its node, loaded
 * in place or from where its mates left them, with the partial results of its children, and puts the sum into a
 * buffer at its parent. The root stores it.
 */
#include <stdlib.h>

#include "base/error.h"
#include "comm/plan/algo_tree.h"

enum { DATA, CREDIT, READY, TAKEN, SLOTS };
enum { BUFFERS = 2, CHUNK = 1 << 15 };

struct reduce {
    const struct wr_plan_spec *spec;
    struct wr_program *p;
    int rank;
    struct wr_mates mates;
    struct wr_tree tree;
    uint64_t chunk;
    uint32_t rounds;
    struct wr_ref *src;
};

static uint64_t length(const struct reduce *r, uint32_t c)
{
    return wr_chunk_len(r->spec->count, r->chunk, c);
}

/* Area 0 is what a rank leaves for its leader or puts to its parent; area 1 + i is what comes from child i. */
static struct wr_ref buffer(const struct reduce *r, int rank, int area, uint32_t c)
{
    return wr_ref(rank, WR_BUF_SCRATCH, ((uint64_t)area * BUFFERS + c % BUFFERS) * r->chunk);
}

static void follower(const struct reduce *r)
{
    if (r->spec->in_mapped) {
        wr_program_signal(r->p, r->tree.leader, READY);
        wr_program_wait(r->p, r->tree.leader, TAKEN, 1);
        return;
    }
    for (uint32_t c = 0; c < r->rounds; c++) {
        if (c >= BUFFERS)
            wr_program_wait(r->p, r->tree.leader, TAKEN, c - BUFFERS + 1);
        else if (c == 0)
            wr_program_wait_earlier(r->p, r->tree.leader, TAKEN, r->rounds);
        wr_program_copy(r->p, buffer(r, r->rank, 0, c), wr_ref(r->rank, WR_BUF_IN, c * r->chunk), length(r, c));
        wr_program_signal(r->p, r->tree.leader, READY);
    }
}

/* Gathers the places of all that a leader combines in round c, waiting for them. */
static unsigned operands(const struct reduce *r, uint32_t c)
{
    unsigned n = 0;
    bool mapped = r->spec->in_mapped;
    if (!mapped || c == 0)
        wr_wait_mates(r->p, &r->mates, READY, mapped ? 1 : c + 1);
    for (int i = 0; i < r->mates.n; i++) {
        int mate = r->mates.rank[i];
        r->src[n++] = mapped || mate == r->rank ? wr_ref(mate, WR_BUF_IN, c * r->chunk) : buffer(r, mate, 0, c);
    }
    for (int i = 0; i < r->tree.nchildren; i++) {
        wr_program_wait(r->p, r->tree.child[i], DATA, c + 1);
        r->src[n++] = buffer(r, r->rank, 1 + i, c);
    }
    return n;
}

static void send(const struct reduce *r, uint32_t c)
{
    if (c >= BUFFERS)
        wr_program_wait(r->p, r->tree.parent, CREDIT, c - BUFFERS + 1);
    else if (c == 0)
        wr_program_wait_earlier(r->p, r->tree.parent, CREDIT, r->rounds);
    wr_program_put_signal(r->p, buffer(r, r->tree.parent, 1 + r->tree.index, c), buffer(r, r->rank, 0, c), length(r, c),
                          DATA);
}

static void leader(const struct reduce *r)
{
    bool root = r->rank == r->spec->root;
    for (uint32_t c = 0; c < r->rounds; c++) {
        unsigned n = operands(r, c);
        if (!root && c && c % BUFFERS == 0)
            wr_program_drain(r->p);
        wr_program_reduce(r->p, root ? wr_ref(r->rank, WR_BUF_OUT, c * r->chunk) : buffer(r, r->rank, 0, c), r->src, n,
                          length(r, c));
        for (int i = 0; i < r->tree.nchildren; i++)
            wr_program_signal(r->p, r->tree.child[i], CREDIT);
        if (!r->spec->in_mapped)
            wr_signal_mates(r->p, &r->mates, TAKEN);
        if (!root)
            send(r, c);
    }
    if (!r->spec->in_mapped)
        return;
    if (!r->rounds)
        wr_wait_mates(r->p, &r->mates, READY, 1);
    wr_signal_mates(r->p, &r->mates, TAKEN);
}

static weir_status build(const struct wr_plan_spec *spec, int rank, struct wr_program *p, enum wr_tree_shape shape,
                         weir_error *err)
{
    struct reduce r = {.spec = spec,
                       .p = p,
                       .rank = rank,
                       .mates = wr_mates(spec->topo, rank),
                       .tree = wr_tree(spec, rank, shape)};
    size_t n = (size_t)r.mates.n + WR_TREE_CHILDREN;
    r.chunk = WR_MAX(WR_MIN(spec->chunk ? spec->chunk : CHUNK, spec->count), 1);
    r.rounds = (uint32_t)((spec->count + r.chunk - 1) / r.chunk);
    r.src = malloc(n * sizeof *r.src);
    if (!r.src)
        return wr_error_memory(err, n * sizeof *r.src, "the program of a collective");
    wr_program_init(p, rank);
    if (rank == r.tree.leader)
        leader(&r);
    else
        follower(&r);
    p->scratch = (uint64_t)(1 + (rank == r.tree.leader ? r.tree.nchildren : 0)) * BUFFERS * r.chunk;
    free(r.src);
    return wr_program_finish(p, err);
}

static weir_status binomial(const struct wr_plan_spec *spec, int rank, struct wr_program *p, weir_error *err)
{
    return build(spec, rank, p, WR_TREE_BINOMIAL, err);
}

static weir_status chain(const struct wr_plan_spec *spec, int rank, struct wr_program *p, weir_error *err)
{
    return build(spec, rank, p, WR_TREE_CHAIN, err);
}

static bool several_nodes(const struct wr_plan_spec *spec)
{
    return spec->topo->nnodes > 1 && !spec->out_shared && !spec->reproducible;
}

const struct wr_algorithm wr_reduce_direct = {"direct", WR_COLL_REDUCE, wr_single_node, chain, NULL, SLOTS};
const struct wr_algorithm wr_reduce_binomial = {"binomial", WR_COLL_REDUCE, several_nodes, binomial, NULL, SLOTS};
const struct wr_algorithm wr_reduce_chain = {"chain", WR_COLL_REDUCE, several_nodes, chain, NULL, SLOTS};
