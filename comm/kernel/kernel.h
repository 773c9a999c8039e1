/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Combining elements: dst = src[0] op src[1] op ..., in one pass over memory, from left to right. Every instruction set gives
 * the same bits.
 *
 * An operand is either of the data type or of the type of partial results (fp32 for fp16 and bf16, else the data type).
 */
#ifndef WR_KERNEL_H
#define WR_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/type.h>

/* Combines n elements of `src` into `inout`; both are of the user's type. */
typedef void (*wr_user_op)(void *arg, void *inout, const void *src, uint64_t n);

/* The primitive loops of one (type, op), compiled for one instruction set. acc, a, b are of the partial type. */
struct wr_kernel_loops {
    void (*load)(void *acc, const void *src, size_t n);                   /* acc = src (data type) */
    void (*combine)(void *acc, const void *src, size_t n);                /* acc = acc op src (data type) */
    void (*combine_partial)(void *acc, const void *src, size_t n);        /* acc = acc op src (partial type) */
    void (*pair)(void *dst, const void *a, const void *b, size_t n);      /* dst = a op b, all of the partial type */
    void (*store)(void *dst, const void *acc, size_t n);                  /* dst (data type) = acc */
    void (*divide)(void *acc, uint64_t by, size_t n);                     /* acc = acc / by; avg only, else NULL */
};

/* What a reduction needs; made once by wr_kernel_find(). */
struct wr_kernel {
    weir_type type;
    weir_op op;
    size_t size, partial_size; /* bytes of an element */
    struct wr_kernel_loops loops;
    wr_user_op user; /* instead of the loops, when not NULL */
    void *user_arg;
    size_t stream_bytes; /* results from this size on bypass the cache */
};

/* A source operand. */
struct wr_operand {
    const void *data;
    bool partial;
};

/* Whether elements of a type can be combined by an operation. */
bool wr_kernel_exists(weir_type type, weir_op op);

/* Bytes of a partial result. */
size_t wr_kernel_partial_size(weir_type type);

/*
 * The fastest kernel for this machine. `isa` of "generic", "avx2", "avx512" insists on one; NULL chooses. False when it does not
 * exist. Not for every call: it asks the processor what it can, which takes microseconds in a virtual machine.
 */
bool wr_kernel_find(weir_type type, weir_op op, const char *isa, struct wr_kernel *kernel);

/*
 * dst = src[0] op ... op src[nsrc - 1] for n elements; nsrc >= 1. `dst_partial`: dst is of the partial type. `divide_by` > 1
 * divides the result (avg). dst may equal a source exactly, or not overlap any. Nothing need be aligned.
 */
void wr_kernel_reduce(const struct wr_kernel *kernel, void *dst, bool dst_partial, const struct wr_operand *src, unsigned nsrc,
                      uint64_t n, uint64_t divide_by);

/* The name of the instruction set that wr_kernel_find() chooses here. */
const char *wr_kernel_isa(void);

#endif
