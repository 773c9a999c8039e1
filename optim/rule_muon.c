/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Muon (Jordan et al. 2024): the momentum of a matrix is replaced by a matrix of about the same singular vectors whose singular
 * values are near 1, which a few steps of a Newton-Schulz iteration (a polynomial, hence matrix products only) make.
 */
#include "optim/blas.h"
#include "optim/lanes.h"

/* p(x) = A x + B x^3 + C x^5 takes (0, 1] to about [0.7, 1.2] in five applications. */
static const float coefficient_a = 3.4445f, coefficient_b = -4.7750f, coefficient_c = 2.0315f;

/* Work: x and y of the matrix's size, two squares of its smaller side; each from a multiple of 64 bytes on. */
static uint64_t padded(uint64_t floats)
{
    return (floats + 15) & ~(uint64_t)15;
}

static uint64_t muon_work(uint64_t rows, uint64_t cols)
{
    uint64_t side = WR_MIN(rows, cols);
    return (2 * padded(rows * cols) + 2 * padded(side * side)) * sizeof(float);
}

/* b = momentum b + g; x = what is to be orthogonalised. Returns the sum of squares of x. */
static double muon_momentum(const struct wr_rule_range *r, float scale, float momentum, bool nesterov, float *x)
{
    WR_ALIGNED(64) float wide[WR_CHUNK];
    struct wr_lanes squares = {{0}};
    for (uint64_t at = 0; at < r->n; at += WR_CHUNK) {
        struct wr_rule_range p = wr_range_part(r, at, WR_MIN(r->n - at, (uint64_t)WR_CHUNK));
        const float *restrict g = wr_range_grad(&p, wide);
        float *restrict b = p.s[0], *restrict u = x + at;
        float own = nesterov ? 1 : 0, other = nesterov ? momentum : 1;
        size_t n = p.n;
        WR_LOOP(n) {
            float grad = g[i] * scale;
            b[i] = momentum * b[i] + grad;
            u[i] = own * grad + other * b[i];
        }
        wr_lanes_add(&squares, u, at, n);
    }
    return wr_lanes_take(&squares);
}

/* x is replaced step by step; returns the one of x and y that has the result. a and b: squares of the smaller side. */
static float *orthogonalise(const struct wr_blas *blas, unsigned steps, float *x, float *y, float *a, float *b,
                            uint64_t rows, uint64_t cols)
{
    int m = (int)rows, n = (int)cols, side = WR_MIN(m, n);
    size_t square = (size_t)side * (size_t)side * sizeof(float), all = rows * cols * sizeof(float);
    for (unsigned step = 0; step < steps; step++) {
        if (m <= n) /* a = x x' */
            wr_blas_multiply(blas, side, side, n, 1, x, false, x, true, 0, a);
        else /* a = x' x */
            wr_blas_multiply(blas, side, side, m, 1, x, true, x, false, 0, a);
        memcpy(b, a, square);
        wr_blas_multiply(blas, side, side, side, coefficient_c, a, false, a, false, coefficient_b, b);
        memcpy(y, x, all);
        if (m <= n)
            wr_blas_multiply(blas, m, n, side, 1, b, false, x, false, coefficient_a, y);
        else
            wr_blas_multiply(blas, m, n, side, 1, x, false, b, false, coefficient_a, y);
        float *swap = x;
        x = y;
        y = swap;
    }
    return x;
}

struct muon {
    float keep, rate;
};

static void muon_chunk(float *restrict w, const float *restrict g, void *const *s, size_t n, const void *arg)
{
    struct muon c = *(const struct muon *)arg;
    (void)s;
    WR_LOOP(n)
        w[i] = c.keep * w[i] - c.rate * g[i];
}

static void muon_update(const weir_rule *rule, const weir_rule_step *step, const struct wr_rule_range *r, uint64_t rows,
                        uint64_t cols, void *work)
{
    const weir_rule_options *o = &rule->options;
    uint64_t side = WR_MIN(rows, cols);
    float *x = work, *y = x + padded(r->n), *a = y + padded(r->n), *b = a + padded(side * side);
    double squares = muon_momentum(r, (float)step->grad_scale, (float)o->momentum, o->flags & WEIR_RULE_NESTEROV, x);
    float shrink = (float)(1 / (sqrt(squares) + 1e-7));
    size_t n = r->n;
    WR_LOOP(n)
        x[i] *= shrink;
    x = orthogonalise(rule->blas, (unsigned)o->iterations, x, y, a, b, rows, cols);
    double factor = o->flags & WEIR_RULE_MATCH_ADAM ? 0.2 * sqrt((double)WR_MAX(rows, cols))
                                                    : sqrt(WR_MAX(1, (double)rows / (double)cols));
    struct muon c = {(float)(1 - step->lr * step->weight_decay), (float)(step->lr * factor)};
    struct wr_rule_range by = *r; /* its gradient is what was made */
    by.g = x;
    by.grad_type = WEIR_FP32;
    wr_range_apply(&by, muon_chunk, &c);
}

static void muon_defaults(weir_rule_options *o)
{
    o->flags = WEIR_RULE_NESTEROV;
    o->momentum = 0.95;
    o->iterations = 5;
}

static const char *muon_wrong(const weir_rule_options *o)
{
    if (!(o->momentum >= 0 && o->momentum < 1))
        return "momentum must be in [0, 1)";
    return o->iterations >= 1 && o->iterations <= 100 ? NULL : "iterations must be 1 .. 100";
}

static unsigned muon_states(const weir_rule_options *o, struct wr_rule_state *s)
{
    (void)o;
    s[0] = (struct wr_rule_state){"momentum", WEIR_FP32, 1, 0};
    return 1;
}

const struct wr_rule_class WR_ISA_NAME(wr_rule_muon) = {
    .access = WEIR_ACCESS_MATRIX,
    .granule = 1,
    .flags = WEIR_RULE_NESTEROV | WEIR_RULE_MATCH_ADAM,
    .defaults = muon_defaults,
    .wrong = muon_wrong,
    .states = muon_states,
    .update_matrix = muon_update,
    .work = muon_work,
    .needs_blas = true,
};
