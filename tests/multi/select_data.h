/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers for the tests of collectives: elements of every type, set and read as 64-bit integers or doubles, and the plain
 * reference of every operation on them.
 */
#ifndef WR_TEST_SELECT_DATA_H
#define WR_TEST_SELECT_DATA_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <weir/type.h>

/* An element: an integer, wrapped to its type, or a float. */
struct number {
    bool real;
    int64_t i;
    double d;
};

static inline uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static inline bool is_real(weir_type type)
{
    return type == WEIR_FP16 || type == WEIR_BF16 || type == WEIR_FP32 || type == WEIR_FP64;
}

static inline bool is_signed(weir_type type)
{
    return type <= WEIR_INT64 || is_real(type);
}

/* Rounds to a binary format with `digits` bits of significand and least exponent `least`, to nearest even. */
static inline double rounded(double d, int digits, int least)
{
    int e;
    if (d == 0 || isnan(d) || isinf(d))
        return d;
    frexp(d, &e);
    e = e - digits < least ? least : e - digits;
    return ldexp(nearbyint(ldexp(d, -e)), e);
}

static inline uint16_t to_half(double d)
{
    int e;
    uint16_t sign = signbit(d) ? 0x8000 : 0;
    d = rounded(fabs(d), 11, -24);
    if (isnan(d))
        return 0x7e00;
    if (d >= 65536)
        return sign | 0x7c00;
    if (d < ldexp(1, -14))
        return (uint16_t)(sign | (uint16_t)ldexp(d, 24));
    double f = frexp(d, &e);
    return (uint16_t)(sign | (uint16_t)((e + 14) << 10) | (uint16_t)(ldexp(f, 11) - 1024));
}

static inline double from_half(uint16_t h)
{
    int e = h >> 10 & 31, m = h & 1023;
    double d = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(m + 1024, e - 25) : ldexp(m, -24);
    return h & 0x8000 ? -d : d;
}

static inline void number_store(void *at, weir_type type, struct number n)
{
    float f = (float)n.d;
    uint32_t u;
    uint16_t half;
    if (type == WEIR_FP64) {
        memcpy(at, &n.d, 8);
    } else if (type == WEIR_FP32) {
        memcpy(at, &f, 4);
    } else if (type == WEIR_BF16) {
        memcpy(&u, &f, 4);
        u += 0x7fff + (u >> 16 & 1);
        half = (uint16_t)(u >> 16);
        memcpy(at, &half, 2);
    } else if (type == WEIR_FP16) {
        half = to_half(n.d);
        memcpy(at, &half, 2);
    } else { /* the low bytes come first on the machines that this runs on */
        memcpy(at, &n.i, weir_type_size(type));
    }
}

/* The integer as its type holds it. */
static inline int64_t wrapped(int64_t i, weir_type type)
{
    int bits = 64 - 8 * (int)weir_type_size(type);
    return is_signed(type) ? (int64_t)((uint64_t)i << bits) >> bits : (int64_t)((uint64_t)i << bits >> bits);
}

/* Element i of rank r in execution k: its sums and products over nine ranks are exact, but for one rounding of halves. */
static inline struct number number_of(weir_type type, weir_op op, int r, uint64_t i, uint64_t k)
{
    uint64_t h = mix(k * 1000003 + (uint64_t)r * 7919 + i * 31);
    struct number n = {.real = is_real(type)};
    if (op == WEIR_PROD)
        n.i = 1 + (int64_t)(h % 2);
    else if (op == WEIR_AND || op == WEIR_OR || op == WEIR_XOR)
        n.i = (int64_t)h;
    else if (op == WEIR_SUM || op == WEIR_AVG) /* sums of halves need rounding, those of their fp32 partial sums do not */
        n.i = type == WEIR_BF16   ? (int64_t)(h % 255) - 100
              : type == WEIR_FP16 ? (int64_t)(h % 2001) - 700
                                  : (int64_t)(h % 7) - (is_signed(type) ? 2 : 0);
    else
        n.i = (int64_t)(h % 7) - (is_signed(type) ? 2 : 0);
    n.i = wrapped(n.i, n.real ? WEIR_INT64 : type);
    n.d = (double)n.i;
    return n;
}

static inline struct number number_combine(weir_op op, struct number a, struct number b, weir_type type)
{
    uint64_t x = (uint64_t)a.i, y = (uint64_t)b.i;
    bool less = a.real ? a.d < b.d : is_signed(type) ? a.i < b.i : x < y;
    switch (op) {
    case WEIR_PROD:
        return (struct number){a.real, (int64_t)(x * y), a.d * b.d};
    case WEIR_MIN:
        return less ? a : b;
    case WEIR_MAX:
        return less ? b : a;
    case WEIR_AND:
        return (struct number){a.real, (int64_t)(x & y), 0};
    case WEIR_OR:
        return (struct number){a.real, (int64_t)(x | y), 0};
    case WEIR_XOR:
        return (struct number){a.real, (int64_t)(x ^ y), 0};
    default: /* sum, avg */
        return (struct number){a.real, (int64_t)(x + y), a.d + b.d};
    }
}

/* Ends a combination of `ranks` numbers. */
static inline struct number number_end(weir_op op, struct number n, int ranks, weir_type type)
{
    n.i = n.real ? n.i : wrapped(n.i, type);
    if (op != WEIR_AVG)
        return n;
    if (n.real)
        n.d = type == WEIR_FP64 ? n.d / ranks : (float)n.d / (float)ranks;
    else
        n.i = is_signed(type) ? n.i / ranks : (int64_t)((uint64_t)n.i / (uint64_t)ranks);
    return n;
}

#endif
