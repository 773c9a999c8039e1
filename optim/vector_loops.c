/* SPDX-License-Identifier: BSD-3-Clause */
/* Norms, moving averages and conversions, for one instruction set. */
#include "optim/lanes.h"
#include "optim/table.h"

static void norm_partials(const void *x, weir_type type, uint64_t first, uint64_t n, double *partials)
{
    WR_ALIGNED(64) float wide[WR_CHUNK];
    struct wr_lanes lanes = {{0}};
    size_t size = type == WEIR_FP32 ? 4 : 2;
    for (uint64_t at = 0; at < n;) {
        uint64_t m = wr_chunk_length(first + at, n - at);
        const char *part = (const char *)x + at * size;
        if (type != WEIR_FP32)
            wr_to_float(wide, part, type, m);
        wr_lanes_add(&lanes, type == WEIR_FP32 ? (const float *)(const void *)part : wide, first + at, m);
        at += m;
        if (at == n || (first + at) % WEIR_NORM_BLOCK == 0)
            *partials++ = wr_lanes_take(&lanes);
    }
}

static void ema(float *restrict average, const float *restrict w, uint64_t n, float decay, float rest)
{
    WR_LOOP(n)
        average[i] = decay * average[i] + rest * w[i];
}

static void convert(void *dst, weir_type dst_type, const void *src, weir_type src_type, uint64_t n)
{
    if (dst_type == src_type)
        memcpy(dst, src, n * (dst_type == WEIR_FP32 ? 4 : 2));
    else if (dst_type == WEIR_FP32)
        wr_to_float(dst, src, src_type, n);
    else
        wr_from_float(dst, src, dst_type, n);
}

const struct wr_vector_loops WR_ISA_NAME(wr_vector_loops) = {norm_partials, ema, convert};
