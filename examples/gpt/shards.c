/* SPDX-License-Identifier: BSD-3-Clause */
#include "examples/gpt/shards.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the tensors of a unit are while it is in use. */
struct gpt_pointers {
    const real *w[GPT_BLOCK_TENSORS];
    real *dw[GPT_BLOCK_TENSORS];
};

/* The parameters of a unit that is in use, where the layers find them. */
static weir_status parameters(struct gpt_shards *s, int unit, const real **w)
{
    uint64_t local = (uint64_t)s->local[unit];
    const void *stored[GPT_BLOCK_TENSORS];
    int64_t sizes[GPT_BLOCK_TENSORS];
    int n = gpt_unit_tensors(s->config, unit);
    for (int t = 0; t < n; t++) {
        struct gpt_tensor tensor;
        w[t] = stored[t] = weir_zero_param(s->zero, local, (uint64_t)t);
        if (!s->narrow)
            continue;
        gpt_unit_tensor(s->config, unit, t, &tensor);
        sizes[t] = tensor.rows * tensor.cols;
    }
    return s->narrow ? gpt_widen_unit(&s->widen, unit, n, stored, sizes, w) : WEIR_OK;
}

/* Whether a tensor's gradient is made of this rank's own rows only, with --tp-sequence. */
static bool is_partial(const struct gpt_shards *s, int unit, int t)
{
    enum gpt_unit_kind kind = gpt_unit_kind(s->config, unit);
    return s->rows && (kind == GPT_UNIT_WPE || kind == GPT_UNIT_NORM ||
                       (kind == GPT_UNIT_BLOCK && (t == GPT_LN1_WEIGHT || t == GPT_LN1_BIAS || t == GPT_LN2_WEIGHT || t == GPT_LN2_BIAS)));
}

static int64_t numbers_of(const struct gpt_shards *s, int unit, int t)
{
    struct gpt_tensor tensor;
    gpt_unit_tensor(s->config, unit, t, &tensor);
    return tensor.rows * tensor.cols;
}

static weir_status make_partial(struct gpt_shards *s, const struct gpt_job *job, const struct gpt_options *o)
{
    int64_t n = 0;
    s->rows = o->tp_sequence && job->ways > 1 ? job->tp : NULL;
    s->partial_at = calloc((size_t)s->nunits + 1, sizeof *s->partial_at);
    for (int u = 0; s->partial_at && u < s->nunits; u++) {
        s->partial_at[u] = n;
        for (int t = 0; t < gpt_unit_tensors(s->config, s->unit[u]); t++)
            n += is_partial(s, s->unit[u], t) ? numbers_of(s, s->unit[u], t) : 0;
    }
    s->partial = calloc((size_t)n + 1, sizeof *s->partial);
    if (!s->partial || !s->partial_at)
        return WEIR_ERR_NO_MEMORY;
    s->partial_at[s->nunits] = n;
    return WEIR_OK;
}

/* Where gradients of a unit's tensors are added beside the engine. */
static void replace_partial(struct gpt_shards *s, uint64_t local, real **dw)
{
    float *at = s->partial + s->partial_at[local];
    for (int t = 0; t < gpt_unit_tensors(s->config, s->unit[local]); t++)
        if (is_partial(s, s->unit[local], t)) {
            dw[t] = at;
            at += numbers_of(s, s->unit[local], t);
        }
}

static weir_status use(void *user, int unit, bool backward, const real *const **w, real *const **dw)
{
    struct gpt_shards *s = user;
    uint64_t local = (uint64_t)s->local[unit];
    struct gpt_pointers *p = &s->pointers[local];
    bool beside = s->reproducible || (unit == 0 && s->tied);
    weir_status status = backward && !beside ? weir_zero_before_backward(s->zero, local) : weir_zero_before_forward(s->zero, local);
    if (status != WEIR_OK)
        return status;
    for (int t = 0; t < gpt_unit_tensors(s->config, unit); t++)
        p->dw[t] = !backward ? NULL : beside ? s->tied_grad : weir_zero_grad(s->zero, local, (uint64_t)t);
    *w = p->w;
    if (backward)
        *dw = p->dw;
    if (backward && s->rows)
        replace_partial(s, local, p->dw);
    if (backward && s->reproducible)
        status = gpt_leaves_grads(&s->leaves, unit, p->dw);
    return status == WEIR_OK ? parameters(s, unit, p->w) : status;
}

