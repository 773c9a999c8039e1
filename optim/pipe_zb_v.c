/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ZB-V: two chunks a stage in the shape of a V, so that the stage where a micro-batch begins is also the one where it ends, and
 * gradients come back at once. Qi, Wan, Huang, Lin, Zero bubble pipeline parallelism, ICLR 2024, appendix; Qi et al., Pipeline
 * parallelism with controllable memory, NeurIPS 2024.
 *
 * With equal costs micro-batch 0 reaches the first chunk of stage s after s units, its second chunk after 2P-1-s. Until then there is
 * time for 2(P-s)-1 forwards of the first chunk; from then on both chunks' forwards alternate until the gradients of the
 * second chunk arrive, which then follow each forward with their W; and when the gradients of the first chunk arrive, all six
 * take turns. In the end W is put off, so that I goes ahead. The order is that of at least 2P-1 micro-batches; of fewer,
 * those that do not exist are left out.
 */
#include "optim/pipe.h"

struct writer {
    struct wr_pipe_order *order;
    int micros;
    int next[3][2]; /* micro-batch of the next F, I, W of each chunk */
};

static void put(struct writer *w, weir_pipe_op op, int chunk)
{
    int micro = w->next[op][chunk]++;
    if (micro < w->micros)
        wr_pipe_step(w->order, op, micro, chunk);
}

static void put_backward(struct writer *w, int chunk)
{
    put(w, WEIR_PIPE_OP_I, chunk);
    put(w, WEIR_PIPE_OP_W, chunk);
}

static void put_end(struct writer *w, int stages, int stage)
{
    for (int i = 0; i < stage; i++) {
        put(w, WEIR_PIPE_OP_I, 0);
        put(w, WEIR_PIPE_OP_I, 1);
    }
    for (int i = stage; i < stages; i++)
        put_backward(w, 0);
    for (int chunk = 1; chunk >= 0; chunk--)
        while (w->next[WEIR_PIPE_OP_W][chunk] < w->next[WEIR_PIPE_OP_I][chunk])
            put(w, WEIR_PIPE_OP_W, chunk);
}

static void build(const struct wr_pipe_shape *shape, int stage, struct wr_pipe_order *order)
{
    struct writer w = {.order = order, .micros = shape->micros};
    int stages = shape->stages, micros = WR_MAX(2 * stages - 1, shape->micros);
    int *forward = w.next[WEIR_PIPE_OP_F];
    for (int i = 0; i < 2 * (stages - stage) - 1; i++)
        put(&w, WEIR_PIPE_OP_F, 0);
    for (int i = 0; i < stage; i++) {
        put(&w, WEIR_PIPE_OP_F, 1);
        put(&w, WEIR_PIPE_OP_F, 0);
    }
    for (int i = stage; i < stages; i++) {
        put(&w, WEIR_PIPE_OP_F, 1);
        put_backward(&w, 1);
    }
    while (forward[1] < forward[0] || forward[0] < micros) {
        if (forward[0] < micros)
            put(&w, WEIR_PIPE_OP_F, 0);
        put_backward(&w, 0);
        put(&w, WEIR_PIPE_OP_F, 1);
        put_backward(&w, 1);
    }
    put_end(&w, stages, stage);
}

static int64_t peak(const struct wr_pipe_shape *shape, int stage)
{
    (void)stage;
    return 2 * (int64_t)WR_MIN(shape->stages, shape->micros);
}

const struct wr_pipe_builder wr_pipe_zb_v = {
    .name = "zb-v",
    .text = "backward split, two chunks in a V; no bubble when M >= 2P-1, peak 2P half-size chunks",
    .placement = WEIR_PIPE_V,
    .chunks = 2,
    .chunks_only = true,
    .build = build,
    .peak = peak,
};
