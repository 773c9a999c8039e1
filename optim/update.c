/* SPDX-License-Identifier: BSD-3-Clause */
/* Updates: arguments are checked, pointers are moved to the range, and the rule's loops are called. */
#include <weir/rule.h>
#include <weir/vector.h>

#include "base/compiler.h"
#include "base/error.h"
#include "optim/rule.h"

static bool aligned(const void *p, size_t to)
{
    return p && (uintptr_t)p % to == 0;
}

static bool is_half(uint64_t type)
{
    return type == WEIR_BF16 || type == WEIR_FP16;
}

/* What is wrong with the arguments of an update, NULL when nothing is. */
static const char *wrong_arguments(const weir_rule *rule, const weir_rule_step *step, const weir_rule_data *d,
                                   uint64_t first)
{
    if (!rule || !step || !d)
        return "rule, step or data is missing";
    if (step->size < sizeof *step || d->size < sizeof *d)
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
    for (unsigned i = 0; i < rule->nstates; i++) /* whether one that depends on a shape is needed is not known here */
        if (!aligned(d->states[i], weir_type_size(rule->states[i].type)) && (rule->states[i].span || d->states[i]))
            return "a state is missing or not aligned to its elements";
    if (first % rule->class->granule)
        return "the range begins between multiples of weir_rule_granule()";
    return NULL;
}

/* The same of a tensor. */
static const char *wrong_tensor(const weir_rule *rule, const weir_rule_data *d, uint64_t rows, uint64_t cols,
                                const void *work)
{
    uint64_t n;
    if (__builtin_mul_overflow(rows, cols, &n) || n > INT64_MAX / 8)
        return "there is no tensor of that many elements";
    if (rule->class->needs_blas && (rows > INT32_MAX || cols > INT32_MAX))
        return "matrices have at most 2^31 - 1 rows or columns";
    if (weir_rule_work_bytes(rule, rows, cols) && !aligned(work, 64))
        return "work is missing or not aligned to 64 bytes";
    for (unsigned i = 0; i < rule->nstates; i++)
        if (!d->states[i] && weir_rule_state_count(rule, i, rows, cols))
            return "a state is missing";
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
    return wr_error_set(error, WEIR_ERR_INVALID, NULL, "rule %s: %s",
                        rule ? weir_rule_kind_name((weir_rule_kind)rule->options.kind) : "(none)", wrong);
}

weir_status weir_rule_update(const weir_rule *rule, const weir_rule_step *step, const weir_rule_data *data,
                             uint64_t first, uint64_t n, weir_error *error)
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

weir_status weir_rule_prepare(const weir_rule *rule, const weir_rule_step *step, const weir_rule_data *data,
                              uint64_t first, uint64_t n, double *sums, weir_error *error)
{
    const char *wrong = wrong_arguments(rule, step, data, first);
    if (!wrong && rule->class->access != WEIR_ACCESS_TENSOR)
        wrong = "only rules with access tensor are prepared";
    if (!wrong && n && !sums)
        wrong = "sums is missing";
    if (wrong)
        return refuse(rule, wrong, error);
    struct wr_rule_range r = range(rule, data, first, n);
    if (n)
        rule->class->prepare(&rule->options, step, &r, first, sums);
    return WEIR_OK;
}

double weir_rule_ratio(const weir_rule *rule, const weir_rule_step *step, double sum0, double sum1)
{
    if (!rule || rule->class->access != WEIR_ACCESS_TENSOR)
        return 1;
    return rule->class->ratio(&rule->options, step, sum0, sum1);
}

uint64_t weir_rule_work_bytes(const weir_rule *rule, uint64_t rows, uint64_t cols)
{
    if (rule->class->access == WEIR_ACCESS_MATRIX)
        return rule->class->work(rows, cols);
    /* a tensor that begins inside a block touches one more than its length says */
    return rule->class->access == WEIR_ACCESS_TENSOR ? (rows * cols / WEIR_NORM_BLOCK + 2) * 2 * sizeof(double) : 0;
}

static weir_status update_by_norms(const weir_rule *rule, const weir_rule_step *step, const weir_rule_data *data,
                                   uint64_t first, uint64_t n, double *sums, weir_error *error)
{
    uint64_t blocks = weir_norm_blocks(first, n);
    weir_rule_step s = *step;
    weir_status status = weir_rule_prepare(rule, step, data, first, n, sums, error);
    if (status != WEIR_OK)
        return status;
    s.ratio = weir_rule_ratio(rule, step, weir_norm_fold(sums, blocks), weir_norm_fold(sums + blocks, blocks));
    return weir_rule_update(rule, &s, data, first, n, error);
}

weir_status weir_rule_update_tensor(const weir_rule *rule, const weir_rule_step *step, const weir_rule_data *data,
                                    uint64_t first, uint64_t rows, uint64_t cols, void *work, weir_error *error)
{
    const char *wrong = wrong_arguments(rule, step, data, first);
    uint64_t n = rows * cols;
    if (!wrong)
        wrong = wrong_tensor(rule, data, rows, cols, work);
    if (wrong)
        return refuse(rule, wrong, error);
    if (n == 0)
        return WEIR_OK;
    if (rule->class->access == WEIR_ACCESS_ELEMENT)
        return weir_rule_update(rule, step, data, first, n, error);
    if (rule->class->access == WEIR_ACCESS_TENSOR)
        return update_by_norms(rule, step, data, first, n, work, error);
    struct wr_rule_range r = range(rule, data, first, n);
    rule->class->update_matrix(rule, step, &r, rows, cols, work);
    return WEIR_OK;
}
