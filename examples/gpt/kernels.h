/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loops of the model beside its matrix products. They are compiled once for each instruction set; a table of them is chosen at run
 * time. All matrices are row-major and dense.
 */
#ifndef GPT_KERNELS_H
#define GPT_KERNELS_H

#include <stdint.h>

#include "examples/gpt/real.h"

/* Which elements are dropped: a function of the key and the element's number, so it can be drawn again in the backward pass. */
struct gpt_drop {
    uint32_t key;
    uint32_t threshold; /* an element is dropped when its 32 random bits are below; 0: none is */
    real scale;         /* what is kept is multiplied by this, 1 / (1 - share) */
};

struct gpt_kernels {
    const char *isa;

    /* y = (x - mean) / sqrt(variance + 1e-5) weight + bias in each row; stats: mean and 1 / sqrt(...) of each row. */
    void (*norm)(int64_t rows, int cols, const real *x, const real *weight, const real *bias, real *y, real *stats);

    /*
     * The norm backward: dx = d + the gradient of x, given dy of y; d may be NULL, or dx itself. dweight and dbias are added to.
     */
    void (*norm_back)(int64_t rows, int cols, const real *x, const real *weight, const real *stats, const real *dy, const real *d,
                      real *dx, real *dweight, real *dbias);

    /* y = x + drop(y + bias): the end of either half of a block. first: the number of y's first element. */
    void (*residual)(int64_t rows, int cols, const real *x, const real *bias, const struct gpt_drop *drop, uint32_t first, real *y);

    /* y = drop(x). They may be the same. */
    void (*drop)(int64_t n, const real *x, const struct gpt_drop *drop, uint32_t first, real *y);

    /* x += bias in each row, y = gelu(x), in the form with tanh. */
    void (*gelu)(int64_t rows, int cols, real *x, const real *bias, real *y);

    /* dy = dy gelu'(x). */
    void (*gelu_back)(int64_t n, const real *x, real *dy);

    /* Each row becomes bias. */
    void (*spread)(int64_t rows, int cols, const real *bias, real *y);

    /* sums += the sum of the rows. */
    void (*add_rows)(int64_t rows, int cols, const real *x, real *sums);

    /* Row i of an n x n matrix becomes the softmax of its elements 0 .. i, and 0 behind them. */
    void (*softmax)(int n, real *x);

    /* dx = scale p (dx - sum(dx p)) in each row of an n x n matrix, of which p is 0 behind the diagonal. */
    void (*softmax_back)(int n, real scale, const real *p, real *dx);

    /*
     * Row by row: x becomes scale (softmax(x) - one at the target), which is the gradient of scale times the loss; the sum of the rows'
     * losses, -log of the target's probability, is returned.
     */
    double (*cross_entropy)(int64_t rows, int cols, const int32_t *targets, real scale, real *x);

    /* Reads and writes the memory that AdamW does, and computes next to nothing: the least time that an update takes. */
    void (*pass_over)(int64_t n, real *w, const real *g, real *m, real *v);
};

/* The table of an instruction set, "generic", "avx2" or "avx512", or NULL when the processor or the build does not have it; of the best
 * one with isa NULL. */
const struct gpt_kernels *gpt_kernels_find(const char *isa);

#endif
