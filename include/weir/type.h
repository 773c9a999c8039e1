/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Data types and the operations that combine elements.
 */
#ifndef WEIR_TYPE_H
#define WEIR_TYPE_H

#include <stddef.h>
#include <stdint.h>

#include <weir/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Data types: X(name, value, text, bytes). */
#define WEIR_TYPE_TABLE(X)                                                                                   \
    X(WEIR_INT8, 0, "int8", 1)                                                                               \
    X(WEIR_INT16, 1, "int16", 2)                                                                             \
    X(WEIR_INT32, 2, "int32", 4)                                                                             \
    X(WEIR_INT64, 3, "int64", 8)                                                                             \
    X(WEIR_UINT8, 4, "uint8", 1)                                                                             \
    X(WEIR_UINT16, 5, "uint16", 2)                                                                           \
    X(WEIR_UINT32, 6, "uint32", 4)                                                                           \
    X(WEIR_UINT64, 7, "uint64", 8)                                                                           \
    X(WEIR_FP16, 8, "fp16", 2)                                                                               \
    X(WEIR_BF16, 9, "bf16", 2)                                                                               \
    X(WEIR_FP32, 10, "fp32", 4)                                                                              \
    X(WEIR_FP64, 11, "fp64", 8)

/** Type of an element. fp16 is IEEE 754 binary16, bf16 the upper half of a binary32. */
typedef enum weir_type {
#define WEIR_TYPE_ENUM(name, value, text, bytes) name = value,
    WEIR_TYPE_TABLE(WEIR_TYPE_ENUM)
#undef WEIR_TYPE_ENUM
    WEIR_OPAQUE = 64 /**< with an operation of weir_op_create() only: elements of the size that it was given */
} weir_type;

/** Operations: X(name, value, text). */
#define WEIR_OP_TABLE(X)                                                                                     \
    X(WEIR_SUM, 0, "sum")                                                                                    \
    X(WEIR_PROD, 1, "prod")                                                                                  \
    X(WEIR_MIN, 2, "min")                                                                                    \
    X(WEIR_MAX, 3, "max")                                                                                    \
    X(WEIR_AVG, 4, "avg")                                                                                    \
    X(WEIR_AND, 5, "and")                                                                                    \
    X(WEIR_OR, 6, "or")                                                                                      \
    X(WEIR_XOR, 7, "xor")

/**
 * How elements are combined. Integers wrap around. min and max give NaN when an operand is NaN. avg is the sum divided by the
 * number of ranks (integers: rounded towards zero). and, or, xor work on the bits of integers only. fp16 and bf16 are combined in
 * fp32 and rounded once, to nearest even.
 */
typedef enum weir_op {
#define WEIR_OP_ENUM(name, value, text) name = value,
    WEIR_OP_TABLE(WEIR_OP_ENUM)
#undef WEIR_OP_ENUM
    WEIR_OP_USER = 0x10000 /**< from here on: operations of weir_op_create() */
} weir_op;

/** Bytes of an element; 0 for a type that does not exist. Thread safety: safe. */
size_t weir_type_size(weir_type type);

/** The name of a type, e.g. "fp32"; NULL for one that does not exist. Thread safety: safe. */
const char *weir_type_name(weir_type type);

/** The name of an operation, e.g. "sum"; NULL for one that does not exist. Thread safety: safe. */
const char *weir_op_name(weir_op op);

#ifdef __cplusplus
}
#endif

#endif
