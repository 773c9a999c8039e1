/* SPDX-License-Identifier: BSD-3-Clause */
/* What comes before the blocks and after them: embeddings, the last norm, the logits and the loss. */
#include "examples/gpt/layers.h"

#include <string.h>

/* Words of this rank. */
static int own_words(const struct gpt_pass *p)
{
    int first;
    return gpt_own(p->config, p->config->vocabulary, &first);
}

void gpt_embed(const struct gpt_pass *p, const real *wte, const real *wpe, const int32_t *tokens, real *y)
{
    int c = p->config->width, word, words = gpt_own(p->config, p->config->vocabulary, &word);
    int64_t rows = gpt_pass_rows(p), first, own = gpt_pass_own(p, &first);
    real *sums = gpt_pass_parts(p, y);
    for (int64_t i = 0; i < rows; i++) {
        if (tokens[i] >= word && tokens[i] < word + words)
            memcpy(sums + i * c, wte + (int64_t)(tokens[i] - word) * c, (size_t)c * sizeof *y);
        else
            memset(sums + i * c, 0, (size_t)c * sizeof *y);
    }
    gpt_pass_sum(p, sums, y);
    for (int64_t i = 0; i < own; i++) {
        const real *position = wpe + (int64_t)gpt_pass_place(p, (int)((first + i) % p->length)) * c;
        for (int j = 0; j < c; j++)
            y[i * c + j] += position[j];
    }
    struct gpt_drop drop = gpt_pass_drop(p, p->config->layers, GPT_DROP_EMBEDDING);
    if (drop.threshold)
        gpt_drop_rows(p, &drop, y, y);
}

void gpt_embed_back(const struct gpt_pass *p, const int32_t *tokens, const real *dy, real *dwte, real *dwpe)
{
    int c = p->config->width, word, words = gpt_own(p->config, p->config->vocabulary, &word);
    struct gpt_drop drop = gpt_pass_drop(p, p->config->layers, GPT_DROP_EMBEDDING);
    int64_t first, own = gpt_pass_own(p, &first);
    if (drop.threshold) {
        gpt_drop_rows(p, &drop, dy, p->scratch);
        dy = p->scratch;
    }
    for (int64_t i = 0; i < own; i++) {
        real *position = dwpe + (int64_t)gpt_pass_place(p, (int)((first + i) % p->length)) * c;
        for (int j = 0; j < c; j++)
            position[j] += dy[i * c + j];
    }
    const real *all = gpt_pass_gather(p, dy);
    for (int64_t i = 0; i < gpt_pass_rows(p); i++) {
        if (tokens[i] < word || tokens[i] >= word + words)
            continue;
        real *token = dwte + (int64_t)(tokens[i] - word) * c;
        for (int j = 0; j < c; j++)
            token[j] += all[i * c + j];
    }
}

int64_t gpt_head_acts_size(const struct gpt_pass *p)
{
    return gpt_pass_own(p, NULL) * (p->config->width + 2) + gpt_pass_rows(p) * own_words(p);
}

struct gpt_head_acts gpt_head_acts_in(const struct gpt_pass *p, real *memory)
{
    real *norm = memory, *logits = norm + gpt_pass_own(p, NULL) * p->config->width, *stats = logits + gpt_pass_rows(p) * own_words(p);
    return (struct gpt_head_acts){norm, stats, logits};
}

void gpt_head(const struct gpt_pass *p, const real *wte, const real *const *norm, const real *x,
              const struct gpt_head_acts *a)
{
    int c = p->config->width, v = own_words(p);
    int64_t rows = gpt_pass_rows(p);
    p->kernels->norm(gpt_pass_own(p, NULL), c, x, norm[0], norm[1], a->norm, a->stats);
    gpt_pass_multiply(p, (struct gpt_product){(int)rows, v, c, 1, gpt_plain(gpt_pass_gather(p, a->norm), c), gpt_transposed(wte, c), 0, a->logits, v});
}

double gpt_head_loss(const struct gpt_pass *p, const int32_t *targets, double scale, const struct gpt_head_acts *a)
{
    if (p->join)
        return p->join->loss(p->join, p, targets, scale, a->logits);
    return p->kernels->cross_entropy(gpt_pass_rows(p), p->config->vocabulary, targets, (real)scale, a->logits);
}

void gpt_head_back_input(const struct gpt_pass *p, const real *wte, const real *const *norm, const real *x,
              const struct gpt_head_acts *a,
                         real *dx, real *const *dnorm)
{
    int c = p->config->width, v = own_words(p);
    int64_t rows = gpt_pass_rows(p);
    gpt_pass_multiply(p, (struct gpt_product){(int)rows, c, v, 1, gpt_plain(a->logits, v), gpt_plain(wte, c), 0, p->scratch, c});
    gpt_pass_sum(p, p->scratch, p->scratch);
    p->kernels->norm_back(gpt_pass_own(p, NULL), c, x, norm[0], a->stats, p->scratch, NULL, dx, dnorm[0], dnorm[1]);
}

void gpt_head_back_weight(const struct gpt_pass *p, const struct gpt_head_acts *a, real *dwte)
{
    int c = p->config->width, v = own_words(p);
    gpt_pass_multiply(p, (struct gpt_product){v, c, (int)gpt_pass_rows(p), 1, gpt_transposed(a->logits, v),
                                              gpt_plain(gpt_pass_gather(p, a->norm), c), 1,
                                              dwte, c});
}
