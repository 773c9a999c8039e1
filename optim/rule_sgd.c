/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stochastic gradient descent, plain, with momentum, with Nesterov's momentum (Sutskever et al. 2013, in the form that PyTorch made
 * usual: the learning rate stands outside the momentum).
 */
#include "optim/loops.h"

struct sgd {
    float scale, decay, rate;
    float keep, take; /* b = keep b + take g */
    float momentum;
};

static void plain_chunk(float *restrict w, const float *restrict g, void *const *s, size_t n, const void *arg)
{
    struct sgd c = *(const struct sgd *)arg;
    (void)s;
    WR_LOOP(n)
        w[i] -= c.rate * (g[i] * c.scale + c.decay * w[i]);
}

static void momentum_chunk(float *restrict w, const float *restrict g, void *const *s, size_t n, const void *arg)
{
    struct sgd c = *(const struct sgd *)arg;
    float *restrict b = s[0];
    WR_LOOP(n) {
        float grad = g[i] * c.scale + c.decay * w[i];
        b[i] = c.keep * b[i] + c.take * grad;
        w[i] -= c.rate * b[i];
    }
}

static void nesterov_chunk(float *restrict w, const float *restrict g, void *const *s, size_t n, const void *arg)
{
    struct sgd c = *(const struct sgd *)arg;
    float *restrict b = s[0];
    WR_LOOP(n) {
        float grad = g[i] * c.scale + c.decay * w[i];
        b[i] = c.keep * b[i] + c.take * grad;
        w[i] -= c.rate * (grad + c.momentum * b[i]);
    }
}

static void sgd_update(const weir_rule_options *o, const weir_rule_step *step, const struct wr_rule_range *r)
{
    bool first = step->step == 1; /* then the momentum is the gradient, undampened */
    struct sgd c = {
        .scale = (float)step->grad_scale,
        .decay = (float)step->weight_decay,
        .rate = (float)step->lr,
        .keep = first ? 0 : (float)o->momentum,
        .take = first ? 1 : (float)(1 - o->dampening),
        .momentum = (float)o->momentum,
    };
    wr_range_apply(r,
                   o->momentum == 0                ? plain_chunk
                   : o->flags & WEIR_RULE_NESTEROV ? nesterov_chunk
                                                   : momentum_chunk,
                   &c);
}

static void sgd_defaults(weir_rule_options *o)
{
    (void)o; /* no momentum */
}

static const char *sgd_wrong(const weir_rule_options *o)
{
    if (!(o->momentum >= 0 && o->momentum < 1))
        return "momentum must be in [0, 1)";
    if (!(o->dampening >= 0 && o->dampening <= 1))
        return "dampening must be in [0, 1]";
    if ((o->flags & WEIR_RULE_NESTEROV) && (o->momentum == 0 || o->dampening != 0))
        return "Nesterov's form needs a momentum and no dampening";
    return NULL;
}

static unsigned sgd_states(const weir_rule_options *o, struct wr_rule_state *s)
{
    s[0] = (struct wr_rule_state){"momentum", WEIR_FP32, 1, 0};
    return o->momentum != 0;
}

const struct wr_rule_class WR_ISA_NAME(wr_rule_sgd) = {
    .access = WEIR_ACCESS_ELEMENT,
    .granule = 1,
    .flags = WEIR_RULE_NESTEROV,
    .defaults = sgd_defaults,
    .wrong = sgd_wrong,
    .states = sgd_states,
    .update = sgd_update,
};
