/* SPDX-License-Identifier: BSD-3-Clause */
/* The model forward: validation and sampling. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "examples/gpt/random.h"
#include "examples/gpt/trainer.h"

/* Part p, where it is: its input comes from the stage of the part before it, or lies here. */
static weir_status one_part(struct gpt_trainer *t, int64_t p, struct gpt_micro *m, double *loss, const real **logits)
{
    int64_t chunk, other;
    uint64_t bytes = (uint64_t)(gpt_pass_own(&m->pass, NULL) * t->config.width) * sizeof(real);
    real *input = t->flow[p % 2], *output = t->flow[(p + 1) % 2];
    int owner = gpt_trainer_owner(t, p, &chunk);
    if (owner != t->job->stage)
        return WEIR_OK;
    int before = p > 0 ? gpt_trainer_owner(t, p - 1, &other) : owner;
    int after = p + 1 < t->total_parts ? gpt_trainer_owner(t, p + 1, &other) : owner;
    weir_status status = WEIR_OK;
    if (before != owner)
        status = weir_recv(t->job->pp, input, bytes, before, (int)p, NULL);
    if (status == WEIR_OK)
        status = gpt_part_evaluate(&t->parts[chunk], m, input, output, loss, logits);
    if (status == WEIR_OK && after != owner)
        status = weir_send(t->job->pp, output, bytes, after, (int)p + 1);
    return status;
}

weir_status gpt_trainer_forward(struct gpt_trainer *t, int sequences, int length, const int32_t *tokens, const int32_t *targets,
                                double *loss, const real **logits)
{
    struct gpt_micro m = t->micro;
    m.pass.sequences = sequences;
    m.pass.length = length;
    m.tokens = tokens;
    m.targets = targets;
    *logits = NULL;
    weir_status status = weir_zero_begin(t->shards.zero, WEIR_ZERO_EVAL);
    for (int64_t p = 0; p < t->total_parts && status == WEIR_OK; p++)
        status = one_part(t, p, &m, loss, logits);
    return status == WEIR_OK ? weir_zero_end(t->shards.zero) : status;
}

void gpt_trainer_slice(struct gpt_trainer *t, int64_t sequences)
{
    const struct gpt_pass *p = &t->micro.pass;
    for (int64_t s = 0; s < sequences && p->length < t->config.context; s++) {
        for (int i = 0; i < p->length; i++) {
            int64_t from = s * t->config.context + gpt_pass_place(p, i), to = s * p->length + i;
            t->tokens[to] = t->tokens[from];
            t->targets[to] = t->targets[from];
        }
    }
}

weir_status gpt_trainer_validate(struct gpt_trainer *t, double *loss)
{
    const struct gpt_data *d = t->data;
    int64_t size = t->micro.pass.sequences, stride = size * t->job->replicas;
    double mine = 0;
    const real *logits;
    *loss = NAN;
    if (!d->checks)
        return WEIR_OK;
    for (int64_t i = t->job->replica * size; i < d->checks; i += stride) {
        int n = (int)(d->checks - i < size ? d->checks - i : size);
        gpt_data_check(d, i, n, t->tokens, t->targets);
        gpt_trainer_slice(t, n);
        double *sum = t->losses ? &t->losses[i / size] : &mine;
        weir_status status = gpt_trainer_forward(t, n, t->micro.pass.length, t->tokens, t->targets, sum, &logits);
        if (status != WEIR_OK)
            return status;
    }
    mine = t->job->way ? 0 : mine; /* the same on all that divide a layer */
    weir_status status = gpt_trainer_sum(t, &mine, 1);
    if (status == WEIR_OK)
        *loss = mine / (double)(d->checks * t->config.context);
    return status;
}

/* Draws a token from logits. */
static int32_t draw(const struct gpt_trainer *t, const real *logits, double *shares, int64_t n)
{
    int v = t->config.vocabulary;
    double most = logits[0], sum = 0, at = gpt_uniform((uint64_t)t->options->seed + 2, (uint64_t)n);
    for (int i = 1; i < v; i++)
        most = logits[i] > most ? logits[i] : most;
    for (int i = 0; i < v; i++)
        sum += shares[i] = exp((logits[i] - most) / t->options->temperature);
    at *= sum;
    for (int i = 0; i < v; i++)
        if ((at -= shares[i]) < 0)
            return i;
    return v - 1;
}

weir_status gpt_trainer_sample(struct gpt_trainer *t, const int32_t *prompt, int length, int n, int32_t *tokens)
{
    int context = t->config.context;
    int64_t chunk, last = gpt_trainer_owner(t, t->total_parts - 1, &chunk);
    int32_t *window = calloc((size_t)context, sizeof *window);
    double *shares = calloc((size_t)t->config.vocabulary, sizeof *shares), none = 0;
    weir_status status = window && shares ? WEIR_OK : WEIR_ERR_NO_MEMORY;
    if (status == WEIR_OK) {
        prompt += length > context ? length - context : 0;
        length = length > context ? context : length;
        memcpy(window, prompt, (size_t)length * sizeof *window);
    }
    for (int i = 0; i < n && status == WEIR_OK; i++) {
        const real *logits;
        int64_t row; /* where sequences are divided they are always whole; what follows the last token is not looked at */
        int slice = gpt_sequence_owner(&t->sequence, length - 1, &row), here = t->job->slices > 1 ? t->micro.pass.length : length;
        memcpy(t->tokens, window, (size_t)context * sizeof *window);
        gpt_trainer_slice(t, 1);
        status = gpt_trainer_forward(t, 1, here, t->tokens, NULL, &none, &logits);
        if (status == WEIR_OK && logits && slice == t->job->slice)
            status = gpt_divide_words(&t->divide, &t->config, logits, row, &logits);
        if (status == WEIR_OK && logits && slice == t->job->slice)
            tokens[i] = draw(t, logits, shares, i);
        if (status == WEIR_OK)
            status = weir_bcast(t->job->model, &tokens[i], 1, WEIR_INT32, ((int)last * t->job->slices + slice) * t->job->ways);
        if (length == context)
            memmove(window, window + 1, (size_t)--length * sizeof *window);
        window[length++] = tokens[i];
    }
    free(window);
    free(shares);
    return status;
}
