/* SPDX-License-Identifier: BSD-3-Clause */
/* From the order of a stage to its instructions: parameters are gathered, inputs received, results sent, gradients reduced. */
#include <stdlib.h>

#include "optim/pipe.h"

int wr_pipe_part_stage(int64_t placement, int stages, int part)
{
    if (placement == WEIR_PIPE_V)
        return part < stages ? part : 2 * stages - 1 - part;
    return part % stages;
}

int wr_pipe_part_chunk(int64_t placement, int stages, int part)
{
    (void)placement;
    return part / stages;
}

int64_t weir_pipe_part(int64_t placement, int64_t stages, int64_t stage, int64_t chunk)
{
    if (placement == WEIR_PIPE_V && chunk == 1)
        return 2 * stages - 1 - stage;
    return chunk * stages + stage;
}

void wr_pipe_list_add(struct wr_pipe_list *list, int op, int micro, int chunk, int peer)
{
    if (list->n == list->cap) {
        size_t cap = list->cap ? 2 * list->cap : 64;
        weir_pipe_instr *larger = list->failed ? NULL : realloc(list->instr, cap * sizeof *larger);
        if (!larger) {
            list->failed = true;
            return;
        }
        list->instr = larger;
        list->cap = cap;
    }
    list->instr[list->n++] = (weir_pipe_instr){.op = op, .micro = micro, .chunk = chunk, .peer = peer};
}

struct lowering {
    const struct wr_pipe_shape *shape;
    weir_pipe_placement placement;
    int stage;
    struct wr_pipe_list *list;
};

/* A message of a step with the stage of the neighbouring part (+1 or -1), if there is one and it is another. */
static void message(const struct lowering *l, const struct wr_pipe_step *step, weir_pipe_op op, int to)
{
    int stages = l->shape->stages;
    int part = (int)weir_pipe_part(l->placement, stages, l->stage, step->chunk) + to;
    if (part < 0 || part >= stages * l->shape->chunks)
        return;
    int peer = wr_pipe_part_stage(l->placement, stages, part);
    if (peer != l->stage)
        wr_pipe_list_add(l->list, op, step->micro, step->chunk, peer);
}

static void lower_step(const struct lowering *l, const struct wr_pipe_step *step)
{
    bool back = step->op == WEIR_PIPE_OP_I || step->op == WEIR_PIPE_OP_B;
    if (step->op == WEIR_PIPE_OP_F)
        message(l, step, WEIR_PIPE_OP_RECV_ACT, -1);
    else if (back)
        message(l, step, WEIR_PIPE_OP_RECV_GRAD, 1);
    wr_pipe_list_add(l->list, step->op, step->micro, step->chunk, -1);
    if (step->op == WEIR_PIPE_OP_F)
        message(l, step, WEIR_PIPE_OP_SEND_ACT, 1);
    else if (back)
        message(l, step, WEIR_PIPE_OP_SEND_GRAD, -1);
}

/* Adds the gathers that stand before a step, from the g-th on; returns the next. */
static size_t gathers_before(const struct lowering *l, const struct wr_pipe_gathers *gathers, size_t g, size_t step)
{
    for (; g < gathers->n && gathers->gather[g].at == step; g++)
        wr_pipe_list_add(l->list, gathers->gather[g].op, -1, gathers->gather[g].chunk, -1);
    return g;
}

void wr_pipe_lower(const struct wr_pipe_shape *shape, weir_pipe_placement placement, int stage, const struct wr_pipe_order *order,
                   const struct wr_pipe_gathers *gathers, struct wr_pipe_list *list)
{
    struct lowering l = {.shape = shape, .placement = placement, .stage = stage, .list = list};
    int left[WR_PIPE_CHUNKS_MAX]; /* W and B of a chunk still to come */
    size_t g = gathers_before(&l, gathers, 0, 0);
    for (int c = 0; c < shape->chunks; c++)
        left[c] = shape->micros;
    for (size_t i = 0; i < order->n; i++) {
        const struct wr_pipe_step *step = &order->step[i];
        lower_step(&l, step);
        g = gathers_before(&l, gathers, g, i + 1); /* before the reduction, for they are waited for earlier */
        if ((step->op == WEIR_PIPE_OP_W || step->op == WEIR_PIPE_OP_B) && --left[step->chunk] == 0)
            wr_pipe_list_add(list, WEIR_PIPE_OP_REDUCE_GRAD, -1, step->chunk, -1);
    }
}
