/* SPDX-License-Identifier: BSD-3-Clause */
/* Making and ending ZeRO engines. */
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/error.h"
#include "optim/agree.h"
#include "optim/zero_pieces.h"

/* ---- what each rank does alone ---- */

static weir_status keep_groups(weir_zero *zero, weir_error *err)
{
    zero->groups = calloc(zero->o.ngroups, sizeof *zero->groups);
    if (!zero->groups)
        return wr_error_memory(err, zero->o.ngroups * sizeof *zero->groups, "groups of parameters");
    for (uint64_t g = 0; g < zero->o.ngroups; g++)
        memcpy(&zero->groups[g], (const char *)zero->o.groups + g * zero->o.groups[0].size, sizeof *zero->groups);
    zero->o.groups = zero->groups;
    if (zero->o.offload && !(zero->o.offload_path = zero->offload_path = strdup(zero->o.offload_path)))
        return wr_error_memory(err, sizeof zero->o, "a path");
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
                                o->bucket_bytes, o->prefetch_bytes, o->shard_group, o->scale_window, o->nonfinite, o->seed, o->norm_comm != NULL,
                                o->quant_block, o->secondary_group, o->offload, o->delayed};
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

/* ---- all of it ---- */

static weir_status set_up(weir_zero *zero, weir_error *err)
{
    weir_status status = make_memory(zero);
    if (status == WEIR_OK)
        status = wr_zero_grads_create(zero);
    if (status == WEIR_OK)
        status = wr_zero_requests_create(zero);
    if (status == WEIR_OK && (status = wr_zero_pieces_create(zero)) == WEIR_OK)
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
    wr_zero_pieces_destroy(zero);
    for (int p = 0; p < WR_ZERO_PASSES; p++)
        wr_zero_order_free(&zero->order[p]);
    wr_zero_layout_free(&zero->l);
    free(zero->param_started);
    free(zero->levels.of_peer);
    wr_zero_trace_free(zero);
    free(zero->groups);
    free(zero->offload_path);
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
