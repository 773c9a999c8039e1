/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Conversions between fp32 and the half-width types; rounding to nearest even. A NaN stays a NaN: quiet, with its sign and the
 * upper bits of its payload, which is what the processors' own instructions do.
 * Formats: IEEE 754-2008 binary16 and binary32; bf16 is the upper half of binary32.
 */
#ifndef WR_HALF_H
#define WR_HALF_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__F16C__)
#include <immintrin.h>
#endif

enum { HALF_BLOCK = 128 };

/* Operands stand at any address. */
#define HALF_UNALIGNED __attribute__((aligned(1), may_alias))
typedef float HALF_UNALIGNED half_float_u;
typedef uint16_t HALF_UNALIGNED half_bits_u;

static inline uint32_t half_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float half_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline void half_from_bf16(half_float_u *dst, const half_bits_u *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = half_float((uint32_t)src[i] << 16);
}

static inline uint16_t half_bf16(float f)
{
    uint32_t u = half_bits(f);
    uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    uint32_t nan = u >> 16 | 0x40;
    return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

static inline void half_to_bf16(half_bits_u *dst, const half_float_u *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = half_bf16(src[i]);
}

/* Scaling by 2^112 moves the exponent of a binary16 to where binary32 has it, and makes subnormal numbers normal. */
static inline float half_fp16_value(uint16_t h)
{
    uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t finite = half_bits(half_float(magnitude) * 0x1p112f);
    uint32_t special = magnitude | 0x7f800000 | (magnitude & 0x007fffff ? 0x00400000 : 0);
    return half_float(sign | (magnitude >= 0x0f800000 ? special : finite));
}

static inline uint16_t half_fp16(float f)
{
    uint32_t u = half_bits(f), sign = u >> 16 & 0x8000, magnitude = u & 0x7fffffff;
    uint32_t result;
    if (magnitude > 0x7f800000) { /* NaN */
        result = 0x7e00 | (magnitude >> 13 & 0x3ff);
    } else if (magnitude >= 0x47800000) { /* 65536 and above */
        result = 0x7c00;
    } else if (magnitude < 0x38800000) { /* below the smallest normal number: the adder of 0.5 rounds to multiples of 2^-24 */
        result = half_bits(half_float(magnitude) + 0.5f) - 0x3f000000;
    } else {
        result = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
    }
    return (uint16_t)(sign | result);
}

static inline void half_from_fp16(half_float_u *dst, const half_bits_u *src, size_t n)
{
    size_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps((float *)(dst + i), _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(src + i))));
#endif
    for (; i < n; i++)
        dst[i] = half_fp16_value(src[i]);
}

static inline void half_to_fp16(half_bits_u *dst, const half_float_u *src, size_t n)
{
    size_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(dst + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps((const float *)(src + i)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#endif
    for (; i < n; i++)
        dst[i] = half_fp16(src[i]);
}

#endif
