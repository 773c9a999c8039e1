/* SPDX-License-Identifier: BSD-3-Clause */
/* What a configuration in DeepSpeed's vocabulary gives becomes options of weir. */
#include "optim/zero_config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

static double or_else(wr_zero_real value, double otherwise)
{
    return isnan(value) ? otherwise : value;
}

static weir_status refuse(weir_error *err, const char *key, const char *why)
{
    return wr_error_set(err, WEIR_ERR_UNSUPPORTED, "leave it out, or see doc/zero-config.md", "'%s': %s", key, why);
}

static weir_status wrong(weir_error *err, const char *key, const char *why)
{
    return wr_error_set(err, WEIR_ERR_CONFIG, "see doc/zero-config.md", "'%s': %s", key, why);
}

/* ---- batch sizes ---- */

/* Completes what was left out, in the way of DeepSpeed. */
static weir_status complete_batch(const struct wr_zero_raw *raw, uint64_t ranks, weir_zero_batch *b, weir_error *err)
{
    wr_zero_count train = raw->train, micro = raw->micro, accumulate = raw->accumulate;
    if (!train || !micro || !accumulate || (train > 0 && train > INT32_MAX) || micro > INT32_MAX ||
        accumulate > INT32_MAX)
        return wrong(err, "train_batch_size", "batch sizes and gradient_accumulation_steps are 1 to 2147483647");
    if (train < 0 && micro < 0)
        return wrong(err, "train_batch_size", "it or train_micro_batch_size_per_gpu is needed");
    uint64_t n = ranks;
    if (accumulate < 0)
        accumulate = train > 0 && micro > 0 ? train / (wr_zero_count)(n * (uint64_t)micro) : 1;
    accumulate = accumulate < 1 ? 1 : accumulate;
    if (micro < 0)
        micro = train / (wr_zero_count)(n * (uint64_t)accumulate);
    b->micro = (uint64_t)micro;
    b->accumulate = (uint64_t)accumulate;
    b->train = train > 0 ? (uint64_t)train : b->micro * b->accumulate * n;
    return WEIR_OK;
}

static weir_status apply_batch(const struct wr_zero_raw *raw, int nranks, weir_zero_config *config, weir_error *err)
{
    weir_zero_batch *b = &config->batch;
    uint64_t ranks = (uint64_t)nranks;
    weir_status status = complete_batch(raw, ranks, b, err);
    if (status != WEIR_OK)
        return status;
    b->size = sizeof *b;
    if (b->micro * b->accumulate > UINT64_MAX / ranks || b->micro * b->accumulate * ranks != b->train)
        return wr_error_set(err, WEIR_ERR_CONFIG, "change one of them, or the number of ranks",
                            "train_batch_size %" PRIu64 " is not train_micro_batch_size_per_gpu %" PRIu64
                            " x gradient_accumulation_steps %" PRIu64 " x %d rank%s",
                            b->train, b->micro, b->accumulate, nranks, nranks == 1 ? "" : "s");
    config->options.accumulate = b->accumulate;
    return WEIR_OK;
}

/* ---- types ---- */

static bool type_of(const char *word, uint64_t *type)
{
    static const struct {
        const char *word;
        uint64_t type;
    } words[] = {{"fp32", WEIR_FP32},     {"float32", WEIR_FP32}, {"bf16", WEIR_BF16},   {"bfp16", WEIR_BF16},
                 {"bfloat16", WEIR_BF16}, {"fp16", WEIR_FP16},    {"float16", WEIR_FP16}};
    for (size_t i = 0; i < WR_ARRAY_SIZE(words); i++) {
        if (!strcmp(words[i].word, word)) {
            *type = words[i].type;
            return true;
        }
    }
    return false;
}

static weir_status apply_scale(const struct wr_zero_raw *raw, weir_zero_options *o, weir_error *err)
{
    if (raw->fp16 != 1)
        return WEIR_OK;
    if (raw->auto_cast == 1)
        return refuse(err, "fp16.auto_cast", "weir casts nothing in the program's computation");
    if (raw->hysteresis >= 0 && raw->hysteresis != 1)
        return refuse(err, "fp16.hysteresis",
                      "each step that is not finite halves the loss scale, which is a hysteresis of 1");
    if (or_else(raw->min_scale, 1) != 1)
        return refuse(err, "fp16.min_loss_scale", "the loss scale does not go below 1, and no other limit can be set");
    double scale = or_else(raw->loss_scale, 0);
    if (scale < 0 || raw->scale_power > 100)
        return wrong(err, "fp16.loss_scale", "it is 0 or more, and initial_scale_power at most 100");
    o->loss_scale = scale > 0 ? scale : ldexp(1, raw->scale_power >= 0 ? (int)raw->scale_power : 16);
    o->scale_window = scale > 0 ? 0 : raw->scale_window >= 0 ? (uint64_t)raw->scale_window : 1000;
    return WEIR_OK;
}

