/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ZB-H1 and ZB-H2: 1F1B with the backward cut in two, so that gradients of weights fill what would be idle.
 * Qi, Wan, Huang, Lin, Zero bubble pipeline parallelism, ICLR 2024.
 *
 * One family with the memory limit L as its parameter, P for H1 and 2P-1 for H2: stage s runs min(2(P-s)-1, L-s) forwards ahead and
 * its W follow their I by as many micro-batches as are left of the limit. 2(P-s)-1 is the time a micro-batch takes from here
 * to the last stage and back; a stage that runs so many ahead never waits.
 */
#include "optim/pipe.h"

static int64_t limit_h1(const struct wr_pipe_shape *shape)
{
    return shape->stages;
}

/* A limit of the caller counts between H1's and H2's. */
static int64_t limit_h2(const struct wr_pipe_shape *shape)
{
    int64_t own = 2 * (int64_t)shape->stages - 1;
    return shape->limit ? WR_MAX(shape->stages, WR_MIN(shape->limit, own)) : own;
}

static void build(const struct wr_pipe_shape *shape, int64_t limit, int stage, struct wr_pipe_order *order)
{
    int ahead = (int)WR_MIN(2 * (int64_t)(shape->stages - stage) - 1, limit - stage), f = 0, w = 0;
    int64_t behind = limit - ahead;
    for (; f < WR_MIN(ahead, shape->micros); f++)
        wr_pipe_step(order, WEIR_PIPE_OP_F, f, 0);
    for (int i = 0; i < shape->micros; i++) {
        wr_pipe_step(order, WEIR_PIPE_OP_I, i, 0);
        if (i >= behind)
            wr_pipe_step(order, WEIR_PIPE_OP_W, w++, 0);
        if (f < shape->micros)
            wr_pipe_step(order, WEIR_PIPE_OP_F, f++, 0);
    }
    while (w < shape->micros)
        wr_pipe_step(order, WEIR_PIPE_OP_W, w++, 0);
}

static void build_h1(const struct wr_pipe_shape *shape, int stage, struct wr_pipe_order *order)
{
    build(shape, limit_h1(shape), stage, order);
}

static void build_h2(const struct wr_pipe_shape *shape, int stage, struct wr_pipe_order *order)
{
    build(shape, limit_h2(shape), stage, order);
}

static int64_t peak_h1(const struct wr_pipe_shape *shape, int stage)
{
    (void)stage;
    return WR_MIN(limit_h1(shape), shape->micros);
}

static int64_t peak_h2(const struct wr_pipe_shape *shape, int stage)
{
    (void)stage;
    return WR_MIN(limit_h2(shape), shape->micros);
}

const struct wr_pipe_builder wr_pipe_zb_h1 = {
    .name = "zb-h1",
    .text = "backward split, memory of 1F1B; bubble (P-1)/(3M+P-1) when M >= P, peak min(P, M)",
    .chunks = 1,
    .chunks_only = true,
    .build = build_h1,
    .peak = peak_h1,
};

const struct wr_pipe_builder wr_pipe_zb_h2 = {
    .name = "zb-h2",
    .text = "backward split, more memory; no bubble when M >= 2P-1, peak min(2P-1, M), or a limit from P on",
    .chunks = 1,
    .chunks_only = true,
    .build = build_h2,
    .peak = peak_h2,
};
