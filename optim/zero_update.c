/* SPDX-License-Identifier: BSD-3-Clause */
/* Applying the rules to this rank's pieces. */
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "optim/zero_offload.h"
#include "optim/zero_param_disk.h"
#include "optim/zero_update.h"

/* What a piece is updated with. */
struct update {
    const weir_rule *rule;
    weir_rule_step step;
    weir_rule_data data;
};

/* The reduced gradient of a piece, and its type. */
static const unsigned char *gradient(const struct wr_zero_apply *a, const struct wr_zero_piece *p, weir_type *type)
{
    const weir_zero *zero = a->zero;
    const struct wr_zero_section *s = &zero->l.sections[p->section];
    const unsigned char *grad = wr_zero_piece_grad(zero, p, type);
    uint64_t at = zero->g.shard_at[p->section] + p->at - s->at - wr_zero_bound(s, zero->my_shard);
    return a->grads ? a->grads + at * weir_type_size(*type) : grad;
}

static weir_status describe(const struct wr_zero_apply *a, const struct wr_zero_piece *p, struct update *u)
{
    const weir_zero *zero = a->zero;
    const weir_group *group = wr_zero_group(&zero->o, p->tensor);
    weir_type type;
    weir_status status = WEIR_OK;
    *u = (struct update){group->rule, WEIR_RULE_STEP_INIT, WEIR_RULE_DATA_INIT};
    if (a->options->lr < 0) {
        status = weir_group_step(group, zero->step, a->scale, &u->step);
    } else {
        u->step.step = zero->step;
        u->step.lr = a->options->lr * group->lr_scale;
        u->step.weight_decay = group->weight_decay;
        u->step.grad_scale = a->scale;
    }
    if (p->tensor->said.flags & WEIR_ZERO_NO_DECAY)
        u->step.weight_decay = 0;
    u->data.master = p->master;
    u->data.grad = gradient(a, p, &type);
    u->data.grad_type = type;
    if (zero->o.param_type != WEIR_FP32) {
        u->data.out = p->fresh;
        u->data.out_type = zero->o.param_type;
    }
    memcpy(u->data.states, p->states, sizeof u->data.states);
    return status;
}

static bool by_norms(const weir_zero *zero, const struct wr_zero_piece *p)
{
    return !p->tensor->frozen && weir_rule_access(wr_zero_group(&zero->o, p->tensor)->rule) == WEIR_ACCESS_TENSOR;
}

/* ---- the sums of rules that look at norms ---- */

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

/* The sums of a piece, by block, in a->work; those of a part are put to the others, for they are only added when all are there. */
static weir_status prepare_part(void *arg, const struct wr_zero_piece *part, uint64_t piece, uint64_t from)
{
    struct wr_zero_apply *a = arg;
    weir_zero *zero = a->zero;
    const struct wr_zero_piece *whole = &zero->pieces[piece];
    uint64_t blocks = weir_norm_blocks(0, whole->n), n = weir_norm_blocks(0, part->n), at = from / WEIR_NORM_BLOCK;
    double *all = a->work, *some = part->n == whole->n ? all : all + 2 * blocks, *sums = zero->tensor_sums + 2 * part->tensor->number;
    struct update u;
    if (!by_norms(zero, part))
        return WEIR_OK;
    weir_status status = describe(a, part, &u);
    if (status == WEIR_OK)
        status = weir_rule_prepare(u.rule, &u.step, &u.data, 0, part->n, some, a->error);
    if (some != all) {
        memcpy(all + at, some, n * sizeof *all);
        memcpy(all + blocks + at, some + n, n * sizeof *all);
    }
    if (status != WEIR_OK || from + part->n < whole->n)
        return status;
    if (wr_zero_reproducible(zero))
        wr_zero_repro_keep(zero, whole, all, 2);
    sums[0] += weir_norm_fold(all, blocks);
    sums[1] += weir_norm_fold(all + blocks, blocks);
    return WEIR_OK;
}

