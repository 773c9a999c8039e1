/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams: loops that read and write what an update does and compute next to nothing. */
#include <string.h>

#include "perf/weir-rules.h"

#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* What a loop touches: how many arrays of 4 bytes are read and written, or read; whether there is one of halves that is read, one
 * of halves and one of words that is written; how many of bytes are read and written. */
struct shape {
    int both, in, half_in, half_out, word_out, bytes;
};

struct pointers {
    uint32_t *both[3];
    const uint32_t *in[2];
    const uint16_t *half_in;
    uint16_t *half_out;
    uint32_t *word_out;
    uint8_t *bytes[2];
};

/* The compiler must not know that it is 0: then nothing would be left. */
static volatile uint32_t zero_source;
static volatile uint32_t sink;

static inline __attribute__((always_inline)) void stream(const struct pointers *p, size_t n, struct shape s)
{
    uint32_t *restrict b0 = p->both[0], *restrict b1 = p->both[1], *restrict b2 = p->both[2],
                       *restrict word = p->word_out;
    const uint32_t *restrict i0 = p->in[0], *restrict i1 = p->in[1];
    const uint16_t *restrict half = p->half_in;
    uint16_t *restrict out = p->half_out;
    uint8_t *restrict c0 = p->bytes[0], *restrict c1 = p->bytes[1];
    uint32_t zero = zero_source, sum = 0;
    INDEPENDENT for (size_t i = 0; i < n; i++)
    {
        uint32_t x = s.half_in ? half[i] : 1;
        if (s.in > 0)
            x += i0[i];
        if (s.in > 1)
            x += i1[i];
        if (s.both == 0)
            sum += x;
        uint32_t none = x & zero;
        if (s.both > 0)
            b0[i] += none;
        if (s.both > 1)
            b1[i] += none;
        if (s.both > 2)
            b2[i] += none;
        if (s.bytes) {
            c0[i] += (uint8_t)none;
            c1[i] += (uint8_t)none;
        }
        if (s.half_out)
            out[i] = (uint16_t)(x >> 16);
        if (s.word_out)
            word[i] = none;
    }
    if (s.both == 0)
        sink = sum;
}

/* both, in, half_in, half_out, word_out, bytes */
#define SHAPES(X)                                                                                                      \
    X(3, 1, 0, 0, 0, 0)                                                                                                \
    X(2, 1, 0, 0, 0, 0)                                                                                                \
    X(1, 1, 0, 0, 0, 0)                                                                                                \
    X(2, 2, 0, 0, 0, 0)                                                                                                \
    X(1, 2, 0, 0, 0, 0)                                                                                                \
    X(0, 2, 0, 0, 0, 0)                                                                                                \
    X(0, 1, 0, 0, 0, 0)                                                                                                \
    X(1, 1, 0, 0, 0, 2)                                                                                                \
    X(1, 1, 0, 0, 1, 0)                                                                                                \
    X(3, 1, 0, 1, 0, 0)                                                                                                \
    X(2, 1, 0, 1, 0, 0)                                                                                                \
    X(1, 1, 0, 1, 0, 0)                                                                                                \
    X(1, 2, 0, 1, 0, 0)                                                                                                \
    X(1, 1, 0, 1, 0, 2)                                                                                                \
    X(3, 0, 1, 0, 0, 0)                                                                                                \
    X(2, 0, 1, 0, 0, 0)                                                                                                \
    X(1, 0, 1, 0, 0, 0)                                                                                                \
    X(2, 1, 1, 0, 0, 0)                                                                                                \
    X(0, 1, 1, 0, 0, 0)                                                                                                \
    X(0, 0, 1, 0, 0, 0)                                                                                                \
    X(1, 0, 1, 0, 0, 2)                                                                                                \
    X(1, 0, 1, 0, 1, 0)                                                                                                \
    X(3, 0, 1, 1, 0, 0)                                                                                                \
    X(2, 0, 1, 1, 0, 0)                                                                                                \
    X(1, 0, 1, 1, 0, 0)                                                                                                \
    X(1, 0, 1, 1, 0, 2)

