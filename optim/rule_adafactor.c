/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Adafactor (Shazeer, Stern 2018, algorithms 4 and 5), with a moving average of the steps where beta1 is not 0. The second moment of a matrix is kept as the means of its
 * rows and columns, that of a vector in full. Means instead of the paper's sums: their quotient is the same.
 */
#include "optim/lanes.h"

struct adafactor {
    float scale, eps;
    double beta, rest;  /* of the second moment */
    double row_squares; /* sum over rows of the squares of w */
    double squares;     /* the same of u */
    float keep, rate;   /* w = keep w - rate u */
    float beta1, rest1; /* of the steps; beta1 0: none */
};

/* One piece of a row, or of a vector: n <= WR_CHUNK elements. */
struct piece {
    struct wr_rule_range r;
    uint64_t row, col;
    float g[WR_CHUNK]; /* the scaled gradient */
};

static void take(struct piece *p, const struct wr_rule_range *r, uint64_t row, uint64_t col, uint64_t cols, float scale)
{
    WR_ALIGNED(64) float wide[WR_CHUNK];
    size_t m = WR_MIN(cols - col, (uint64_t)WR_CHUNK);
    float *restrict to = p->g;
    p->r = wr_range_part(r, row * cols + col, m);
    p->row = row;
    p->col = col;
    const float *restrict g = wr_range_grad(&p->r, wide);
    WR_LOOP(m)
        to[i] = g[i] * scale;
}

#define FOR_PIECES(p, r, rows, cols, scale)                                                                            \
    for (uint64_t row_ = 0; row_ < (rows); row_++)                                                                     \
        for (uint64_t col_ = 0; col_ < (cols) && (take(p, r, row_, col_, cols, scale), 1); col_ += WR_CHUNK)

/* w = keep w - rate u, or the same with the average of rate u; and the copy in low precision. */
static void apply(const struct wr_rule_range *r, const float *restrict u, const struct adafactor *c)
{
    float *restrict w = r->w, *restrict m = r->s[3];
    float keep = c->keep, rate = c->rate, beta1 = c->beta1, rest1 = c->rest1;
    size_t n = r->n;
    if (beta1 > 0) {
        WR_LOOP(n) {
            m[i] = beta1 * m[i] + rest1 * (rate * u[i]);
            w[i] = keep * w[i] - m[i];
        }
    } else {
        WR_LOOP(n)
            w[i] = keep * w[i] - rate * u[i];
    }
    if (r->out)
        wr_from_float(r->out, w, r->out_type, r->n);
}

static float mean_into(float state, double sum, uint64_t n, const struct adafactor *c)
{
    return (float)(c->beta * (double)state + c->rest * (sum / (double)n + (double)c->eps));
}

static void add_squares(double *restrict sums, const float *restrict x, size_t n)
{
    WR_LOOP(n)
        sums[i] += wr_square(x[i]);
}

/* The factors of 1 / sqrt(second moment): rows into state-sized `row_factor`, columns into `col_factor`. */
static void factor_moments(const struct wr_rule_range *r, uint64_t rows, uint64_t cols, double *restrict col_sum,
                           float *restrict col_factor, struct adafactor *c, double *row_mean)
{
    struct piece p;
    struct wr_lanes g2 = {{0}}, w2 = {{0}};
    float *row = r->s[0], *restrict col = r->s[1];
    double sum = 0;
    memset(col_sum, 0, cols * sizeof *col_sum);
    FOR_PIECES(&p, r, rows, cols, c->scale) {
        add_squares(col_sum + p.col, p.g, p.r.n);
        wr_lanes_add(&g2, p.g, p.col, p.r.n);
        wr_lanes_add(&w2, p.r.w, p.col, p.r.n);
        if (p.col + p.r.n == cols) {
            row[p.row] = mean_into(row[p.row], wr_lanes_take(&g2), cols, c);
            c->row_squares += wr_lanes_take(&w2);
            sum += (double)row[p.row];
        }
    }
    *row_mean = sum / (double)rows;
    for (uint64_t j = 0; j < cols; j++) {
        col[j] = mean_into(col[j], col_sum[j], rows, c);
        col_factor[j] = (float)(1 / sqrt((double)col[j]));
    }
}

static void direction(struct piece *p, float row_factor, const float *restrict col_factor)
{
    float *restrict g = p->g;
    size_t n = p->r.n;
    WR_LOOP(n)
        g[i] = g[i] * row_factor * col_factor[i];
}

/* The learning rate for the parameter: limited, and in proportion to it. */
static void set_rate(const weir_rule_options *o, const weir_rule_step *step, struct adafactor *c, uint64_t n)
{
    double t = (double)step->step, rho = step->lr;
    if ((o->flags & WEIR_RULE_RELATIVE_STEP) && !(rho <= 1 / sqrt(t)))
        rho = 1 / sqrt(t);
    c->keep = (float)(1 - rho * step->weight_decay);
    if (o->flags & WEIR_RULE_SCALE_PARAMETER) {
        double rms = sqrt(c->row_squares / (double)n);
        rho *= rms < o->eps2 ? o->eps2 : rms;
    }
    double excess = sqrt(c->squares / (double)n) / o->clip;
    c->rate = (float)(rho / (excess < 1 ? 1 : excess));
}

