/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broadcast: chunks go from node to node along a tree of leaders, through buffers in their SCRATCH, from which
 * the ranks of the node copy them. Ranks on the root's node load from its input when that is mapped. Lanes take
 * turns: while one waits until a buffer has been sent on, the others use the network.
 */
#include "comm/plan/algo_tree.h"

enum { LANES = 4 };
/* Slots of signals: those of lane L are so much + L. */
enum { DATA = 0, CREDIT = LANES, READY = 2 * LANES, TAKEN = 3 * LANES, SLOTS = 4 * LANES };
enum { BUFFERS = 2, BUFFERS_ALONE = 4, CHUNK = 1 << 15 }; /* buffers of a lane, and of an only one within a node */

struct bcast {
    const struct wr_plan_spec *spec;
    int rank;
    struct wr_mates mates;
    struct wr_tree tree;
    uint64_t chunk;
    uint32_t rounds, lane, nlanes, buffers;
    bool loads; /* mates of the root load from its IN */
};

static uint64_t length(const struct bcast *b, uint32_t c)
{
    return wr_chunk_len(b->spec->count, b->chunk, c);
}

/* Chunks of this lane. */
static uint32_t turns(const struct bcast *b)
{
    return (b->rounds - b->lane + b->nlanes - 1) / b->nlanes;
}

static struct wr_ref buffer(const struct bcast *b, int rank, uint32_t c)
{
    return wr_ref(rank, WR_BUF_SCRATCH, (b->lane * b->buffers + c / b->nlanes % b->buffers) * b->chunk);
}

static void forward(const struct bcast *b, struct wr_program *p, uint32_t c, struct wr_ref src)
{
    uint32_t turn = c / b->nlanes;
    for (int i = 0; i < b->tree.nchildren; i++) {
        int child = b->tree.child[i];
        if (turn >= b->buffers)
            wr_program_wait(p, child, CREDIT + b->lane, turn - b->buffers + 1);
        else if (turn == 0)
            wr_program_wait_earlier(p, child, CREDIT + b->lane, turns(b));
        wr_program_put_signal(p, buffer(b, child, c), src, length(b, c), DATA + b->lane);
    }
}

/* Hands chunk c of the root's input to its mates. */
static void hand_out(const struct bcast *b, struct wr_program *p, uint32_t c)
{
    uint32_t turn = c / b->nlanes;
    if (turn >= b->buffers)
        wr_wait_mates(p, &b->mates, TAKEN + b->lane, turn - b->buffers + 1);
    else if (turn == 0)
        wr_wait_mates_earlier(p, &b->mates, TAKEN + b->lane, turns(b));
    if (b->mates.n > 1)
        wr_program_copy(p, buffer(b, b->rank, c), wr_ref(b->rank, WR_BUF_IN, c * b->chunk), length(b, c));
    wr_signal_mates(p, &b->mates, READY + b->lane);
}

static void root(const struct bcast *b, struct wr_program *p)
{
    bool loads = b->loads && b->lane == 0;
    if (loads)
        wr_signal_mates(p, &b->mates, READY);
    for (uint32_t c = b->lane; c < b->rounds; c += b->nlanes) {
        forward(b, p, c, wr_ref(b->rank, WR_BUF_IN, c * b->chunk));
        if (!b->loads)
            hand_out(b, p, c);
    }
    if (!b->spec->in_place && b->lane == 0)
        wr_program_copy(p, wr_ref(b->rank, WR_BUF_OUT, 0), wr_ref(b->rank, WR_BUF_IN, 0), b->spec->count);
    if (loads)
        wr_wait_mates(p, &b->mates, TAKEN, 1);
}

static void leader(const struct bcast *b, struct wr_program *p)
{
    for (uint32_t c = b->lane; c < b->rounds; c += b->nlanes) {
        uint32_t turn = c / b->nlanes;
        wr_program_wait(p, b->tree.parent, DATA + b->lane, turn + 1);
        forward(b, p, c, buffer(b, b->rank, c));
        wr_signal_mates(p, &b->mates, READY + b->lane);
        wr_program_copy(p, wr_ref(b->rank, WR_BUF_OUT, c * b->chunk), buffer(b, b->rank, c), length(b, c));
        wr_wait_mates(p, &b->mates, TAKEN + b->lane, turn + 1);
        if (b->tree.nchildren)
            wr_program_drain(p);
        wr_program_signal(p, b->tree.parent, CREDIT + b->lane);
    }
}

static void follower(const struct bcast *b, struct wr_program *p)
{
    if (b->tree.leader == b->spec->root && b->loads) {
        if (b->lane)
            return;
        wr_program_wait(p, b->spec->root, READY, 1);
        wr_program_copy(p, wr_ref(b->rank, WR_BUF_OUT, 0), wr_ref(b->spec->root, WR_BUF_IN, 0), b->spec->count);
        wr_program_signal(p, b->spec->root, TAKEN);
        return;
    }
    for (uint32_t c = b->lane; c < b->rounds; c += b->nlanes) {
        wr_program_wait(p, b->tree.leader, READY + b->lane, c / b->nlanes + 1);
        wr_program_copy(p, wr_ref(b->rank, WR_BUF_OUT, c * b->chunk), buffer(b, b->tree.leader, c), length(b, c));
        wr_program_signal(p, b->tree.leader, TAKEN + b->lane);
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
    b.nlanes = spec->topo->nnodes > 1 ? WR_MAX(WR_MIN(b.rounds, (uint32_t)LANES), 1) : 1;
    b.buffers = spec->topo->nnodes > 1 ? BUFFERS : BUFFERS_ALONE;
    wr_program_init(p, rank);
    for (b.lane = 0; b.lane < b.nlanes; b.lane++) {
        if (b.lane)
            wr_program_lane(p);
        if (rank == spec->root)
            root(&b, p);
        else if (rank == b.tree.leader)
            leader(&b, p);
        else
            follower(&b, p);
    }
    p->scratch = (uint64_t)b.buffers * b.nlanes * b.chunk;
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
