/* SPDX-License-Identifier: BSD-3-Clause */
/* A block: x + attention(norm(x)), and to that the perceptron of its norm. */
#include "examples/gpt/layers.h"

#include <math.h>

/* Gives out parts of an array; with memory NULL it only counts. */
struct parts {
    real *memory;
    int64_t used;
};

static real *part(struct parts *parts, int64_t n)
{
    enum { LINE = 64 / sizeof(real) }; /* parts begin at cache lines */
    real *p = parts->memory ? parts->memory + parts->used : NULL;
    parts->used += (n + LINE - 1) / LINE * LINE;
    return p;
}

static int64_t acts(const struct gpt_pass *p, real *memory, struct gpt_block_acts *a)
{
    struct parts parts = {memory, 0};
    int64_t rows = gpt_pass_rows(p), c = p->config->width, attended = gpt_pass_attended(p), inner = gpt_own_inner(p->config);
    int64_t own = gpt_pass_own(p, NULL);
    a->norm1 = part(&parts, own * c);
    a->stats1 = part(&parts, own * 2);
    a->qkv = part(&parts, rows * 3 * attended);
    a->shares = part(&parts, rows * gpt_own_heads(p->config) * (p->attend ? 1 : p->length));
    a->heads = part(&parts, rows * attended);
    a->mid = part(&parts, own * c);
    a->norm2 = part(&parts, own * c);
    a->stats2 = part(&parts, own * 2);
    a->fc = part(&parts, rows * inner);
    a->gelu = part(&parts, rows * inner);
    return parts.used;
}

static int64_t grads(const struct gpt_pass *p, real *memory, struct gpt_block_grads *g)
{
    struct parts parts = {memory, 0};
    int64_t rows = gpt_pass_rows(p), c = p->config->width, own = gpt_pass_own(p, NULL), masked = p->config->dropout > 0 ? own * c : 0;
    int64_t attended = gpt_pass_attended(p), inner = gpt_own_inner(p->config);
    g->proj = part(&parts, masked);
    g->fc = part(&parts, rows * inner);
    g->mid = part(&parts, own * c);
    g->out = part(&parts, masked);
    g->qkv = part(&parts, rows * 3 * attended);
    g->dx = part(&parts, own * c);
    return parts.used;
}

int64_t gpt_block_acts_size(const struct gpt_pass *p)
{
    struct gpt_block_acts a;
    return acts(p, NULL, &a);
}

struct gpt_block_acts gpt_block_acts_in(const struct gpt_pass *p, real *memory)
{
    struct gpt_block_acts a;
    acts(p, memory, &a);
    return a;
}

int64_t gpt_block_grads_size(const struct gpt_pass *p)
{
    struct gpt_block_grads g;
    return grads(p, NULL, &g);
}

struct gpt_block_grads gpt_block_grads_in(const struct gpt_pass *p, real *memory)
{
    struct gpt_block_grads g;
    grads(p, memory, &g);
    return g;
}

int64_t gpt_scratch_size(const struct gpt_pass *p)
{
    return 2 * gpt_pass_rows(p) * p->config->width + 2 * (int64_t)p->length * p->length;
}

/* y = x w, for rows of `in` numbers that become `out`. */
static void linear(const struct gpt_pass *p, int in, int out, const real *x, const real *w, real beta, real *y)
{
    int rows = (int)gpt_pass_rows(p);
    gpt_pass_multiply(p, (struct gpt_product){rows, out, in, 1, gpt_plain(x, in), gpt_plain(w, out), beta, y, out});
}

/* dx = dy w', the way back of linear(). */
static void linear_back_input(const struct gpt_pass *p, int in, int out, const real *dy, const real *w, real *dx)
{
    int rows = (int)gpt_pass_rows(p);
    gpt_pass_multiply(p, (struct gpt_product){rows, in, out, 1, gpt_plain(dy, out), gpt_transposed(w, out), 0, dx, in});
}

/* dw += x' dy, and the bias' gradient += the sum of dy's rows. */
static void linear_back_weight(const struct gpt_pass *p, int in, int out, const real *x, const real *dy, real *dw, real *dbias)
{
    int rows = (int)gpt_pass_rows(p);
    gpt_pass_multiply(p, (struct gpt_product){in, out, rows, 1, gpt_transposed(x, in), gpt_plain(dy, out), 1, dw, out});
    p->kernels->add_rows(gpt_pass_rows(p), out, dy, dbias);
}

