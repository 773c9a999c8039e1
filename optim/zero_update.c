/* SPDX-License-Identifier: BSD-3-Clause */
/* Applying the rules to this rank's pieces. */
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "optim/zero.h"

/* What a piece is updated with. */
struct update {
    const weir_rule *rule;
    weir_rule_step step;
    weir_rule_data data;
};

static weir_status describe(weir_zero *zero, const weir_zero_step_options *options, double scale, const struct wr_zero_piece *p,
                            struct update *u)
{
    const weir_group *group = wr_zero_group(&zero->o, p->tensor);
    weir_type type;
    void *grad = wr_zero_piece_grad(zero, p, &type);
    weir_status status = WEIR_OK;
    *u = (struct update){group->rule, WEIR_RULE_STEP_INIT, WEIR_RULE_DATA_INIT};
    if (options->lr < 0) {
        status = weir_group_step(group, zero->step, scale, &u->step);
    } else {
        u->step.step = zero->step;
        u->step.lr = options->lr * group->lr_scale;
        u->step.weight_decay = group->weight_decay;
        u->step.grad_scale = scale;
    }
    if (p->tensor->said.flags & WEIR_ZERO_NO_DECAY)
        u->step.weight_decay = 0;
    u->data.master = p->master;
    u->data.grad = grad;
    u->data.grad_type = type;
    if (p->param != p->master) {
        u->data.out = p->param;
        u->data.out_type = zero->o.param_type;
    }
    memcpy(u->data.states, p->states, sizeof u->data.states);
    return status;
}

static bool by_norms(const weir_zero *zero, const struct wr_zero_piece *p)
{
    return p->master && weir_rule_access(wr_zero_group(&zero->o, p->tensor)->rule) == WEIR_ACCESS_TENSOR;
}

/* Reproducible: the sums of tensors, by block. */
static weir_status sum_blocks(weir_zero *zero)
{
    weir_status status = wr_zero_repro_share(zero);
    for (uint64_t u = 0; status == WEIR_OK && u < zero->l.nunits; u++)
        for (uint64_t i = 0; i < zero->l.units[u].ntensors; i++) {
            const struct wr_zero_tensor *t = &zero->l.units[u].tensors[i];
            for (int which = 0; which < 2; which++)
                zero->tensor_sums[2 * t->number + (uint64_t)which] = wr_zero_repro_tensor(zero, t, which);
        }
    return status;
}

/* The first half of rules that look at norms of tensors: their sums over all ranks. */
static weir_status prepare(weir_zero *zero, const weir_zero_step_options *options, double scale)
{
    struct update u;
    weir_status status = WEIR_OK;
    uint64_t n = zero->l.ntensors * 2;
    memset(zero->tensor_sums, 0, n * sizeof(double));
    if (wr_zero_reproducible(zero))
        memset(zero->norm_blocks, 0, 2 * zero->l.norm_blocks * sizeof(double));
    for (uint64_t i = 0; status == WEIR_OK && i < zero->npieces; i++) {
        const struct wr_zero_piece *p = &zero->pieces[i];
        uint64_t blocks = weir_norm_blocks(0, p->n);
        double *sums = zero->tensor_sums + 2 * p->tensor->number, *parts = zero->work;
        if (!by_norms(zero, p))
            continue;
        status = describe(zero, options, scale, p, &u);
        if (status == WEIR_OK)
            status = weir_rule_prepare(u.rule, &u.step, &u.data, 0, p->n, parts, &zero->error);
        if (wr_zero_reproducible(zero))
            wr_zero_repro_keep(zero, p, parts, 2);
        sums[0] += weir_norm_fold(parts, blocks);
        sums[1] += weir_norm_fold(parts + blocks, blocks);
    }
    if (status == WEIR_OK && wr_zero_reproducible(zero))
        return sum_blocks(zero);
    if (zero->nshard == 1 || status != WEIR_OK)
        return status;
    status = weir_allreduce(zero->shard, WEIR_IN_PLACE, zero->tensor_sums, n, WEIR_FP64, WEIR_SUM);
    return status == WEIR_OK ? WEIR_OK : wr_zero_comm_failed(zero, status);
}

