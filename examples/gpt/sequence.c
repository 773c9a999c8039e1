/* SPDX-License-Identifier: BSD-3-Clause */
#include "examples/gpt/sequence.h"

#include <stddef.h>
#include <string.h>

static weir_sp *plan_of(struct gpt_attend *attend)
{
    return ((struct gpt_sequence *)(void *)((char *)attend - offsetof(struct gpt_sequence, attend)))->sp;
}

static void forward(struct gpt_attend *attend, const struct gpt_pass *p, const struct gpt_block_acts *a)
{
    int c = gpt_pass_attended(p);
    if (attend->status == WEIR_OK)
        attend->status = weir_sp_attention_forward(plan_of(attend), p->sequences, a->qkv, a->qkv + c, a->qkv + 2 * c, 3 * c, a->heads,
                                                   a->shares);
}

static void backward(struct gpt_attend *attend, const struct gpt_pass *p, const struct gpt_block_acts *a, const real *dheads, real *dqkv)
{
    int c = gpt_pass_attended(p);
    if (attend->status == WEIR_OK)
        attend->status = weir_sp_attention_backward(plan_of(attend), p->sequences, a->qkv, a->qkv + c, a->qkv + 2 * c, 3 * c, a->heads,
                                                    a->shares, dheads, dqkv, dqkv + c, dqkv + 2 * c);
}

weir_status gpt_sequence_create(struct gpt_sequence *s, const struct gpt_job *job, const struct gpt_config *config,
                                const struct gpt_options *o, int sequences, weir_error *error)
{
    weir_sp_options options = WEIR_SP_OPTIONS_INIT;
    *s = (struct gpt_sequence){{WEIR_OK, forward, backward}, NULL};
    if (job->slices == 1)
        return WEIR_OK;
    options.method = !strcmp(o->sp_method, "ring") ? WEIR_SP_RING : WEIR_SP_ULYSSES;
    options.sequences = sequences;
    options.length = config->context;
    options.heads = gpt_own_heads(config);
    options.head_size = config->width / config->heads;
    return weir_sp_create(job->sp, &options, &s->sp, error);
}

void gpt_sequence_free(struct gpt_sequence *s)
{
    weir_sp_free(s->sp);
    s->sp = NULL;
}
