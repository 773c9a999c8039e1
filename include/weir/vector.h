/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Loops over vectors that training needs beside the update rules: norms that do not depend on how a vector is divided, clipping,
 * moving averages of weights, conversion.
 *
 * Results are the same bits on every instruction set.
 */
#ifndef WEIR_VECTOR_H
#define WEIR_VECTOR_H

#include <stddef.h>
#include <stdint.h>

#include <weir/status.h>
#include <weir/type.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * @name Norms in fixed blocks
 *
 * Elements are counted in the vector as a whole, and every ::WEIR_NORM_BLOCK of them, from element 0 on, are a block. Each block
 * is summed up in one fixed order, and the blocks' sums are folded in one fixed tree. Whoever divides a vector at multiples of a
 * block, over calls, threads or ranks, gets the same bits.
 * @{
 */

/** Elements of a block. */
#define WEIR_NORM_BLOCK ((uint64_t)4096)

/** Number of blocks that elements first .. first + n - 1 touch. Thread safety: safe. */
uint64_t weir_norm_blocks(uint64_t first, uint64_t n);

/**
 * The sums of the squares of elements first .. first + n - 1, block by block, in fp64.
 *
 * @param x              the vector, at element 0, aligned to its elements
 * @param type           WEIR_FP32, WEIR_BF16 or WEIR_FP16
 * @param first          first element
 * @param n              number of elements
 * @param[out] partials  weir_norm_blocks() sums; a block that the range covers in part gets the sum of that part. NaN and
 *                       infinities go through
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID
 *
 * Thread safety: safe.
 */
weir_status weir_norm_partials(const void *x, weir_type type, uint64_t first, uint64_t n, double *partials);

/**
 * The sum of n numbers in a complete binary tree: the left part of n is the largest power of two below n. 0 for n = 0.
 * Thread safety: safe.
 */
double weir_norm_fold(const double *partials, uint64_t n);

/** @} */

/**
 * What gradients are multiplied by, so that their norm is at most max_norm: min(1, max_norm / (norm + 1e-6)), as PyTorch has it.
 * A norm that is not finite gives NaN. Thread safety: safe.
 */
double weir_clip_factor(double norm, double max_norm);

/**
 * Moving average of weights: average = decay average + (1 - decay) w, for n elements. The arrays do not overlap.
 *
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID for a missing or misaligned array or a decay outside [0, 1]
 *
 * Thread safety: safe on disjoint arrays.
 */
weir_status weir_ema_update(float *average, const float *w, uint64_t n, double decay);

/**
 * Converts n elements between WEIR_FP32, WEIR_BF16 and WEIR_FP16, of which one is fp32 or both are the same; rounds to
 * nearest even. The arrays do not overlap.
 *
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID for a missing or misaligned array or another pair of types
 *
 * Thread safety: safe on disjoint arrays.
 */
weir_status weir_convert(void *dst, weir_type dst_type, const void *src, weir_type src_type, uint64_t n);

/**
 * The processor that OpenBLAS, which multiplies matrices, has chosen its kernels for, e.g. "Haswell". Loads OpenBLAS, which starts
 * threads of its own (see OPENBLAS_NUM_THREADS in its documentation). NULL when it cannot be loaded. Thread safety: safe.
 */
const char *weir_blas_core(void);

#ifdef __cplusplus
}
#endif

#endif