static weir_status update(weir_zero *zero, const weir_zero_step_options *options, double scale, const struct wr_zero_piece *p)
{
    struct update u;
    weir_status status = p->master ? describe(zero, options, scale, p, &u) : WEIR_OK;
    if (status != WEIR_OK || !p->master)
        return status;
    if (weir_rule_access(u.rule) == WEIR_ACCESS_MATRIX)
        return weir_rule_update_tensor(u.rule, &u.step, &u.data, 0, p->tensor->rows, p->tensor->cols, zero->work, &zero->error);
    if (by_norms(zero, p))
        u.step.ratio = weir_rule_ratio(u.rule, &u.step, zero->tensor_sums[2 * p->tensor->number], zero->tensor_sums[2 * p->tensor->number + 1]);
    return weir_rule_update(u.rule, &u.step, &u.data, 0, p->n, &zero->error);
}

weir_status wr_zero_distribute(weir_zero *zero, uint64_t section)
{
    const struct wr_zero_section *s = &zero->l.sections[section];
    if (wr_zero_quantized_params(zero))
        wr_zero_quant_pack(zero, s);
    if (zero->o.stage == 3 || zero->nshard == 1)
        return WEIR_OK;
    weir_status status = wr_zero_params_wait(zero, section);
    if (status != WEIR_OK)
        return status;
    int64_t begin = wr_clock_ns();
    wr_zero_count_gather(zero, (s->n - wr_zero_part(s, zero->my_shard)) * zero->wsize);
    status = weir_start(zero->param_requests[section]);
    wr_zero_exposed(zero, begin);
    if (status != WEIR_OK)
        return wr_zero_comm_failed(zero, status);
    zero->param_started[section] = begin;
    wr_zero_flight_begin(zero);
    return WEIR_OK;
}

static weir_status update_section(weir_zero *zero, const weir_zero_step_options *options, double scale, uint64_t section)
{
    weir_status status = WEIR_OK;
    int64_t begin = wr_clock_ns();
    for (uint64_t i = zero->section_piece[section]; status == WEIR_OK && i < zero->section_piece[section + 1]; i++)
        status = update(zero, options, scale, &zero->pieces[i]);
    zero->report.update_ns += wr_clock_ns() - begin;
    wr_zero_trace_add(zero, WR_ZERO_DID_UPDATE, 0, begin, 0);
    return status == WEIR_OK && zero->l.sections[section].trainable ? wr_zero_distribute(zero, section) : status;
}

/* All ranks will have updated what this one has updated so far, when it is complete. */
static weir_status fence(weir_zero *zero, int which)
{
    int64_t begin = wr_clock_ns();
    weir_status status = weir_start(zero->fences[which]);
    wr_zero_exposed(zero, begin);
    return status == WEIR_OK ? WEIR_OK : wr_zero_comm_failed(zero, status);
}

/* The first blocks of the next step are gathered as soon as all ranks have updated them. */
static weir_status gather_first(weir_zero *zero)
{
    weir_status status = zero->fences[0] ? weir_test(&zero->fences[0]) : WEIR_OK;
    if (status == WEIR_IN_PROGRESS)
        return WEIR_OK;
    return status == WEIR_OK ? wr_zero_live_ahead(zero) : wr_zero_comm_failed(zero, status);
}

/* Stage 3: the first blocks of the next step, which are then gathered while the others are updated. */
static weir_status update_in_two(weir_zero *zero, const weir_zero_step_options *options, double scale)
{
    weir_status status = WEIR_OK;
    zero->pass = WEIR_ZERO_TRAIN; /* whose order is followed */
    wr_zero_live_choose_first(zero);
    for (int second = 0; status == WEIR_OK && second < 2; second++) {
        for (uint64_t s = 0; status == WEIR_OK && s < zero->l.nsections; s++) {
            if (zero->live.blocks[zero->l.sections[s].block].first == second)
                continue;
            status = update_section(zero, options, scale, s);
            if (status == WEIR_OK && second)
                status = gather_first(zero);
        }
        zero->live.updating = !second;
        if (status == WEIR_OK)
            status = fence(zero, second);
    }
    return status;
}

weir_status wr_zero_update(weir_zero *zero, const weir_zero_step_options *options, double scale)
{
    bool norms = false;
    for (uint64_t u = 0; u < zero->o.ngroups; u++)
        norms |= !(zero->o.groups[u].flags & WEIR_GROUP_FROZEN) && weir_rule_access(zero->o.groups[u].rule) == WEIR_ACCESS_TENSOR;
    weir_status status = norms ? prepare(zero, options, scale) : WEIR_OK;
    if (status == WEIR_OK && zero->o.stage == 3 && zero->nshard > 1)
        return update_in_two(zero, options, scale);
    for (uint64_t s = 0; status == WEIR_OK && s < zero->l.nsections; s++)
        status = update_section(zero, options, scale, s);
    return status;
}
