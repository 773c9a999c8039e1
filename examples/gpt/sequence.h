/* SPDX-License-Identifier: BSD-3-Clause */
/* Attention where the tokens of each sequence are divided among the ranks along sp, by weir's own. */
#ifndef GPT_SEQUENCE_H
#define GPT_SEQUENCE_H

#include "examples/gpt/job.h"
#include "examples/gpt/layers.h"
#include "examples/gpt/options.h"

struct gpt_sequence {
    struct gpt_attend attend;
    weir_sp *sp; /* NULL: sequences are whole */
};

/* For passes of up to so many sequences. Collective. To be freed by gpt_sequence_free() in any case. */
weir_status gpt_sequence_create(struct gpt_sequence *sequence, const struct gpt_job *job, const struct gpt_config *config,
                                const struct gpt_options *options, int sequences, weir_error *error);
void gpt_sequence_free(struct gpt_sequence *sequence);

#endif
