/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The primitive loops of all types and operations; included once for each instruction set by loops_*.c, which define
 * LOOPS_TABLE (the name of the table). Plain C that compilers turn into vector code; only the conversions of half.h know of
 * instructions.
 */
#include <stdint.h>
#include <string.h>

#include "base/half.h"
#include "comm/kernel/kernel.h"
#include "comm/kernel/loops_table.h"

#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif
/* destinations may equal a source exactly, which does no harm element by element */
#define LOOP(n) INDEPENDENT for (size_t i = 0; i < (n); i++)

/* How two values of type T are combined; U is the unsigned type in which integers wrap around. */
#define OP_SUM(T, U, a, b)  ((T)((U)(a) + (U)(b)))
#define OP_PROD(T, U, a, b) ((T)((U)(a) * (U)(b)))
#define OP_MIN(T, U, a, b)  ((a) < (b) ? (a) : (b))
#define OP_MAX(T, U, a, b)  ((a) > (b) ? (a) : (b))
#define OP_AND(T, U, a, b)  ((T)((a) & (b)))
#define OP_OR(T, U, a, b)   ((T)((a) | (b)))
#define OP_XOR(T, U, a, b)  ((T)((a) ^ (b)))
/* floating point: a NaN stays */
#define OP_FMIN(T, U, a, b) ((((a) < (b)) | ((a) != (a))) ? (a) : (b))
#define OP_FMAX(T, U, a, b) ((((a) > (b)) | ((a) != (a))) ? (a) : (b))

#define COMBINE(name, T, U, OP)                                                                              \
    static void combine_##name(void *acc, const void *src, size_t n)                                         \
    {                                                                                                        \
        typedef T HALF_UNALIGNED elem;                                                                       \
        elem *a = acc;                                                                                       \
        const elem *s = src;                                                                                 \
        LOOP(n) a[i] = OP(T, U, a[i], s[i]);                                                                 \
    }                                                                                                        \
    static void pair_##name(void *dst, const void *x, const void *y, size_t n)                               \
    {                                                                                                        \
        typedef T HALF_UNALIGNED elem;                                                                       \
        elem *d = dst;                                                                                       \
        const elem *a = x, *b = y;                                                                           \
        LOOP(n) d[i] = OP(T, U, a[i], b[i]);                                                                 \
    }

#define MOVE(name, T)                                                                                        \
    static void move_##name(void *dst, const void *src, size_t n)                                            \
    {                                                                                                        \
        memcpy(dst, src, n * sizeof(T));                                                                     \
    }

#define DIVIDE(name, T, WIDE)                                                                                \
    static void divide_##name(void *acc, uint64_t by, size_t n)                                              \
    {                                                                                                        \
        typedef T HALF_UNALIGNED elem;                                                                       \
        elem *a = acc;                                                                                       \
        LOOP(n) a[i] = (T)((WIDE)a[i] / (WIDE)by);                                                           \
    }

