/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A part of the model: blocks in a row, with the embedding if they are the first, and the last layers and the loss if they are the
 * last. A rank without pipeline has one part, which is everything; a stage of a pipeline has one for each of its chunks.
 *
 * A part keeps what the backward pass of a micro-batch needs in one of its slots. Parameters and gradients are somebody else's (the
 * store's), and are asked for unit by unit.
 */
#ifndef GPT_PART_H
#define GPT_PART_H

#include <weir/status.h>

#include "examples/gpt/layers.h"

/* Where parameters and gradients are. */
struct gpt_store {
    void *user;
    /* Before a unit is computed with: its tensors, and with `backward` where their gradients are to be added. */
    weir_status (*use)(void *user, int unit, bool backward, const real *const **w, real *const **dw);
    /* After that. */
    weir_status (*done)(void *user, int unit, bool backward);
};

/* What a micro-batch keeps; see part.c. */
struct gpt_slot;

struct gpt_part {
    const struct gpt_config *config;
    const struct gpt_store *store;
    int first, last;     /* blocks first .. last - 1, at least one */
    bool begins, ends;   /* with the embedding; with the last layers and the loss */
    int nslots, ndeferred;
    bool split;          /* gradients of inputs and of weights are made at different times */
    int recompute;       /* every so many blocks keep only their input, and are computed again in the backward pass; 0: none; not with
                            split */
    real *again;         /* memory for that */
    struct gpt_slot *slots, *deferred;
};

/* A micro-batch. Tokens and targets are needed where the part begins or ends. */
struct gpt_micro {
    int64_t number;          /* unlike that of the others that are in work */
    struct gpt_pass pass;
    const int32_t *tokens, *targets;
    double scale;            /* the gradient is that of scale times the sum of the losses */
};

/* What gpt_part_back() is to do. */
enum gpt_back { GPT_BACK_INPUT = 1, GPT_BACK_WEIGHT = 2, GPT_BACK_BOTH = 3 };

/*
 * Makes a part whose config, store, first, last, begins, ends, split and recompute are filled in, for passes as large as `pass`: up to `slots`
 * micro-batches between forward and backward, and of them with `split` up to `deferred` between the two parts of the backward pass.
 * Returns ::WEIR_ERR_NO_MEMORY when there is none. To be freed by gpt_part_free() in any case.
 */
weir_status gpt_part_create(struct gpt_part *part, const struct gpt_pass *pass, int slots, int deferred);
void gpt_part_free(struct gpt_part *part);

/* Bytes that it holds. */
int64_t gpt_part_bytes(const struct gpt_part *part, const struct gpt_pass *pass);

/*
 * Forward. input: from the part before, there until the backward pass has ended; output: for the next one. In the last part the sum
 * of the losses is added to *loss. What was kept stays until gpt_part_back() with GPT_BACK_WEIGHT.
 */
weir_status gpt_part_forward(struct gpt_part *part, const struct gpt_micro *micro, const real *input, real *output, double *loss);

/* Backward. grad_output: of the output, there until the end of the backward pass; grad_input: for the part before. */
weir_status gpt_part_back(struct gpt_part *part, const struct gpt_micro *micro, enum gpt_back what, const real *input,
                          const real *grad_output, real *grad_input);

/* Forward without keeping anything; in the last part the logits, or the loss when there are targets, are left. */
weir_status gpt_part_evaluate(struct gpt_part *part, const struct gpt_micro *micro, const real *input, real *output, double *loss,
                              const real **logits);

#endif
