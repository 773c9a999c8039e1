/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * AdamW with both moments in 8 bits (Dettmers et al. 2022): blocks of 256 elements, each divided by its largest magnitude and
 * rounded to the nearest of the values of dynamic tree quantisation. In a code of b bits (7 and a sign for the first moment, 8 for
 * the second), the zero bits before the first set bit are a decimal exponent, and the bits after it cut [0.1, 1] of that decade
 * evenly: a code c = 2^i + j, 0 <= j < 2^i, means 10^(i - b + 1) (0.1 + 0.9 (j + 0.5) / 2^i). 0 means 0, and the largest code 1, so that
 * the largest element of a block is exact. A second moment that is not 0 never becomes 0: a step divides by it.
 */
#include "optim/loops.h"

enum { BLOCK = 256, BITS_FIRST = 7, BITS_SECOND = 8, BITS_MOST = 8 };

static const double decade[BITS_MOST] = {1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1}; /* of i, for 8 bits */

/* A code's values decade by decade: value = base + slope * code, and back: code - 2^i = floor(x * steep - offset). */
struct code {
    float base[BITS_MOST], slope[BITS_MOST];
    float from[BITS_MOST]; /* the least x that belongs to decade i: halfway between its first value and the one before */
    float steep[BITS_MOST], offset[BITS_MOST];
    float top;   /* the least x of the largest code */
    float least; /* code of what is not 0 but below all values */
    int bits;
};

static void make_code(struct code *k, int bits, float least)
{
    double before = 0;
    k->bits = bits;
    k->least = least;
    for (int i = 0; i < bits; i++) {
        double d = decade[BITS_MOST - bits + i], width = 0.9 / (1 << i);
        double first = d * (0.1 + width / 2), last = d * (1 - width / 2);
        k->base[i] = (float)(d * (0.1 - 0.9 + width / 2));
        k->slope[i] = (float)(d * width);
        k->from[i] = (float)((before + first) / 2);
        k->steep[i] = (float)(1 / (d * width));
        k->offset[i] = (float)(0.1 / width);
        k->top = (float)((1 + d * (1 - width * 1.5)) / 2);
        before = last;
    }
}

/*
 * Decade by decade, spelled out and with masks instead of conditions: compilers make branches of a cascade of conditions of which one
 * implies the next, and then the loop around it is no vector code.
 */
#define DECADES(STEP) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7)

static inline uint32_t mask(int condition)
{
    return 0 - (uint32_t)condition;
}

/* b where the mask is set, else a */
static inline float pick(float a, float b, uint32_t mask)
{
    uint32_t x = half_bits(a), y = half_bits(b);
    return half_float(x ^ ((x ^ y) & mask));
}

/* x = scale * value of the code */
static inline __attribute__((always_inline)) float decode(const struct code *k, int bits, float c, float scale)
{
    float base = k->base[0], slope = k->slope[0];
#define STEP(i)                                                                                                        \
    if ((i) < bits) {                                                                                                  \
        uint32_t in = mask(c >= (float)(1 << (i)));                                                                    \
        base = pick(base, k->base[i], in);                                                                             \
        slope = pick(slope, k->slope[i], in);                                                                          \
    }
    DECADES(STEP)
#undef STEP
    float value = base + slope * c;
    value = pick(value, 0, mask(c == 0));
    value = pick(value, 1, mask(c == (float)((1 << bits) - 1)));
    return value * scale;
}

/* The code of x, 0 <= x <= 1; a NaN gives some code. */
static inline __attribute__((always_inline)) int encode(const struct code *k, int bits, float x)
{
    float steep = k->steep[0], offset = k->offset[0], first = 1;
#define STEP(i)                                                                                                        \
    if ((i) < bits) {                                                                                                  \
        uint32_t in = mask(x >= k->from[i]);                                                                           \
        steep = pick(steep, k->steep[i], in);                                                                          \
        offset = pick(offset, k->offset[i], in);                                                                       \
        first = pick(first, (float)(1 << (i)), in);                                                                    \
    }
    DECADES(STEP)
#undef STEP
    float j = x * steep - offset, most = first - 1, largest = (float)((1 << bits) - 1);
    j = pick(0, j, mask(j > 0));
    j = pick(most, j, mask(j < most));
    float c = first + (float)(int)j;
    c = pick(c, largest - 1, mask(c == largest));
    c = pick(c, largest, mask(x >= k->top));
    c = pick(pick(0, k->least, mask(x > 0)), c, mask(x >= k->from[0]));
    return (int)c;
}

