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
    const struct gpt_pass *pass; /* of the call that goes on */
    struct gpt_drop drop;
};

/* For passes of up to so many sequences. Collective. To be freed by gpt_sequence_free() in any case. Of a ring each rank has tokens of both
 * ends of a sequence, so that all have as much to do. */
weir_status gpt_sequence_create(struct gpt_sequence *sequence, const struct gpt_job *job, const struct gpt_config *config,
                                const struct gpt_options *options, int sequences, weir_error *error);
void gpt_sequence_free(struct gpt_sequence *sequence);

/* Sets which tokens of each sequence a pass has on this rank. */
void gpt_sequence_place(const struct gpt_sequence *sequence, const struct gpt_config *config, struct gpt_pass *pass);

/* The rank along sp that has the token at a place of its sequence, and its number among that rank's. */
int gpt_sequence_owner(const struct gpt_sequence *sequence, int place, int64_t *token);

#endif
