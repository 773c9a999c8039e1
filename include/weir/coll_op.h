/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Operations of the user for collectives that combine elements.
 */
#ifndef WEIR_COLL_OP_H
#define WEIR_COLL_OP_H

#include <weir/context.h>
#include <weir/type.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Combines `n` elements: inout[i] = inout[i] op in[i]. It must be associative, must depend on the elements alone, and must not
 * call weir. `in` and `inout` do not overlap and are aligned as the buffers of the collective are.
 */
typedef void (*weir_op_fn)(void *user, void *inout, const void *in, uint64_t n);

/** Flags of weir_op_create(). */
typedef enum weir_op_flags {
    WEIR_OP_ORDERED = 1 /**< a op b is not b op a: elements are combined in the order of ranks, which may take longer */
} weir_op_flags;

/** Most bytes of an element of an operation of the user. */
#define WEIR_OP_ELEMENT_MAX 4096

/**
 * Makes an operation that all collectives that combine elements take, with a type of the same size or with ::WEIR_OPAQUE.
 *
 * All ranks must create their operations in the same order, for collectives compare their numbers.
 *
 * @param ctx           a context
 * @param element_size  bytes of an element, 1 .. ::WEIR_OP_ELEMENT_MAX
 * @param fn            what it does
 * @param user          handed to fn
 * @param flags         ::weir_op_flags or 0
 * @param[out] op       to be freed by weir_op_free(); set on success only
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID; ::WEIR_ERR_LIMIT when 256 operations exist; ::WEIR_ERR_NO_MEMORY
 *
 * Thread safety: safe from any thread.
 */
weir_status weir_op_create(weir_ctx *ctx, size_t element_size, weir_op_fn fn, void *user, uint64_t flags, weir_op *op);

/**
 * Frees an operation that no running collective and no persistent request uses. Its number is not given out again.
 *
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID when there is no such operation
 *
 * Thread safety: safe from any thread.
 */
weir_status weir_op_free(weir_ctx *ctx, weir_op op);

#ifdef __cplusplus
}
#endif

#endif
