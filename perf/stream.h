/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies past the caches, as collectives do with what exceeds them. */
#ifndef PERF_STREAM_H
#define PERF_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* Where the processor can, and `to` is aligned to 16 bytes. */
static inline void put_out(float *to, const float *from, size_t n)
{
    size_t i = 0;
#ifdef __SSE2__
    if (!((uintptr_t)to & 15))
        for (; i + 4 <= n; i += 4)
            _mm_stream_ps(to + i, _mm_loadu_ps(from + i));
#endif
    memcpy(to + i, from + i, (n - i) * sizeof *to);
}

#endif
