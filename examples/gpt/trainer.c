/* SPDX-License-Identifier: BSD-3-Clause */
/* Making a trainer: the cut of the model, the schedule, and memory. */
#include "examples/gpt/costs.h"
#include "examples/gpt/trainer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((format(printf, 2, 3))) static weir_status refuse(weir_error *error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    *error = (weir_error){.status = WEIR_ERR_INVALID, .rank = -1};
    vsnprintf(error->message, sizeof error->message, format, args);
    va_end(args);
    return WEIR_ERR_INVALID;
}

int gpt_trainer_owner(const struct gpt_trainer *t, int64_t part, int64_t *chunk)
{
    int64_t stages = t->job->stages;
    for (int64_t s = 0; s < stages; s++)
        for (*chunk = 0; *chunk < t->nparts; ++*chunk)
            if (!t->pipe || weir_pipe_part(t->lists.placement, stages, s, *chunk) == part)
                return (int)s;
    return -1;
}

/* The schedule's lists. */
static weir_status make_lists(struct gpt_trainer *t, weir_error *error)
{
    const struct gpt_options *o = t->options;
    weir_pipe_options options = WEIR_PIPE_OPTIONS_INIT;
    weir_status status = weir_pipe_schedule_find(o->schedule, &options.schedule, error);
    if (status != WEIR_OK)
        return status;
    options.stages = t->job->stages;
    options.microbatches = o->microbatches;
    options.chunks = o->chunks;
    options.zero = o->zero;
    status = weir_pipe_create(&options, &t->pipe, error);
    if (status != WEIR_OK)
        return status;
    t->lists.size = sizeof t->lists;
    weir_pipe_get_lists(t->pipe, &t->lists);
    t->nparts = (int)t->lists.chunks;
    return WEIR_OK;
}

/* Which blocks each part has. The embedding weighs with the first, the last layers with the last block. */
static weir_status cut(struct gpt_trainer *t, int64_t *first, weir_error *error)
{
    const struct gpt_config *c = &t->config;
    if (t->costs)
        return weir_pipe_cut(t->costs, c->layers, t->total_parts, first, error);
    double *weights = calloc((size_t)c->layers, sizeof *weights);
    if (!weights)
        return WEIR_ERR_NO_MEMORY;
    for (int l = 0; l < c->layers; l++)
        weights[l] = (double)gpt_unit_size(c, 2 + l);
    weights[0] += (double)(gpt_unit_size(c, 0) + gpt_unit_size(c, 1));
    weights[c->layers - 1] += (double)(gpt_unit_size(c, 0) + gpt_unit_size(c, gpt_units(c) - 1));
    weir_status status = weir_pipe_cut(strcmp(t->options->cut, "uniform") ? weights : NULL, c->layers, t->total_parts, first, error);
    free(weights);
    return status;
}

/* Micro-batches that a stage keeps at most between the two halves of the backward pass, and whether it has those at all. */
static weir_status deferred(const struct gpt_trainer *t, bool *split, int *count, weir_error *error)
{
    weir_pipe_stage_report *reports = calloc((size_t)t->lists.stages, sizeof *reports);
    weir_status status = reports ? weir_pipe_check(&t->lists, NULL, reports, error) : WEIR_ERR_NO_MEMORY;
    if (status == WEIR_OK) {
        const weir_pipe_instr *list = t->lists.instrs[t->job->stage];
        for (int64_t i = 0; i < t->lists.lengths[t->job->stage]; i++)
            *split |= list[i].op == WEIR_PIPE_OP_I;
        *count = (int)reports[t->job->stage].deferred;
    }
    free(reports);
    return status;
}

/* A part keeps as many micro-batches at once as its list asks for. */
static int slots_of(const struct gpt_trainer *t, int64_t chunk)
{
    int held = 0, most = 1;
    if (!t->pipe)
        return 1;
    const weir_pipe_instr *list = t->lists.instrs[t->job->stage];
    for (int64_t i = 0; i < t->lists.lengths[t->job->stage]; i++) {
        if (list[i].chunk == chunk && list[i].op == WEIR_PIPE_OP_F)
            most = ++held > most ? held : most;
        if (list[i].chunk == chunk && (list[i].op == WEIR_PIPE_OP_W || list[i].op == WEIR_PIPE_OP_B))
            held--;
    }
    return most;
}

