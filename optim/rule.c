/* SPDX-License-Identifier: BSD-3-Clause */
/* Rules: making, asking, and checking the arguments of updates. */
#include "optim/rule.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/error.h"

static const struct wr_optim_table *const tables[WR_ISA_COUNT] = {
    [WR_ISA_GENERIC] = &wr_optim_generic,
#if defined(__x86_64__)
    [WR_ISA_AVX2] = &wr_optim_avx2,
    [WR_ISA_AVX512] = &wr_optim_avx512,
#endif
};

static const char *const kind_names[] = {
#define NAME(name, value, text) [name] = text,
    WEIR_RULE_TABLE(NAME)
#undef NAME
};

enum {
    OPTIONS_MIN = offsetof(weir_rule_options, isa), /* what every version of the struct has */
    STEP_MIN = offsetof(weir_rule_step, ratio) + sizeof(double),
    DATA_MIN = sizeof(weir_rule_data),
    STATE_MIN = sizeof(weir_rule_state),
};

/* ---- names ---- */

const char *weir_rule_kind_name(weir_rule_kind kind)
{
    return (unsigned)kind < WR_ARRAY_SIZE(kind_names) ? kind_names[kind] : NULL;
}

weir_status weir_rule_kind_find(const char *name, weir_rule_kind *kind)
{
    for (size_t i = 0; name && kind && i < WR_ARRAY_SIZE(kind_names); i++)
        if (!strcmp(name, kind_names[i])) {
            *kind = (weir_rule_kind)i;
            return WEIR_OK;
        }
    return WEIR_ERR_NOT_FOUND;
}

/* ---- making ---- */

static void defaults(weir_rule_kind kind, weir_rule_options *o)
{
    memset(o, 0, sizeof *o);
    o->size = sizeof *o;
    o->kind = kind;
    tables[WR_ISA_GENERIC]->rules[kind]->defaults(o);
}

/* Copies options to a caller whose struct may be older or newer. */
static void give_options(const weir_rule_options *from, weir_rule_options *to)
{
    size_t size = to->size;
    memset(to, 0, size);
    memcpy(to, from, WR_MIN(size, sizeof *from));
    to->size = size;
}

weir_status weir_rule_defaults(weir_rule_kind kind, weir_rule_options *options)
{
    weir_rule_options o;
    if (!weir_rule_kind_name(kind) || !options || options->size < OPTIONS_MIN || options->size > 4096)
        return WEIR_ERR_INVALID;
    defaults(kind, &o);
    give_options(&o, options);
    return WEIR_OK;
}

static weir_status check_options(const weir_rule_options *o, const struct wr_rule_class *class, weir_error *error)
{
    const char *wrong = o->flags & ~class->flags ? "a flag is set that it does not know" : class->wrong(o);
    if (!wrong)
        return WEIR_OK;
    return wr_error_set(error, WEIR_ERR_INVALID, "weir_rule_defaults() fills in settings that work", "rule %s: %s",
                        kind_names[o->kind], wrong);
}

weir_status weir_rule_create(const weir_rule_options *options, weir_rule **rule, weir_error *error)
{
    weir_rule_options o;
    enum wr_isa isa;
    if (!options || !rule || options->size < OPTIONS_MIN || options->size > 4096 || options->kind >= WR_ARRAY_SIZE(kind_names))
        return wr_error_set(error, WEIR_ERR_INVALID, "set size to sizeof(weir_rule_options), then call weir_rule_defaults()",
                            "the options of a rule are missing, or their size or kind cannot be");
    defaults((weir_rule_kind)options->kind, &o);
    memcpy(&o, options, WR_MIN(options->size, sizeof o));
    o.size = sizeof o;
    if (!wr_isa_find(o.isa, &isa))
        return wr_error_set(error, WEIR_ERR_UNSUPPORTED, "leave isa NULL to have the best ones", "kernels for \"%s\" cannot run here",
                            o.isa);
    o.isa = wr_isa_name(isa);
    const struct wr_rule_class *class = tables[isa]->rules[o.kind];
    weir_status status = check_options(&o, class, error);
    if (status != WEIR_OK)
        return status;
    weir_rule *r = calloc(1, sizeof *r);
    if (!r)
        return wr_error_memory(error, sizeof *r, "a rule");
    r->class = class;
    r->options = o;
    r->isa = isa;
    r->nstates = class->states(&o, r->states);
    *rule = r;
    return WEIR_OK;
}

void weir_rule_free(weir_rule *rule)
{
    free(rule);
}

/* ---- asking ---- */

