/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For files that are compiled once for each instruction set (Makefile.inc defines WR_ISA as generic, avx2, avx512): names, loops
 * that compilers turn into vector code, and the walk over a range in chunks that stay in the first cache.
 *
 * All sets give the same bits: no contraction to fused multiply-add (an option of the compiler), no approximate instruction, and
 * sums in a fixed number of lanes.
 */
#ifndef WR_OPTIM_LOOPS_H
#define WR_OPTIM_LOOPS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/copy.h"
#include "base/half.h"
#include "optim/rule.h"

#define WR_ISA_JOIN2(name, isa) name##_##isa
#define WR_ISA_JOIN(name, isa)  WR_ISA_JOIN2(name, isa)
/* The name of an object of this instruction set. */
#define WR_ISA_NAME(name) WR_ISA_JOIN(name, WR_ISA)

#if defined(__clang__)
#define WR_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define WR_INDEPENDENT _Pragma("GCC ivdep")
#endif
#define WR_LOOP(n) WR_INDEPENDENT for (size_t i = 0; i < (n); i++)

/* elements; so few that a processor begins with the next ones while it finishes these */
enum { WR_CHUNK = 256 };

/* Updates n elements; s are the states at them, arg is the rule's. */
typedef void (*wr_chunk_fn)(float *w, const float *g, void *const *s, size_t n, const void *arg);

static inline void wr_to_float(float *dst, const void *src, weir_type type, size_t n)
{
    if (type == WEIR_FP32)
        memcpy(dst, src, n * sizeof(float));
    else if (type == WEIR_BF16)
        half_from_bf16(dst, src, n);
    else
        half_from_fp16(dst, src, n);
}

static inline void wr_from_float(void *dst, const float *src, weir_type type, size_t n)
{
    if (type == WEIR_FP32)
        memcpy(dst, src, n * sizeof(float));
    else if (type == WEIR_BF16)
        half_to_bf16(dst, src, n);
    else
        half_to_fp16(dst, src, n);
}

/* The largest magnitude; as bits, where a NaN is larger than all numbers. */
static inline float wr_largest(const float *x, size_t n)
{
    uint32_t most = 0;
    WR_LOOP(n) {
        uint32_t bits = half_bits(x[i]) & 0x7fffffff;
        most = bits > most ? bits : most;
    }
    return half_float(most);
}

/* The part of a range from element `at` on, m elements. */
static inline struct wr_rule_range wr_range_part(const struct wr_rule_range *r, uint64_t at, uint64_t m)
{
    struct wr_rule_range p = *r;
    p.w = r->w + at;
    p.g = (const char *)r->g + at * (r->grad_type == WEIR_FP32 ? 4 : 2);
    p.out = r->out ? (char *)r->out + at * 2 : NULL;
    for (int i = 0; i < WEIR_RULE_STATES_MAX; i++)
        p.s[i] = r->s[i] && r->span[i] ? (char *)r->s[i] + at / r->span[i] * r->bytes[i] : r->s[i];
    p.n = m;
    return p;
}

/* A range whose loop does not look at gradients: none are converted for it. */
static inline struct wr_rule_range wr_range_without_grad(const struct wr_rule_range *r)
{
    struct wr_rule_range p = *r;
    p.g = p.w;
    p.grad_type = WEIR_FP32;
    return p;
}

/* The gradient of a range of at most WR_CHUNK elements in fp32, in place or in `wide`. */
static inline const float *wr_range_grad(const struct wr_rule_range *r, float *wide)
{
    if (r->grad_type == WEIR_FP32)
        return r->g;
    wr_to_float(wide, r->g, r->grad_type, r->n);
    return wide;
}

/* Applies fn to a range; what it leaves in w is written back in low precision while it is in the cache. */
static inline void wr_range_apply(const struct wr_rule_range *r, wr_chunk_fn fn, const void *arg)
{
    WR_ALIGNED(64) float wide[WR_CHUNK];
    if (r->grad_type == WEIR_FP32 && !r->out) {
        fn(r->w, r->g, r->s, r->n, arg);
        return;
    }
    for (uint64_t at = 0; at < r->n; at += WR_CHUNK) {
        struct wr_rule_range p = wr_range_part(r, at, WR_MIN(r->n - at, (uint64_t)WR_CHUNK));
        fn(p.w, wr_range_grad(&p, wide), p.s, p.n, arg);
        if (p.out)
            wr_from_float(p.out, p.w, p.out_type, p.n);
    }
}

/* What is wrong with the two decay rates of a rule with moments, or NULL. */
static inline const char *wr_betas_wrong(const weir_rule_options *o)
{
    if (!(o->beta1 >= 0 && o->beta1 < 1))
        return "beta1 must be in [0, 1)";
    return o->beta2 >= 0 && o->beta2 < 1 ? NULL : "beta2 must be in [0, 1)";
}

/* The same of Adam and what is like it, and what it begins with. */
static inline const char *wr_adam_wrong(const weir_rule_options *o)
{
    const char *wrong = wr_betas_wrong(o);
    return wrong || o->eps >= 0 ? wrong : "eps must not be negative";
}

static inline void wr_adam_defaults(weir_rule_options *o)
{
    o->beta1 = 0.9;
    o->beta2 = 0.999;
    o->eps = 1e-8;
}

#endif