static weir_status make_parts(struct gpt_trainer *t, bool *marks, struct gpt_share *share, weir_error *error)
{
    int last_unit = gpt_units(&t->config) - 1, count = 0;
    int64_t chunk, *first = calloc((size_t)t->total_parts + 1, sizeof *first);
    bool split = false;
    t->parts = calloc((size_t)t->nparts, sizeof *t->parts);
    weir_status status = first && t->parts ? cut(t, first, error) : WEIR_ERR_NO_MEMORY;
    if (status == WEIR_OK && t->pipe)
        status = deferred(t, &split, &count, error);
    if (status == WEIR_OK && split && t->options->recompute)
        status = refuse(error, "--recompute is for schedules that do not divide the backward pass, which %s does", t->options->schedule);
    for (int64_t p = 0; p < t->total_parts && status == WEIR_OK; p++) {
        if (gpt_trainer_owner(t, p, &chunk) != t->job->stage)
            continue;
        struct gpt_part *part = &t->parts[chunk];
        *part = (struct gpt_part){.config = &t->config, .store = &t->shards.store, .first = (int)first[p], .last = (int)first[p + 1],
                                  .begins = p == 0, .ends = p == t->total_parts - 1, .split = split,
                                  .recompute = (int)t->options->recompute};
        share->begins |= part->begins;
        share->ends |= part->ends;
        marks[0] |= part->begins || part->ends;
        marks[1] |= part->begins;
        marks[last_unit] |= part->ends;
        for (int b = part->first; b < part->last; b++)
            marks[2 + b] = true;
        status = gpt_part_create(part, &t->micro.pass, slots_of(t, chunk), count ? count : 1);
    }
    if (status == WEIR_OK)
        share->apart = gpt_trainer_owner(t, 0, &chunk) != gpt_trainer_owner(t, t->total_parts - 1, &chunk);
    free(first);
    return status;
}

/* What is checked before anything is made: that the step can be divided. And how it then is. */
static weir_status check(struct gpt_trainer *t, weir_error *error)
{
    const struct gpt_options *o = t->options;
    const char *why = gpt_config_check(&t->config);
    int64_t ways = t->job->replicas * o->microbatches * o->accumulate;
    if (why)
        return refuse(error, "%s", why);
    if (o->context < t->job->slices)
        return refuse(error, "a context of %lld tokens cannot be divided among %d ranks", (long long)o->context, t->job->slices);
    if (o->batch % ways)
        return refuse(error, "a step of %lld sequences cannot be divided by %d data-parallel ranks x %lld micro-batches x %lld runs; "
                      "--batch must be a multiple of %lld", (long long)o->batch, t->job->replicas, (long long)o->microbatches,
                      (long long)o->accumulate, (long long)ways);
    if (o->reproducible && ways & (ways - 1))
        return refuse(error, "with --reproducible the data-parallel ranks x micro-batches x runs of a step are a power of two, not %lld",
                      (long long)ways);
    t->per_rank = o->batch / t->job->replicas;
    t->micro.pass = (struct gpt_pass){.config = &t->config, .kernels = gpt_kernels_find(NULL), .sequences = (int)(o->batch / ways),
                                      .join = t->job->ways > 1 ? &t->divide.join : NULL,
                                      .attend = t->job->slices > 1 ? &t->sequence.attend : NULL};
    return WEIR_OK;
}

