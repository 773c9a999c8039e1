/* SPDX-License-Identifier: BSD-3-Clause */
/* Making and ending ZeRO engines. */
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/error.h"
#include "optim/agree.h"
#include "optim/zero.h"

/* ---- what each rank does alone ---- */

static weir_status keep_groups(weir_zero *zero, weir_error *err)
{
    zero->groups = calloc(zero->o.ngroups, sizeof *zero->groups);
    if (!zero->groups)
        return wr_error_memory(err, zero->o.ngroups * sizeof *zero->groups, "groups of parameters");
    for (uint64_t g = 0; g < zero->o.ngroups; g++)
        memcpy(&zero->groups[g], (const char *)zero->o.groups + g * zero->o.groups[0].size, sizeof *zero->groups);
    zero->o.groups = zero->groups;
    return WEIR_OK;
}

static weir_status arrange(weir_zero *zero, weir_error *err)
{
    int group = zero->o.shard_group ? (int)WR_MIN(zero->o.shard_group, (uint64_t)zero->nranks) : zero->nranks;
    if (zero->o.stage == 0)
        group = 1;
    if (zero->nranks % group || (zero->o.shard_group > (uint64_t)zero->nranks))
        return wr_error_set(err, WEIR_ERR_INVALID, "choose a divisor of the number of ranks", "%d ranks cannot be divided into groups of %llu",
                            zero->nranks, (unsigned long long)zero->o.shard_group);
    weir_status status = wr_zero_options_fit(&zero->o, group, err);
    if (status != WEIR_OK)
        return status;
    if (wr_zero_reproducible(zero) && (zero->nranks & (zero->nranks - 1) || zero->nranks > WR_ZERO_TREE_MOST))
        return wr_error_set(err, WEIR_ERR_INVALID, "take a power of two", "%d ranks have no complete binary tree, or more than %d leaves",
                            zero->nranks, WR_ZERO_TREE_MOST);
    zero->nshard = group;
    zero->my_shard = zero->me % group;
    zero->nreplica = zero->nranks / group;
    zero->my_replica = zero->me / group;
    return WEIR_OK;
}

static weir_status prepare(weir_zero *zero, const weir_zero_options *options, const weir_zero_unit *units, uint64_t nunits,
                           weir_error *err)
{
    weir_status status = wr_zero_options_read(options, &zero->o, err);
    if (status == WEIR_OK)
        status = keep_groups(zero, err);
    if (status == WEIR_OK)
        status = arrange(zero, err);
    if (status == WEIR_OK)
        status = wr_zero_layout_make(&zero->l, &zero->o, units, nunits, zero->nshard, err);
    if (status != WEIR_OK)
        return status;
    zero->wsize = weir_type_size((weir_type)zero->o.param_type);
    zero->gsize = weir_type_size((weir_type)zero->o.grad_type);
    zero->rsize = weir_type_size((weir_type)zero->o.reduce_type);
    zero->loss_scale = zero->o.loss_scale;
    zero->grad_scale = 1;
    zero->last_lr = -1;
    zero->report.differs_unit = -1;
    zero->param_started = calloc(zero->l.nsections + 1, sizeof *zero->param_started);
    if (!zero->param_started)
        return wr_error_memory(err, zero->l.nsections * sizeof *zero->param_started, "a ZeRO engine");
    status = wr_zero_requests_prepare(zero);
    if (status == WEIR_OK)
        status = wr_zero_grads_prepare(zero);
    if (status == WEIR_OK)
        status = wr_zero_live_prepare(zero);
    if (status != WEIR_OK && err)
        *err = zero->error;
    return status;
}

/* ---- what all do together ---- */

static uint64_t mix(uint64_t h, uint64_t number)
{
    return (h ^ number) * 0x9e3779b97f4a7c15u;
}

static uint64_t mix_real(uint64_t h, double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return mix(h, bits);
}

static uint64_t hash_group(uint64_t h, const weir_group *g)
{
    weir_rule_options o = {.size = sizeof o};
    h = mix_real(mix_real(mix(h, g->flags), g->lr_scale), g->weight_decay);
    if (!g->rule || weir_rule_get_options(g->rule, &o) != WEIR_OK)
        return h;
    const double reals[] = {o.beta1, o.beta2, o.eps, o.momentum, o.dampening, o.trust, o.clip};
    h = mix(mix(h, o.kind), o.flags);
    for (size_t i = 0; i < WR_ARRAY_SIZE(reals); i++)
        h = mix_real(h, reals[i]);
    return h;
}

