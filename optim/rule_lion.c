/* SPDX-License-Identifier: BSD-3-Clause */
/* Lion (Chen et al. 2023). */
#include "optim/loops.h"

struct lion {
    float scale, decay, rate;
    float beta1, rest1, beta2, rest2;
};

static void lion_chunk(float *restrict w, const float *restrict g, void *const *s, size_t n, const void *arg)
{
    struct lion c = *(const struct lion *)arg;
    float *restrict m = s[0];
    WR_LOOP(n) {
        float grad = g[i] * c.scale;
        float mix = c.beta1 * m[i] + c.rest1 * grad;
        float sign = mix > 0 ? 1.0f : mix < 0 ? -1.0f : mix; /* a NaN stays */
        w[i] = c.decay * w[i] - c.rate * sign;
        m[i] = c.beta2 * m[i] + c.rest2 * grad;
    }
}

static void lion_update(const weir_rule_options *o, const weir_rule_step *step, const struct wr_rule_range *r)
{
    struct lion c = {
        .scale = (float)step->grad_scale,
        .decay = (float)(1 - step->lr * step->weight_decay),
        .rate = (float)step->lr,
        .beta1 = (float)o->beta1,
        .rest1 = (float)(1 - o->beta1),
        .beta2 = (float)o->beta2,
        .rest2 = (float)(1 - o->beta2),
    };
    wr_range_apply(r, lion_chunk, &c);
}

static void lion_defaults(weir_rule_options *o)
{
    o->beta1 = 0.9;
    o->beta2 = 0.99;
}

static unsigned lion_states(const weir_rule_options *o, struct wr_rule_state *s)
{
    (void)o;
    s[0] = (struct wr_rule_state){"exp_avg", WEIR_FP32, 1, 0};
    return 1;
}

const struct wr_rule_class WR_ISA_NAME(wr_rule_lion) = {
    .access = WEIR_ACCESS_ELEMENT,
    .granule = 1,
    .defaults = lion_defaults,
    .wrong = wr_betas_wrong,
    .states = lion_states,
    .update = lion_update,
};
