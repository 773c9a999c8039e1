/* SPDX-License-Identifier: BSD-3-Clause */
/* Norms, clipping, moving averages, conversion: arguments are checked, then the loops of this processor are called. */
#include <weir/vector.h>

#include <math.h>

#include "base/compiler.h"
#include "optim/table.h"

static bool is_float(weir_type type)
{
    return type == WEIR_FP32 || type == WEIR_BF16 || type == WEIR_FP16;
}

static bool good_array(const void *p, weir_type type)
{
    return is_float(type) && p && (uintptr_t)p % weir_type_size(type) == 0;
}

uint64_t weir_norm_blocks(uint64_t first, uint64_t n)
{
    return n ? (first + n - 1) / WEIR_NORM_BLOCK - first / WEIR_NORM_BLOCK + 1 : 0;
}

weir_status weir_norm_partials(const void *x, weir_type type, uint64_t first, uint64_t n, double *partials)
{
    if (n == 0)
        return WEIR_OK;
    if (!good_array(x, type) || !partials)
        return WEIR_ERR_INVALID;
    const char *from = (const char *)x + first * weir_type_size(type);
    wr_optim_table_best()->vector->norm_partials(from, type, first, n, partials);
    return WEIR_OK;
}

double weir_norm_fold(const double *partials, uint64_t n)
{
    if (n <= 2)
        return n == 0 ? 0 : n == 1 ? partials[0] : partials[0] + partials[1];
    uint64_t left = (uint64_t)1 << (63 - __builtin_clzll(n - 1));
    return weir_norm_fold(partials, left) + weir_norm_fold(partials + left, n - left);
}

double weir_clip_factor(double norm, double max_norm)
{
    if (!isfinite(norm))
        return NAN;
    double factor = max_norm / (norm + 1e-6);
    return WR_MIN(factor, 1);
}

weir_status weir_ema_update(float *average, const float *w, uint64_t n, double decay)
{
    if (n == 0)
        return WEIR_OK;
    if (!good_array(average, WEIR_FP32) || !good_array(w, WEIR_FP32) || !(decay >= 0 && decay <= 1))
        return WEIR_ERR_INVALID;
    wr_optim_table_best()->vector->ema(average, w, n, (float)decay, (float)(1 - decay));
    return WEIR_OK;
}

weir_status weir_convert(void *dst, weir_type dst_type, const void *src, weir_type src_type, uint64_t n)
{
    if (n == 0)
        return WEIR_OK;
    if (!good_array(dst, dst_type) || !good_array(src, src_type) ||
        (dst_type != src_type && dst_type != WEIR_FP32 && src_type != WEIR_FP32))
        return WEIR_ERR_INVALID;
    wr_optim_table_best()->vector->convert(dst, dst_type, src, src_type, n);
    return WEIR_OK;
}
