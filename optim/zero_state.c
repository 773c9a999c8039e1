/* SPDX-License-Identifier: BSD-3-Clause */
/* What others see of the sharded values: lists of parts for checkpoints, whole arrays gathered and set. */
#include <weir/zero_state.h>

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/error.h"
#include "optim/zero_delay.h"
#include "optim/zero_update.h"

/* ---- arrays ---- */

enum { PARAM = -1, GRAD = -2, NONE = -3 }; /* instead of the number of a state */

/* An array of a tensor. */
struct array {
    const struct wr_zero_tensor *tensor;
    int state;
    weir_type type;
    uint64_t span;  /* elements of the tensor for each entry; 0: the array is in one place */
    uint64_t total; /* entries */
};

static void describe(const weir_zero *zero, const struct wr_zero_tensor *t, int state, struct array *a)
{
    *a = (struct array){t, state, WEIR_FP32, 1, t->n};
    if (state == PARAM && t->frozen)
        a->type = (weir_type)zero->o.param_type;
    if (state < 0)
        return;
    const weir_rule *rule = wr_zero_group(&zero->o, t)->rule;
    weir_rule_state s = {.size = sizeof s};
    weir_rule_state_info(rule, (unsigned)state, &s);
    a->type = (weir_type)s.type;
    a->span = s.span;
    a->total = s.span ? weir_rule_state_count(rule, (unsigned)state, 1, t->n)
                      : weir_rule_state_count(rule, (unsigned)state, t->rows, t->cols);
}

static const char *kind_of(const weir_zero *zero, const struct array *a)
{
    weir_rule_state s = {.size = sizeof s};
    if (a->state < 0)
        return "param";
    weir_rule_state_info(wr_zero_group(&zero->o, a->tensor)->rule, (unsigned)a->state, &s);
    return s.name;
}

/* The entries that elements first .. first + n - 1 have: where they begin and how many. */
static uint64_t entries(const struct array *a, uint64_t first, uint64_t n, uint64_t *count)
{
    if (!a->span) {
        *count = n ? a->total : 0;
        return 0;
    }
    uint64_t from = first / a->span, to = (first + n + a->span - 1) / a->span;
    *count = n ? to - from : 0;
    return from;
}

/* ---- parts ---- */

uint64_t weir_zero_state_count(const weir_zero *zero)
{
    return zero->nparts;
}

static void make_part(const weir_zero *zero, const struct wr_zero_piece *p, const struct array *a, weir_zero_part *part)
{
    const struct wr_zero_tensor *t = p->tensor;
    weir_zero_part made = {.name = t->name, .kind = kind_of(zero, a), .unit = t->unit, .tensor = t->index, .type = (uint64_t)a->type,
                           .ndim = 1, .shape = {a->total}, .total = a->total, .replica = (uint64_t)zero->my_replica,
                           .data = wr_zero_array(zero, (uint64_t)(p - zero->pieces), a->state), .scale = 1,
                            .flags = t->said.flags};
    made.first = entries(a, p->first, p->n, &made.count);
    if (a->span == 1) {
        made.ndim = t->said.ndim;
        memcpy(made.shape, t->said.shape, sizeof made.shape);
    }
    made.size = WR_MIN(part->size, sizeof made);
    memcpy(part, &made, made.size);
}

weir_status weir_zero_state_get(const weir_zero *zero, uint64_t index, weir_zero_part *part)
{
    if (index >= zero->nparts || !part)
        return WEIR_ERR_INVALID;
    struct array a;
    describe(zero, zero->pieces[zero->parts[index].piece].tensor, zero->parts[index].state, &a);
    make_part(zero, &zero->pieces[zero->parts[index].piece], &a, part);
    return WEIR_OK;
}

static weir_status access_part(weir_zero *zero, uint64_t index, uint64_t first, uint64_t n, const void *values)
{
    weir_zero_part part = {.size = sizeof part};
    if (zero->broken)
        return zero->error.status;
    if (weir_zero_state_get(zero, index, &part) != WEIR_OK || first > part.count || n > part.count - first || (n && !values))
        return wr_zero_fail(zero, WEIR_ERR_INVALID, "see weir_zero_state_get()", "ZeRO engine: there is no part %llu of the state, or it has no such range",
                            (unsigned long long)index);
    return wr_zero_delay_join(zero);
}

