/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Looped, breadth first: all micro-batches through a chunk, then through the next; backwards the same from the last chunk. A
 * chunk's parameters are needed in two stretches only, and its gradients are complete at the end of the second.
 * Lamy-Poirier, Breadth-first pipeline parallelism, MLSys 2023.
 */
#include "optim/pipe.h"

static void build(const struct wr_pipe_shape *shape, int stage, struct wr_pipe_order *order)
{
    (void)stage;
    for (int c = 0; c < shape->chunks; c++)
        for (int m = 0; m < shape->micros; m++)
            wr_pipe_step(order, WEIR_PIPE_OP_F, m, c);
    for (int c = shape->chunks - 1; c >= 0; c--)
        for (int m = 0; m < shape->micros; m++)
            wr_pipe_step(order, WEIR_PIPE_OP_B, m, c);
}

static int64_t peak(const struct wr_pipe_shape *shape, int stage)
{
    (void)stage;
    return (int64_t)shape->micros * shape->chunks;
}

const struct wr_pipe_builder wr_pipe_looped_bfs = {
    .name = "looped-bfs",
    .text = "all micro-batches through one chunk after the other; bubble (P-1)/(VM+P-1), peak VM",
    .chunks = 2,
    .build = build,
    .peak = peak,
};