static weir_status make_memory(struct gpt_trainer *t)
{
    struct gpt_pass *pass = &t->micro.pass;
    size_t numbers = (size_t)(gpt_pass_rows(pass) * t->config.width);
    t->tokens = calloc((size_t)(t->per_rank * t->config.context), sizeof *t->tokens);
    t->targets = calloc((size_t)(t->per_rank * t->config.context), sizeof *t->targets);
    pass->scratch = calloc((size_t)gpt_scratch_size(pass), sizeof *pass->scratch);
    t->flow[0] = calloc(numbers, sizeof(real));
    t->flow[1] = calloc(numbers, sizeof(real));
    if (t->options->reproducible) {
        int64_t step = t->options->batch / pass->sequences, check = t->data->checks / pass->sequences + 1;
        t->nlosses = step > check ? step : check;
        if (!(t->losses = calloc((size_t)t->nlosses, sizeof *t->losses)))
            return WEIR_ERR_NO_MEMORY;
    }
    return t->tokens && t->targets && pass->scratch && t->flow[0] && t->flow[1] ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

/* For --cut time. Collective. */
static weir_status measure(struct gpt_trainer *t)
{
    if (strcmp(t->options->cut, "time") || t->job->stages == 1)
        return WEIR_OK;
    t->costs = calloc((size_t)t->config.layers, sizeof *t->costs);
    return gpt_costs_measure(t->job, &t->micro.pass, t->costs);
}

/* All that a rank does for itself. */
static weir_status prepare(struct gpt_trainer *t, bool *marks, struct gpt_share *share, weir_error *error)
{
    weir_status status = t->job->stages > 1 ? make_lists(t, error) : WEIR_OK;
    if (status != WEIR_OK)
        return status;
    t->total_parts = (int64_t)t->job->stages * t->nparts;
    status = make_memory(t);
    return status == WEIR_OK ? make_parts(t, marks, share, error) : status;
}

bool gpt_trainer_create(struct gpt_trainer *t, struct gpt_job *job, const struct gpt_options *o, const struct gpt_settings *settings,
                        const struct gpt_data *data)
{
    weir_error error = {.status = WEIR_OK};
    *t = (struct gpt_trainer){.job = job, .options = o, .data = data, .nparts = 1};
    t->config = (struct gpt_config){(int)o->vocabulary, (int)o->context, (int)o->width, (int)o->heads, (int)o->layers, o->dropout,
                                    job->ways, job->way};
    bool *marks = calloc((size_t)o->layers + 3, sizeof *marks);
    struct gpt_share share = {.marks = marks};
    bool good = gpt_job_check(job, marks ? check(t, &error) : WEIR_ERR_NO_MEMORY, &error);
    good = good && gpt_job_check(job, gpt_sequence_create(&t->sequence, job, &t->config, o, t->micro.pass.sequences, &error), &error);
    if (good)
        gpt_sequence_place(&t->sequence, &t->config, &t->micro.pass);
    good = good && gpt_job_check(job, gpt_divide_create(&t->divide, job, &t->config, gpt_pass_rows(&t->micro.pass), o->tp_sequence, &error), &error);
    good = good && gpt_job_check(job, measure(t), &error);
    good = good && gpt_job_check(job, prepare(t, marks, &share, &error), &error);
    t->micros = share.micros = t->pipe ? o->microbatches : 1;
    share.passes = t->pipe ? o->accumulate : o->accumulate * o->microbatches;
    good = good && gpt_shards_create(&t->shards, job, &t->config, o, settings, &share);
    free(marks);
    return good && (!t->pipe || gpt_job_check(job, gpt_trainer_make_engine(t, &error), &error));
}

void gpt_trainer_free(struct gpt_trainer *t)
{
    weir_pipe_engine_destroy(t->engine);
    gpt_sequence_free(&t->sequence);
    gpt_divide_free(&t->divide);
    gpt_shards_free(&t->shards);
    gpt_trace_free(&t->trace);
    weir_pipe_destroy(t->pipe);
    for (int i = 0; t->parts && i < t->nparts; i++)
        gpt_part_free(&t->parts[i]);
    free(t->parts);
    free(t->tokens);
    free(t->targets);
    free(t->micro.pass.scratch);
    free(t->flow[0]);
    free(t->flow[1]);
    free(t->losses);
    free(t->costs);
}
