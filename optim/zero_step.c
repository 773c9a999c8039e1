/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The step: all ranks agree on what the gradient is and what becomes of it, in one all-reduce of a few numbers (two, when a rank has
 * gradients that came too late), and update.
 */
#include <weir/zero_state.h>

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "optim/zero_delay.h"

/*
 * What is summed over all ranks. The four quarters of a hash, and their squares, tell whether all ranks have the same one: n times
 * the sum of squares is the square of the sum only then (Cauchy and Schwarz), and all of it is exact in fp64.
 */
enum { NORM, WEIGHT, BAD, LATE, STOP, LOSS, LOSSES, HASH, SQUARES = HASH + 4, NUMBERS = SQUARES + 4 };

static void own_numbers(const weir_zero *zero, const weir_zero_step_options *options, double numbers[NUMBERS])
{
    uint64_t h = wr_zero_grads_seen(zero);
    double sum = 0;
    memset(numbers, 0, NUMBERS * sizeof *numbers);
    for (uint64_t i = 0; i < zero->npieces; i++)
        if (!zero->pieces[i].tensor->frozen && !(zero->pieces[i].tensor->said.flags & WEIR_ZERO_NORM_ELSEWHERE))
            sum += zero->piece_sums[i];
        else if (!zero->pieces[i].tensor->frozen && !isfinite(zero->piece_sums[i]))
            numbers[BAD] = 1;
    if (!isfinite(sum))
        numbers[BAD] = 1;
    else if (zero->my_replica == 0)
        numbers[NORM] = sum;
    numbers[WEIGHT] = options->weight;
    numbers[LATE] = !zero->given && wr_zero_grads_late(zero);
    numbers[STOP] = options->stop != 0;
    numbers[LOSSES] = options->losses != NULL;
    for (uint64_t i = 0; options->losses && i < zero->o.accumulate; i++)
        numbers[LOSS] += options->losses[i];
    for (int i = 0; i < 4; i++) {
        double quarter = (double)(h >> 16 * i & 0xffff);
        numbers[HASH + i] = quarter;
        numbers[SQUARES + i] = quarter * quarter;
    }
}

static bool same_everywhere(const weir_zero *zero, const double numbers[NUMBERS])
{
    bool same = true;
    for (int i = 0; i < 4; i++)
        same &= numbers[SQUARES + i] * zero->nranks == numbers[HASH + i] * numbers[HASH + i];
    return same;
}

static weir_status sum_up(weir_zero *zero, weir_comm *comm, double *numbers, uint64_t n)
{
    int64_t begin = wr_clock_ns();
    weir_status status = weir_comm_size(comm) > 1 ? weir_allreduce(comm, WEIR_IN_PLACE, numbers, n, WEIR_FP64, WEIR_SUM) : WEIR_OK;
    wr_zero_exposed(zero, begin);
    return status == WEIR_OK ? WEIR_OK : wr_zero_comm_failed(zero, status);
}

/* All gradients are reduced, and `numbers` are the sums over all ranks. */
static weir_status agree(weir_zero *zero, const weir_zero_step_options *options, double numbers[NUMBERS])
{
    own_numbers(zero, options, numbers);
    weir_status status = sum_up(zero, zero->all, numbers, NUMBERS);
    if (status == WEIR_OK && numbers[LATE] > 0) {
        status = wr_zero_grads_extra(zero);
        own_numbers(zero, options, numbers);
        if (status == WEIR_OK)
            status = sum_up(zero, zero->all, numbers, NUMBERS);
    }
    double norm = 0;
    if (status == WEIR_OK && wr_zero_reproducible(zero) && (status = wr_zero_repro_share(zero)) == WEIR_OK)
        status = wr_zero_repro_norm(zero, &norm);
    if (status == WEIR_OK && zero->o.norm_comm) {
        double over[3] = {numbers[NORM], numbers[BAD], numbers[STOP]};
        status = sum_up(zero, zero->o.norm_comm, over, 3);
        numbers[NORM] = over[0];
        numbers[BAD] = over[1];
        numbers[STOP] = over[2];
    }
    if (wr_zero_reproducible(zero))
        numbers[NORM] = norm;
    return status;
}

