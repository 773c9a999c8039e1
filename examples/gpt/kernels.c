/* SPDX-License-Identifier: BSD-3-Clause */
/* Compiled with GPT_ISA=generic, avx2 or avx512, each with that compiler's options. See kernels.h. */
#include "examples/gpt/kernels.h"

#include <math.h>
#include <string.h>

#include "examples/gpt/random.h"

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)

#ifdef __clang__ /* makes no vector code of the search for the largest, which is a small part of a softmax, and would say so */
#pragma clang diagnostic ignored "-Wpass-failed"
#endif
#define SIMD _Pragma("omp simd")
#define SIMD_SUM(x) _Pragma(TEXT(omp simd reduction(+ : x)))
#define SIMD_MAX(x) _Pragma(TEXT(omp simd reduction(max : x)))

#ifdef GPT_DOUBLE
static inline real exponential(real x)
{
    return exp(x);
}
#else
/*
 * e^x to 2 units in the last place: 2^n times a polynomial on half a power of two to either side (Cephes' coefficients). x is first
 * brought into [-87, 87], by its bits: a comparison of floats would become a branch, which does not vectorise. What is not finite gives
 * NaN.
 */
static inline real exponential(real x)
{
    enum { SIGN = INT32_MIN, HALF = 0x3f000000, MOST = 0x42ae0000 }; /* 0.5 and 87 as bits */
    union bits {
        int32_t i;
        float f;
    } y = {.f = x}, half, power;
    int32_t sign = y.i & SIGN, size = y.i & ~SIGN;
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
    power.i = (n + 127) << 23;
    return (p * r * r + r + 1) * power.f + 0 * x;
}
#endif

static void norm(int64_t rows, int cols, const real *x, const real *weight, const real *bias, real *y, real *stats)
{
    for (int64_t i = 0; i < rows; i++, x += cols, y += cols) {
        real sum = 0, square = 0;
        SIMD_SUM(sum)
        for (int j = 0; j < cols; j++)
            sum += x[j];
        real mean = sum / (real)cols;
        SIMD_SUM(square)
        for (int j = 0; j < cols; j++)
            square += (x[j] - mean) * (x[j] - mean);
        real rate = 1 / (real)sqrt((double)(square / (real)cols) + 1e-5);
        SIMD
        for (int j = 0; j < cols; j++)
            y[j] = (x[j] - mean) * rate * weight[j] + bias[j];
        stats[2 * i] = mean;
        stats[2 * i + 1] = rate;
    }
}

static void norm_back(int64_t rows, int cols, const real *x, const real *weight, const real *stats, const real *dy, const real *d,
                      real *dx, real *dweight, real *dbias)
{
    for (int64_t i = 0; i < rows; i++, x += cols, dy += cols, dx += cols) {
        real mean = stats[2 * i], rate = stats[2 * i + 1], sum = 0, dot = 0;
        _Pragma("omp simd reduction(+ : sum, dot)")
        for (int j = 0; j < cols; j++) {
            real hat = (x[j] - mean) * rate, g = dy[j] * weight[j];
            sum += g;
            dot += g * hat;
            dweight[j] += dy[j] * hat;
            dbias[j] += dy[j];
        }
        sum /= (real)cols;
        dot /= (real)cols;
        if (d) {
            SIMD
            for (int j = 0; j < cols; j++)
                dx[j] = d[j] + rate * (dy[j] * weight[j] - sum - (x[j] - mean) * rate * dot);
            d += cols;
        } else {
            SIMD
            for (int j = 0; j < cols; j++)
                dx[j] = rate * (dy[j] * weight[j] - sum - (x[j] - mean) * rate * dot);
        }
    }
}

static inline real dropped(real x, const struct gpt_drop *drop, uint32_t n)
{
    return gpt_mix32(gpt_mix32(n ^ drop->key) + drop->key) < drop->threshold ? 0 : x * drop->scale;
}

static void drop(int64_t n, const real *x, const struct gpt_drop *drop, uint32_t first, real *y)
{
    struct gpt_drop d = *drop;
    SIMD
    for (int64_t i = 0; i < n; i++)
        y[i] = dropped(x[i], &d, first + (uint32_t)i);
}

static void residual(int64_t rows, int cols, const real *x, const real *bias, const struct gpt_drop *drop, uint32_t first, real *y)
{
    struct gpt_drop d = *drop;
    for (int64_t i = 0; i < rows; i++, x += cols, y += cols, first += (uint32_t)cols) {
        if (d.threshold) {
            SIMD
            for (int j = 0; j < cols; j++)
                y[j] = x[j] + dropped(y[j] + bias[j], &d, first + (uint32_t)j);
        } else {
            SIMD
            for (int j = 0; j < cols; j++)
                y[j] = x[j] + (y[j] + bias[j]);
        }
    }
}