static weir_status done(void *user, int unit, bool backward)
{
    struct gpt_shards *s = user;
    uint64_t local = (uint64_t)s->local[unit];
    bool beside = s->reproducible || (unit == 0 && s->tied);
    gpt_widen_done(&s->widen, unit);
    return backward && !beside ? weir_zero_after_backward(s->zero, local) : weir_zero_after_forward(s->zero, local);
}

/* Initial values by the model's own numbers of units, so that they are the same however it is cut. */
static void initial(void *user, uint64_t unit, uint64_t tensor, uint64_t first, uint64_t n, float *values)
{
    const struct gpt_shards *s = user;
    gpt_initial_values(s->config, s->unit[unit], (int)tensor, s->seed, (int64_t)first, (int64_t)n, values);
}

static weir_status make_rule(struct gpt_shards *s, const struct gpt_options *o, weir_error *error)
{
    weir_rule_options rule = {.size = sizeof rule};
    weir_rule_kind rule_kind;
    weir_schedule_kind kind;
    snprintf(error->message, sizeof error->message, "there is no update rule '%s', or no schedule of learning rates '%s'", o->rule,
             o->lr_schedule);
    weir_status status = weir_rule_kind_find(o->rule, &rule_kind);
    if (status == WEIR_OK)
        status = weir_schedule_kind_find(o->lr_schedule, &kind);
    if (status == WEIR_OK)
        status = weir_rule_defaults(rule_kind, &rule);
    if (status != WEIR_OK)
        return status;
    rule.beta2 = o->beta2;
    s->schedule = (weir_schedule)WEIR_SCHEDULE_INIT;
    s->schedule.kind = kind;
    s->schedule.lr = o->lr;
    s->schedule.final_lr = o->final_lr;
    s->schedule.total = (uint64_t)o->steps;
    s->schedule.warmup = (uint64_t)(o->warmup < o->steps / 2 ? o->warmup : o->steps / 2);
    s->schedule.decay = (uint64_t)o->steps / 5;
    status = weir_schedule_check(&s->schedule, error);
    if (status == WEIR_OK)
        status = weir_rule_create(&rule, &s->rule, error);
    s->group.rule = s->rule;
    s->group.weight_decay = o->weight_decay;
    return status;
}

/* How parameters are updated: as --config says, or the command line. */
static weir_status make_group(struct gpt_shards *s, const struct gpt_options *o, const struct gpt_settings *settings, weir_error *error)
{
    weir_status status = WEIR_OK;
    s->group = (weir_group)WEIR_GROUP_INIT;
    if (settings->optimizer) {
        s->group = settings->group;
        s->schedule = settings->schedule;
    } else {
        status = make_rule(s, o, error);
    }
    s->group.schedule = &s->schedule;
    if (status == WEIR_OK && s->config->ways > 1 && weir_rule_access(s->group.rule) != WEIR_ACCESS_ELEMENT) {
        snprintf(error->message, sizeof error->message, "the update rule %s looks at whole tensors, which --tp divides",
                 settings->optimizer ? "of --config" : o->rule);
        return WEIR_ERR_UNSUPPORTED;
    }
    return status;
}

/* The engine's view of a unit. names: room for the tensors' names and the unit's. */
static weir_zero_unit describe(struct gpt_shards *s, int local, bool counted_elsewhere, weir_zero_tensor *tensors,
                               struct gpt_tensor *names)
{
    weir_zero_unit unit = WEIR_ZERO_UNIT_INIT;
    int number = s->unit[local], n = gpt_unit_tensors(s->config, number);
    for (int t = 0; t < n; t++) {
        gpt_unit_tensor(s->config, number, t, &names[t]);
        tensors[t] = (weir_zero_tensor)WEIR_ZERO_TENSOR_INIT;
        tensors[t].name = names[t].name + names[t].unit_name + 1;
        bool matrix = names[t].whole_rows > 1, copy = s->config->way > 0 && !gpt_tensor_divided(&names[t]);
        tensors[t].ndim = matrix ? 2 : 1;
        tensors[t].shape[0] = (uint64_t)(matrix ? names[t].rows : names[t].cols);
        tensors[t].shape[1] = (uint64_t)(matrix ? names[t].cols : 0);
        tensors[t].flags = (matrix ? 0 : WEIR_ZERO_NO_DECAY) | (counted_elsewhere || copy ? WEIR_ZERO_NORM_ELSEWHERE : 0);
        tensors[t].init = WEIR_ZERO_INIT_CALLBACK;
        tensors[t].init_fn = initial;
        tensors[t].init_user = s;
    }
    /* A further copy of a name, which ends with the unit's part of it. */
    names[n] = names[0];
    names[n].name[names[n].unit_name] = 0;
    unit.name = names[n].name;
    unit.tensors = tensors;
    unit.ntensors = (uint64_t)n;
    return unit;
}