struct adamw8 {
    float scale, decay;
    float beta1, rest1, beta2, rest2;
    float rate, root, eps;
    struct code first, second;
};

static void load_moments(const int8_t *restrict qm, const uint8_t *restrict qv, float *restrict m, float *restrict v,
                         size_t n, float scale_m, float scale_v, const struct adamw8 *c)
{
    const struct code first = c->first, second = c->second;
    WR_LOOP(n) {
        int code = qm[i];
        float magnitude = decode(&first, BITS_FIRST, (float)(code < 0 ? -code : code), scale_m);
        m[i] = code < 0 ? -magnitude : magnitude;
    }
    WR_LOOP(n)
        v[i] = decode(&second, BITS_SECOND, (float)qv[i], scale_v);
}

static void store_moments(int8_t *restrict qm, uint8_t *restrict qv, const float *restrict m, const float *restrict v,
                          size_t n, float *scale_m, float *scale_v, const struct adamw8 *c)
{
    const struct code first = c->first, second = c->second;
    *scale_m = wr_largest(m, n);
    *scale_v = wr_largest(v, n);
    float by_m = *scale_m != 0 ? 1 / *scale_m : 0, by_v = *scale_v != 0 ? 1 / *scale_v : 0;
    WR_LOOP(n) {
        int code = encode(&first, BITS_FIRST, fabsf(m[i]) * by_m);
        qm[i] = (int8_t)(m[i] < 0 ? -code : code);
    }
    WR_LOOP(n)
        qv[i] = (uint8_t)encode(&second, BITS_SECOND, v[i] * by_v);
}

static void adamw8_chunk(float *restrict w, const float *restrict g, void *const *s, size_t n, const void *arg)
{
    const struct adamw8 *p = arg;
    const struct adamw8 c = *p;
    WR_ALIGNED(64) float m[BLOCK], v[BLOCK];
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t size = WR_MIN(n - at, (size_t)BLOCK);
        int8_t *qm = (int8_t *)s[0] + at;
        uint8_t *qv = (uint8_t *)s[2] + at;
        float *scale_m = (float *)s[1] + at / BLOCK, *scale_v = (float *)s[3] + at / BLOCK;
        load_moments(qm, qv, m, v, size, *scale_m, *scale_v, p);
        float *restrict to = w + at;
        const float *restrict from = g + at;
        WR_LOOP(size) {
            float grad = from[i] * c.scale;
            m[i] = c.beta1 * m[i] + c.rest1 * grad;
            v[i] = c.beta2 * v[i] + c.rest2 * (grad * grad);
            to[i] = c.decay * to[i] - c.rate * (m[i] / (sqrtf(v[i]) * c.root + c.eps));
        }
        store_moments(qm, qv, m, v, size, scale_m, scale_v, p);
    }
}

static void adamw8_update(const weir_rule_options *o, const weir_rule_step *step, const struct wr_rule_range *r)
{
    double t = (double)step->step;
    struct adamw8 c = {
        .scale = (float)step->grad_scale,
        .decay = (float)(1 - step->lr * step->weight_decay),
        .beta1 = (float)o->beta1,
        .rest1 = (float)(1 - o->beta1),
        .beta2 = (float)o->beta2,
        .rest2 = (float)(1 - o->beta2),
        .rate = (float)(step->lr / (1 - pow(o->beta1, t))),
        .root = (float)(1 / sqrt(1 - pow(o->beta2, t))),
        .eps = (float)o->eps,
    };
    make_code(&c.first, BITS_FIRST, 0);
    make_code(&c.second, BITS_SECOND, 1);
    wr_range_apply(r, adamw8_chunk, &c);
}

static unsigned adamw8_states(const weir_rule_options *o, struct wr_rule_state *s)
{
    (void)o;
    s[0] = (struct wr_rule_state){"exp_avg", WEIR_INT8, 1, 0};
    s[1] = (struct wr_rule_state){"exp_avg_scale", WEIR_FP32, BLOCK, 0};
    s[2] = (struct wr_rule_state){"exp_avg_sq", WEIR_UINT8, 1, 0};
    s[3] = (struct wr_rule_state){"exp_avg_sq_scale", WEIR_FP32, BLOCK, 0};
    return 4;
}

const struct wr_rule_class WR_ISA_NAME(wr_rule_adamw8) = {
    .access = WEIR_ACCESS_ELEMENT,
    .granule = BLOCK,
    .defaults = wr_adam_defaults,
    .wrong = wr_adam_wrong,
    .states = adamw8_states,
    .update = adamw8_update,
};
