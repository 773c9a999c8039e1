/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Interleaved 1F1B: groups of micro-batches go through all chunks of a stage, one group after the other, and the k-th backward
 * follows the forward that stands a fixed number of places ahead. Narayanan et al., Efficient large-scale language model
 * training on GPU clusters using Megatron-LM, SC 2021, where a group has P micro-batches and P divides M. Here a group has
 * P to 2P-1 of them (all M if there are fewer), as equal as can be: a smaller group would reach its second chunk before
 * it has left the first on the last stage.
 */
#include "optim/pipe.h"

static int groups(const struct wr_pipe_shape *shape)
{
    return WR_MAX(1, shape->micros / shape->stages);
}

/* First micro-batch of a group; the larger groups come first. */
static int first_of(const struct wr_pipe_shape *shape, int group)
{
    int n = groups(shape), larger = shape->micros % n;
    return group * (shape->micros / n) + WR_MIN(group, larger);
}

/* Forwards before the first backward on a stage: what the last stage needs, and a round trip to it. */
static int64_t ahead(const struct wr_pipe_shape *shape, int stage)
{
    int64_t all = (int64_t)shape->micros * shape->chunks;
    int64_t n = (int64_t)(shape->chunks - 1) * first_of(shape, 1) + 2 * (shape->stages - 1 - stage) + 1;
    return WR_MIN(n, all);
}

/* Where forwards or backwards have come to. */
struct place {
    int group, chunk, micro; /* chunk counts in the direction of the pass */
};

static void step(const struct wr_pipe_shape *shape, bool forward, struct place *at, struct wr_pipe_order *order)
{
    wr_pipe_step(order, forward ? WEIR_PIPE_OP_F : WEIR_PIPE_OP_B, at->micro, forward ? at->chunk : shape->chunks - 1 - at->chunk);
    if (++at->micro < first_of(shape, at->group + 1))
        return;
    if (++at->chunk == shape->chunks) {
        at->chunk = 0;
        at->group++;
    }
    at->micro = first_of(shape, at->group);
}

static void build(const struct wr_pipe_shape *shape, int stage, struct wr_pipe_order *order)
{
    int64_t all = (int64_t)shape->micros * shape->chunks, f = 0;
    struct place forward = {0}, backward = {0};
    for (; f < ahead(shape, stage); f++)
        step(shape, true, &forward, order);
    for (int64_t b = 0; b < all; b++) {
        step(shape, false, &backward, order);
        if (f++ < all)
            step(shape, true, &forward, order);
    }
}

const struct wr_pipe_builder wr_pipe_interleaved = {
    .name = "interleaved",
    .text = "1F1B with V chunks a stage; bubble (P-1)/(VM+P-1) when P divides M, peak min((V-1)P + 2(P-1-s) + 1, VM)",
    .chunks = 2,
    .build = build,
    .peak = ahead,
};
