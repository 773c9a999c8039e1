/* SPDX-License-Identifier: BSD-3-Clause */
#include "examples/gpt/sequence.h"

#include <stddef.h>
#include <string.h>

static struct gpt_sequence *sequence_of(struct gpt_attend *attend)
{
    return (struct gpt_sequence *)(void *)((char *)attend - offsetof(struct gpt_sequence, attend));
}

/* Begins a call: what the callback has to know. */
static weir_sp *begin(struct gpt_attend *attend, const struct gpt_pass *p, int layer)
{
    struct gpt_sequence *s = sequence_of(attend);
    s->pass = p;
    s->drop = gpt_pass_drop(p, layer, GPT_DROP_ATTENTION);
    return s->sp;
}

static void drop(void *user, int64_t sequence, int64_t head, int64_t query, int64_t key, int64_t n, float *shares)
{
    const struct gpt_sequence *s = user;
    int before;
    gpt_own(s->pass->config, s->pass->config->heads, &before);
    uint32_t first = gpt_attention_element(s->pass, sequence, before + head) + (uint32_t)(query * s->pass->config->context + key);
    if (s->drop.threshold)
        s->pass->kernels->drop(n, shares, &s->drop, first, shares);
}

static void forward(struct gpt_attend *attend, const struct gpt_pass *p, int layer, const struct gpt_block_acts *a)
{
    int c = gpt_pass_attended(p);
    if (attend->status == WEIR_OK)
        attend->status = weir_sp_attention_forward(begin(attend, p, layer), p->sequences, a->qkv, a->qkv + c, a->qkv + 2 * c, 3 * c,
                                                   a->heads, a->shares);
}

static void backward(struct gpt_attend *attend, const struct gpt_pass *p, int layer, const struct gpt_block_acts *a, const real *dheads,
                     real *dqkv)
{
    int c = gpt_pass_attended(p);
    if (attend->status == WEIR_OK)
        attend->status = weir_sp_attention_backward(begin(attend, p, layer), p->sequences, a->qkv, a->qkv + c, a->qkv + 2 * c, 3 * c,
                                                    a->heads, a->shares, dheads, dqkv, dqkv + c, dqkv + 2 * c);
}

weir_status gpt_sequence_create(struct gpt_sequence *s, const struct gpt_job *job, const struct gpt_config *config,
                                const struct gpt_options *o, int sequences, weir_error *error)
{
    weir_sp_options options = WEIR_SP_OPTIONS_INIT;
    *s = (struct gpt_sequence){.attend = {WEIR_OK, forward, backward}};
    if (job->slices == 1)
        return WEIR_OK;
    if (!strcmp(o->sp_method, "ring")) {
        options.method = WEIR_SP_RING;
        options.flags |= WEIR_SP_ZIGZAG;
    }
    options.sequences = sequences;
    options.length = config->context;
    options.heads = gpt_own_heads(config);
    options.head_size = config->width / config->heads;
    options.drop = o->dropout > 0 ? drop : NULL;
    options.drop_user = s;
    return weir_sp_create(job->sp, &options, &s->sp, error);
}

void gpt_sequence_free(struct gpt_sequence *s)
{
    weir_sp_free(s->sp);
    s->sp = NULL;
}

void gpt_sequence_place(const struct gpt_sequence *s, const struct gpt_config *config, struct gpt_pass *p)
{
    int64_t first = 0;
    p->length = s->sp ? (int)weir_sp_rows(s->sp, &first) : config->context;
    p->position = (int)first;
    p->before = p->length;
    p->jump = 0;
    for (int i = p->length; s->sp && i-- > 0;) {
        int jump = (int)weir_sp_place(s->sp, i) - p->position - i;
        p->jump = jump > p->jump ? jump : p->jump;
        p->before = jump ? i : p->before;
    }
}

int gpt_sequence_owner(const struct gpt_sequence *s, int place, int64_t *token)
{
    *token = place;
    return s->sp ? weir_sp_owner(s->sp, place, token) : 0;
}
