/* SPDX-License-Identifier: BSD-3-Clause */
#include "examples/gpt/divide.h"

#include <stddef.h>
#include <stdlib.h>

static weir_tp *plan_of(struct gpt_join *join)
{
    return ((struct gpt_divide *)(void *)((char *)join - offsetof(struct gpt_divide, join)))->tp;
}

static int64_t own(const struct gpt_join *join, const struct gpt_pass *p, int64_t *first)
{
    return weir_tp_rows(((const struct gpt_divide *)(const void *)((const char *)join - offsetof(struct gpt_divide, join)))->tp,
                        gpt_pass_rows(p), first);
}

static void start(struct gpt_join *join, const struct gpt_pass *p, const real *x)
{
    if (join->status == WEIR_OK)
        join->status = weir_tp_reduce_start(plan_of(join), gpt_pass_rows(p), x);
}

static void end(struct gpt_join *join, const struct gpt_pass *p, real *y)
{
    (void)p;
    if (join->status == WEIR_OK)
        join->status = weir_tp_reduce_end(plan_of(join), y);
}

static const real *gather(struct gpt_join *join, const struct gpt_pass *p, const real *x)
{
    struct gpt_divide *d = (struct gpt_divide *)(void *)((char *)join - offsetof(struct gpt_divide, join));
    const real *whole = d->rest;
    if (join->status == WEIR_OK)
        join->status = weir_tp_gather(d->tp, gpt_pass_rows(p), x, &whole);
    return whole;
}

static double loss(struct gpt_join *join, const struct gpt_pass *p, const int32_t *targets, double scale, real *logits)
{
    double total = 0;
    if (join->status == WEIR_OK)
        join->status = weir_tp_cross_entropy(plan_of(join), gpt_pass_rows(p), p->config->vocabulary, targets, (float)scale, logits, NULL,
                                             &total);
    return total;
}

weir_status gpt_divide_create(struct gpt_divide *d, const struct gpt_job *job, const struct gpt_config *config, int64_t rows,
                              bool sequence, weir_error *error)
{
    weir_tp_options options = WEIR_TP_OPTIONS_INIT;
    *d = (struct gpt_divide){.join = {WEIR_OK, own, start, end, gather, loss}, .comm = job->tp};
    if (job->ways == 1)
        return WEIR_OK;
    d->counts = calloc((size_t)job->ways, sizeof *d->counts);
    d->row = calloc((size_t)config->vocabulary, sizeof *d->row);
    for (int r = 0; d->counts && r < job->ways; r++)
        d->counts[r] = (uint64_t)weir_share(config->vocabulary, job->ways, r);
    options.tokens = rows;
    options.width = config->width;
    options.flags = sequence ? WEIR_TP_SEQUENCE : 0;
    d->rest = calloc((size_t)(rows * config->width), sizeof *d->rest);
    weir_status status = weir_tp_create(job->tp, &options, &d->tp, error);
    return status == WEIR_OK && (!d->counts || !d->row || !d->rest) ? WEIR_ERR_NO_MEMORY : status;
}

void gpt_divide_free(struct gpt_divide *d)
{
    weir_tp_free(d->tp);
    free(d->counts);
    free(d->row);
    free(d->rest);
    d->tp = NULL;
    d->rest = NULL;
    d->counts = NULL;
    d->row = NULL;
}

weir_status gpt_divide_words(struct gpt_divide *d, const struct gpt_config *config, const float *logits, int64_t row, const float **whole)
{
    int first, words = gpt_own(config, config->vocabulary, &first);
    *whole = d->tp ? d->row : logits + row * words;
    return d->tp ? weir_allgatherv(d->comm, logits + row * words, d->row, d->counts, NULL, WEIR_FP32) : WEIR_OK;
}