static uint64_t hash_options(const weir_zero *zero)
{
    const weir_zero_options *o = &zero->o;
    uint64_t h = mix_real(mix_real(wr_zero_layout_hash(&zero->l), o->loss_scale), o->clip_norm);
    const uint64_t numbers[] = {o->stage, o->flags, o->param_type, o->grad_type, o->reduce_type, o->partition, o->reduce, o->accumulate,
                                o->bucket_bytes, o->prefetch_bytes, o->shard_group, o->scale_window, o->nonfinite, o->seed, o->norm_comm != NULL, o->quant_block, o->secondary_group};
    for (size_t i = 0; i < WR_ARRAY_SIZE(numbers); i++)
        h = mix(h, numbers[i]);
    for (uint64_t g = 0; g < o->ngroups; g++)
        h = hash_group(h, &o->groups[g]);
    return h;
}

static weir_status comm_error(const weir_zero *zero, weir_status status, weir_error *err)
{
    const weir_error *last = weir_last_error(weir_comm_ctx(zero->all));
    if (err && last)
        *err = *last;
    return status;
}

/* Ends the same way on all ranks. */
static weir_status agree(const weir_zero *zero, weir_status mine, uint64_t h, weir_error *err)
{
    return wr_agree(zero->all, mine, h, "ZeRO engine", err);
}

static weir_status make_comms(weir_zero *zero, weir_comm *comm, weir_error *err)
{
    weir_comm *all;
    weir_status status = weir_comm_dup(comm, &all);
    if (status != WEIR_OK)
        return comm_error(zero, status, err);
    zero->all = all;
    zero->shard = zero->nshard == zero->nranks ? all : NULL;
    zero->replica = zero->nreplica == zero->nranks && zero->nranks > 1 ? all : NULL;
    if (zero->nshard == 1 || zero->nreplica == 1)
        return WEIR_OK;
    status = weir_comm_split(all, zero->my_replica, zero->my_shard, &zero->shard);
    zero->own_shard = status == WEIR_OK;
    if (status == WEIR_OK)
        status = weir_comm_split(all, zero->my_shard, zero->my_replica, &zero->replica);
    zero->own_replica = zero->own_shard && status == WEIR_OK;
    return status == WEIR_OK ? WEIR_OK : comm_error(zero, status, err);
}

static weir_status make_memory(weir_zero *zero)
{
    if (zero->o.stage == 3)
        return wr_zero_live_create(zero);
    uint64_t bytes = zero->l.n * zero->wsize;
    weir_status status = weir_mem_alloc(zero->all, bytes, 0, &zero->params);
    if (status != WEIR_OK)
        return wr_zero_comm_failed(zero, status);
    wr_zero_count(zero, (int64_t)bytes);
    return WEIR_OK;
}

/* ---- pieces ---- */

/* The part of a tensor in elements low .. high - 1 of its block; false when there is none. */
static bool overlap(const struct wr_zero_tensor *t, uint64_t low, uint64_t high, struct wr_zero_piece *p)
{
    uint64_t from = WR_MAX(t->at, low), to = WR_MIN(t->at + t->n, high);
    if (from >= to)
        return false;
    p->first = from - t->at;
    p->n = to - from;
    p->at = from;
    return true;
}

/* Lists this rank's pieces; with pieces NULL it only counts them. */
static void list_pieces(weir_zero *zero, struct wr_zero_piece *pieces)
{
    zero->npieces = 0;
    for (uint64_t s = 0; s < zero->l.nsections; s++) {
        const struct wr_zero_section *section = &zero->l.sections[s];
        const struct wr_zero_block *b = &zero->l.blocks[section->block];
        uint64_t low = section->at + wr_zero_bound(section, zero->my_shard);
        uint64_t high = section->at + wr_zero_bound(section, zero->my_shard + 1);
        if (pieces)
            zero->section_piece[s] = zero->npieces;
        for (uint64_t u = b->unit; u < b->unit + b->nunits; u++)
            for (uint64_t i = 0; i < zero->l.units[u].ntensors; i++) {
                struct wr_zero_piece p = {.tensor = &zero->l.units[u].tensors[i], .section = s};
                if (p.tensor->origin != p.tensor || !overlap(p.tensor, low, high, &p))
                    continue;
                if (pieces)
                    pieces[zero->npieces] = p;
                zero->npieces++;
            }
    }
    if (pieces)
        zero->section_piece[zero->l.nsections] = zero->npieces;
}

