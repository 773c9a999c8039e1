/* SPDX-License-Identifier: BSD-3-Clause */
/* Products of matrices in the layers of models: by a function of the caller, or by OpenBLAS. */
#ifndef WR_OPTIM_GEMM_H
#define WR_OPTIM_GEMM_H

#include <stdbool.h>

#include <weir/tp.h>

struct wr_gemm {
    weir_gemm_fn fn;
    void *user;
};

/* An operand: row-major, `stride` elements from row to row as it is stored, transposed where asked. */
struct wr_matrix {
    const float *data;
    int64_t stride;
    bool transposed;
};

static inline struct wr_matrix wr_plain(const float *data, int64_t stride)
{
    return (struct wr_matrix){data, stride, false};
}

static inline struct wr_matrix wr_transposed(const float *data, int64_t stride)
{
    return (struct wr_matrix){data, stride, true};
}

/* The caller's function, or with fn NULL OpenBLAS, which may be missing: WEIR_ERR_UNSUPPORTED. */
weir_status wr_gemm_choose(weir_gemm_fn fn, void *user, struct wr_gemm *gemm, weir_error *err);

/*
 * c (m x n, `stride` from row to row) = alpha a b + beta c; inner is the dimension that is summed over. Any dimension may be 0, all are
 * below 2^31.
 */
void wr_gemm(const struct wr_gemm *gemm, int64_t m, int64_t n, int64_t inner, float alpha, struct wr_matrix a, struct wr_matrix b, float beta,
             float *c, int64_t stride);

#endif
