/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings that go together. */
#include <weir/zero_config.h>

#include "base/error.h"
#include "base/compiler.h"
#include "optim/zero_layout.h"

static const char *const names[] = {
#define NAME(name, value, text) [value] = text,
    WEIR_ZERO_PRESET_TABLE(NAME)
#undef NAME
};

const char *weir_zero_preset_name(weir_zero_preset preset)
{
    return (unsigned)preset < WR_ARRAY_SIZE(names) ? names[preset] : "unknown";
}

/* Everything that presets decide as it is without one. */
static void plain(weir_zero_options *o)
{
    const weir_zero_options from = WEIR_ZERO_OPTIONS_INIT;
    o->stage = 3;
    o->flags &= ~WEIR_ZERO_PRIVATE;
    o->reduce = from.reduce;
    o->reduce_type = o->grad_type;
    o->bucket_bytes = from.bucket_bytes;
    o->prefetch_bytes = from.prefetch_bytes;
    o->max_live_bytes = from.max_live_bytes;
    o->reuse_bytes = from.reuse_bytes;
    o->persistent_bytes = from.persistent_bytes;
    o->offload = 0;
}

/* Traffic is cheap: little is kept, little is ahead. */
static void high_bandwidth(weir_zero_options *o)
{
    o->prefetch_bytes = (uint64_t)32 << 20;
    o->max_live_bytes = (uint64_t)256 << 20;
    o->persistent_bytes = 0;
}

/* Traffic is dear: parameters travel once a step, gradients once a step and in 16 bits. */
static void low_bandwidth(weir_zero_options *o)
{
    o->stage = 2;
    o->reduce = WEIR_ZERO_REDUCE_ONCE;
    o->bucket_bytes = (uint64_t)64 << 20;
    if (o->grad_type == WEIR_FP32 && !(o->flags & WEIR_ZERO_REPRODUCIBLE))
        o->reduce_type = WEIR_BF16;
    if (o->flags & WEIR_ZERO_REPRODUCIBLE)
        o->reduce = WEIR_ZERO_REDUCE_AUTO;
}

weir_status weir_zero_preset_apply(weir_zero_preset preset, weir_zero_options *options, weir_error *error)
{
    if (!options || options->size < sizeof *options || (unsigned)preset >= WR_ARRAY_SIZE(names))
        return wr_error_set(error, WEIR_ERR_INVALID, "begin with WEIR_ZERO_OPTIONS_INIT", "options that are missing or too short, or no such preset");
    bool files = preset == WEIR_ZERO_PRESET_OFFLOAD || preset == WEIR_ZERO_PRESET_FULL_OFFLOAD;
    if (files && !options->offload_path)
        return wr_error_set(error, WEIR_ERR_INVALID, "set it to a folder on a local disk", "the preset %s: offload_path is missing", names[preset]);
    plain(options);
    if (preset == WEIR_ZERO_PRESET_HIGH_BANDWIDTH)
        high_bandwidth(options);
    else if (preset == WEIR_ZERO_PRESET_LOW_BANDWIDTH)
        low_bandwidth(options);
    if (files)
        options->offload = WEIR_ZERO_OFFLOAD_STATES | (preset == WEIR_ZERO_PRESET_FULL_OFFLOAD ? WEIR_ZERO_OFFLOAD_PARAMS : 0);
    return WEIR_OK;
}