/* Where a piece's parameters are, in elements of what params or live.shards hold. */
static uint64_t param_at(const weir_zero *zero, const struct wr_zero_piece *p)
{
    const struct wr_zero_section *s = &zero->l.sections[p->section];
    if (zero->o.stage < 3)
        return zero->l.blocks[s->block].at + p->at;
    return wr_zero_shard_at(s, zero->my_shard) + p->at - s->at - wr_zero_bound(s, zero->my_shard);
}

static weir_status place_masters(weir_zero *zero)
{
    unsigned char *params = weir_mem_ptr(zero->o.stage < 3 ? zero->params : zero->live.shards);
    uint64_t n = 0;
    for (uint64_t i = 0; i < zero->npieces; i++)
        n += zero->pieces[i].tensor->frozen ? 0 : (zero->pieces[i].n + 15) / 16 * 16;
    if (zero->o.param_type != WEIR_FP32 && !(zero->masters = wr_zero_alloc(zero, n * sizeof(float), "masters")))
        return WEIR_ERR_NO_MEMORY;
    n = 0;
    for (uint64_t i = 0; i < zero->npieces; i++) {
        struct wr_zero_piece *p = &zero->pieces[i];
        p->param = params + param_at(zero, p) * zero->wsize;
        if (p->tensor->frozen)
            continue;
        p->master = zero->masters ? zero->masters + n : p->param;
        n += (p->n + 15) / 16 * 16;
    }
    return WEIR_OK;
}

/* Entries of a state for a piece. A state that depends on the shape belongs to a tensor that is whole. */
static uint64_t state_entries(const weir_rule *rule, const weir_rule_state *s, unsigned k, const struct wr_zero_piece *p)
{
    return s->span ? weir_rule_state_count(rule, k, 1, p->n) : weir_rule_state_count(rule, k, p->tensor->rows, p->tensor->cols);
}

static void fill_state(void *data, const weir_rule_state *s, uint64_t n)
{
    for (uint64_t i = 0; i < n && s->initial != 0; i++)
        ((float *)data)[i] = (float)s->initial;
}

static weir_status place_states(weir_zero *zero)
{
    for (uint64_t i = 0; i < zero->npieces; i++) {
        struct wr_zero_piece *p = &zero->pieces[i];
        const weir_rule *rule = wr_zero_group(&zero->o, p->tensor)->rule;
        for (unsigned k = 0; !p->tensor->frozen && k < weir_rule_nstates(rule); k++) {
            weir_rule_state s = {.size = sizeof s};
            weir_rule_state_info(rule, k, &s);
            uint64_t n = state_entries(rule, &s, k, p);
            if (!n)
                continue;
            p->states[k] = wr_zero_alloc(zero, n * weir_type_size((weir_type)s.type), "optimizer states");
            if (!p->states[k])
                return WEIR_ERR_NO_MEMORY;
            fill_state(p->states[k], &s, n);
        }
    }
    return WEIR_OK;
}

/* What weir_zero_state_get() counts: each piece and its states. */
static weir_status list_parts(weir_zero *zero)
{
    zero->parts = calloc(zero->npieces * (1 + WEIR_RULE_STATES_MAX) + 1, sizeof *zero->parts);
    if (!zero->parts)
        return wr_zero_fail(zero, WEIR_ERR_NO_MEMORY, NULL, "no memory for a list of %llu pieces", (unsigned long long)zero->npieces);
    for (uint64_t i = 0; i < zero->npieces; i++)
        for (int k = -1; k < WEIR_RULE_STATES_MAX; k++)
            if (k < 0 || zero->pieces[i].states[k])
                zero->parts[zero->nparts++] = (struct wr_zero_part_ref){i, k};
    return WEIR_OK;
}