void gpt_block(const struct gpt_pass *p, int layer, const real *const *w, const real *x, const struct gpt_block_acts *a, real *y)
{
    const struct gpt_kernels *k = p->kernels;
    int64_t rows = gpt_pass_rows(p), own = gpt_pass_own(p, NULL);
    int c = p->config->width, attended = gpt_pass_attended(p), inner = gpt_own_inner(p->config);
    struct gpt_drop out = gpt_pass_drop(p, layer, GPT_DROP_OUT), proj = gpt_pass_drop(p, layer, GPT_DROP_PROJ);

    k->norm(own, c, x, w[GPT_LN1_WEIGHT], w[GPT_LN1_BIAS], a->norm1, a->stats1);
    k->spread(rows, 3 * attended, w[GPT_QKV_BIAS], a->qkv);
    linear(p, c, 3 * attended, gpt_pass_gather(p, a->norm1), w[GPT_QKV_WEIGHT], 1, a->qkv);
    gpt_attention(p, layer, a);
    real *sums = gpt_pass_parts(p, a->mid);
    linear(p, attended, c, a->heads, w[GPT_OUT_WEIGHT], 0, sums);
    gpt_pass_sum(p, sums, a->mid);
    gpt_residual_rows(p, &out, x, w[GPT_OUT_BIAS], a->mid);

    k->norm(own, c, a->mid, w[GPT_LN2_WEIGHT], w[GPT_LN2_BIAS], a->norm2, a->stats2);
    linear(p, c, inner, gpt_pass_gather(p, a->norm2), w[GPT_FC_WEIGHT], 0, a->fc);
    k->gelu(rows, inner, a->fc, w[GPT_FC_BIAS], a->gelu);
    sums = gpt_pass_parts(p, y);
    linear(p, inner, c, a->gelu, w[GPT_PROJ_WEIGHT], 0, sums);
    gpt_pass_sum(p, sums, y);
    gpt_residual_rows(p, &proj, a->mid, w[GPT_PROJ_BIAS], y);
}

/* The gradient behind a dropout: in `kept`, or dy itself where nothing is dropped. */
static const real *masked(const struct gpt_pass *p, int layer, enum gpt_drop_site site, const real *dy, real *kept)
{
    struct gpt_drop drop = gpt_pass_drop(p, layer, site);
    if (!drop.threshold)
        return dy;
    gpt_drop_rows(p, &drop, dy, kept);
    return kept;
}

/* Of the perceptron's matrices, and of the attention's. */
static void perceptron_weights(const struct gpt_pass *p, const struct gpt_block_acts *a, const real *dy, const struct gpt_block_grads *g,
                               real *const *dw)
{
    int c = p->config->width, inner = gpt_own_inner(p->config);
    bool dropped = p->training && p->config->dropout > 0;
    linear_back_weight(p, inner, c, a->gelu, gpt_pass_gather(p, dropped ? g->proj : dy), dw[GPT_PROJ_WEIGHT], dw[GPT_PROJ_BIAS]);
    linear_back_weight(p, c, inner, gpt_pass_gather(p, a->norm2), g->fc, dw[GPT_FC_WEIGHT], dw[GPT_FC_BIAS]);
}

static void attention_weights(const struct gpt_pass *p, const struct gpt_block_acts *a, const struct gpt_block_grads *g, real *const *dw)
{
    int c = p->config->width, attended = gpt_pass_attended(p);
    bool dropped = p->training && p->config->dropout > 0;
    linear_back_weight(p, attended, c, a->heads, gpt_pass_gather(p, dropped ? g->out : g->mid), dw[GPT_OUT_WEIGHT], dw[GPT_OUT_BIAS]);
    linear_back_weight(p, c, 3 * attended, gpt_pass_gather(p, a->norm1), g->qkv, dw[GPT_QKV_WEIGHT], dw[GPT_QKV_BIAS]);
}

void gpt_block_back_input(const struct gpt_pass *p, int layer, const real *const *w, const real *x, const struct gpt_block_acts *a,
                          const real *dy, const struct gpt_block_grads *g, real *const *dw, bool weights)
{
    const struct gpt_kernels *k = p->kernels;
    int64_t rows = gpt_pass_rows(p), own = gpt_pass_own(p, NULL);
    int c = p->config->width, attended = gpt_pass_attended(p), inner = gpt_own_inner(p->config);
    real *dnorm = p->scratch, *dheads = p->scratch; /* of the norms' outputs, and of the heads: one after the other */

    linear_back_input(p, inner, c, gpt_pass_gather(p, masked(p, layer, GPT_DROP_PROJ, dy, g->proj)), w[GPT_PROJ_WEIGHT], g->fc);
    k->gelu_back(rows * inner, a->fc, g->fc);
    linear_back_input(p, c, inner, g->fc, w[GPT_FC_WEIGHT], dnorm);
    gpt_pass_start(p, dnorm);
    if (weights)
        perceptron_weights(p, a, dy, g, dw);
    gpt_pass_end(p, dnorm);
    k->norm_back(own, c, a->mid, w[GPT_LN2_WEIGHT], a->stats2, dnorm, dy, g->mid, dw[GPT_LN2_WEIGHT], dw[GPT_LN2_BIAS]);

    linear_back_input(p, attended, c, gpt_pass_gather(p, masked(p, layer, GPT_DROP_OUT, g->mid, g->out)), w[GPT_OUT_WEIGHT], dheads);
    gpt_attention_back(p, layer, a, dheads, g->qkv);
    linear_back_input(p, c, 3 * attended, g->qkv, w[GPT_QKV_WEIGHT], dnorm);
    gpt_pass_start(p, dnorm);
    if (weights)
        attention_weights(p, a, g, dw);
    gpt_pass_end(p, dnorm);
    k->norm_back(own, c, x, w[GPT_LN1_WEIGHT], a->stats1, dnorm, g->mid, g->dx, dw[GPT_LN1_WEIGHT], dw[GPT_LN1_BIAS]);
}

void gpt_block_back_weight(const struct gpt_pass *p, const struct gpt_block_acts *a, const real *dy, const struct gpt_block_grads *g,
                           real *const *dw)
{
    perceptron_weights(p, a, dy, g, dw);
    attention_weights(p, a, g, dw);
}
