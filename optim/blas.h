/* SPDX-License-Identifier: BSD-3-Clause */
/* OpenBLAS, loaded when a rule first needs it: it starts threads of its own as soon as it is loaded. */
#ifndef WR_OPTIM_BLAS_H
#define WR_OPTIM_BLAS_H

#include <stdbool.h>

#include <weir/status.h>

struct wr_blas {
    /* CBLAS's sgemm; order 101 is row major, transposition 111 no, 112 yes */
    void (*sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                  const float *b, int ldb, float beta, float *c, int ldc);
    const char *(*core)(void);
};

/* The library's functions; NULL and a sentence in error (may be NULL) when there is none. Thread safe. */
const struct wr_blas *wr_blas_open(weir_error *error);

/* c (m x n) = alpha op(a) op(b) + beta c, all row major and dense; op transposes where asked. k: the inner dimension. */
void wr_blas_multiply(const struct wr_blas *blas, int m, int n, int k, float alpha, const float *a, bool transpose_a,
                      const float *b, bool transpose_b, float beta, float *c);

#endif