/* gelu(x) = x / (1 + e^-2u), u = sqrt(2 / pi) (x + 0.044715 x^3), which is the usual x (1 + tanh(u)) / 2. */
#define GELU_LINEAR ((real)(2 * 0.7978845608028654))
#define GELU_CUBIC ((real)0.044715)

static void gelu(int64_t rows, int cols, real *x, const real *bias, real *y)
{
    for (int64_t i = 0; i < rows; i++, x += cols, y += cols) {
        SIMD
        for (int j = 0; j < cols; j++) {
            real v = x[j] + bias[j];
            x[j] = v;
            y[j] = v / (1 + exponential(-GELU_LINEAR * (v + GELU_CUBIC * v * v * v)));
        }
    }
}

static void gelu_back(int64_t n, const real *x, real *dy)
{
    SIMD
    for (int64_t i = 0; i < n; i++) {
        real v = x[i], s = 1 / (1 + exponential(-GELU_LINEAR * (v + GELU_CUBIC * v * v * v)));
        dy[i] *= s + v * s * (1 - s) * GELU_LINEAR * (1 + 3 * GELU_CUBIC * v * v);
    }
}

static void spread(int64_t rows, int cols, const real *bias, real *y)
{
    for (int64_t i = 0; i < rows; i++)
        memcpy(y + i * cols, bias, (size_t)cols * sizeof *y);
}

static void add_rows(int64_t rows, int cols, const real *x, real *sums)
{
    enum { TOGETHER = 8 };
    for (; rows >= TOGETHER; rows -= TOGETHER, x += TOGETHER * cols) {
        SIMD
        for (int j = 0; j < cols; j++) {
            const real *c = x + j;
            real a = (c[0] + c[cols]) + (c[2 * cols] + c[3 * cols]), b = (c[4 * cols] + c[5 * cols]) + (c[6 * cols] + c[7 * cols]);
            sums[j] += a + b;
        }
    }
    for (; rows > 0; rows--, x += cols) {
        SIMD
        for (int j = 0; j < cols; j++)
            sums[j] += x[j];
    }
}

/* The softmax of n numbers, unfinished: returns what each has to be divided by, and the largest. */
static inline real exponentials(int n, real *x, real *largest)
{
    real most = x[0], sum = 0;
    SIMD_MAX(most)
    for (int j = 0; j < n; j++)
        most = x[j] > most ? x[j] : most;
    SIMD_SUM(sum)
    for (int j = 0; j < n; j++) {
        real e = exponential(x[j] - most);
        x[j] = e;
        sum += e;
    }
    *largest = most;
    return sum;
}

static void softmax(int n, real *x)
{
    for (int i = 0; i < n; i++, x += n) {
        real most, share = 1 / exponentials(i + 1, x, &most);
        SIMD
        for (int j = 0; j <= i; j++)
            x[j] *= share;
        memset(x + i + 1, 0, (size_t)(n - i - 1) * sizeof *x);
    }
}

static void softmax_back(int n, real scale, const real *p, real *dx)
{
    for (int i = 0; i < n; i++, p += n, dx += n) {
        real dot = 0;
        SIMD_SUM(dot)
        for (int j = 0; j < n; j++)
            dot += p[j] * dx[j];
        SIMD
        for (int j = 0; j < n; j++)
            dx[j] = scale * p[j] * (dx[j] - dot);
    }
}

static double cross_entropy(int64_t rows, int cols, const int32_t *targets, real scale, real *x)
{
    double loss = 0;
    for (int64_t i = 0; i < rows; i++, x += cols) {
        real most, target = x[targets[i]], sum = exponentials(cols, x, &most), share = scale / sum;
        loss += log((double)sum) + (double)most - (double)target;
        SIMD
        for (int j = 0; j < cols; j++)
            x[j] *= share;
        x[targets[i]] -= scale;
    }
    return loss;
}

static void pass_over(int64_t n, real *restrict w, const real *restrict g, real *restrict m, real *restrict v)
{
    SIMD
    for (int64_t i = 0; i < n; i++) {
        real d = g[i];
        m[i] += d;
        v[i] += d;
        w[i] += d;
    }
}

extern const struct gpt_kernels JOIN(gpt_kernels_, GPT_ISA);
const struct gpt_kernels JOIN(gpt_kernels_, GPT_ISA) = {
    .isa = TEXT(GPT_ISA),
    .norm = norm,
    .norm_back = norm_back,
    .residual = residual,
    .drop = drop,
    .gelu = gelu,
    .gelu_back = gelu_back,
    .spread = spread,
    .add_rows = add_rows,
    .softmax = softmax,
    .softmax_back = softmax_back,
    .cross_entropy = cross_entropy,
    .pass_over = pass_over,
};