weir_status wr_zero_update_prepare(struct wr_zero_apply *a)
{
    weir_zero *zero = a->zero;
    uint64_t n = zero->l.ntensors * 2;
    bool norms = false;
    for (uint64_t g = 0; g < zero->o.ngroups; g++)
        norms |= !(zero->o.groups[g].flags & WEIR_GROUP_FROZEN) && weir_rule_access(zero->o.groups[g].rule) == WEIR_ACCESS_TENSOR;
    if (!norms)
        return WEIR_OK;
    memset(zero->tensor_sums, 0, n * sizeof(double));
    if (wr_zero_reproducible(zero))
        memset(zero->norm_blocks, 0, 2 * zero->l.norm_blocks * sizeof(double));
    weir_status status = wr_zero_visit_all(zero, true, true, prepare_part, a, a->error);
    if (status == WEIR_OK && wr_zero_reproducible(zero))
        return sum_blocks(zero);
    if (zero->nshard == 1 || status != WEIR_OK)
        return status;
    status = weir_allreduce(zero->shard, WEIR_IN_PLACE, zero->tensor_sums, n, WEIR_FP64, WEIR_SUM);
    return status == WEIR_OK ? WEIR_OK : wr_zero_comm_failed(zero, status);
}

/* ---- the rules ---- */

static weir_status update_part(void *arg, const struct wr_zero_piece *p, uint64_t piece, uint64_t from)
{
    struct wr_zero_apply *a = arg;
    const double *sums = a->zero->tensor_sums + 2 * p->tensor->number;
    struct update u;
    (void)piece;
    (void)from;
    weir_status status = p->tensor->frozen ? WEIR_OK : describe(a, p, &u);
    if (status != WEIR_OK || p->tensor->frozen)
        return status;
    if (weir_rule_access(u.rule) == WEIR_ACCESS_MATRIX)
        return weir_rule_update_tensor(u.rule, &u.step, &u.data, 0, p->tensor->rows, p->tensor->cols, a->work, a->error);
    if (by_norms(a->zero, p))
        u.step.ratio = weir_rule_ratio(u.rule, &u.step, sums[0], sums[1]);
    return weir_rule_update(u.rule, &u.step, &u.data, 0, p->n, a->error);
}

/* The same, and parameters in fp32 where they are apart from masters. */
static weir_status update_and_copy(void *arg, const struct wr_zero_piece *p, uint64_t piece, uint64_t from)
{
    weir_status status = update_part(arg, p, piece, from);
    if (status == WEIR_OK && !p->tensor->frozen && p->fresh != p->master)
        memcpy(p->fresh, p->master, p->n * sizeof(float));
    return status;
}

weir_status wr_zero_update_apply(struct wr_zero_apply *a)
{
    int64_t begin = wr_clock_ns();
    weir_status status = wr_zero_visit_all(a->zero, true, true, update_part, a, a->error);
    a->ns += wr_clock_ns() - begin;
    return status;
}

/* ---- parameters to all ranks ---- */

