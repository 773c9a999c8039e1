/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For --reproducible: gradients of the micro-batches of a pass, added up in the complete binary tree over their numbers, whichever stage
 * computes them in whichever order. The sums of passes and ranks are added by weir's engine in the tree that goes on above it, so
 * the bits are those of one process that takes one micro-batch after the other.
 *
 * Of wte, which the first and the last layer use, the gradient of a micro-batch is the sum of two: where these layers are on different
 * stages, each keeps its own until the end of the pass, when the stages swap them.
 */
#ifndef GPT_LEAVES_H
#define GPT_LEAVES_H

#include <weir/weir.h>

#include "examples/gpt/part.h"

struct gpt_leaves {
    const struct gpt_config *config;
    int64_t micros; /* of a pass: a power of two, or all that there are */
    int64_t micro;  /* whose backward pass goes on */
    int open;       /* the unit that was asked for last, but for wte */
    struct gpt_tree {
        int64_t size;  /* numbers of the unit, each tensor from a cache line on */
        real **leaves; /* by micro-batch: gradients that are not complete yet; NULL: not there */
        real **nodes;  /* 2 x micros: number n is the sum of 2 n and 2 n + 1, from micros on they are complete gradients; NULL: not there */
    } *trees;          /* by the model's units */
    real *halves[2];   /* of wte, micros x its numbers: of the last layer and of the first; NULL: there is no memory for it yet */
    bool ends;         /* the last layer is here */
};

/* For units that have a mark. begins, ends: whether the first and the last layer are here. To be freed by gpt_leaves_free() in any case. */
weir_status gpt_leaves_create(struct gpt_leaves *leaves, const struct gpt_config *config, const bool *marks, bool begins, bool ends,
                              int64_t micros);
void gpt_leaves_free(struct gpt_leaves *leaves);

/* Before gpt_part_back(): which micro-batch of the pass it is. */
void gpt_leaves_begin(struct gpt_leaves *leaves, int64_t micro);

/* Where the gradients of a unit's tensors in that micro-batch are to be added. */
weir_status gpt_leaves_grads(struct gpt_leaves *leaves, int unit, real **dw);

/* After gpt_part_back() with GPT_BACK_WEIGHT: those of that part are complete. */
void gpt_leaves_end(struct gpt_leaves *leaves, const struct gpt_part *part);

/* At the end of a pass. tied: with the stage that has the other half of wte; NULL: both are here, or none. Collective over that. */
weir_status gpt_leaves_join(struct gpt_leaves *leaves, weir_comm *tied);

/* Adds the sum over the pass of a unit's tensor to `to`, and forgets those of the unit with the last of its tensors. */
void gpt_leaves_take(struct gpt_leaves *leaves, int unit, int tensor, real *to);

#endif
