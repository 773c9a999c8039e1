/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of divided layers share: numbers that every rank can make, products in double, comparison. */
#ifndef WR_TEST_PARALLEL_H
#define WR_TEST_PARALLEL_H

#include <math.h>

#include "tests/multi/multi.h"

/*
 * fp32 against double: values of up to some ten, of sums of up to some hundred products of numbers below 1, so that errors of
 * rounding stay below a tenth of this.
 */
#define TOLERANCE 2e-5

/* A number in [-1, 1) of a place and a seed. */
static inline double number(uint64_t i, uint64_t seed)
{
    uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u + seed * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (double)(float)((double)((x ^ (x >> 31)) >> 40) * 0x1p-23 - 1);
}

static inline double *numbers(int64_t n, uint64_t seed)
{
    double *x = malloc((size_t)n * sizeof *x + 8);
    CHECK(x, "no memory");
    for (int64_t i = 0; i < n; i++)
        x[i] = number((uint64_t)i, seed);
    return x;
}

static inline double *zeros(int64_t n)
{
    double *x = calloc((size_t)n + 1, sizeof *x);
    CHECK(x, "no memory");
    return x;
}

/* Rows and columns of a matrix with `stride` numbers in a row, in fp32; columns become rows with `turned`. */
static inline float *part_of(const double *x, int64_t stride, int64_t row, int64_t rows, int64_t col, int64_t cols, bool turned)
{
    float *p = malloc((size_t)(rows * cols) * sizeof *p + 4);
    CHECK(p, "no memory");
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            p[turned ? j * rows + i : i * cols + j] = (float)x[(row + i) * stride + col + j];
    return p;
}

static inline float *nothing(int64_t n)
{
    float *p = malloc((size_t)n * sizeof *p + 4);
    CHECK(p, "no memory");
    for (int64_t i = 0; i < n; i++)
        p[i] = NAN;
    return p;
}

static inline bool is_near(double got, double want)
{
    return fabs(got - want) <= TOLERANCE * (1 + fabs(want));
}

/* Compares with a part of a matrix, as part_of() makes it, and frees `got`. */
static inline void expect(float *got, const double *want, int64_t stride, int64_t row, int64_t rows, int64_t col, int64_t cols, bool turned,
                          const char *what)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            double g = got[turned ? j * rows + i : i * cols + j], w = want[(row + i) * stride + col + j];
            CHECK(is_near(g, w), "%s: %g at (%lld, %lld) instead of %g", what, g, (long long)i, (long long)j, w);
        }
    free(got);
}

/* c += op(a) op(b), in double; m x n, k terms. */
static inline void product(int64_t m, int64_t n, int64_t k, const double *a, bool turn_a, const double *b, bool turn_b, double *c)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            for (int64_t l = 0; l < k; l++)
                c[i * n + j] += a[turn_a ? l * m + i : i * k + l] * b[turn_b ? j * k + l : l * n + j];
}

/* A caller's own product of matrices; counts in *user. */
static inline void own_gemm(void *user, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a, int lda,
                            const float *b, int ldb, float beta, float *c, int ldc)
{
    ++*(int *)user;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0;
            for (int l = 0; l < k; l++)
                sum += a[transpose_a ? l * lda + i : i * lda + l] * b[transpose_b ? j * ldb + l : l * ldb + j];
            c[i * ldc + j] = alpha * sum + (beta == 0 ? 0 : beta * c[i * ldc + j]);
        }
}

#endif