weir_status wr_zero_distribute(weir_zero *zero, uint64_t section)
{
    const struct wr_zero_section *s = &zero->l.sections[section];
    if (zero->param_disk)
        return wr_zero_param_disk_put(zero, section);
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

weir_status wr_zero_make_params(weir_zero *zero, bool reads, bool writes, bool keep, wr_zero_visitor visit)
{
    weir_status status = wr_zero_offload_begin(zero, NULL, reads, writes, &zero->error);
    for (uint64_t s = 0; status == WEIR_OK && s < zero->l.nsections; s++) {
        status = wr_zero_param_disk_open(zero, s, keep);
        if (status == WEIR_OK)
            status = wr_zero_visit_section(zero, s, visit, zero, &zero->error);
        if (status == WEIR_OK)
            status = wr_zero_distribute(zero, s);
    }
    weir_status end = wr_zero_offload_end(zero, status == WEIR_OK ? &zero->error : NULL);
    status = status == WEIR_OK ? end : status;
    return status == WEIR_OK ? wr_zero_param_disk_sync(zero) : status;
}

/* What a delayed update has left for the program to see. */
static void install_section(weir_zero *zero, uint64_t section)
{
    for (uint64_t i = zero->section_piece[section]; i < zero->section_piece[section + 1]; i++) {
        const struct wr_zero_piece *p = &zero->pieces[i];
        if (p->fresh != p->param)
            memcpy(p->param, p->fresh, p->n * zero->wsize);
    }
}

/* A section is updated, or (a NULL) what was updated is shown; then it is distributed. */
static weir_status update_section(weir_zero *zero, struct wr_zero_apply *a, uint64_t section)
{
    weir_status status = WEIR_OK;
    int64_t begin = wr_clock_ns();
    if (a && zero->l.sections[section].trainable)
        status = wr_zero_param_disk_open(zero, section, false);
    if (a && status == WEIR_OK)
        status = wr_zero_visit_section(zero, section, zero->o.param_type == WEIR_FP32 ? update_and_copy : update_part, a, a->error);
    else if (!a)
        install_section(zero, section);
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

/* Stage 3 updates the first blocks of the next step first, which are then gathered while the others are updated. */
static bool in_two(const weir_zero *zero)
{
    return zero->o.stage == 3 && zero->nshard > 1;
}

static bool is_first(const weir_zero *zero, uint64_t section)
{
    return in_two(zero) && zero->live.blocks[zero->l.sections[section].block].first;
}

/* The sections in the order of the update; returns how many are first. */
static uint64_t choose_order(weir_zero *zero)
{
    uint64_t n = 0, first = 0;
    if (in_two(zero)) {
        zero->pass = WEIR_ZERO_TRAIN; /* whose order is followed */
        wr_zero_live_choose_first(zero);
    }
    for (int later = 0; later < 2; later++) {
        for (uint64_t s = 0; s < zero->l.nsections; s++)
            if (is_first(zero, s) == !later)
                zero->order_of_update[n++] = s;
        first = later ? first : n;
    }
    return first;
}

static weir_status update_sections(weir_zero *zero, struct wr_zero_apply *a, uint64_t first)
{
    weir_status status = WEIR_OK;
    for (uint64_t i = 0; status == WEIR_OK && i < zero->l.nsections; i++) {
        if (in_two(zero) && i == first) {
            zero->live.updating = true;
            status = wr_zero_param_disk_sync(zero);
            status = status == WEIR_OK ? fence(zero, 0) : status;
        }
        if (status == WEIR_OK)
            status = update_section(zero, a, zero->order_of_update[i]);
        if (status == WEIR_OK && in_two(zero) && i >= first)
            status = gather_first(zero);
    }
    zero->live.updating = false;
    if (status == WEIR_OK)
        status = wr_zero_param_disk_sync(zero);
    if (status != WEIR_OK || !in_two(zero))
        return status;
    if (first == zero->l.nsections)
        status = fence(zero, 0);
    return status == WEIR_OK ? fence(zero, 1) : status;
}

weir_status wr_zero_update_install(weir_zero *zero)
{
    return update_sections(zero, NULL, choose_order(zero));
}

weir_status wr_zero_update(weir_zero *zero, const weir_zero_step_options *options, double scale)
{
    struct wr_zero_apply a = {.zero = zero, .options = options, .scale = scale, .work = zero->work, .error = &zero->error};
    wr_zero_offload_moved(zero);
    weir_status status = wr_zero_update_prepare(&a);
    if (status != WEIR_OK)
        return status;
    uint64_t first = choose_order(zero);
    int64_t begin = wr_clock_ns();
    status = wr_zero_offload_begin(zero, zero->order_of_update, true, true, &zero->error);
    zero->report.update_ns += wr_clock_ns() - begin;
    if (status == WEIR_OK)
        status = update_sections(zero, &a, first);
    begin = wr_clock_ns();
    weir_status end = wr_zero_offload_end(zero, status == WEIR_OK ? &zero->error : NULL);
    zero->report.update_ns += wr_clock_ns() - begin;
    zero->report.disk_bytes = wr_zero_offload_moved(zero);
    status = status == WEIR_OK ? end : status;
    zero->broken |= status == WEIR_ERR_IO || status == WEIR_ERR_TIMEOUT; /* some states are those of this step, others not */
    return status;
}
