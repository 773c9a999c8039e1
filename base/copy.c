/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/copy.h"

#include "base/atomic.h"
#include "base/compiler.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { AHEAD = 2048 }; /* bytes that are prefetched before they are loaded */

/* Whole lines; `dst` is aligned to a line, `src` to nothing. */
__attribute__((target("avx512f"))) static void lines_avx512(char *dst, const char *src, size_t n)
{
    for (; n >= 256; n -= 256, dst += 256, src += 256) {
        for (int i = 0; i < 256; i += 64)
            _mm_prefetch(src + AHEAD + i, _MM_HINT_NTA);
        __m512i a = _mm512_loadu_si512(src), b = _mm512_loadu_si512(src + 64);
        __m512i c = _mm512_loadu_si512(src + 128), d = _mm512_loadu_si512(src + 192);
        _mm512_stream_si512((__m512i *)(void *)dst, a);
        _mm512_stream_si512((__m512i *)(void *)(dst + 64), b);
        _mm512_stream_si512((__m512i *)(void *)(dst + 128), c);
        _mm512_stream_si512((__m512i *)(void *)(dst + 192), d);
    }
    for (; n >= 64; n -= 64, dst += 64, src += 64)
        _mm512_stream_si512((__m512i *)(void *)dst, _mm512_loadu_si512(src));
}

__attribute__((target("avx2"))) static void lines_avx2(char *dst, const char *src, size_t n)
{
    for (; n >= 64; n -= 64, dst += 64, src += 64) {
        _mm_prefetch(src + AHEAD, _MM_HINT_NTA);
        __m256i a = _mm256_loadu_si256((const __m256i_u *)(const void *)src);
        __m256i b = _mm256_loadu_si256((const __m256i_u *)(const void *)(src + 32));
        _mm256_stream_si256((__m256i *)(void *)dst, a);
        _mm256_stream_si256((__m256i *)(void *)(dst + 32), b);
    }
}

static void lines_sse2(char *dst, const char *src, size_t n)
{
    for (; n >= 64; n -= 64, dst += 64, src += 64) {
        for (int i = 0; i < 64; i += 16)
            _mm_stream_si128((__m128i *)(void *)(dst + i), _mm_loadu_si128((const __m128i_u *)(const void *)(src + i)));
    }
}

void wr_copy_streaming(void *dst, const void *src, size_t n)
{
    char *d = dst;
    const char *s = src;
    size_t head = WR_MIN(n, -(uintptr_t)d & 63);
    memcpy(d, s, head);
    d += head, s += head, n -= head;
    size_t body = n & ~(size_t)63;
    if (__builtin_cpu_supports("avx512f"))
        lines_avx512(d, s, body);
    else if (__builtin_cpu_supports("avx2"))
        lines_avx2(d, s, body);
    else
        lines_sse2(d, s, body);
    memcpy(d + body, s + body, n - body);
    wr_fence_streaming();
}

#else

void wr_copy_streaming(void *dst, const void *src, size_t n)
{
    memcpy(dst, src, n);
    wr_fence_streaming();
}

#endif
