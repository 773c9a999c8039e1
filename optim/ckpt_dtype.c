/* SPDX-License-Identifier: BSD-3-Clause */
/* Types of elements, as safetensors and as weir call them, and their conversion. */
#include "optim/ckpt.h"

#include <string.h>

#include "base/compiler.h"
#include "base/half.h"

static const struct wr_ckpt_dtype dtypes[] = {
    {"F32", 4, WEIR_FP32},   {"BF16", 2, WEIR_BF16},     {"F16", 2, WEIR_FP16},      {"F64", 8, WEIR_FP64},
    {"U8", 1, WEIR_UINT8},   {"I8", 1, WEIR_INT8},       {"U16", 2, WEIR_UINT16},    {"I16", 2, WEIR_INT16},
    {"U32", 4, WEIR_UINT32}, {"I32", 4, WEIR_INT32},     {"U64", 8, WEIR_UINT64},    {"I64", 8, WEIR_INT64},
    {"BOOL", 1, WEIR_UINT8}, {"F8_E4M3", 1, WEIR_UINT8}, {"F8_E5M2", 1, WEIR_UINT8}, {"F8_E8M0", 1, WEIR_UINT8},
    {"C64", 8, WEIR_OPAQUE},
};

const struct wr_ckpt_dtype *wr_ckpt_dtype_named(const char *name)
{
    for (size_t i = 0; i < WR_ARRAY_SIZE(dtypes); i++)
        if (!strcmp(dtypes[i].name, name))
            return &dtypes[i];
    return NULL;
}

const struct wr_ckpt_dtype *wr_ckpt_dtype_of(uint64_t type)
{
    for (size_t i = 0; type != WEIR_OPAQUE && i < WR_ARRAY_SIZE(dtypes); i++)
        if (dtypes[i].type == type)
            return &dtypes[i];
    return NULL;
}

static bool is_real(uint64_t type)
{
    return type == WEIR_FP32 || type == WEIR_FP64 || type == WEIR_BF16 || type == WEIR_FP16;
}

bool wr_ckpt_converts(uint64_t from, uint64_t to)
{
    return from != WEIR_OPAQUE && (from == to || (is_real(from) && is_real(to)));
}

/* A double as the nearest half-width number: by way of fp32 rounded to odd, whose last bit remembers what was cut off. */
static float to_odd(double value)
{
    float f = (float)value;
    double back = f;
    uint32_t u = half_bits(f);
    if (back == value || value != value || (u & 0x7fffffff) >= 0x7f800000)
        return f;
    if ((back < 0 ? -back : back) > (value < 0 ? -value : value))
        u--; /* towards zero; u is not 0, for f is larger than value */
    return half_float(u | 1);
}

/* At most HALF_BLOCK elements, by way of fp64: exact for what comes in. */
static void load(double *dst, const void *src, uint64_t type, size_t n)
{
    float block[HALF_BLOCK];
    if (type == WEIR_FP64) {
        memcpy(dst, src, n * sizeof *dst);
        return;
    }
    if (type == WEIR_FP32)
        memcpy(block, src, n * sizeof *block);
    else if (type == WEIR_BF16)
        half_from_bf16(block, src, n);
    else
        half_from_fp16(block, src, n);
    for (size_t i = 0; i < n; i++)
        dst[i] = block[i];
}

static void store(void *dst, uint64_t type, const double *src, size_t n)
{
    float block[HALF_BLOCK];
    if (type == WEIR_FP64) {
        memcpy(dst, src, n * sizeof *src);
        return;
    }
    for (size_t i = 0; i < n; i++)
        block[i] = type == WEIR_FP32 ? (float)src[i] : to_odd(src[i]);
    if (type == WEIR_FP32)
        memcpy(dst, block, n * sizeof *block);
    else if (type == WEIR_BF16)
        half_to_bf16(dst, block, n);
    else
        half_to_fp16(dst, block, n);
}

void wr_ckpt_convert(void *dst, uint64_t to, const void *src, uint64_t from, size_t n)
{
    size_t to_bytes = wr_ckpt_dtype_of(to)->bytes, from_bytes = wr_ckpt_dtype_of(from)->bytes;
    double block[HALF_BLOCK];
    if (from == to) {
        memcpy(dst, src, n * to_bytes);
        return;
    }
    for (size_t i = 0, step; i < n; i += step) {
        step = n - i < HALF_BLOCK ? n - i : HALF_BLOCK;
        load(block, (const char *)src + i * from_bytes, from, step);
        store((char *)dst + i * to_bytes, to, block, step);
    }
}
