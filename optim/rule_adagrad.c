/* SPDX-License-Identifier: BSD-3-Clause */
/* Adagrad (Duchi, Hazan, Singer 2011), with PyTorch's decay of the learning rate. */
#include "optim/loops.h"

struct adagrad {
    float scale, decay, rate, eps;
};

static void adagrad_chunk(float *restrict w, const float *restrict g, void *const *s, size_t n, const void *arg)
{
    struct adagrad c = *(const struct adagrad *)arg;
    float *restrict sum = s[0];
    WR_LOOP(n) {
        float grad = g[i] * c.scale + c.decay * w[i];
        sum[i] += grad * grad;
        w[i] -= c.rate * (grad / (sqrtf(sum[i]) + c.eps));
    }
}

static void adagrad_update(const weir_rule_options *o, const weir_rule_step *step, const struct wr_rule_range *r)
{
    struct adagrad c = {
        .scale = (float)step->grad_scale,
        .decay = (float)step->weight_decay,
        .rate = (float)(step->lr / (1 + (double)(step->step - 1) * o->lr_decay)),
        .eps = (float)o->eps,
    };
    wr_range_apply(r, adagrad_chunk, &c);
}

static void adagrad_defaults(weir_rule_options *o)
{
    o->eps = 1e-10;
}

static const char *adagrad_wrong(const weir_rule_options *o)
{
    if (!(o->lr_decay >= 0))
        return "lr_decay must not be negative";
    if (!(o->initial >= 0))
        return "initial must not be negative";
    return o->eps >= 0 ? NULL : "eps must not be negative";
}

static unsigned adagrad_states(const weir_rule_options *o, struct wr_rule_state *s)
{
    s[0] = (struct wr_rule_state){"sum", WEIR_FP32, 1, o->initial};
    return 1;
}

const struct wr_rule_class WR_ISA_NAME(wr_rule_adagrad) = {
    .access = WEIR_ACCESS_ELEMENT,
    .granule = 1,
    .defaults = adagrad_defaults,
    .wrong = adagrad_wrong,
    .states = adagrad_states,
    .update = adagrad_update,
};