/* Room for the rules: sums of tensors, and work for those that see whole tensors. */
static weir_status make_room(weir_zero *zero)
{
    uint64_t work = 64;
    for (uint64_t i = 0; i < zero->npieces; i++) {
        const struct wr_zero_tensor *t = zero->pieces[i].tensor;
        uint64_t need = t->frozen ? 0 : weir_rule_work_bytes(wr_zero_group(&zero->o, t)->rule, t->rows, t->cols);
        work = WR_MAX(work, need);
        work = WR_MAX(work, weir_norm_blocks(0, zero->pieces[i].n) * 2 * sizeof(double));
    }
    zero->work = wr_zero_alloc(zero, work, "the work of update rules");
    if (wr_zero_reproducible(zero) && !(zero->norm_blocks = wr_zero_alloc(zero, 2 * zero->l.norm_blocks * sizeof(double), "sums of blocks")))
        return WEIR_ERR_NO_MEMORY;
    zero->tensor_sums = wr_zero_alloc(zero, (zero->l.ntensors + 1) * 2 * sizeof(double), "sums of tensors");
    return zero->work && zero->tensor_sums ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

static weir_status make_pieces(weir_zero *zero)
{
    list_pieces(zero, NULL);
    zero->pieces = calloc(zero->npieces + 1, sizeof *zero->pieces);
    zero->section_piece = calloc(zero->l.nsections + 1, sizeof *zero->section_piece);
    if (!zero->pieces || !zero->section_piece)
        return wr_zero_fail(zero, WEIR_ERR_NO_MEMORY, NULL, "no memory for the pieces of a model");
    list_pieces(zero, zero->pieces);
    weir_status status = place_masters(zero);
    if (status == WEIR_OK)
        status = place_states(zero);
    if (status == WEIR_OK)
        status = list_parts(zero);
    return status == WEIR_OK ? make_room(zero) : status;
}

/* ---- all of it ---- */

static weir_status set_up(weir_zero *zero, weir_error *err)
{
    weir_status status = make_memory(zero);
    if (status == WEIR_OK)
        status = wr_zero_grads_create(zero);
    if (status == WEIR_OK)
        status = wr_zero_requests_create(zero);
    if (status == WEIR_OK && (status = make_pieces(zero)) == WEIR_OK)
        status = wr_zero_levels_find(zero);
    if (!zero->broken)
        status = agree(zero, status, 0, &zero->error);
    if (status == WEIR_OK) /* nobody reads a shard before it is filled */
        status = agree(zero, wr_zero_fill(zero), 0, &zero->error);
    if (status != WEIR_OK && err)
        *err = zero->error;
    zero->formula = status == WEIR_OK ? wr_zero_formula(zero) : 0;
    return status;
}

weir_status weir_zero_create(weir_comm *comm, const weir_zero_options *options, const weir_zero_unit *units,
                             uint64_t nunits, weir_zero **zero, weir_error *error)
{
    weir_zero *z = calloc(1, sizeof *z), none = {.all = comm};
    if (!z)
        return agree(&none, wr_error_memory(error, sizeof *z, "a ZeRO engine"), 0, error);
    z->all = comm;
    z->nranks = weir_comm_size(comm);
    z->me = weir_comm_rank(comm);
    wr_error_clear(&z->error);
    weir_status status = prepare(z, options, units, nunits, error);
    status = agree(z, status, status == WEIR_OK ? hash_options(z) : 0, error);
    if (status == WEIR_OK)
        status = make_comms(z, comm, error);
    z->all = z->all == comm ? NULL : z->all;
    if (status == WEIR_OK)
        status = set_up(z, error);
    if (status == WEIR_OK)
        *zero = z;
    else
        weir_zero_free(z);
    return status;
}

static void free_pieces(weir_zero *zero)
{
    for (uint64_t i = 0; zero->pieces && i < zero->npieces; i++)
        for (unsigned k = 0; k < WEIR_RULE_STATES_MAX; k++)
            free(zero->pieces[i].states[k]);
    free(zero->pieces);
    free(zero->section_piece);
    free(zero->parts);
    free(zero->masters);
    free(zero->work);
    free(zero->tensor_sums);
    free(zero->norm_blocks);
}

void weir_zero_free(weir_zero *zero)
{
    if (!zero)
        return;
    if (zero->all && !zero->broken && zero->passes)
        wr_zero_grads_finish(zero); /* others may have begun more reductions than this rank */
    wr_zero_reduce_abandon(zero);
    wr_zero_requests_destroy(zero);
    wr_zero_grads_destroy(zero);
    wr_zero_live_destroy(zero);
    if (zero->params)
        weir_mem_free(zero->params);
    free_pieces(zero);
    for (int p = 0; p < WR_ZERO_PASSES; p++)
        wr_zero_order_free(&zero->order[p]);
    wr_zero_layout_free(&zero->l);
    free(zero->param_started);
    free(zero->levels.of_peer);
    wr_zero_trace_free(zero);
    free(zero->groups);
    if (zero->own_replica)
        weir_comm_free(zero->replica);
    if (zero->own_shard)
        weir_comm_free(zero->shard);
    weir_comm_free(zero->all);
    free(zero);
}

const weir_error *weir_zero_error(const weir_zero *zero)
{
    return &zero->error;
}

void weir_zero_get_options(const weir_zero *zero, weir_zero_options *options)
{
    size_t size = options->size;
    memset(options, 0, size);
    memcpy(options, &zero->o, WR_MIN(size, sizeof zero->o));
    options->size = size;
}
