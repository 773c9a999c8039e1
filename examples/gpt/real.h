/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The type that the model computes in: float. Built with GPT_DOUBLE everything is in double and uses the C library's exp(), which is
 * how the gradients are checked against finite differences.
 */
#ifndef GPT_REAL_H
#define GPT_REAL_H

#include <cblas.h>

#ifdef GPT_DOUBLE
typedef double real;
#define GPT_GEMM cblas_dgemm
#else
typedef float real;
#define GPT_GEMM cblas_sgemm
#endif

/* A matrix as an operand: row-major, `stride` elements from row to row, transposed where asked. */
struct gpt_matrix {
    const real *data;
    int stride;
    int transposed;
};

/* Operands. */
static inline struct gpt_matrix gpt_plain(const real *data, int stride)
{
    return (struct gpt_matrix){data, stride, 0};
}

static inline struct gpt_matrix gpt_transposed(const real *data, int stride)
{
    return (struct gpt_matrix){data, stride, 1};
}

/* A product: c (rows x cols, `stride` from row to row) = alpha a b + beta c; `inner` is the dimension that is summed over. */
struct gpt_product {
    int rows, cols, inner;
    real alpha;
    struct gpt_matrix a, b;
    real beta;
    real *c;
    int stride;
};

static inline void gpt_multiply(const struct gpt_product *p)
{
    GPT_GEMM(CblasRowMajor, p->a.transposed ? CblasTrans : CblasNoTrans, p->b.transposed ? CblasTrans : CblasNoTrans, p->rows, p->cols,
             p->inner, p->alpha, p->a.data, p->a.stride, p->b.data, p->b.stride, p->beta, p->c, p->stride);
}

#endif
