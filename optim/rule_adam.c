/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Adam (Kingma, Ba 2015) and AdamW (Loshchilov, Hutter 2019). They differ in where the weight decay goes: into the gradient, or
 * straight into the parameter. Both as AMSGrad (Reddi, Kale, Kumar 2018), too, in the form of PyTorch: the largest second moment
 * so far takes the place of the second moment.
 */
#include "optim/loops.h"

struct adam {
    float scale, decay; /* of the gradient; Adam: weight decay, AdamW: 1 - lr wd */
    float beta1, rest1; /* rest = 1 - beta */
    float beta2, rest2;
    float rate; /* lr / (1 - beta1^t) */
    float root; /* 1 / sqrt(1 - beta2^t) */
    float eps;
};

/* most: the largest v so far, or NULL; out: the copy in bf16, or NULL; known when this is compiled, as decoupled is. */
static inline __attribute__((always_inline)) void adam_loop(float *restrict w, const float *restrict g,
                                                            float *restrict m, float *restrict v, float *restrict most,
                                                            half_bits_u *restrict out, size_t n, struct adam c,
                                                            bool decoupled)
{
    WR_LOOP(n) {
        float grad = g[i] * c.scale, weight = w[i];
        if (decoupled)
            weight *= c.decay;
        else
            grad += c.decay * weight;
        float first = c.beta1 * m[i] + c.rest1 * grad;
        float second = c.beta2 * v[i] + c.rest2 * (grad * grad);
        m[i] = first;
        v[i] = second;
        if (most)
            most[i] = second = most[i] >= second ? most[i] : second; /* a second that is NaN wins */
        w[i] = weight -= c.rate * (first / (sqrtf(second) * c.root + c.eps));
        if (out)
            out[i] = half_bf16(weight);
    }
}

static void adam_chunk(float *w, const float *g, void *const *s, size_t n, const void *arg)
{
    adam_loop(w, g, s[0], s[1], NULL, NULL, n, *(const struct adam *)arg, false);
}

static void adamw_chunk(float *w, const float *g, void *const *s, size_t n, const void *arg)
{
    adam_loop(w, g, s[0], s[1], NULL, NULL, n, *(const struct adam *)arg, true);
}

static void amsgrad_chunk(float *w, const float *g, void *const *s, size_t n, const void *arg)
{
    adam_loop(w, g, s[0], s[1], s[2], NULL, n, *(const struct adam *)arg, false);
}

static void amsgradw_chunk(float *w, const float *g, void *const *s, size_t n, const void *arg)
{
    adam_loop(w, g, s[0], s[1], s[2], NULL, n, *(const struct adam *)arg, true);
}

/* The usual case of mixed precision is a loop of its own: it is a tenth faster than the walk in chunks. */
static __attribute__((noinline)) void adamw_bf16(const struct wr_rule_range *r, struct adam c)
{
    half_bits_u *out = r->out;
    if (out)
        adam_loop(r->w, r->g, r->s[0], r->s[1], NULL, out, r->n, c, true);
}

static void adam_update(const weir_rule_options *o, const weir_rule_step *step, const struct wr_rule_range *r)
{
    double t = (double)step->step;
    bool decoupled = o->kind == WEIR_RULE_ADAMW;
    struct adam c = {
        .scale = (float)step->grad_scale,
        .decay = (float)(decoupled ? 1 - step->lr * step->weight_decay : step->weight_decay),
        .beta1 = (float)o->beta1,
        .rest1 = (float)(1 - o->beta1),
        .beta2 = (float)o->beta2,
        .rest2 = (float)(1 - o->beta2),
        .rate = (float)(step->lr / (1 - pow(o->beta1, t))),
        .root = (float)(1 / sqrt(1 - pow(o->beta2, t))),
        .eps = (float)o->eps,
    };
    if (o->flags & WEIR_RULE_AMSGRAD)
        wr_range_apply(r, decoupled ? amsgradw_chunk : amsgrad_chunk, &c);
    else if (decoupled && r->out && r->out_type == WEIR_BF16 && r->grad_type == WEIR_FP32)
        adamw_bf16(r, c);
    else
        wr_range_apply(r, decoupled ? adamw_chunk : adam_chunk, &c);
}

static unsigned adam_states(const weir_rule_options *o, struct wr_rule_state *s)
{
    s[0] = (struct wr_rule_state){"exp_avg", WEIR_FP32, 1, 0};
    s[1] = (struct wr_rule_state){"exp_avg_sq", WEIR_FP32, 1, 0};
    s[2] = (struct wr_rule_state){"max_exp_avg_sq", WEIR_FP32, 1, 0};
    return o->flags & WEIR_RULE_AMSGRAD ? 3 : 2;
}

const struct wr_rule_class WR_ISA_NAME(wr_rule_adam) = {
    .access = WEIR_ACCESS_ELEMENT,
    .granule = 1,
    .flags = WEIR_RULE_AMSGRAD,
    .defaults = wr_adam_defaults,
    .wrong = wr_adam_wrong,
    .states = adam_states,
    .update = adam_update,
};