weir_status weir_rule_get_options(const weir_rule *rule, weir_rule_options *options)
{
    if (!rule || !options || options->size < OPTIONS_MIN || options->size > 4096)
        return WEIR_ERR_INVALID;
    give_options(&rule->options, options);
    return WEIR_OK;
}

weir_access weir_rule_access(const weir_rule *rule)
{
    return rule->class->access;
}

uint64_t weir_rule_granule(const weir_rule *rule)
{
    return rule->class->granule;
}

unsigned weir_rule_nstates(const weir_rule *rule)
{
    return rule->nstates;
}

weir_status weir_rule_state_info(const weir_rule *rule, unsigned index, weir_rule_state *state)
{
    if (!rule || index >= rule->nstates || !state || state->size < STATE_MIN)
        return WEIR_ERR_INVALID;
    const struct wr_rule_state *s = &rule->states[index];
    state->name = s->name;
    state->type = s->type;
    state->span = s->span;
    state->initial = s->initial;
    return WEIR_OK;
}

uint64_t weir_rule_state_count(const weir_rule *rule, unsigned index, uint64_t rows, uint64_t cols)
{
    if (!rule || index >= rule->nstates)
        return 0;
    unsigned span = rule->states[index].span;
    uint64_t n = rows * cols;
    return n / span + (n % span != 0);
}

/* ---- updating ---- */

static bool aligned(const void *p, size_t to)
{
    return p && (uintptr_t)p % to == 0;
}

static bool is_half(uint64_t type)
{
    return type == WEIR_BF16 || type == WEIR_FP16;
}

/* What is wrong with the arguments of an update, NULL when nothing is. */
static const char *wrong_arguments(const weir_rule *rule, const weir_rule_step *step, const weir_rule_data *d, uint64_t first)
{
    if (!rule || !step || !d)
        return "rule, step or data is missing";
    if (step->size < STEP_MIN || d->size < DATA_MIN)
        return "step or data has a size that cannot be: begin with WEIR_RULE_STEP_INIT and WEIR_RULE_DATA_INIT";
    if (step->step == 0)
        return "steps count from 1";
    if (d->grad_type != WEIR_FP32 && !is_half(d->grad_type))
        return "gradients are fp32, bf16 or fp16";
    if (d->out && !is_half(d->out_type))
        return "the low-precision copy is bf16 or fp16";
    if (!aligned(d->master, sizeof(float)) || !aligned(d->grad, weir_type_size((weir_type)d->grad_type)) ||
        (d->out && !aligned(d->out, 2)))
        return "master, grad or out is missing or not aligned to its elements";
    for (unsigned i = 0; i < rule->nstates; i++)
        if (!aligned(d->states[i], weir_type_size(rule->states[i].type)))
            return "a state is missing or not aligned to its elements";
    if (first % rule->class->granule)
        return "the range begins between multiples of weir_rule_granule()";
    return NULL;
}

static struct wr_rule_range range(const weir_rule *rule, const weir_rule_data *d, uint64_t first, uint64_t n)
{
    struct wr_rule_range r = {
        .w = d->master + first,
        .g = (const char *)d->grad + first * weir_type_size((weir_type)d->grad_type),
        .grad_type = (weir_type)d->grad_type,
        .out = d->out ? (char *)d->out + first * 2 : NULL,
        .out_type = (weir_type)d->out_type,
        .n = n,
    };
    for (unsigned i = 0; i < rule->nstates; i++) {
        const struct wr_rule_state *s = &rule->states[i];
        r.span[i] = s->span;
        r.bytes[i] = (unsigned)weir_type_size(s->type);
        r.s[i] = (char *)d->states[i] + (s->span ? first / s->span * r.bytes[i] : 0);
    }
    return r;
}

static weir_status refuse(const weir_rule *rule, const char *wrong, weir_error *error)
{
    return wr_error_set(error, WEIR_ERR_INVALID, NULL, "rule %s: %s", rule ? kind_names[rule->options.kind] : "(none)", wrong);
}

weir_status weir_rule_update(const weir_rule *rule, const weir_rule_step *step, const weir_rule_data *data, uint64_t first, uint64_t n,
                             weir_error *error)
{
    const char *wrong = wrong_arguments(rule, step, data, first);
    if (!wrong && rule->class->access == WEIR_ACCESS_MATRIX)
        wrong = "it must see whole tensors: use weir_rule_update_tensor()";
    if (wrong)
        return refuse(rule, wrong, error);
    struct wr_rule_range r = range(rule, data, first, n);
    if (n)
        rule->class->update(&rule->options, step, &r);
    return WEIR_OK;
}
