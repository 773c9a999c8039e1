/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ring over all ranks, node by node, so that most links are inside nodes. Messages to the next rank go into
 * one of a few buffers in its SCRATCH: stored directly on the node, put between nodes; in both cases a message
 * is taken when slot RING_DATA says so, and its buffer is free again when the taker has signalled RING_CREDIT.
 */
#ifndef WR_ALGO_RING_H
#define WR_ALGO_RING_H

#include "comm/plan/algo.h"

enum { WR_RING_DATA, WR_RING_CREDIT, WR_RING_SLOTS };
enum { WR_RING_BUFFERS = 4 };

struct wr_ring {
    const struct wr_plan_spec *spec;
    int rank, n, at; /* at: my place in the order */
    int prev, next;  /* ranks */
    int *order;
    bool remote;     /* next is on another node */
    uint64_t chunk;
    uint32_t rounds, messages; /* messages that I send in all */
};

/* Builds a program of rounds, one for each chunk of the shares; in a round n - 1 messages are sent and as many come. */
weir_status wr_ring_build(const struct wr_plan_spec *spec, int rank, void (*one_round)(const struct wr_ring *, struct wr_program *, uint32_t),
                          uint64_t scratch, struct wr_program *p, weir_error *err);
uint64_t wr_ring_chunk(const struct wr_plan_spec *spec);

/* The rank `back` places before me. */
static inline int wr_ring_rank(const struct wr_ring *g, int back)
{
    return g->order[((g->at - back) % g->n + g->n) % g->n];
}

/* Waits until next has a free buffer for my message k, and gives the place. */
struct wr_ref wr_ring_dst(const struct wr_ring *g, struct wr_program *p, uint32_t k);
/* Tells next that a message is at `dst`: it was stored there, or is put there from `src`. */
void wr_ring_announce(const struct wr_ring *g, struct wr_program *p, struct wr_ref dst, struct wr_ref src, uint64_t len);

/* Waits for the message k from prev, and gives its place; and says that its buffer is free again. */
struct wr_ref wr_ring_take(const struct wr_ring *g, struct wr_program *p, uint32_t k);
void wr_ring_taken(const struct wr_ring *g, struct wr_program *p);

#endif