static weir_status apply_types(const struct wr_zero_raw *raw, weir_zero_options *o, weir_error *err)
{
    if (raw->bf16 == 1 && raw->fp16 == 1)
        return wrong(err, "bf16.enabled", "bf16 and fp16 exclude each other");
    o->param_type = o->grad_type = raw->bf16 == 1 ? WEIR_BF16 : raw->fp16 == 1 ? WEIR_FP16 : WEIR_FP32;
    if (*raw->grad_accum && !type_of(raw->grad_accum, &o->grad_type))
        return wrong(err, "data_types.grad_accum_dtype", "it is fp32, bf16 or fp16");
    o->reduce_type = o->grad_type;
    if (*raw->wire && !type_of(raw->wire, &o->reduce_type))
        return wrong(err, "communication_data_type", "it is fp32, bf16 or fp16");
    if (o->reduce_type != o->grad_type && o->grad_type != WEIR_FP32)
        return refuse(err, "communication_data_type",
                      "gradients in half width travel as they are (and are summed in fp32); "
                      "with data_types.grad_accum_dtype fp32 they can travel as another type");
    return apply_scale(raw, o, err);
}

/* ---- optimizer and scheduler ---- */

static weir_status rule_kind(const struct wr_zero_raw *raw, weir_rule_kind *kind, weir_error *err)
{
    char name[WR_ZERO_WORD], text[160];
    size_t n = 0;
    for (const char *c = raw->optimizer; *c; c++)
        name[n++] = (char)(*c >= 'A' && *c <= 'Z' ? *c + 32 : *c);
    name[n] = '\0';
    if (weir_rule_kind_find(name, kind) != WEIR_OK) {
        snprintf(text, sizeof text, "there is no rule '%s'", raw->optimizer);
        return refuse(err, "optimizer.type", text);
    }
    if (*kind == WEIR_RULE_ADAM && raw->adam_w != 0)
        *kind = WEIR_RULE_ADAMW;
    return WEIR_OK;
}

static weir_status apply_optimizer(const struct wr_zero_raw *raw, weir_zero_config *config, weir_error *err)
{
    weir_rule_options r = {.size = sizeof r};
    weir_rule_kind kind;
    if (!*raw->optimizer)
        return isnan(raw->lr) ? WEIR_OK : wrong(err, "optimizer.type", "it is missing");
    weir_status status = rule_kind(raw, &kind, err);
    if (status != WEIR_OK)
        return status;
    if (raw->amsgrad == 1 && kind != WEIR_RULE_ADAM && kind != WEIR_RULE_ADAMW)
        return refuse(err, "optimizer.params.amsgrad", "it is for Adam and AdamW");
    if (raw->bias_correction == 0)
        return refuse(err, "optimizer.params.bias_correction", "the rules always correct the bias");
    status = weir_rule_defaults(kind, &r);
    if (status != WEIR_OK)
        return wrong(err, "optimizer.type", "there is no such rule");
    r.beta1 = or_else(raw->betas[0], r.beta1);
    r.beta2 = isnan(raw->betas[0]) ? r.beta2 : raw->betas[1];
    r.eps = or_else(raw->eps, r.eps);
    r.momentum = or_else(raw->momentum, r.momentum);
    r.dampening = or_else(raw->dampening, r.dampening);
    if (raw->nesterov >= 0)
        r.flags = raw->nesterov ? r.flags | WEIR_RULE_NESTEROV : r.flags & ~WEIR_RULE_NESTEROV;
    if (raw->amsgrad == 1)
        r.flags |= WEIR_RULE_AMSGRAD;
    config->group = (weir_group)WEIR_GROUP_INIT;
    config->group.weight_decay = or_else(raw->weight_decay, 0);
    return weir_rule_create(&r, &config->rule, err);
}

