/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The circulant exchange for small vectors, for any number of ranks: in round k a rank deals with the ranks 2^k
 * places before and behind it, so that ceil(log2 n) rounds do (J. Bruck et al., "Efficient algorithms for
 * all-to-all communications in multiport message-passing systems", 1997; the reduce-scatter is the same
 * backwards). Blocks are in the order of places, from the own one on: block b at place q is the share of the
 * rank at place q + b.
 */
#ifndef WR_ALGO_CIRCULANT_H
#define WR_ALGO_CIRCULANT_H

#include "comm/plan/algo.h"

enum { WR_CIRCULANT_ROUNDS = 31, WR_CIRCULANT_SLOTS = 2 * WR_CIRCULANT_ROUNDS }; /* data, then acknowledgements */

struct wr_circulant {
    const struct wr_plan_spec *spec;
    int rank, n, at;
    int *order;    /* twice, so that places need no modulo; freed by wr_circulant_free() */
    uint64_t *sum; /* of shares in that order: sum[i] = of order[0 .. i - 1] */
};

weir_status wr_circulant_init(struct wr_circulant *g, const struct wr_plan_spec *spec, int rank, weir_error *err);
void wr_circulant_free(struct wr_circulant *g);
bool wr_circulant_applies(const struct wr_plan_spec *spec);

/* Elements of blocks from .. to - 1 as the rank at place `at` (0 .. n - 1) counts them. */
static inline uint64_t wr_circulant_len(const struct wr_circulant *g, int at, int from, int to)
{
    return g->sum[at + to] - g->sum[at + from];
}

/* The place `by` places further (by may be negative, above -n). */
static inline int wr_circulant_place(const struct wr_circulant *g, int by)
{
    return (g->at + by + g->n) % g->n;
}

/* Sends from a place in own SCRATCH to a place in that of `peer`: stored on the node, put between nodes. */
void wr_circulant_send(const struct wr_circulant *g, struct wr_program *p, int peer, uint64_t dst, uint64_t src,
                       uint64_t len, int round);

/* The next run, from block *b on, of blocks that are contiguous in the vector: its first block; *b: behind its
 * last. */
int wr_circulant_run(const struct wr_circulant *g, int *b);

#endif
