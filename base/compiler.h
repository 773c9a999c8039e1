/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes, alignment and small macros that the whole library uses. */
#ifndef WR_COMPILER_H
#define WR_COMPILER_H

#include <stddef.h>

#define WR_PRINTF(fmt, args)  __attribute__((format(printf, fmt, args)))
#define WR_UNUSED             __attribute__((unused))
#define WR_NODISCARD          __attribute__((warn_unused_result))
#define WR_NORETURN           __attribute__((noreturn))
#define WR_LIKELY(x)          __builtin_expect(!!(x), 1)
#define WR_UNLIKELY(x)        __builtin_expect(!!(x), 0)
#define WR_ARRAY_SIZE(a)      (sizeof(a) / sizeof((a)[0]))
#define WR_CONTAINER_OF(p, type, member) ((type *)(void *)((char *)(p) - offsetof(type, member)))
#define WR_STR2(x)            #x
#define WR_STR(x)             WR_STR2(x)

/* Flags and counters that different cores write stand this far apart: a pair of lines, because processors prefetch
 * the neighbour of a line. */
#define WR_CACHE_LINE 64
#define WR_FLAG_LINE  128
#define WR_ALIGNED(n) __attribute__((aligned(n)))

#define WR_MIN(a, b) ((a) < (b) ? (a) : (b))
#define WR_MAX(a, b) ((a) > (b) ? (a) : (b))

#endif