weir_status weir_zero_state_read(weir_zero *zero, uint64_t index, uint64_t first, uint64_t n, void *values)
{
    weir_status status = access_part(zero, index, first, n, values);
    const struct wr_zero_part_ref *part = &zero->parts[index];
    return status == WEIR_OK ? wr_zero_array_read(zero, part->piece, part->state, first, n, values, &zero->error) : status;
}

weir_status weir_zero_state_write(weir_zero *zero, uint64_t index, uint64_t first, uint64_t n, const void *values)
{
    weir_status status = access_part(zero, index, first, n, values);
    const struct wr_zero_part_ref *part = &zero->parts[index];
    return status == WEIR_OK ? wr_zero_array_write(zero, part->piece, part->state, first, n, values, &zero->error) : status;
}

void weir_zero_state_counters(const weir_zero *zero, weir_zero_counters *counters)
{
    weir_zero_counters now = {WR_MIN(counters->size, sizeof now), zero->step, zero->skipped, zero->loss_scale, zero->good};
    memcpy(counters, &now, now.size);
}

void wr_zero_set_counters(weir_zero *zero, const weir_zero_counters *counters)
{
    weir_zero_counters c = {sizeof c, zero->step, zero->skipped, zero->loss_scale, zero->good};
    memcpy(&c, counters, WR_MIN(counters->size, sizeof c));
    zero->step = c.step;
    zero->skipped = c.skipped;
    zero->loss_scale = c.loss_scale;
    zero->good = c.good;
    zero->last_lr = -1;
}

/* ---- setting ---- */

weir_status wr_zero_quiet(weir_zero *zero)
{
    if (zero->broken)
        return zero->error.status;
    if (zero->in_pass)
        return wr_zero_fail(zero, WEIR_ERR_INVALID, "call weir_zero_end() first", "ZeRO engine: values are looked at inside a pass");
    weir_status status = wr_zero_live_settle(zero);
    for (uint64_t s = 0; status == WEIR_OK && s < zero->l.nsections; s++)
        status = wr_zero_params_wait(zero, s);
    for (int i = 0; status == WEIR_OK && i < 2; i++)
        status = wr_zero_wait(zero, &zero->fences[i]);
    return status;
}

weir_status wr_zero_meet(weir_zero *zero)
{
    weir_status status = weir_barrier(zero->all);
    return status == WEIR_OK ? WEIR_OK : wr_zero_comm_failed(zero, status);
}

/* Parameters of masters. */
static weir_status refresh(void *arg, const struct wr_zero_piece *p, uint64_t piece, uint64_t from)
{
    const weir_zero *zero = arg;
    (void)piece;
    (void)from;
    if (p->master && p->param != p->master)
        weir_convert(p->param, (weir_type)zero->o.param_type, p->master, WEIR_FP32, p->n);
    return WEIR_OK;
}

static weir_status distribute_block(weir_zero *zero, uint64_t block)
{
    const struct wr_zero_block *b = &zero->l.blocks[block];
    weir_status status = WEIR_OK;
    for (uint64_t s = b->section; status == WEIR_OK && s < b->section + b->nsections; s++)
        status = wr_zero_distribute(zero, s);
    return status;
}

static weir_status refresh_all(weir_zero *zero)
{
    return wr_zero_make_params(zero, wr_zero_masters_on_disk(&zero->o), false, true, refresh);
}

weir_status weir_zero_state_loaded(weir_zero *zero, const weir_zero_counters *counters)
{
    weir_status status = wr_zero_quiet(zero);
    if (status == WEIR_OK)
        status = wr_zero_delay_join(zero);
    if (status == WEIR_OK && zero->delay)
        zero->delay->waiting = false; /* an update of what was there before */
    if (status == WEIR_OK)
        status = wr_zero_meet(zero);
    if (status == WEIR_OK)
        status = refresh_all(zero);
    if (status == WEIR_OK)
        status = wr_zero_live_forget(zero);
    if (counters)
        wr_zero_set_counters(zero, counters);
    return status == WEIR_OK ? wr_zero_meet(zero) : status;
}

/* ---- whole arrays ---- */