static weir_status apply_schedule(const struct wr_zero_raw *raw, weir_zero_config *config, weir_error *err)
{
    weir_schedule *s = &config->schedule;
    *s = (weir_schedule)WEIR_SCHEDULE_INIT;
    s->lr = or_else(raw->lr, s->lr);
    if (!*raw->scheduler)
        return WEIR_OK;
    bool decay = !strcmp(raw->scheduler, "WarmupDecayLR"), cosine = !strcmp(raw->scheduler, "WarmupCosineLR");
    if (!decay && !cosine && strcmp(raw->scheduler, "WarmupLR"))
        return refuse(err, "scheduler.type", "there are WarmupLR, WarmupDecayLR and WarmupCosineLR");
    if (strcmp(raw->warmup_type, "linear"))
        return refuse(err, "scheduler.params.warmup_type",
                      "write \"linear\": a warm-up is linear here, not logarithmic");
    if ((decay || cosine) && raw->total_steps < 1)
        return wrong(err, "scheduler.params.total_num_steps", "it is needed");
    if (!cosine)
        s->lr = or_else(raw->warmup_max_lr, s->lr);
    s->kind = cosine ? WEIR_SCHEDULE_COSINE : decay ? WEIR_SCHEDULE_LINEAR : WEIR_SCHEDULE_CONSTANT;
    s->warmup = raw->warmup_steps >= 0 ? (uint64_t)raw->warmup_steps : 1000;
    s->warmup_lr = cosine ? or_else(raw->warmup_ratio, 0) * s->lr : or_else(raw->warmup_min_lr, 0);
    s->total = raw->total_steps > 0 ? (uint64_t)raw->total_steps : 0;
    s->final_lr = cosine ? or_else(raw->cos_ratio, 0.0001) * s->lr : 0;
    return WEIR_OK;
}

/* ---- zero_optimization ---- */

/* Where processors compute, their memory is what others offload to. */
static bool is_memory(const char *device)
{
    return !strcmp(device, "none") || !strcmp(device, "cpu");
}

/* What weir has not: a key that asks for it is refused. */
static weir_status refuse_absent(const struct wr_zero_raw *raw, weir_error *err)
{
    const struct {
        bool asked;
        const char *key, *why;
    } absent[] = {
        {raw->prescale == 1, "prescale_gradients", "gradients are divided after they were reduced, in fp32"},
        {or_else(raw->predivide, 1) != 1, "gradient_predivide_factor",
         "gradients are divided after they were reduced, in fp32"},
        {raw->sparse == 1, "sparse_gradients", "gradients are dense"},
        {raw->amp == 1, "amp.enabled", "there is no amp: take bf16 or fp16"},
        {raw->hpz > 1 && raw->stage != 3, "zero_optimization.zero_hpz_partition_size", "secondary groups are for stage 3"},
        {raw->quantized_weights == 1 && raw->stage != 3, "zero_optimization.zero_quantized_weights",
         "only stage 3 moves parameters as int8"},
        {raw->quantized_frozen == 1 && raw->quantized_weights != 1, "zero_optimization.zero_quantized_nontrainable_weights",
         "parameters travel as int8 all together, with zero_quantized_weights"},
        {raw->quantized_gradients == 1 && raw->stage < 1, "zero_optimization.zero_quantized_gradients",
         "stages 1 to 3 move gradients as int8"},
        {or_else(raw->offload_ratio, 1) != 1, "zero_optimization.offload_optimizer.ratio", "all states are on disk, or none"},
        {*raw->offload_param && !is_memory(raw->offload_param) && raw->stage != 3, "zero_optimization.offload_param.device",
         "only stage 3 has parameters on disk"},
    };
    for (size_t i = 0; i < WR_ARRAY_SIZE(absent); i++)
        if (absent[i].asked)
            return refuse(err, absent[i].key, absent[i].why);
    return WEIR_OK;
}

/* Elements to bytes; what was not given stays. */
static bool apply_size(wr_zero_count elements, uint64_t type, uint64_t *bytes)
{
    if (elements < 0)
        return true;
    return !__builtin_mul_overflow((uint64_t)elements, (uint64_t)weir_type_size((weir_type)type), bytes);
}

