/* SPDX-License-Identifier: BSD-3-Clause */
/* The rows of attention and of losses, for one instruction set. Sums are in a fixed number of lanes, folded by halves. */
#include "optim/lanes.h"
#include "optim/table.h"

static inline float fold(float *lanes)
{
    for (int half = WR_LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lanes[i] += lanes[i + half];
    return lanes[0];
}

/*
 * e^x to 2 units in the last place: x = n ln 2 + r with r in [-ln 2 / 2, ln 2 / 2] (ln 2 in two parts, so that r is exact), and a
 * polynomial for e^r (Moshier's Cephes library). x is first brought into [-87, 87], so below that comes 1e-38 instead of 0. Comparisons
 * are of the bits, as integers, which vectorise at every setting of the compiler. NaN gives NaN.
 */
static inline float exponential(float x)
{
    enum { SIGN = INT32_MIN, HALF = 0x3f000000, MOST = 0x42ae0000, INFINITE = 0x7f800000 }; /* 0.5, 87 and infinity as bits */
    union bits {
        int32_t i;
        float f;
    } y = {.f = x}, half, power, nan;
    int32_t sign = y.i & SIGN, size = y.i & ~SIGN;
    nan.i = size > INFINITE ? y.i : 0;
    y.i = sign | (size < MOST ? size : MOST);
    half.i = sign | HALF;
    int32_t n = (int32_t)(y.f * 1.44269504f + half.f);
    float whole = (float)n, r = y.f - whole * 0.693359375f + whole * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    power.i = (n + 127) * (1 << 23);
    return (p * r * r + r + 1) * power.f + nan.f;
}

static float most(const float *x, size_t n)
{
    typedef int32_t int8 __attribute__((vector_size(32)));
    const float none = -INFINITY;
    wr_float8 lanes = {none, none, none, none, none, none, none, none};
    float m = none;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        wr_float8 a;
        memcpy(&a, x + i, sizeof a);
        int8 larger = (int8)(a > lanes);
        lanes = (wr_float8)((larger & (int8)a) | (~larger & (int8)lanes));
    }
    for (int l = 0; l < 8; l++)
        m = WR_MAX(lanes[l], m);
    for (; i < n; i++)
        m = WR_MAX(x[i], m);
    return m;
}

static float exponentials(float *x, float shift, size_t n)
{
    WR_ALIGNED(64) float lanes[WR_LANES] = {0};
    size_t whole = n / WR_LANES * WR_LANES;
    WR_LOOP(n)
        x[i] = exponential(x[i] - shift);
    for (size_t at = 0; at < whole; at += WR_LANES)
        for (int l = 0; l < WR_LANES; l++)
            lanes[l] += x[at + (size_t)l];
    for (size_t i = whole; i < n; i++)
        lanes[i - whole] += x[i];
    return fold(lanes);
}

static float dot(const float *restrict x, const float *restrict y, size_t n)
{
    WR_ALIGNED(64) float lanes[WR_LANES] = {0};
    size_t whole = n / WR_LANES * WR_LANES;
    for (size_t at = 0; at < whole; at += WR_LANES)
        for (int l = 0; l < WR_LANES; l++)
            lanes[l] += x[at + (size_t)l] * y[at + (size_t)l];
    for (size_t i = whole; i < n; i++)
        lanes[i - whole] += x[i] * y[i];
    return fold(lanes);
}

static void scale(float *x, float factor, size_t n)
{
    WR_LOOP(n)
        x[i] *= factor;
}

static void add(float *restrict sum, const float *restrict x, size_t n)
{
    WR_LOOP(n)
        sum[i] += x[i];
}

static void back(float *restrict d, const float *restrict shares, float mean, float factor, size_t n)
{
    WR_LOOP(n)
        d[i] = factor * shares[i] * (d[i] - mean);
}

extern const struct wr_softmax_loops WR_ISA_NAME(wr_softmax_loops);
const struct wr_softmax_loops WR_ISA_NAME(wr_softmax_loops) = {
    .most = most, .exponentials = exponentials, .dot = dot, .scale = scale, .add = add, .back = back};
