/* SPDX-License-Identifier: BSD-3-Clause */
/* Causal self-attention, a head of a sequence at a time. The query, key and value of a token are side by side in qkv. */
#include <math.h>

#include "examples/gpt/layers.h"

/* One head of one sequence. */
struct head {
    int64_t qkv, out;  /* offset of its first element */
    int64_t shares;    /* offset of its matrix */
    uint32_t element;  /* number, for dropout, of that matrix' first element */
};

uint32_t gpt_attention_element(const struct gpt_pass *p, int64_t sequence, int64_t head)
{
    uint64_t matrix = (uint64_t)(p->first + sequence) * (uint64_t)p->config->heads + (uint64_t)head, n = (uint64_t)p->config->context;
    return (uint32_t)(matrix * n * n);
}

static struct head head_of(const struct gpt_pass *p, int sequence, int h)
{
    const struct gpt_config *c = p->config;
    int64_t square = (int64_t)p->length * p->length, row = (int64_t)sequence * p->length, first = h * (c->width / c->heads);
    int before, heads = gpt_own(c, c->heads, &before), width = gpt_pass_attended(p);
    return (struct head){row * 3 * width + first, row * width + first, ((int64_t)sequence * heads + h) * square,
                         gpt_attention_element(p, sequence, before + h)};
}

/* The shares as values are added up with them: after dropout. */
static const real *dropped_shares(const struct gpt_pass *p, const struct gpt_drop *drop, const struct head *h, const real *shares,
                                  real *scratch)
{
    if (!drop->threshold)
        return shares;
    p->kernels->drop((int64_t)p->length * p->length, shares, drop, h->element, scratch);
    return scratch;
}

void gpt_attention(const struct gpt_pass *p, int layer, const struct gpt_block_acts *a)
{
    int c = gpt_pass_attended(p), n = p->length, heads = gpt_own_heads(p->config), size = p->config->width / p->config->heads;
    struct gpt_drop drop = gpt_pass_drop(p, layer, GPT_DROP_ATTENTION);
    real scale = 1 / (real)sqrt(size);
    if (p->attend) {
        p->attend->forward(p->attend, p, layer, a);
        return;
    }
    for (int s = 0; s < p->sequences; s++)
        for (int i = 0; i < heads; i++) {
            struct head h = head_of(p, s, i);
            const real *q = a->qkv + h.qkv, *k = q + c, *v = k + c;
            real *shares = a->shares + h.shares;
            gpt_pass_multiply(p, (struct gpt_product){n, n, size, scale, gpt_plain(q, 3 * c), gpt_transposed(k, 3 * c), 0, shares,
                                                      n});
            p->kernels->softmax(n, shares);
            gpt_pass_multiply(p, (struct gpt_product){n, size, n, 1, gpt_plain(dropped_shares(p, &drop, &h, shares, p->scratch), n),
                                                      gpt_plain(v, 3 * c), 0, a->heads + h.out, c});
        }
}

void gpt_attention_back(const struct gpt_pass *p, int layer, const struct gpt_block_acts *a, const real *dheads, real *dqkv)
{
    int c = gpt_pass_attended(p), n = p->length, heads = gpt_own_heads(p->config), size = p->config->width / p->config->heads;
    int64_t square = (int64_t)n * n;
    struct gpt_drop drop = gpt_pass_drop(p, layer, GPT_DROP_ATTENTION);
    real scale = 1 / (real)sqrt(size);
    real *dshares = p->scratch + 2 * gpt_pass_rows(p) * p->config->width, *scratch = dshares + square;
    if (p->attend) {
        p->attend->backward(p->attend, p, layer, a, dheads, dqkv);
        return;
    }
    for (int s = 0; s < p->sequences; s++)
        for (int i = 0; i < heads; i++) {
            struct head h = head_of(p, s, i);
            const real *q = a->qkv + h.qkv, *k = q + c, *v = k + c, *shares = a->shares + h.shares, *dy = dheads + h.out;
            real *dq = dqkv + h.qkv, *dk = dq + c, *dv = dk + c;
            gpt_pass_multiply(p, (struct gpt_product){n, size, n, 1, gpt_transposed(dropped_shares(p, &drop, &h, shares, scratch), n),
                                                      gpt_plain(dy, c), 0, dv, 3 * c});
            gpt_pass_multiply(p, (struct gpt_product){n, n, size, 1, gpt_plain(dy, c), gpt_transposed(v, 3 * c), 0, dshares, n});
            if (drop.threshold)
                p->kernels->drop(square, dshares, &drop, h.element, dshares);
            p->kernels->softmax_back(n, scale, shares, dshares);
            gpt_pass_multiply(p, (struct gpt_product){n, size, n, 1, gpt_plain(dshares, n), gpt_plain(k, 3 * c), 0, dq, 3 * c});
            gpt_pass_multiply(p, (struct gpt_product){n, size, n, 1, gpt_transposed(dshares, n), gpt_plain(q, 3 * c), 0, dk,
                                                      3 * c});
        }
}
