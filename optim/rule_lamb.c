/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * LAMB (You et al. 2020, algorithm 2). The direction is a function of the moments and the parameter, so it is made twice, to be
 * measured and to be applied, instead of being stored.
 */
#include "optim/lanes.h"

struct lamb {
    float scale, decay, rate;
    float beta1, rest1, beta2, rest2;
    float first, root; /* corrections of the bias: 1 / (1 - beta1^t), 1 / sqrt(1 - beta2^t) */
    float eps;
};

static inline float direction(struct lamb c, float w, float m, float v)
{
    return m * c.first / (sqrtf(v) * c.root + c.eps) + c.decay * w;
}

static struct lamb constants(const weir_rule_options *o, const weir_rule_step *step)
{
    double t = (double)step->step;
    return (struct lamb){
        .scale = (float)step->grad_scale,
        .decay = (float)step->weight_decay,
        .rate = (float)(step->lr * step->ratio),
        .beta1 = (float)o->beta1,
        .rest1 = (float)(1 - o->beta1),
        .beta2 = (float)o->beta2,
        .rest2 = (float)(1 - o->beta2),
        .first = (float)(1 / (1 - pow(o->beta1, t))),
        .root = (float)(1 / sqrt(1 - pow(o->beta2, t))),
        .eps = (float)o->eps,
    };
}

static void moments(const struct wr_rule_range *p, const float *restrict g, float *restrict u, const float *of[2],
                    const void *arg)
{
    struct lamb c = *(const struct lamb *)arg;
    const float *restrict w = p->w;
    float *restrict m = p->s[0], *restrict v = p->s[1];
    size_t n = p->n;
    WR_LOOP(n) {
        float grad = g[i] * c.scale;
        m[i] = c.beta1 * m[i] + c.rest1 * grad;
        v[i] = c.beta2 * v[i] + c.rest2 * (grad * grad);
        u[i] = direction(c, w[i], m[i], v[i]);
    }
    of[0] = p->w;
    of[1] = u;
}

static void lamb_prepare(const weir_rule_options *o, const weir_rule_step *step, const struct wr_rule_range *r,
                         uint64_t first, double *sums)
{
    struct lamb c = constants(o, step);
    wr_range_sums(r, first, sums, moments, &c);
}

static double lamb_ratio(const weir_rule_options *o, const weir_rule_step *step, double sum_w, double sum_u)
{
    (void)step;
    double w = sqrt(sum_w), u = sqrt(sum_u);
    if (w == 0 || u == 0)
        return 1;
    if (o->norm_max > 0) /* written so that a NaN stays */
        w = w < o->norm_min ? o->norm_min : w > o->norm_max ? o->norm_max : w;
    return w / u;
}

static void lamb_chunk(float *restrict w, const float *restrict g, void *const *s, size_t n, const void *arg)
{
    struct lamb c = *(const struct lamb *)arg;
    const float *restrict m = s[0], *restrict v = s[1];
    (void)g;
    WR_LOOP(n)
        w[i] -= c.rate * direction(c, w[i], m[i], v[i]);
}

static void lamb_update(const weir_rule_options *o, const weir_rule_step *step, const struct wr_rule_range *r)
{
    struct lamb c = constants(o, step);
    struct wr_rule_range without = wr_range_without_grad(r);
    wr_range_apply(&without, lamb_chunk, &c);
}

static void lamb_defaults(weir_rule_options *o)
{
    o->beta1 = 0.9;
    o->beta2 = 0.999;
    o->eps = 1e-6;
}

static const char *lamb_wrong(const weir_rule_options *o)
{
    if (!(o->norm_min >= 0 && (o->norm_max == 0 || o->norm_max >= o->norm_min)))
        return "norm_min must not be negative, norm_max not below it";
    return wr_adam_wrong(o);
}

static unsigned lamb_states(const weir_rule_options *o, struct wr_rule_state *s)
{
    (void)o;
    s[0] = (struct wr_rule_state){"exp_avg", WEIR_FP32, 1, 0};
    s[1] = (struct wr_rule_state){"exp_avg_sq", WEIR_FP32, 1, 0};
    return 2;
}

const struct wr_rule_class WR_ISA_NAME(wr_rule_lamb) = {
    .access = WEIR_ACCESS_TENSOR,
    .granule = 1,
    .defaults = lamb_defaults,
    .wrong = lamb_wrong,
    .states = lamb_states,
    .update = lamb_update,
    .prepare = lamb_prepare,
    .ratio = lamb_ratio,
};
