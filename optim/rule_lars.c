/* SPDX-License-Identifier: BSD-3-Clause */
/* LARS (You, Gitman, Ginsburg 2017, algorithm 1). */
#include "optim/lanes.h"

struct lars {
    float scale, decay, rate, momentum;
};

static void pair(const struct wr_rule_range *p, const float *restrict g, float *restrict u, const float *of[2],
                 const void *arg)
{
    float scale = ((const struct lars *)arg)->scale;
    size_t n = p->n;
    WR_LOOP(n)
        u[i] = g[i] * scale;
    of[0] = p->w;
    of[1] = u;
}

static struct lars constants(const weir_rule_options *o, const weir_rule_step *step)
{
    return (struct lars){(float)step->grad_scale, (float)step->weight_decay, (float)(step->lr * step->ratio),
                         (float)o->momentum};
}

static void lars_prepare(const weir_rule_options *o, const weir_rule_step *step, const struct wr_rule_range *r,
                         uint64_t first, double *sums)
{
    struct lars c = constants(o, step);
    wr_range_sums(r, first, sums, pair, &c);
}

static double lars_ratio(const weir_rule_options *o, const weir_rule_step *step, double sum_w, double sum_g)
{
    double w = sqrt(sum_w), g = sqrt(sum_g);
    return w == 0 || g == 0 ? 1 : o->trust * w / (g + step->weight_decay * w + o->eps);
}

static void lars_chunk(float *restrict w, const float *restrict g, void *const *s, size_t n, const void *arg)
{
    struct lars c = *(const struct lars *)arg;
    float *restrict b = s[0];
    WR_LOOP(n) {
        b[i] = c.momentum * b[i] + c.rate * (g[i] * c.scale + c.decay * w[i]);
        w[i] -= b[i];
    }
}

static void lars_update(const weir_rule_options *o, const weir_rule_step *step, const struct wr_rule_range *r)
{
    struct lars c = constants(o, step);
    wr_range_apply(r, lars_chunk, &c);
}

static void lars_defaults(weir_rule_options *o)
{
    o->momentum = 0.9;
    o->trust = 0.001;
}

static const char *lars_wrong(const weir_rule_options *o)
{
    if (!(o->momentum >= 0 && o->momentum < 1))
        return "momentum must be in [0, 1)";
    if (!(o->trust > 0))
        return "trust must be positive";
    return o->eps >= 0 ? NULL : "eps must not be negative";
}

static unsigned lars_states(const weir_rule_options *o, struct wr_rule_state *s)
{
    (void)o;
    s[0] = (struct wr_rule_state){"momentum", WEIR_FP32, 1, 0};
    return 1;
}

const struct wr_rule_class WR_ISA_NAME(wr_rule_lars) = {
    .access = WEIR_ACCESS_TENSOR,
    .granule = 1,
    .defaults = lars_defaults,
    .wrong = lars_wrong,
    .states = lars_states,
    .update = lars_update,
    .prepare = lars_prepare,
    .ratio = lars_ratio,
};
