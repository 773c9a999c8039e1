/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One forward, one backward: stage s runs P-s forwards ahead. Narayanan et al., Memory-efficient pipeline-parallel DNN training,
 * ICML 2021 (PipeDream-flush); Fan et al., DAPPLE, PPoPP 2021.
 */
#include "optim/pipe.h"

static int ahead(const struct wr_pipe_shape *shape, int stage)
{
    return WR_MIN(shape->stages - stage, shape->micros);
}

static void build(const struct wr_pipe_shape *shape, int stage, struct wr_pipe_order *order)
{
    int f = 0;
    for (; f < ahead(shape, stage); f++)
        wr_pipe_step(order, WEIR_PIPE_OP_F, f, 0);
    for (int b = 0; b < shape->micros; b++) {
        wr_pipe_step(order, WEIR_PIPE_OP_B, b, 0);
        if (f < shape->micros)
            wr_pipe_step(order, WEIR_PIPE_OP_F, f++, 0);
    }
}

static int64_t peak(const struct wr_pipe_shape *shape, int stage)
{
    return ahead(shape, stage);
}

const struct wr_pipe_builder wr_pipe_1f1b = {
    .name = "1f1b",
    .text = "one forward, one backward; bubble (P-1)/(M+P-1), peak min(P-s, M) on stage s",
    .chunks = 1,
    .chunks_only = true,
    .build = build,
    .peak = peak,
};