/* Without a file that says it, for a model to which the engine's usual sizes are large: as much memory at once as a few of its units take. */
static void fit_budgets(const struct gpt_shards *s, weir_zero_options *options)
{
    enum { PARTS = 8, LEAST = 1 << 20 };
    uint64_t bytes = 0;
    for (int u = 0; u < s->nunits; u++)
        bytes += (uint64_t)gpt_unit_size(s->config, s->unit[u]) * sizeof(float);
    uint64_t part = bytes / PARTS > LEAST ? bytes / PARTS : LEAST;
    options->bucket_bytes = part < options->bucket_bytes ? part : options->bucket_bytes;
    options->prefetch_bytes = 2 * part < options->prefetch_bytes ? 2 * part : options->prefetch_bytes;
}

static weir_status make_engine(struct gpt_shards *s, const struct gpt_job *job, const struct gpt_options *o,
                               const struct gpt_settings *settings, const struct gpt_share *share, weir_error *error)
{
    enum { NAMES = GPT_BLOCK_TENSORS + 1 };
    weir_zero_options options = settings->zero;
    weir_zero_budget budget = {.size = sizeof budget};
    size_t n = (size_t)s->nunits;
    weir_zero_unit *units = calloc(n, sizeof *units);
    weir_zero_tensor *tensors = calloc(n * NAMES, sizeof *tensors);
    struct gpt_tensor *names = calloc(n * NAMES, sizeof *names);
    weir_status status = WEIR_ERR_NO_MEMORY;
    options.stage = (uint64_t)o->zero;
    options.groups = &s->group;
    options.ngroups = 1;
    options.accumulate = (uint64_t)share->passes;
    options.flags |= o->reproducible ? WEIR_ZERO_REPRODUCIBLE : 0;
    options.clip_norm = o->clip;
    if (!settings->config)
        fit_budgets(s, &options);
    if (s->narrow) /* gradients are added up in fp32, and are rounded to travel */
        options.param_type = WEIR_BF16;
    if (s->narrow && !s->reproducible)
        options.reduce_type = WEIR_BF16;
    options.norm_comm = weir_comm_size(job->parts) > 1 ? job->parts : NULL;
    if (units && tensors && names) {
        for (int u = 0; u < s->nunits; u++)
            units[u] = describe(s, u, s->unit[u] == 0 && share->apart && job->stage != 0, tensors + u * NAMES, names + u * NAMES);
        status = weir_zero_create(job->shard, &options, units, n, &s->zero, error);
        if (status == WEIR_OK && weir_zero_estimate(&options, units, n, weir_comm_size(job->shard), &budget, NULL) == WEIR_OK)
            s->formula = budget.total_bytes;
    }
    free(units);
    free(tensors);
    free(names);
    return status;
}

