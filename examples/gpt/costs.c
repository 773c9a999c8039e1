/* SPDX-License-Identifier: BSD-3-Clause */
#include "examples/gpt/costs.h"

#include <stdlib.h>
#include <time.h>

enum { FLOWS = 4, TURNS = 3 };

/* One memory for the parameters of any unit, and one for gradients: only the time counts. */
struct bench {
    const struct gpt_config *config;
    struct gpt_store store;
    struct gpt_micro micro;
    real *values, *grads;
    const real *w[2][GPT_BLOCK_TENSORS]; /* of wte, which is used beside others, and of those */
    real *dw[2][GPT_BLOCK_TENSORS];
    int32_t *tokens;
    real *flow[FLOWS]; /* input, output, gradients of the output and of the input */
};

static weir_status use(void *user, int unit, bool backward, const real *const **w, real *const **dw)
{
    struct bench *b = user;
    int64_t at = 0;
    for (int t = 0; t < gpt_unit_tensors(b->config, unit); t++) {
        struct gpt_tensor tensor;
        gpt_unit_tensor(b->config, unit, t, &tensor);
        b->w[unit > 0][t] = b->values + at;
        b->dw[unit > 0][t] = b->grads + at;
        at += tensor.rows * tensor.cols;
    }
    *w = b->w[unit > 0];
    if (backward)
        *dw = b->dw[unit > 0];
    return WEIR_OK;
}

static weir_status done(void *user, int unit, bool backward)
{
    (void)user, (void)unit, (void)backward;
    return WEIR_OK;
}

static int64_t largest_unit(const struct gpt_config *c)
{
    int64_t most = 0;
    for (int u = 0; u < gpt_units(c); u++)
        most = gpt_unit_size(c, u) > most ? gpt_unit_size(c, u) : most;
    return most;
}

static void bench_free(struct bench *b)
{
    free(b->values);
    free(b->grads);
    free(b->tokens);
    free(b->micro.pass.scratch);
    for (int i = 0; i < FLOWS; i++)
        free(b->flow[i]);
}

static weir_status bench_create(struct bench *b, const struct gpt_pass *pass)
{
    int64_t rows = gpt_pass_rows(pass), n = largest_unit(pass->config);
    *b = (struct bench){.config = pass->config, .store = {b, use, done}, .micro = {.pass = *pass, .scale = 1}};
    b->values = calloc((size_t)n, sizeof *b->values);
    b->grads = calloc((size_t)n, sizeof *b->grads);
    b->tokens = calloc((size_t)rows, sizeof *b->tokens);
    b->micro.pass.scratch = calloc((size_t)gpt_scratch_size(pass), sizeof(real));
    bool good = b->values && b->grads && b->tokens && b->micro.pass.scratch;
    for (int i = 0; i < FLOWS; i++) {
        b->flow[i] = calloc((size_t)(rows * pass->config->width), sizeof(real));
        good = good && b->flow[i];
    }
    for (int64_t i = 0; good && i < n; i++)
        b->values[i] = (real)0.02 * (real)(i % 7 - 3);
    b->micro.pass.training = true;
    b->micro.tokens = b->micro.targets = b->tokens;
    return good ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Seconds of one block, the least of some turns. */
static weir_status time_part(struct bench *b, bool begins, bool ends, double *seconds)
{
    struct gpt_part part = {.config = b->config, .store = &b->store, .first = 0, .last = 1, .begins = begins, .ends = ends};
    weir_status status = gpt_part_create(&part, &b->micro.pass, 1, 1);
    for (int i = 0; i < TURNS && status == WEIR_OK; i++) {
        double loss = 0, begin = now();
        status = gpt_part_forward(&part, &b->micro, b->flow[0], b->flow[1], &loss);
        if (status == WEIR_OK)
            status = gpt_part_back(&part, &b->micro, GPT_BACK_BOTH, b->flow[0], b->flow[2], b->flow[3]);
        double took = now() - begin;
        *seconds = i && *seconds < took ? *seconds : took;
    }
    gpt_part_free(&part);
    return status;
}

weir_status gpt_costs_measure(const struct gpt_job *job, const struct gpt_pass *pass, double *seconds)
{
    struct bench b;
    double times[3] = {0, 0, 0};
    int last = pass->config->layers - 1, good, all = 0;
    weir_status status = bench_create(&b, pass);
    good = status == WEIR_OK && seconds; /* who has no memory must not leave the others alone in what they compute together */
    weir_status met = weir_allreduce(job->all, &good, &all, 1, WEIR_INT32, WEIR_MIN);
    for (int i = 0; i < 3 && met == WEIR_OK && all && status == WEIR_OK; i++)
        status = time_part(&b, i == 1, i == 2, &times[i]);
    bench_free(&b);
    if (met == WEIR_OK && status == WEIR_OK && all)
        met = weir_allreduce(job->all, WEIR_IN_PLACE, times, 3, WEIR_FP64, WEIR_MIN);
    if (met != WEIR_OK || status != WEIR_OK || !all || !seconds)
        return met != WEIR_OK ? met : status != WEIR_OK ? status : seconds ? WEIR_ERR_CANCELED : WEIR_ERR_NO_MEMORY;
    for (int l = 0; l <= last; l++)
        seconds[l] = times[0];
    seconds[0] += times[1] > times[0] ? times[1] - times[0] : 0;
    seconds[last] += times[2] > times[0] ? times[2] - times[0] : 0;
    return WEIR_OK;
}