/* The mean of all losses, when all ranks gave some. */
static weir_status mean_loss(weir_zero *zero, const weir_zero_step_options *options, const double numbers[NUMBERS])
{
    weir_zero_report *r = &zero->report;
    r->loss = (double)NAN;
    if (numbers[LOSSES] != zero->nranks)
        return WEIR_OK;
    if (wr_zero_reproducible(zero))
        return wr_zero_repro_loss(zero, options->losses, &r->loss);
    r->loss = numbers[LOSS] / ((double)zero->nranks * (double)zero->o.accumulate);
    return WEIR_OK;
}

/* The gradient is there, and everything that this rank has begun is complete: parameters of the last step, gathered ones. */
static weir_status complete(weir_zero *zero)
{
    weir_status status = zero->given ? WEIR_OK : wr_zero_grads_finish(zero);
    for (uint64_t s = 0; zero->given && s < zero->l.nsections; s++)
        if (zero->l.sections[s].trainable)
            wr_zero_take_norms(zero, s);
    return status == WEIR_OK ? wr_zero_quiet(zero) : status;
}

static weir_status check(weir_zero *zero, const weir_zero_step_options *o)
{
    if (zero->broken)
        return zero->error.status;
    if (zero->in_pass)
        return wr_zero_fail(zero, WEIR_ERR_INVALID, "call weir_zero_end() first", "ZeRO engine: a step inside a pass");
    if (!(o->weight >= 0) || isinf(o->weight) || isnan(o->lr))
        return wr_zero_fail(zero, WEIR_ERR_INVALID, "begin with WEIR_ZERO_STEP_INIT", "ZeRO engine: a step with weight %g and learning rate %g",
                            o->weight, o->lr);
    for (uint64_t g = 0; o->lr < 0 && g < zero->o.ngroups; g++)
        if (!(zero->o.groups[g].flags & WEIR_GROUP_FROZEN) && !zero->o.groups[g].schedule)
            return wr_zero_fail(zero, WEIR_ERR_INVALID, "give the group a schedule, or the step a learning rate",
                                "ZeRO engine: group %llu has no learning rate", (unsigned long long)g);
    return WEIR_OK;
}

static void rescale(weir_zero *zero, bool good)
{
    if (!zero->o.scale_window)
        return;
    if (!good) {
        zero->loss_scale = fmax(zero->loss_scale / 2, fmin(1, zero->o.loss_scale));
        zero->good = 0;
    } else if (++zero->good == zero->o.scale_window) {
        zero->loss_scale *= 2;
        zero->good = 0;
    }
}

static weir_status decide(weir_zero *zero, const weir_zero_step_options *options, const double numbers[NUMBERS])
{
    weir_zero_report *r = &zero->report;
    uint64_t passes = options->passes ? options->passes : zero->o.accumulate;
    double total = numbers[WEIGHT] > 0 ? numbers[WEIGHT] : (double)zero->nranks * (double)passes;
    bool good = numbers[BAD] == 0;
    if (same_everywhere(zero, numbers))
        wr_zero_grads_adopt(zero);
    else if (r->differs_unit < 0)
        r->differs_unit = wr_zero_grads_differ(zero);
    r->loss_scale = zero->loss_scale;
    zero->grad_scale = zero->given ? 1 : 1 / (zero->loss_scale * total);
    zero->last_lr = good ? options->lr : zero->last_lr;
    r->norm = good ? sqrt(numbers[NORM]) * zero->grad_scale : (double)NAN;
    r->clip = good && zero->o.clip_norm > 0 ? weir_clip_factor(r->norm, zero->o.clip_norm) : 1;
    r->skipped = !good;
    r->stop = (uint64_t)numbers[STOP];
    zero->skipped += !good;
    zero->epoch++;
    if (!zero->given)
        rescale(zero, good);
    weir_status status = wr_zero_delay_finish(zero);
    if (status != WEIR_OK)
        return status;
    if (good) {
        zero->step++;
        return (zero->delay ? wr_zero_delay_start : wr_zero_update)(zero, options, zero->grad_scale * r->clip);
    }
    if (zero->o.nonfinite == WEIR_ZERO_SKIP)
        return WEIR_OK;
    return wr_zero_fail(zero, WEIR_ERR_NOT_FINITE, "lower the learning rate, or let such steps be skipped",
                        "ZeRO engine: the gradient of step %llu is not finite", (unsigned long long)zero->step + 1);
}