#define LOOP_NAME(isa, b, i, h, o, w, c) loop_##isa##_##b##i##h##o##w##c
#define LOOP(isa, target, b, i, h, o, w, c)                                                                            \
    target static void LOOP_NAME(isa, b, i, h, o, w, c)(const struct pointers *p, size_t n)                            \
    {                                                                                                                  \
        stream(p, n, (struct shape){b, i, h, o, w, c});                                                                \
    }

#define PLAIN(b, i, h, o, w, c) LOOP(plain, , b, i, h, o, w, c)
SHAPES(PLAIN)
#if defined(__x86_64__)
#if defined(__clang__)
#define AVX512_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#else
#define AVX512_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")))
#endif
#define AVX2_TARGET              __attribute__((target("avx2")))
#define AVX2(b, i, h, o, w, c)   LOOP(avx2, AVX2_TARGET, b, i, h, o, w, c)
#define AVX512(b, i, h, o, w, c) LOOP(avx512, AVX512_TARGET, b, i, h, o, w, c)
SHAPES(AVX2)
SHAPES(AVX512)
#endif

struct loop {
    struct shape shape;
    void (*run[3])(const struct pointers *p, size_t n); /* plain, AVX2, AVX-512 */
};

#if defined(__x86_64__)
#define ENTRY(b, i, h, o, w, c)                                                                                        \
    {{b, i, h, o, w, c},                                                                                               \
     {LOOP_NAME(plain, b, i, h, o, w, c), LOOP_NAME(avx2, b, i, h, o, w, c), LOOP_NAME(avx512, b, i, h, o, w, c)}},
#else
#define ENTRY(b, i, h, o, w, c) {{b, i, h, o, w, c}, {LOOP_NAME(plain, b, i, h, o, w, c), NULL, NULL}},
#endif
static const struct loop loops[] = {SHAPES(ENTRY)};

static int best(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return 2;
    if (__builtin_cpu_supports("avx2"))
        return 1;
#endif
    return 0;
}

static enum array array_of(char letter)
{
    static const char letters[ARRAYS + 1] = "wgabxo89";
    return (enum array)(strchr(letters, letter) - letters);
}

static unsigned element_bytes(enum array a, unsigned grad_bytes)
{
    return a == GRAD ? grad_bytes : a == OUT ? 2 : a == BYTES_A || a == BYTES_B ? 1 : 4;
}

unsigned pass_bytes(pass p, unsigned grad_bytes)
{
    unsigned bytes = 0;
    for (; *p; p += 2)
        bytes += element_bytes(array_of(p[0]), grad_bytes) * (p[1] == '+' ? 2 : 1);
    return bytes;
}

bool pass_run(pass p, unsigned grad_bytes, void *const arrays[ARRAYS], size_t n)
{
    struct shape s = {0};
    struct pointers at = {.half_in = NULL};
    for (; *p; p += 2) {
        enum array a = array_of(p[0]);
        if (a == BYTES_A || a == BYTES_B)
            at.bytes[s.bytes++] = arrays[a];
        else if (a == OUT)
            at.half_out = arrays[a], s.half_out = 1;
        else if (p[1] == '=')
            at.word_out = arrays[a], s.word_out = 1;
        else if (p[1] == '+')
            at.both[s.both++] = arrays[a];
        else if (element_bytes(a, grad_bytes) == 2)
            at.half_in = arrays[a], s.half_in = 1;
        else
            at.in[s.in++] = arrays[a];
    }
    for (size_t i = 0; i < sizeof loops / sizeof loops[0]; i++)
        if (!memcmp(&loops[i].shape, &s, sizeof s)) {
            loops[i].run[best()](&at, n);
            return true;
        }
    return false;
}