static weir_status find(weir_zero *zero, uint64_t unit, uint64_t tensor, const char *kind, struct array *a)
{
    if (unit >= zero->l.nunits || tensor >= zero->l.units[unit].ntensors || !kind)
        return wr_zero_fail(zero, WEIR_ERR_INVALID, NULL, "ZeRO engine: there is no tensor %llu of unit %llu",
                            (unsigned long long)tensor, (unsigned long long)unit);
    const struct wr_zero_tensor *t = zero->l.units[unit].tensors[tensor].origin;
    int state = !strcmp(kind, "param") ? PARAM : !strcmp(kind, "grad") && !t->frozen ? GRAD : NONE;
    const weir_rule *rule = t->frozen ? NULL : wr_zero_group(&zero->o, t)->rule;
    for (unsigned k = 0; state == NONE && rule && k < weir_rule_nstates(rule); k++) {
        weir_rule_state s = {.size = sizeof s};
        weir_rule_state_info(rule, k, &s);
        if (!strcmp(s.name, kind))
            state = (int)k;
    }
    if (state != NONE)
        describe(zero, t, state, a);
    if (state == NONE || !a->total)
        return wr_zero_fail(zero, WEIR_ERR_NOT_FOUND, "see the states of its rule", "ZeRO engine: %s has no \"%s\"", t->name, kind);
    return WEIR_OK;
}

/* The part of a tensor that rank `r` has of a section: its first element and how many. */
static uint64_t part_of(const struct wr_zero_section *s, const struct wr_zero_tensor *t, int r, uint64_t *n)
{
    uint64_t low = WR_MAX(s->at + wr_zero_bound(s, r), t->at), high = WR_MIN(s->at + wr_zero_bound(s, r + 1), t->at + t->n);
    *n = high > low ? high - low : 0;
    return *n ? low - t->at : 0;
}

static struct wr_zero_piece *piece_of(const weir_zero *zero, uint64_t section, const struct wr_zero_tensor *t)
{
    for (uint64_t i = zero->section_piece[section]; i < zero->section_piece[section + 1]; i++)
        if (zero->pieces[i].tensor == t)
            return &zero->pieces[i];
    return NULL;
}

/* The parameters of a frozen piece to fp32, or (`from`) from it. */
static weir_status frozen(weir_zero *zero, const struct wr_zero_piece *p, float *to, const float *from)
{
    enum { CHUNK = 1024 };
    float some[CHUNK];
    weir_type type = (weir_type)zero->o.param_type;
    uint64_t piece = (uint64_t)(p - zero->pieces);
    weir_status status = WEIR_OK;
    for (uint64_t at = 0, n; status == WEIR_OK && at < p->n; at += n) {
        n = WR_MIN(p->n - at, (uint64_t)CHUNK);
        if (from)
            weir_convert(some, type, from + at, WEIR_FP32, n);
        status = from ? wr_zero_array_write(zero, piece, PARAM, at, n, some, &zero->error)
                      : wr_zero_array_read(zero, piece, PARAM, at, n, some, &zero->error);
        if (!from)
            weir_convert(to + at, WEIR_FP32, some, type, n);
    }
    return status;
}

/* This rank's part of an array as it is to be gathered: a frozen parameter in fp32, a gradient as the mean. */
static weir_status take(weir_zero *zero, const struct wr_zero_piece *p, const struct array *a, void *to)
{
    uint64_t count;
    entries(a, p->first, p->n, &count);
    if (a->state >= 0 || (a->state == PARAM && !p->tensor->frozen))
        return wr_zero_array_read(zero, (uint64_t)(p - zero->pieces), a->state, 0, count, to, &zero->error);
    if (a->state == PARAM) {
        return frozen(zero, p, to, NULL);
    } else {
        weir_type type;
        const void *grad = wr_zero_piece_grad(zero, p, &type);
        float *values = to;
        weir_convert(values, WEIR_FP32, grad, type, p->n);
        for (uint64_t i = 0; i < p->n; i++)
            values[i] *= (float)zero->grad_scale;
    }
    return WEIR_OK;
}

static weir_status gather_section(weir_zero *zero, const struct array *a, uint64_t section, void *values, void *mine, uint64_t *counts)
{
    const struct wr_zero_section *s = &zero->l.sections[section];
    const struct wr_zero_piece *p = piece_of(zero, section, a->tensor);
    weir_type type = a->state >= 0 ? a->type : WEIR_FP32;
    uint64_t begin = UINT64_MAX;
    for (int r = 0; r < zero->nshard; r++) {
        uint64_t n, first = part_of(s, a->tensor, r, &n), from = entries(a, first, n, &counts[r]);
        if (n && begin == UINT64_MAX)
            begin = from;
    }
    if (begin == UINT64_MAX)
        return WEIR_OK;
    unsigned char *to = (unsigned char *)values + begin * weir_type_size(type);
    if (zero->nshard == 1)
        return take(zero, p, a, to);
    weir_status status = p ? take(zero, p, a, mine) : WEIR_OK;
    if (status != WEIR_OK)
        return status;
    status = weir_allgatherv(zero->shard, mine, to, counts, NULL, type);
    return status == WEIR_OK ? WEIR_OK : wr_zero_comm_failed(zero, status);
}