static void update_factored(const weir_rule *rule, const weir_rule_step *step, const struct wr_rule_range *r,
                            uint64_t rows, uint64_t cols, void *work, struct adafactor *c)
{
    struct piece p;
    struct wr_lanes u2 = {{0}};
    double *col_sum = work, row_mean;
    float *col_factor = (float *)(col_sum + cols), *row = r->s[0];
    factor_moments(r, rows, cols, col_sum, col_factor, c, &row_mean);
    FOR_PIECES(&p, r, rows, cols, c->scale) {
        direction(&p, (float)sqrt(row_mean / (double)row[p.row]), col_factor + p.col);
        wr_lanes_add(&u2, p.g, p.col, p.r.n);
        if (p.col + p.r.n == cols)
            c->squares += wr_lanes_take(&u2);
    }
    set_rate(&rule->options, step, c, rows * cols);
    FOR_PIECES(&p, r, rows, cols, c->scale) {
        direction(&p, (float)sqrt(row_mean / (double)row[p.row]), col_factor + p.col);
        apply(&p.r, p.g, c);
    }
}

static void update_vector(const weir_rule *rule, const weir_rule_step *step, const struct wr_rule_range *r,
                          struct adafactor *c)
{
    struct piece p;
    struct wr_lanes w2 = {{0}}, u2 = {{0}};
    float beta = (float)c->beta, rest = (float)c->rest, eps = c->eps;
    float *v = r->s[2];
    FOR_PIECES(&p, r, 1, r->n, c->scale) {
        float *restrict at = v + p.col, *restrict g = p.g;
        size_t n = p.r.n;
        WR_LOOP(n) {
            at[i] = beta * at[i] + rest * (g[i] * g[i] + eps);
            g[i] = g[i] / sqrtf(at[i]);
        }
        wr_lanes_add(&u2, g, p.col, n);
        wr_lanes_add(&w2, p.r.w, p.col, p.r.n);
    }
    c->row_squares = wr_lanes_take(&w2);
    c->squares = wr_lanes_take(&u2);
    set_rate(&rule->options, step, c, r->n);
    FOR_PIECES(&p, r, 1, r->n, c->scale) {
        const float *restrict at = v + p.col;
        float *restrict g = p.g;
        size_t n = p.r.n;
        WR_LOOP(n)
            g[i] = g[i] / sqrtf(at[i]);
        apply(&p.r, g, c);
    }
}

static void adafactor_update(const weir_rule *rule, const weir_rule_step *step, const struct wr_rule_range *r,
                             uint64_t rows, uint64_t cols, void *work)
{
    const weir_rule_options *o = &rule->options;
    double rest = pow((double)step->step, -o->decay_exponent);
    struct adafactor c = {.scale = (float)step->grad_scale, .eps = (float)o->eps, .beta = 1 - rest, .rest = rest};
    c.beta1 = (float)o->beta1;
    c.rest1 = (float)(1 - o->beta1);
    if (rows > 1 && cols > 1)
        update_factored(rule, step, r, rows, cols, work, &c);
    else
        update_vector(rule, step, r, &c);
}

static uint64_t adafactor_work(uint64_t rows, uint64_t cols)
{
    return rows > 1 && cols > 1 ? cols * (sizeof(double) + sizeof(float)) : 0;
}

static uint64_t adafactor_count(unsigned index, uint64_t rows, uint64_t cols)
{
    bool factored = rows > 1 && cols > 1;
    return index == 2 ? (factored ? 0 : rows * cols) : !factored ? 0 : index == 0 ? rows : cols;
}

static void adafactor_defaults(weir_rule_options *o)
{
    o->flags = WEIR_RULE_RELATIVE_STEP | WEIR_RULE_SCALE_PARAMETER;
    o->eps = 1e-30;
    o->eps2 = 1e-3;
    o->clip = 1;
    o->decay_exponent = 0.8;
}

static const char *adafactor_wrong(const weir_rule_options *o)
{
    if (!(o->beta1 >= 0 && o->beta1 < 1))
        return "beta1 must be in [0, 1)";
    if (!(o->eps >= 0 && o->eps2 >= 0))
        return "eps and eps2 must not be negative";
    if (!(o->clip > 0))
        return "clip must be positive";
    return o->decay_exponent > 0 && o->decay_exponent <= 1 ? NULL : "decay_exponent must be in (0, 1]";
}

static unsigned adafactor_states(const weir_rule_options *o, struct wr_rule_state *s)
{
    s[0] = (struct wr_rule_state){"exp_avg_sq_row", WEIR_FP32, 0, 0};
    s[1] = (struct wr_rule_state){"exp_avg_sq_col", WEIR_FP32, 0, 0};
    s[2] = (struct wr_rule_state){"exp_avg_sq", WEIR_FP32, 0, 0};
    s[3] = (struct wr_rule_state){"exp_avg", WEIR_FP32, 1, 0};
    return o->beta1 > 0 ? 4 : 3;
}

const struct wr_rule_class WR_ISA_NAME(wr_rule_adafactor) = {
    .access = WEIR_ACCESS_MATRIX,
    .granule = 1,
    .flags = WEIR_RULE_RELATIVE_STEP | WEIR_RULE_SCALE_PARAMETER,
    .defaults = adafactor_defaults,
    .wrong = adafactor_wrong,
    .states = adafactor_states,
    .update_matrix = adafactor_update,
    .work = adafactor_work,
    .state_count = adafactor_count,
};