static weir_status apply_zero(const struct wr_zero_raw *raw, weir_zero_options *o, weir_error *err)
{
    if (raw->stage > 3)
        return wrong(err, "zero_optimization.stage", "it is 0 to 3");
    o->stage = raw->stage > 0 ? (uint64_t)raw->stage : 0;
    o->shard_group = raw->shard_group > 0 ? (uint64_t)raw->shard_group : 0;
    o->secondary_group = raw->hpz > 1 ? (uint64_t)raw->hpz : 0;
    o->flags |= raw->quantized_weights == 1 ? WEIR_ZERO_QUANTIZED_PARAMS : 0;
    o->flags |= raw->quantized_gradients == 1 ? WEIR_ZERO_QUANTIZED_GRADS : 0;
    o->clip_norm = or_else(raw->clip, 0);
    if (o->clip_norm < 0)
        return wrong(err, "gradient_clipping", "it is 0 or more");
    o->seed = raw->seed >= 0 ? (uint64_t)raw->seed : o->seed;
    if (raw->bucket == 0)
        return wrong(err, "zero_optimization.reduce_bucket_size", "it is 1 or more");
    if (!apply_size(raw->bucket, o->reduce_type, &o->bucket_bytes) ||
        !apply_size(raw->prefetch, o->param_type, &o->prefetch_bytes) ||
        !apply_size(raw->live, o->param_type, &o->max_live_bytes) ||
        !apply_size(raw->reuse, o->param_type, &o->reuse_bytes) ||
        !apply_size(raw->persistent, o->param_type, &o->persistent_bytes))
        return wrong(err, "zero_optimization", "a size is too large");
    return WEIR_OK;
}

static weir_status apply_offload(const struct wr_zero_raw *raw, weir_zero_config *config, weir_error *err)
{
    weir_zero_options *o = &config->options;
    if (!apply_size(raw->sub_group, WEIR_FP32, &o->offload_bytes) || o->offload_bytes < 4096 || o->offload_bytes > (uint64_t)1 << 40)
        return wrong(err, "zero_optimization.sub_group_size", "it is 1024 to 2^38");
    o->offload_buffers = raw->offload_buffers >= 0 ? (uint64_t)raw->offload_buffers : o->offload_buffers;
    if (o->offload_buffers < 2 || o->offload_buffers > 64)
        return wrong(err, "zero_optimization.offload_optimizer.buffer_count", "it is 2 to 64");
    const struct {
        const char *device, *key;
        uint64_t flag;
    } devices[] = {{raw->offload_optimizer, "zero_optimization.offload_optimizer.device", WEIR_ZERO_OFFLOAD_STATES},
                   {raw->offload_param, "zero_optimization.offload_param.device", WEIR_ZERO_OFFLOAD_PARAMS}};
    for (size_t i = 0; i < WR_ARRAY_SIZE(devices); i++) {
        if (!*devices[i].device || is_memory(devices[i].device))
            continue;
        if (strcmp(devices[i].device, "nvme"))
            return wrong(err, devices[i].key, "it is none, cpu or nvme");
        o->offload |= devices[i].flag;
    }
    if (o->offload && !*raw->offload_path)
        return wrong(err, "zero_optimization.offload_optimizer.nvme_path", "nvme needs it");
    memcpy(config->offload_path, raw->offload_path, sizeof config->offload_path);
    o->offload_path = o->offload ? config->offload_path : NULL;
    return WEIR_OK;
}

weir_status wr_zero_config_apply(const struct wr_zero_raw *raw, int nranks, weir_zero_config *config, weir_error *err)
{
    config->options = (weir_zero_options)WEIR_ZERO_OPTIONS_INIT;
    weir_status status = apply_batch(raw, nranks, config, err);
    if (status == WEIR_OK)
        status = refuse_absent(raw, err);
    if (status == WEIR_OK)
        status = apply_types(raw, &config->options, err);
    if (status == WEIR_OK)
        status = apply_zero(raw, &config->options, err);
    if (status == WEIR_OK)
        status = apply_offload(raw, config, err);
    if (status == WEIR_OK)
        status = apply_optimizer(raw, config, err);
    if (status == WEIR_OK)
        status = apply_schedule(raw, config, err);
    if (status == WEIR_OK)
        status = weir_schedule_check(&config->schedule, err);
    if (status != WEIR_OK || !config->rule)
        return status;
    config->group.rule = config->rule;
    config->group.schedule = &config->schedule;
    config->options.groups = &config->group;
    config->options.ngroups = 1;
    return WEIR_OK;
}