static double rate(const weir_zero *zero, uint64_t group, double lr)
{
    const weir_group *g = &zero->o.groups[group];
    weir_rule_step step = WEIR_RULE_STEP_INIT;
    if (lr >= 0)
        return lr * g->lr_scale;
    if (g->flags & WEIR_GROUP_FROZEN || !g->schedule || weir_group_step(g, WR_MAX(zero->step, 1), 1, &step) != WEIR_OK)
        return 0;
    return step.lr;
}

double weir_zero_lr(const weir_zero *zero, uint64_t group)
{
    return group < zero->o.ngroups ? rate(zero, group, zero->last_lr) : 0;
}

/* Gives the report away and begins a new one. */
static void report(weir_zero *zero, const weir_zero_step_options *options, weir_zero_report *to)
{
    weir_zero_report done;
    zero->report.step = zero->step;
    zero->report.lr = rate(zero, 0, options->lr);
    if (zero->begun)
        wr_zero_trace_add(zero, WR_ZERO_DID_STEP, 0, zero->begun, 0);
    wr_zero_report_take(zero, &done);
    if (to) {
        size_t size = WR_MIN(to->size, sizeof done);
        memcpy(to, &done, size);
        to->size = size;
    }
}

/* The gradients are used up. */
static void new_step(weir_zero *zero)
{
    wr_zero_grads_reset(zero);
    zero->passes = 0;
    zero->given = false;
}

weir_status weir_zero_step(weir_zero *zero, const weir_zero_step_options *options, weir_zero_report *to)
{
    if (!zero->broken && zero->given)
        return wr_zero_fail(zero, WEIR_ERR_INVALID, "call weir_zero_apply() or weir_zero_reset()", "ZeRO engine: gradients were set for another kind of step");
    return wr_zero_step_any(zero, options, to);
}

weir_status wr_zero_step_any(weir_zero *zero, const weir_zero_step_options *options, weir_zero_report *to)
{
    weir_zero_step_options o = WEIR_ZERO_STEP_INIT;
    double numbers[NUMBERS];
    if (options)
        memcpy(&o, options, WR_MIN(options->size, sizeof o));
    weir_status status = check(zero, &o);
    if (status != WEIR_OK)
        return status;
    if ((status = complete(zero)) == WEIR_OK && (status = agree(zero, &o, numbers)) == WEIR_OK &&
        (status = mean_loss(zero, &o, numbers)) == WEIR_OK)
        status = decide(zero, &o, numbers);
    new_step(zero);
    if (status == WEIR_OK || status == WEIR_ERR_NOT_FINITE)
        report(zero, &o, to);
    return status;
}

weir_status weir_zero_reset(weir_zero *zero)
{
    if (zero->broken)
        return zero->error.status;
    if (zero->in_pass)
        return wr_zero_fail(zero, WEIR_ERR_INVALID, "call weir_zero_end() first", "ZeRO engine: gradients are thrown away inside a pass");
    weir_status status = zero->passes ? wr_zero_grads_finish(zero) : WEIR_OK;
    new_step(zero);
    return status;
}

double weir_zero_loss_scale(const weir_zero *zero)
{
    return zero->loss_scale;
}
