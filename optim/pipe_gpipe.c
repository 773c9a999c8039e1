/* SPDX-License-Identifier: BSD-3-Clause */
/* GPipe: all forwards, then all backwards. Huang et al., GPipe: Efficient training of giant neural networks, NeurIPS 2019. */
#include "optim/pipe.h"

static void build(const struct wr_pipe_shape *shape, int stage, struct wr_pipe_order *order)
{
    (void)stage;
    for (int m = 0; m < shape->micros; m++)
        wr_pipe_step(order, WEIR_PIPE_OP_F, m, 0);
    for (int m = 0; m < shape->micros; m++)
        wr_pipe_step(order, WEIR_PIPE_OP_B, m, 0);
}

static int64_t peak(const struct wr_pipe_shape *shape, int stage)
{
    (void)stage;
    return shape->micros;
}

const struct wr_pipe_builder wr_pipe_gpipe = {
    .name = "gpipe",
    .text = "all forwards, then all backwards; bubble (P-1)/(M+P-1), peak M",
    .chunks = 1,
    .chunks_only = true,
    .build = build,
    .peak = peak,
};
