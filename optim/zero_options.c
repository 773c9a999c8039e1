/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of an engine: read over the defaults, checked, completed. */
#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "base/error.h"
#include "optim/quant.h"
#include "optim/zero_layout.h"

static bool is_half(uint64_t type)
{
    return type == WEIR_BF16 || type == WEIR_FP16;
}

static bool is_real(uint64_t type)
{
    return type == WEIR_FP32 || is_half(type);
}

static const char *wrong_group(const weir_group *g)
{
    if (g->size < sizeof *g || g->flags & ~WEIR_GROUP_FROZEN)
        return "a group has a size or flags that cannot be: begin with WEIR_GROUP_INIT";
    if (!(g->flags & WEIR_GROUP_FROZEN) && !g->rule)
        return "a group that is not frozen has no rule";
    return NULL;
}

static const char *not_reproducible(const weir_zero_options *o)
{
    if (o->accumulate & (o->accumulate - 1))
        return "reproducible steps have a power of two of passes";
    if (o->reduce == WEIR_ZERO_REDUCE_ONCE || o->reduce_type != o->grad_type || o->shard_group)
        return "reproducible gradients are reduced in every pass, in their own type, by all ranks";
    return NULL;
}

static const char *wrong_quantized(const weir_zero_options *o)
{
    bool params = o->flags & WEIR_ZERO_QUANTIZED_PARAMS, grads = o->flags & WEIR_ZERO_QUANTIZED_GRADS;
    if (!o->quant_block || o->quant_block % WR_QUANT_GRAIN || o->quant_block > WR_QUANT_MOST)
        return "quant_block is a multiple of 32, at most 4096";
    if ((params || grads) && o->flags & WEIR_ZERO_REPRODUCIBLE)
        return "reproducible parameters and gradients travel as they are";
    if (params && o->stage != 3)
        return "quantised parameters are for stage 3";
    if (grads && o->stage == 0)
        return "quantised gradients are for stages 1 to 3";
    if (o->secondary_group > 1 && (o->stage != 3 || o->flags & WEIR_ZERO_PRIVATE))
        return "a secondary group is for stage 3, where ranks do not gather for themselves";
    return NULL;
}

static const char *wrong_offload(const weir_zero_options *o)
{
    if (o->offload & ~(WEIR_ZERO_OFFLOAD_STATES | WEIR_ZERO_OFFLOAD_PARAMS))
        return "offload has a flag that does not exist";
    if (!o->offload)
        return NULL;
    if (o->offload & WEIR_ZERO_OFFLOAD_PARAMS &&
        (o->stage != 3 || o->delayed || o->flags & WEIR_ZERO_QUANTIZED_PARAMS || o->secondary_group > 1))
        return "parameters on disk are for stage 3, without delayed updates, quantised parameters and secondary groups";
    if (!o->offload_path || !*o->offload_path)
        return "offload_path, a folder for what is offloaded, is missing";
    if (o->offload_bytes < 4096 || o->offload_bytes > (uint64_t)1 << 40 || o->offload_buffers < 2 || o->offload_buffers > 64)
        return "offload_bytes are 4096 or more, offload_buffers 2 to 64";
    return o->offload_io > WEIR_ZERO_IO_THREAD ? "offload_io is none of those that there are" : NULL;
}

static const char *wrong(const weir_zero_options *o)
{
    if (o->stage > 3 || o->flags & ~(WEIR_ZERO_PRIVATE | WEIR_ZERO_REPRODUCIBLE | WEIR_ZERO_QUANTIZED_PARAMS | WEIR_ZERO_QUANTIZED_GRADS))
        return "stages are 0 to 3, and a flag is set that does not exist";
    if (!o->groups || !o->ngroups)
        return "there must be a group at least";
    if (!is_real(o->param_type) || !is_real(o->grad_type))
        return "parameters and gradients are fp32, bf16 or fp16";
    if (o->reduce_type != o->grad_type && !(o->grad_type == WEIR_FP32 && is_half(o->reduce_type)))
        return "gradients travel as they are, or from fp32 as bf16 or fp16";
    if (o->partition > WEIR_ZERO_WHOLE_TENSOR || o->reduce > WEIR_ZERO_REDUCE_EVERY || o->nonfinite > WEIR_ZERO_ERROR)
        return "partition, reduce or nonfinite is none of those that there are";
    if (o->stage == 0 && o->reduce == WEIR_ZERO_REDUCE_EVERY && !(o->flags & WEIR_ZERO_REPRODUCIBLE))
        return "stage 0 reduces gradients once a step";
    if (!o->accumulate || !o->bucket_bytes)
        return "accumulate and bucket_bytes are 1 or more";
    if (!(o->clip_norm >= 0) || !(o->loss_scale > 0) || isinf(o->loss_scale))
        return "clip_norm is 0 or more, loss_scale more than 0";
    if (o->delayed > 1)
        return "delayed is 0 or 1";
    const char *what = wrong_quantized(o);
    what = what ? what : wrong_offload(o);
    return !what && o->flags & WEIR_ZERO_REPRODUCIBLE ? not_reproducible(o) : what;
}

weir_status wr_zero_options_read(const weir_zero_options *given, weir_zero_options *options, weir_error *err)
{
    weir_zero_options o = WEIR_ZERO_OPTIONS_INIT;
    if (!given || given->size < offsetof(weir_zero_options, param_type) || given->size > 4096)
        return wr_error_set(err, WEIR_ERR_INVALID, "begin with WEIR_ZERO_OPTIONS_INIT",
                            "the options of a ZeRO engine are missing, or their size cannot be");
    memcpy(&o, given, WR_MIN(given->size, sizeof o));
    o.size = sizeof o;
    const char *what = wrong(&o);
    for (uint64_t g = 0; !what && g < o.ngroups; g++)
        what = wrong_group(&o.groups[g]);
    if (what)
        return wr_error_set(err, WEIR_ERR_INVALID, "begin with WEIR_ZERO_OPTIONS_INIT", "options of a ZeRO engine: %s", what);
    if (o.reduce == WEIR_ZERO_REDUCE_AUTO)
        o.reduce = o.stage >= 2 || o.flags & WEIR_ZERO_REPRODUCIBLE ? WEIR_ZERO_REDUCE_EVERY : WEIR_ZERO_REDUCE_ONCE;
    *options = o;
    return WEIR_OK;
}

weir_status wr_zero_options_fit(const weir_zero_options *options, int ranks, weir_error *err)
{
    uint64_t group = options->secondary_group;
    if (group <= 1 || group == WEIR_ZERO_NODE || (uint64_t)ranks % group == 0)
        return WEIR_OK;
    return wr_error_set(err, WEIR_ERR_INVALID, "choose a divisor of them", "%d ranks that divide a model cannot be divided into secondary groups of %llu",
                        ranks, (unsigned long long)group);
}
