/* SPDX-License-Identifier: BSD-3-Clause */
#include "examples/gpt/settings.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What is being read, and where. */
struct reading {
    struct gpt_settings *s;
    struct gpt_job *job;
    struct gpt_options *o;
    weir_error *error;
};

__attribute__((format(printf, 2, 3))) static weir_status refuse(const struct reading *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    *r->error = (weir_error){.status = WEIR_ERR_INVALID, .rank = -1};
    vsnprintf(r->error->message, sizeof r->error->message, format, args);
    va_end(args);
    return WEIR_ERR_INVALID;
}

/* Whether the command line says it; when that is something else than the file says, the user is told. */
static bool overridden(const struct reading *r, const char *option, double line, const char *key, double file)
{
    if (!gpt_options_given(r->o, option))
        return false;
    if (line != file && weir_comm_rank(r->job->all) == 0)
        fprintf(stderr, "weir-gpt: --%s %g takes the place of %g, which '%s' is in %s\n", option, line, file, key, r->o->config);
    return true;
}

static void take_integer(const struct reading *r, const char *option, int64_t *value, const char *key, uint64_t file)
{
    if (!overridden(r, option, (double)*value, key, (double)file))
        *value = (int64_t)file;
}

static void take_number(const struct reading *r, const char *option, double *value, const char *key, double file)
{
    if (!overridden(r, option, *value, key, file))
        *value = file;
}

/* A step of the file has `train` sequences, of which a rank takes `micro` at a time, `accumulate` times. */
static void take_batch(const struct reading *r)
{
    weir_zero_batch batch = {.size = sizeof batch};
    weir_zero_config_batch(r->s->config, &batch);
    take_integer(r, "batch", &r->o->batch, "train_batch_size", batch.train);
    if (gpt_options_given(r->o, "accumulate") && !gpt_options_given(r->o, "microbatches"))
        r->o->microbatches = (int64_t)batch.accumulate / r->o->accumulate;
    else
        take_integer(r, "microbatches", &r->o->microbatches, "gradient_accumulation_steps", batch.accumulate);
}

/* The optimizer of the file, unless the command line has one. */
static weir_status take_optimizer(const struct reading *r)
{
    struct gpt_settings *s = r->s;
    if (!s->zero.ngroups)
        return WEIR_OK;
    if (gpt_options_given(r->o, "rule")) {
        if (weir_comm_rank(r->job->all) == 0)
            fprintf(stderr, "weir-gpt: --rule %s takes the place of the optimizer in %s\n", r->o->rule, r->o->config);
        return WEIR_OK;
    }
    if (gpt_options_given(r->o, "beta2") || gpt_options_given(r->o, "lr-schedule"))
        return refuse(r, "--beta2 and --lr-schedule change the optimizer of the command line, but %s has one: give --rule, too, or change the file",
                      r->o->config);
    s->optimizer = true;
    s->group = s->zero.groups[0];
    s->schedule = *s->group.schedule;
    s->group.schedule = &s->schedule;
    s->zero.groups = &s->group;
    double warmup = (double)s->schedule.warmup;
    if (overridden(r, "lr", r->o->lr, "lr", s->schedule.lr))
        s->schedule.lr = r->o->lr;
    if (overridden(r, "final-lr", r->o->final_lr, "final learning rate", s->schedule.final_lr))
        s->schedule.final_lr = r->o->final_lr;
    if (overridden(r, "warmup", (double)r->o->warmup, "warmup_num_steps", warmup))
        s->schedule.warmup = (uint64_t)r->o->warmup;
    if (overridden(r, "weight-decay", r->o->weight_decay, "weight_decay", s->group.weight_decay))
        s->group.weight_decay = r->o->weight_decay;
    return weir_schedule_check(&s->schedule, r->error);
}

/* Parameters in bf16 are --dtype bf16: layers compute, and add up gradients, in fp32. */
static weir_status take_types(const struct reading *r)
{
    weir_zero_options *z = &r->s->zero;
    if (z->param_type == WEIR_FP16 || z->grad_type == WEIR_FP16)
        return refuse(r, "%s wants fp16, which weir-gpt does not store: take bf16", r->o->config);
    const char *dtype = z->param_type == WEIR_BF16 ? "bf16" : "fp32";
    if (!gpt_options_given(r->o, "dtype"))
        r->o->dtype = dtype;
    else if (strcmp(r->o->dtype, dtype) && weir_comm_rank(r->job->all) == 0)
        fprintf(stderr, "weir-gpt: --dtype %s takes the place of %s, which is in %s\n", r->o->dtype, dtype, r->o->config);
    z->param_type = z->grad_type = WEIR_FP32;
    z->reduce_type = z->reduce_type == WEIR_BF16 && !r->o->reproducible ? WEIR_BF16 : WEIR_FP32;
    return WEIR_OK;
}

static weir_status read_file(const struct reading *r)
{
    struct gpt_settings *s = r->s;
    weir_status status = weir_zero_config_read(r->o->config, r->job->replicas, &s->config, r->error);
    if (status == WEIR_OK)
        status = weir_zero_config_options(s->config, &s->zero);
    if (status != WEIR_OK)
        return status;
    if ((status = take_types(r)) != WEIR_OK)
        return status;
    take_batch(r);
    take_integer(r, "zero", &r->o->zero, "zero_optimization.stage", s->zero.stage);
    take_number(r, "clip", &r->o->clip, "gradient_clipping", s->zero.clip_norm);
    if (s->zero.seed)
        take_integer(r, "seed", &r->o->seed, "seed", s->zero.seed);
    return take_optimizer(r);
}

/* Micro-batches that nobody has said anything of: with --reproducible of one sequence, else as many as there are stages. */
static void complete(const struct reading *r)
{
    struct gpt_options *o = r->o;
    int64_t each = o->batch / r->job->replicas / o->accumulate;
    if (!o->microbatches)
        o->microbatches = o->reproducible && each ? each : o->pp;
}

bool gpt_settings_read(struct gpt_settings *s, struct gpt_job *job, struct gpt_options *o)
{
    weir_error error = {.status = WEIR_OK};
    struct reading r = {s, job, o, &error};
    *s = (struct gpt_settings){.zero = WEIR_ZERO_OPTIONS_INIT};
    if (o->config && !gpt_job_check(job, read_file(&r), &error))
        return false;
    complete(&r);
    return true;
}

void gpt_settings_free(struct gpt_settings *s)
{
    weir_zero_config_free(s->config);
    s->config = NULL;
}
