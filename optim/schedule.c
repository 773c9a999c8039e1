/* SPDX-License-Identifier: BSD-3-Clause */
/* Learning rates over time, and groups of parameters. */
#include <weir/schedule.h>

#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "base/error.h"

static const char *const kind_names[] = {
#define NAME(name, value, text) [name] = text,
    WEIR_SCHEDULE_TABLE(NAME)
#undef NAME
};

const char *weir_schedule_kind_name(weir_schedule_kind kind)
{
    return (unsigned)kind < WR_ARRAY_SIZE(kind_names) ? kind_names[kind] : NULL;
}

weir_status weir_schedule_kind_find(const char *name, weir_schedule_kind *kind)
{
    for (size_t i = 0; name && kind && i < WR_ARRAY_SIZE(kind_names); i++)
        if (!strcmp(name, kind_names[i])) {
            *kind = (weir_schedule_kind)i;
            return WEIR_OK;
        }
    return WEIR_ERR_NOT_FOUND;
}

static const char *wrong(const weir_schedule *s)
{
    if (!s || s->size < sizeof *s)
        return "it is missing, or its size cannot be: begin with WEIR_SCHEDULE_INIT";
    if (s->kind >= WR_ARRAY_SIZE(kind_names))
        return "its kind does not exist";
    if (s->flags & ~WEIR_SCHEDULE_SQRT || (s->flags && s->kind != WEIR_SCHEDULE_WSD))
        return "a flag is set that this kind does not know";
    if (!isfinite(s->lr) || !isfinite(s->warmup_lr) || !isfinite(s->final_lr))
        return "lr, warmup_lr and final_lr must be finite";
    if (s->kind == WEIR_SCHEDULE_CONSTANT)
        return NULL;
    if (s->total <= s->warmup)
        return "total must be larger than warmup";
    if (s->kind == WEIR_SCHEDULE_WSD && s->decay > s->total - s->warmup)
        return "the decay must fit between the warm-up and the end";
    return NULL;
}

weir_status weir_schedule_check(const weir_schedule *schedule, weir_error *error)
{
    const char *why = wrong(schedule);
    if (!why)
        return WEIR_OK;
    return wr_error_set(error, WEIR_ERR_INVALID, NULL, "learning rate schedule: %s", why);
}

/* The part of lr - final_lr that is left in step t, warmup < t < total. */
static double left(const weir_schedule *s, uint64_t t)
{
    double p = (double)(t - s->warmup) / (double)(s->total - s->warmup);
    if (s->kind == WEIR_SCHEDULE_LINEAR)
        return 1 - p;
    if (s->kind == WEIR_SCHEDULE_COSINE)
        return (1 + cos(3.14159265358979323846 * p)) / 2;
    uint64_t stable = s->total - s->decay;
    if (t <= stable)
        return 1;
    double q = (double)(t - stable) / (double)s->decay;
    return 1 - (s->flags & WEIR_SCHEDULE_SQRT ? sqrt(q) : q);
}

double weir_schedule_lr(const weir_schedule *s, uint64_t t)
{
    if (t < s->warmup)
        return s->warmup_lr + (s->lr - s->warmup_lr) * ((double)t / (double)s->warmup);
    if (t == s->warmup || s->kind == WEIR_SCHEDULE_CONSTANT)
        return s->lr;
    return t >= s->total ? s->final_lr : s->final_lr + (s->lr - s->final_lr) * left(s, t);
}

weir_status weir_group_step(const weir_group *group, uint64_t t, double grad_scale, weir_rule_step *step)
{
    weir_rule_step s = WEIR_RULE_STEP_INIT;
    if (!group || group->size < sizeof *group || !step || t == 0 || (group->flags & WEIR_GROUP_FROZEN) ||
        !group->schedule)
        return WEIR_ERR_INVALID;
    s.step = t;
    s.lr = weir_schedule_lr(group->schedule, t) * group->lr_scale;
    s.weight_decay = group->weight_decay;
    s.grad_scale = grad_scale;
    *step = s;
    return WEIR_OK;
}

uint64_t weir_group_state_bytes(const weir_group *group, uint64_t rows, uint64_t cols)
{
    uint64_t bytes = 0;
    if (!group || (group->flags & WEIR_GROUP_FROZEN) || !group->rule)
        return 0;
    for (unsigned i = 0; i < weir_rule_nstates(group->rule); i++) {
        weir_rule_state state = {.size = sizeof state};
        if (weir_rule_state_info(group->rule, i, &state) == WEIR_OK)
            bytes += weir_rule_state_count(group->rule, i, rows, cols) * weir_type_size((weir_type)state.type);
    }
    return bytes;
}