weir_status weir_zero_gather(weir_zero *zero, uint64_t unit, uint64_t tensor, const char *kind, void *values)
{
    struct array a;
    weir_status status = find(zero, unit, tensor, kind, &a);
    if (status == WEIR_OK)
        status = weir_zero_flush(zero);
    if (status == WEIR_OK)
        status = wr_zero_quiet(zero);
    if (status != WEIR_OK)
        return status;
    uint64_t bytes = a.total * sizeof(float) + 64; /* no element is larger */
    void *mine = wr_zero_alloc(zero, bytes, "a gathered array");
    uint64_t *counts = calloc((size_t)zero->nshard, sizeof *counts);
    const struct wr_zero_block *b = &zero->l.blocks[a.tensor->block];
    if (!mine || !counts)
        status = wr_error_memory(&zero->error, bytes, "a gathered array");
    for (uint64_t s = b->section; status == WEIR_OK && s < b->section + b->nsections; s++)
        status = gather_section(zero, &a, s, values, mine, counts);
    free(counts);
    wr_zero_free(zero, mine, bytes);
    return status;
}

weir_status weir_zero_shard(weir_zero *zero, uint64_t unit, uint64_t tensor, const char *kind, uint64_t index, weir_zero_part *part)
{
    struct array a;
    weir_status status = find(zero, unit, tensor, kind, &a);
    for (uint64_t i = 0; status == WEIR_OK && i < zero->npieces; i++) {
        const struct wr_zero_piece *p = &zero->pieces[i];
        weir_zero_part made = {.size = sizeof made};
        weir_type type;
        if (p->tensor != a.tensor || (a.state >= 0 && !wr_zero_state_entries(wr_zero_group(&zero->o, p->tensor)->rule, (unsigned)a.state, p)) || index-- > 0)
            continue;
        make_part(zero, p, &a, &made);
        if (a.state == GRAD) {
            made.kind = "grad";
            made.data = wr_zero_piece_grad(zero, p, &type);
            made.type = (uint64_t)type;
            made.scale = zero->grad_scale;
        }
        made.size = WR_MIN(part->size, sizeof made);
        memcpy(part, &made, made.size);
        return WEIR_OK;
    }
    return status == WEIR_OK ? WEIR_ERR_NOT_FOUND : status;
}

/* A piece's part of an array, and the parameters that belong to masters. */
static weir_status set(weir_zero *zero, uint64_t piece, const struct array *a, const void *values)
{
    const struct wr_zero_piece *p = &zero->pieces[piece];
    uint64_t count, first = entries(a, p->first, p->n, &count);
    const float *reals = values;
    weir_status status = WEIR_OK;
    if (a->state == PARAM && p->tensor->frozen)
        return frozen(zero, p, NULL, reals + first);
    status = wr_zero_array_write(zero, piece, a->state, 0, count, (const unsigned char *)values + first * weir_type_size(a->type), &zero->error);
    if (a->state == PARAM && p->param && p->param != p->master)
        weir_convert(p->param, (weir_type)zero->o.param_type, reals + first, WEIR_FP32, count);
    return status;
}

weir_status weir_zero_scatter(weir_zero *zero, uint64_t unit, uint64_t tensor, const char *kind, const void *values)
{
    struct array a;
    weir_status status = find(zero, unit, tensor, kind, &a);
    if (status == WEIR_OK && a.state == GRAD)
        return wr_zero_give(zero, a.tensor, values);
    if (status == WEIR_OK)
        status = weir_zero_flush(zero);
    if (status == WEIR_OK)
        status = wr_zero_quiet(zero);
    if (status == WEIR_OK)
        status = wr_zero_meet(zero);
    for (uint64_t i = 0; status == WEIR_OK && i < zero->npieces; i++)
        if (zero->pieces[i].tensor == a.tensor)
            status = set(zero, i, &a, values);
    if (status == WEIR_OK && a.state == PARAM)
        status = zero->param_disk ? refresh_all(zero) : distribute_block(zero, a.tensor->block);
    if (status == WEIR_OK)
        status = wr_zero_live_forget(zero);
    return status == WEIR_OK ? wr_zero_meet(zero) : status;
}
