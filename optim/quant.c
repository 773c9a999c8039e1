/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/quant.h"

#include "base/compiler.h"
#include "optim/table.h"

static uint64_t size_of(weir_type type)
{
    return type == WEIR_FP32 ? 4 : 2;
}

static float *scales_of(const void *packed)
{
    return (float *)(uintptr_t)packed;
}

static int8_t *codes_of(const void *packed, uint64_t n, uint64_t block)
{
    return (int8_t *)(uintptr_t)packed + wr_quant_blocks(n, block) * sizeof(float);
}

void wr_quant_put(void *to, const float *x, uint64_t n, uint64_t block, uint64_t first, uint64_t m)
{
    scales_of(to)[first / block] = wr_optim_table_best()->quant->encode(codes_of(to, n, block) + first, x, m);
}

void wr_quant_add(float *sum, const void *from, uint64_t n, uint64_t block, uint64_t first, uint64_t m)
{
    wr_optim_table_best()->quant->add(sum, codes_of(from, n, block) + first, scales_of(from)[first / block], m);
}

void wr_quant_pack(void *to, const void *from, weir_type type, uint64_t n, uint64_t block)
{
    float wide[WR_QUANT_MOST];
    const struct wr_optim_table *t = wr_optim_table_best();
    for (uint64_t at = 0; at < n; at += block) {
        uint64_t m = WR_MIN(n - at, block);
        const void *x = (const char *)from + at * size_of(type);
        if (type != WEIR_FP32) {
            t->vector->convert(wide, WEIR_FP32, x, type, m);
            x = wide;
        }
        wr_quant_put(to, x, n, block, at, m);
    }
}

void wr_quant_unpack(void *to, weir_type type, const void *from, uint64_t n, uint64_t block)
{
    float wide[WR_QUANT_MOST];
    const struct wr_optim_table *t = wr_optim_table_best();
    for (uint64_t at = 0; at < n; at += block) {
        uint64_t m = WR_MIN(n - at, block);
        void *x = (char *)to + at * size_of(type);
        t->quant->decode(type == WEIR_FP32 ? x : wide, codes_of(from, n, block) + at, scales_of(from)[at / block], m);
        if (type != WEIR_FP32)
            t->vector->convert(x, type, wide, WEIR_FP32, m);
    }
}