#define INTEGER(name, T, U, WIDE)                                                                            \
    MOVE(name, T)                                                                                            \
    DIVIDE(name, T, WIDE)                                                                                    \
    COMBINE(name##_sum, T, U, OP_SUM)                                                                        \
    COMBINE(name##_prod, T, U, OP_PROD)                                                                      \
    COMBINE(name##_min, T, U, OP_MIN)                                                                        \
    COMBINE(name##_max, T, U, OP_MAX)                                                                        \
    COMBINE(name##_and, T, U, OP_AND)                                                                        \
    COMBINE(name##_or, T, U, OP_OR)                                                                          \
    COMBINE(name##_xor, T, U, OP_XOR)

/* narrow integers wrap in 32 bits: two of 16 bits could overflow the int that C promotes them to */
INTEGER(int8, int8_t, uint32_t, int64_t)
INTEGER(int16, int16_t, uint32_t, int64_t)
INTEGER(int32, int32_t, uint32_t, int64_t)
INTEGER(int64, int64_t, uint64_t, int64_t)
INTEGER(uint8, uint8_t, uint32_t, uint64_t)
INTEGER(uint16, uint16_t, uint32_t, uint64_t)
INTEGER(uint32, uint32_t, uint32_t, uint64_t)
INTEGER(uint64, uint64_t, uint64_t, uint64_t)

#define FLOATING(name, T)                                                                                    \
    MOVE(name, T)                                                                                            \
    DIVIDE(name, T, T)                                                                                       \
    COMBINE(name##_sum, T, T, OP_SUM)                                                                        \
    COMBINE(name##_prod, T, T, OP_PROD)                                                                      \
    COMBINE(name##_min, T, T, OP_FMIN)                                                                       \
    COMBINE(name##_max, T, T, OP_FMAX)

FLOATING(fp32, float)
FLOATING(fp64, double)

/* Half-width types: the accumulator is fp32, sources are converted a vector at a time. */
#define HALF_COMBINE(name, LOAD, opname, OP)                                                                 \
    static void combine_##name##_##opname(void *acc, const void *src, size_t n)                              \
    {                                                                                                        \
        half_float_u *a = acc;                                                                               \
        const half_bits_u *s = src;                                                                          \
        float wide[HALF_BLOCK];                                                                              \
        for (size_t at = 0; at < n; at += HALF_BLOCK) {                                                      \
            size_t m = n - at < HALF_BLOCK ? n - at : HALF_BLOCK;                                            \
            LOAD(wide, s + at, m);                                                                           \
            LOOP(m) a[at + i] = OP(float, float, a[at + i], wide[i]);                                        \
        }                                                                                                    \
    }

#define HALF(name, LOAD, STORE)                                                                              \
    static void load_##name(void *acc, const void *src, size_t n)                                            \
    {                                                                                                        \
        LOAD(acc, src, n);                                                                                   \
    }                                                                                                        \
    static void store_##name(void *dst, const void *acc, size_t n)                                           \
    {                                                                                                        \
        STORE(dst, acc, n);                                                                                  \
    }                                                                                                        \
    HALF_COMBINE(name, LOAD, sum, OP_SUM)                                                                    \
    HALF_COMBINE(name, LOAD, prod, OP_PROD)                                                                  \
    HALF_COMBINE(name, LOAD, min, OP_FMIN)                                                                   \
    HALF_COMBINE(name, LOAD, max, OP_FMAX)

HALF(bf16, half_from_bf16, half_to_bf16)
HALF(fp16, half_from_fp16, half_to_fp16)

#define PLAIN_ENTRY(name, op, div) {move_##name, combine_##name##_##op, combine_##name##_##op, pair_##name##_##op, move_##name, div}
#define INTEGER_ROW(name)                                                                                    \
    {                                                                                                        \
        [WEIR_SUM] = PLAIN_ENTRY(name, sum, NULL), [WEIR_PROD] = PLAIN_ENTRY(name, prod, NULL),              \
        [WEIR_MIN] = PLAIN_ENTRY(name, min, NULL), [WEIR_MAX] = PLAIN_ENTRY(name, max, NULL),                \
        [WEIR_AVG] = PLAIN_ENTRY(name, sum, divide_##name), [WEIR_AND] = PLAIN_ENTRY(name, and, NULL),       \
        [WEIR_OR] = PLAIN_ENTRY(name, or, NULL), [WEIR_XOR] = PLAIN_ENTRY(name, xor, NULL),                  \
    }
#define FLOATING_ROW(name)                                                                                   \
    {                                                                                                        \
        [WEIR_SUM] = PLAIN_ENTRY(name, sum, NULL), [WEIR_PROD] = PLAIN_ENTRY(name, prod, NULL),              \
        [WEIR_MIN] = PLAIN_ENTRY(name, min, NULL), [WEIR_MAX] = PLAIN_ENTRY(name, max, NULL),                \
        [WEIR_AVG] = PLAIN_ENTRY(name, sum, divide_##name),                                                  \
    }
#define HALF_ENTRY(name, op, div) {load_##name, combine_##name##_##op, combine_fp32_##op, pair_fp32_##op, store_##name, div}
#define HALF_ROW(name)                                                                                       \
    {                                                                                                        \
        [WEIR_SUM] = HALF_ENTRY(name, sum, NULL), [WEIR_PROD] = HALF_ENTRY(name, prod, NULL),                \
        [WEIR_MIN] = HALF_ENTRY(name, min, NULL), [WEIR_MAX] = HALF_ENTRY(name, max, NULL),                  \
        [WEIR_AVG] = HALF_ENTRY(name, sum, divide_fp32),                                                     \
    }

const struct wr_kernel_loops LOOPS_TABLE[WR_KERNEL_TYPES][WR_KERNEL_OPS] = {
    [WEIR_INT8] = INTEGER_ROW(int8),     [WEIR_INT16] = INTEGER_ROW(int16),   [WEIR_INT32] = INTEGER_ROW(int32),
    [WEIR_INT64] = INTEGER_ROW(int64),   [WEIR_UINT8] = INTEGER_ROW(uint8),   [WEIR_UINT16] = INTEGER_ROW(uint16),
    [WEIR_UINT32] = INTEGER_ROW(uint32), [WEIR_UINT64] = INTEGER_ROW(uint64), [WEIR_FP16] = HALF_ROW(fp16),
    [WEIR_BF16] = HALF_ROW(bf16),        [WEIR_FP32] = FLOATING_ROW(fp32),    [WEIR_FP64] = FLOATING_ROW(fp64),
};