/* The stages of the first and the last part meet; the others take part in making their communicator. */
static weir_status make_tied(struct gpt_shards *s, const struct gpt_job *job, weir_error *error)
{
    bool has = s->local[0] >= 0;
    weir_status status = weir_comm_split(job->pp, has ? 0 : WEIR_COLOR_NONE, 0, &s->tied);
    *error = *weir_last_error(job->ctx);
    if (status != WEIR_OK || !has)
        return status;
    s->tied_grad = calloc((size_t)gpt_unit_size(s->config, 0), sizeof *s->tied_grad);
    return s->tied_grad ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

/* Which units the engine has, and the tables about them. */
static weir_status list_units(struct gpt_shards *s, const bool *marks)
{
    int n = gpt_units(s->config);
    s->unit = calloc((size_t)n, sizeof *s->unit);
    s->local = calloc((size_t)n, sizeof *s->local);
    s->pointers = calloc((size_t)n, sizeof *s->pointers);
    if (!s->unit || !s->local || !s->pointers)
        return WEIR_ERR_NO_MEMORY;
    for (int u = 0; u < n; u++) {
        s->local[u] = marks[u] ? s->nunits : -1;
        if (marks[u])
            s->unit[s->nunits++] = u;
    }
    return WEIR_OK;
}

bool gpt_shards_create(struct gpt_shards *s, struct gpt_job *job, const struct gpt_config *config, const struct gpt_options *o,
                       const struct gpt_settings *settings, const struct gpt_share *share)
{
    weir_error error = {.status = WEIR_OK};
    *s = (struct gpt_shards){.config = config, .seed = (uint64_t)o->seed, .store = {s, use, done}};
    weir_status status = list_units(s, share->marks);
    s->narrow = !strcmp(o->dtype, "bf16");
    gpt_widen_create(&s->widen);
    s->reproducible = o->reproducible;
    if (status == WEIR_OK)
        status = make_partial(s, job, o);
    if (status == WEIR_OK && s->reproducible)
        status = gpt_leaves_create(&s->leaves, config, share->marks, share->begins, share->ends, share->micros);
    if (status == WEIR_OK)
        status = make_group(s, o, settings, &error);
    if (!gpt_job_check(job, status, &error))
        return false;
    if (!gpt_job_check(job, make_engine(s, job, o, settings, share, &error), &error))
        return false;
    return !share->apart || gpt_job_check(job, make_tied(s, job, &error), &error);
}

void gpt_shards_free(struct gpt_shards *s)
{
    weir_comm_free(s->tied);
    weir_zero_free(s->zero);
    weir_rule_free(s->rule);
    gpt_widen_free(&s->widen);
    gpt_leaves_free(&s->leaves);
    free(s->tied_grad);
    free(s->partial);
    free(s->partial_at);
    free(s->unit);
    free(s->local);
    free(s->pointers);
    *s = (struct gpt_shards){.zero = NULL};
}

/* The gradients of a pass in their canonical order. */
static weir_status join_leaves(struct gpt_shards *s)
{
    weir_status status = gpt_leaves_join(&s->leaves, s->tied);
    for (int u = s->nunits - 1; u >= 0 && status == WEIR_OK; u--) {
        status = weir_zero_before_backward(s->zero, (uint64_t)u);
        for (int t = 0; t < gpt_unit_tensors(s->config, s->unit[u]) && status == WEIR_OK; t++)
            gpt_leaves_take(&s->leaves, s->unit[u], t, weir_zero_grad(s->zero, (uint64_t)u, (uint64_t)t));
        if (status == WEIR_OK)
            status = weir_zero_after_backward(s->zero, (uint64_t)u);
    }
    return status;
}

/* What ranks along tp have of the gradients of norms and positions becomes the whole of them, on each. */
static weir_status join_partial(struct gpt_shards *s)
{
    const float *from = s->partial;
    int64_t n = s->partial_at[s->nunits];
    weir_status status = weir_allreduce(s->rows, WEIR_IN_PLACE, s->partial, (uint64_t)n, WEIR_FP32, WEIR_SUM);
    for (int u = 0; u < s->nunits && status == WEIR_OK; u++) {
        if (s->partial_at[u] == s->partial_at[u + 1])
            continue;
        status = weir_zero_before_backward(s->zero, (uint64_t)u);
        for (int t = 0; t < gpt_unit_tensors(s->config, s->unit[u]) && status == WEIR_OK; t++) {
            float *to = weir_zero_grad(s->zero, (uint64_t)u, (uint64_t)t);
            int64_t size = is_partial(s, s->unit[u], t) ? numbers_of(s, s->unit[u], t) : 0;
            for (int64_t i = 0; i < size; i++)
                to[i] += *from++;
        }
        if (status == WEIR_OK)
            status = weir_zero_after_backward(s->zero, (uint64_t)u);
    }
    memset(s->partial, 0, (size_t)n * sizeof *s->partial);
    return status;
}

weir_status gpt_shards_join(struct gpt_shards *s)
{
    if (s->reproducible)
        return join_leaves(s);
    if (s->rows) {
        weir_status status = join_partial(s);
        if (status != WEIR_OK)
            return status;
    }
    if (!s->tied)
        return WEIR_OK;
    uint64_t n = (uint64_t)gpt_unit_size(s->config, 0), local = (uint64_t)s->local[0];
    weir_status status = weir_allreduce(s->tied, WEIR_IN_PLACE, s->tied_grad, n, WEIR_FP32, WEIR_SUM);
    if (status == WEIR_OK)
        status = weir_zero_before_backward(s->zero, local);
    if (status != WEIR_OK)
        return status;
    float *grad = weir_zero_grad(s->zero, local, 0);
    for (uint64_t i = 0; i < n; i++)
        grad[i] += s->tied_grad[i];
    memset(s->tied_grad, 0, n * sizeof *grad);
    return weir_zero_after_backward(s->zero, local);
}
