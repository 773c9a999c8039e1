/* SPDX-License-Identifier: BSD-3-Clause */
/* Layers that are divided among the ranks along tp, by weir's tensor parallelism. */
#ifndef GPT_DIVIDE_H
#define GPT_DIVIDE_H

#include "examples/gpt/job.h"
#include "examples/gpt/layers.h"

struct gpt_divide {
    struct gpt_join join;
    weir_comm *comm;
    weir_tp *tp;        /* NULL: nothing is divided */
    uint64_t *counts;   /* words of each rank */
    float *row;         /* logits of a token */
    float *rest;        /* what is computed with after an error: zeros */
};

/* For passes of up to so many rows, which are divided between layers with `sequence`. Collective. To be freed by gpt_divide_free() in any case. */
weir_status gpt_divide_create(struct gpt_divide *divide, const struct gpt_job *job, const struct gpt_config *config, int64_t rows,
                              bool sequence, weir_error *error);
void gpt_divide_free(struct gpt_divide *divide);

/* The logits of one row, for the whole vocabulary; valid until the next call. Collective along tp. */
weir_status gpt_divide_words(struct gpt_divide *divide, const struct gpt_config *config, const float *logits, int64_t row, const float **whole);

#endif
