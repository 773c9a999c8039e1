/* SPDX-License-Identifier: BSD-3-Clause */
/* Rules: names, making, asking. */
#include <weir/rule.h>

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/error.h"
#include "optim/blas.h"
#include "optim/table.h"

static const char *const kind_names[] = {
#define NAME(name, value, text) [name] = text,
    WEIR_RULE_TABLE(NAME)
#undef NAME
};

enum { OPTIONS_MIN = offsetof(weir_rule_options, isa), OPTIONS_MAX = 4096 }; /* sizes that can be */

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
    wr_optim_table(WR_ISA_GENERIC)->rules[kind]->defaults(o);
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
    if (!weir_rule_kind_name(kind) || !options || options->size < OPTIONS_MIN || options->size > OPTIONS_MAX)
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
    if (!options || !rule || options->size < OPTIONS_MIN || options->size > OPTIONS_MAX ||
        options->kind >= WR_ARRAY_SIZE(kind_names))
        return wr_error_set(error, WEIR_ERR_INVALID,
                            "set size to sizeof(weir_rule_options), then call weir_rule_defaults()",
                            "the options of a rule are missing, or their size or kind cannot be");
    defaults((weir_rule_kind)options->kind, &o);
    memcpy(&o, options, WR_MIN(options->size, sizeof o));
    o.size = sizeof o;
    if (!wr_isa_find(o.isa, &isa))
        return wr_error_set(error, WEIR_ERR_UNSUPPORTED, "leave isa NULL to have the best ones",
                            "kernels for \"%s\" cannot run here", o.isa);
    o.isa = wr_isa_name(isa);
    const struct wr_rule_class *class = wr_optim_table(isa)->rules[o.kind];
    weir_status status = check_options(&o, class, error);
    if (status != WEIR_OK)
        return status;
    const struct wr_blas *blas = class->needs_blas ? wr_blas_open(error) : NULL;
    if (class->needs_blas && !blas)
        return WEIR_ERR_UNSUPPORTED;
    weir_rule *r = calloc(1, sizeof *r);
    if (!r)
        return wr_error_memory(error, sizeof *r, "a rule");
    r->class = class;
    r->options = o;
    r->isa = isa;
    r->blas = blas;
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
    if (!rule || !options || options->size < OPTIONS_MIN || options->size > OPTIONS_MAX)
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
    if (!rule || index >= rule->nstates || !state || state->size < sizeof *state)
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
    if (span == 0)
        return rule->class->state_count(index, rows, cols);
    return n / span + (n % span != 0);
}
