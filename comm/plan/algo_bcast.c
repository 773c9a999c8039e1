/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broadcast: chunks go from node to node along a tree of leaders, through buffers in their SCRATCH, from which
 * the ranks of the node copy them. Ranks on the root's node load from its input when that is mapped.
 */
#include "comm/plan/algo_tree.h"

enum { DATA, CREDIT, READY, TAKEN, SLOTS };
enum { BUFFERS = 4, CHUNK = 1 << 15 };

struct bcast {
    const struct wr_plan_spec *spec;
    int rank;
    struct wr_mates mates;
    struct wr_tree tree;
    uint64_t chunk;
    uint32_t rounds;
    bool loads; /* mates of the root load from its IN */
};

static uint64_t length(const struct bcast *b, uint32_t c)
{
    return wr_chunk_len(b->spec->count, b->chunk, c);
}

static struct wr_ref buffer(const struct bcast *b, int rank, uint32_t c)
{
    return wr_ref(rank, WR_BUF_SCRATCH, (c % BUFFERS) * b->chunk);
}

static void forward(const struct bcast *b, struct wr_program *p, uint32_t c, struct wr_ref src)
{
    for (int i = 0; i < b->tree.nchildren; i++) {
        int child = b->tree.child[i];
        if (c >= BUFFERS)
            wr_program_wait(p, child, CREDIT, c - BUFFERS + 1);
        else if (c == 0)
            wr_program_wait_earlier(p, child, CREDIT, b->rounds);
        wr_program_put_signal(p, buffer(b, child, c), src, length(b, c), DATA);
    }
}

static void root(const struct bcast *b, struct wr_program *p)
{
    if (b->loads)
        wr_signal_mates(p, &b->mates, READY);
    for (uint32_t c = 0; c < b->rounds; c++) {
        struct wr_ref in = wr_ref(b->rank, WR_BUF_IN, c * b->chunk);
        forward(b, p, c, in);
        if (!b->loads) {
            if (c >= BUFFERS)
                wr_wait_mates(p, &b->mates, TAKEN, c - BUFFERS + 1);
            else if (c == 0)
                wr_wait_mates_earlier(p, &b->mates, TAKEN, b->rounds);
            if (b->mates.n > 1)
                wr_program_copy(p, buffer(b, b->rank, c), in, length(b, c));
            wr_signal_mates(p, &b->mates, READY);
        }
    }
    if (!b->spec->in_place)
        wr_program_copy(p, wr_ref(b->rank, WR_BUF_OUT, 0), wr_ref(b->rank, WR_BUF_IN, 0), b->spec->count);
    if (b->loads)
        wr_wait_mates(p, &b->mates, TAKEN, 1);
}

static void leader(const struct bcast *b, struct wr_program *p)
{
    for (uint32_t c = 0; c < b->rounds; c++) {
        wr_program_wait(p, b->tree.parent, DATA, c + 1);
        forward(b, p, c, buffer(b, b->rank, c));
        wr_signal_mates(p, &b->mates, READY);
        wr_program_copy(p, wr_ref(b->rank, WR_BUF_OUT, c * b->chunk), buffer(b, b->rank, c), length(b, c));
        wr_wait_mates(p, &b->mates, TAKEN, c + 1);
        if (b->tree.nchildren)
            wr_program_drain(p);
        wr_program_signal(p, b->tree.parent, CREDIT);
    }
}

static void follower(const struct bcast *b, struct wr_program *p)
{
    if (b->tree.leader == b->spec->root && b->loads) {
        wr_program_wait(p, b->spec->root, READY, 1);
        wr_program_copy(p, wr_ref(b->rank, WR_BUF_OUT, 0), wr_ref(b->spec->root, WR_BUF_IN, 0), b->spec->count);
        wr_program_signal(p, b->spec->root, TAKEN);
        return;
    }
    for (uint32_t c = 0; c < b->rounds; c++) {
        wr_program_wait(p, b->tree.leader, READY, c + 1);
        wr_program_copy(p, wr_ref(b->rank, WR_BUF_OUT, c * b->chunk), buffer(b, b->tree.leader, c), length(b, c));
        wr_program_signal(p, b->tree.leader, TAKEN);
    }
}

static weir_status build(const struct wr_plan_spec *spec, int rank, struct wr_program *p, enum wr_tree_shape shape,
                         weir_error *err)
{
    struct bcast b = {.spec = spec,
                      .rank = rank,
                      .mates = wr_mates(spec->topo, rank),
                      .tree = wr_tree(spec, rank, shape),
                      .loads = spec->in_mapped};
    b.chunk = WR_MAX(WR_MIN(spec->chunk ? spec->chunk : CHUNK, spec->count), 1);
    b.rounds = (uint32_t)((spec->count + b.chunk - 1) / b.chunk);
    wr_program_init(p, rank);
    if (rank == spec->root)
        root(&b, p);
    else if (rank == b.tree.leader)
        leader(&b, p);
    else
        follower(&b, p);
    p->scratch = BUFFERS * b.chunk;
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
    return spec->topo->nnodes > 1 && !spec->out_shared;
}

const struct wr_algorithm wr_bcast_direct = {"direct", WR_COLL_BCAST, wr_single_node, chain, NULL, SLOTS};
const struct wr_algorithm wr_bcast_binomial = {"binomial", WR_COLL_BCAST, several_nodes, binomial, NULL, SLOTS};
const struct wr_algorithm wr_bcast_chain = {"chain", WR_COLL_BCAST, several_nodes, chain, NULL, SLOTS};
