/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/gemm.h"

#include <string.h>

#include "optim/blas.h"

static void by_openblas(void *user, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a, int lda,
                        const float *b, int ldb, float beta, float *c, int ldc)
{
    enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };
    const struct wr_blas *blas = user;
    blas->sgemm(ROW_MAJOR, transpose_a ? TRANSPOSED : PLAIN, transpose_b ? TRANSPOSED : PLAIN, m, n, k, alpha, a, lda, b, ldb, beta, c,
                ldc);
}

weir_status wr_gemm_choose(weir_gemm_fn fn, void *user, struct wr_gemm *gemm, weir_error *err)
{
    if (fn) {
        *gemm = (struct wr_gemm){fn, user};
        return WEIR_OK;
    }
    const struct wr_blas *blas = wr_blas_open(err);
    if (!blas)
        return WEIR_ERR_UNSUPPORTED;
    *gemm = (struct wr_gemm){by_openblas, (void *)(uintptr_t)blas};
    return WEIR_OK;
}

void wr_gemm(const struct wr_gemm *gemm, int64_t m, int64_t n, int64_t inner, float alpha, struct wr_matrix a, struct wr_matrix b, float beta,
             float *c, int64_t stride)
{
    if (m && n && inner) {
        gemm->fn(gemm->user, a.transposed, b.transposed, (int)m, (int)n, (int)inner, alpha, a.data, (int)a.stride, b.data, (int)b.stride,
                 beta, c, (int)stride);
        return;
    }
    for (int64_t i = 0; i < m && beta == 0; i++)
        memset(c + i * stride, 0, (size_t)n * sizeof *c);
}
