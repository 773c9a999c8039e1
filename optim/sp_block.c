/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Attention of some queries to a block of keys, tile by tile. Forward, softmax is made while the tiles come: the sums so far are
 * relative to the largest score so far, and are scaled down when a larger one is found (Milakov and Gimelshein, "Online normalizer
 * calculation for softmax", 2018). Backward, the logarithm of the whole sum is known, so each tile stands for itself.
 */
#include "optim/sp.h"

#include <math.h>
#include <string.h>

/* Queries q .. q + nq - 1 and keys k .. k + nk - 1 of a block. */
struct tile {
    int64_t q, nq, k, nk;
};

/* Keys of a tile that its query i may look at. */
static int64_t visible(const weir_sp *sp, const struct wr_sp_block *b, const struct tile *t, int64_t i)
{
    if (!(sp->o.flags & WEIR_SP_CAUSAL))
        return t->nk;
    int64_t n = b->q_first + t->q + i - (b->k_first + t->k) + 1;
    return n < 0 ? 0 : WR_MIN(n, t->nk);
}

typedef void (*tile_fn)(const weir_sp *sp, const struct wr_sp_block *b, const struct tile *t, const void *arg);

static void for_tiles(const weir_sp *sp, const struct wr_sp_block *b, tile_fn fn, const void *arg)
{
    for (int64_t q = 0; q < b->nq; q += WR_SP_QUERIES)
        for (int64_t k = 0; k < b->nk; k += WR_SP_KEYS) {
            struct tile t = {q, WR_MIN(b->nq - q, (int64_t)WR_SP_QUERIES), k, WR_MIN(b->nk - k, (int64_t)WR_SP_KEYS)};
            if (visible(sp, b, &t, t.nq - 1) > 0)
                fn(sp, b, &t, arg);
        }
}

/* Scores of a tile: scale q k'. */
static void scores(const weir_sp *sp, const struct wr_sp_block *b, const struct tile *t, float *to)
{
    wr_gemm(&sp->gemm, t->nq, t->nk, sp->o.head_size, (float)sp->o.scale, wr_plain(b->q + t->q * b->q_stride, b->q_stride),
            wr_transposed(b->k + t->k * b->k_stride, b->k_stride), 0, to, t->nk);
}

/* The scores of query i become exponentials relative to the largest so far. */
static void weigh(const weir_sp *sp, const struct wr_sp_sums *s, int64_t query, float *row, int64_t n)
{
    float *most = s->most + query * s->step, *sum = s->sum + query * s->step;
    float before = *most, largest = sp->loops->most(row, (size_t)n);
    float now = largest > before ? largest : before, shrink = before == -INFINITY ? 0 : expf(before - now);
    *sum = *sum * shrink + sp->loops->exponentials(row, now, (size_t)n);
    *most = now;
    if (shrink != 1)
        sp->loops->scale(s->out + query * s->stride, shrink, (size_t)sp->o.head_size);
}

/* Drops of what query i of a tile gives to its first n keys. */
static void drop(const weir_sp *sp, const struct wr_sp_block *b, const struct tile *t, int64_t i, int64_t n, float *row)
{
    sp->o.drop(sp->o.drop_user, b->sequence, b->head, b->q_first + t->q + i, b->k_first + t->k, n, row);
}

static void tile_forward(const weir_sp *sp, const struct wr_sp_block *b, const struct tile *t, const void *arg)
{
    const struct wr_sp_sums *s = arg;
    float *shares = sp->tiles;
    scores(sp, b, t, shares);
    for (int64_t i = 0; i < t->nq; i++) {
        float *row = shares + i * t->nk;
        int64_t n = visible(sp, b, t, i);
        if (n)
            weigh(sp, s, t->q + i, row, n);
        if (n && sp->o.drop) /* after the sum: what is dropped was weighed, too */
            drop(sp, b, t, i, n, row);
        memset(row + n, 0, (size_t)(t->nk - n) * sizeof *row);
    }
    wr_gemm(&sp->gemm, t->nq, sp->o.head_size, t->nk, 1, wr_plain(shares, t->nk), wr_plain(b->v + t->k * b->k_stride, b->k_stride), 1,
            s->out + t->q * s->stride, s->stride);
}

void wr_sp_block_forward(const weir_sp *sp, const struct wr_sp_block *b, const struct wr_sp_sums *s)
{
    for_tiles(sp, b, tile_forward, s);
}

void wr_sp_block_finish(const weir_sp *sp, int64_t nq, const struct wr_sp_sums *s, float *norms, int64_t step)
{
    for (int64_t i = 0; i < nq; i++) {
        float most = s->most[i * s->step], sum = s->sum[i * s->step];
        sp->loops->scale(s->out + i * s->stride, 1 / sum, (size_t)sp->o.head_size);
        norms[i * step] = most + logf(sum);
    }
}

static void tile_backward(const weir_sp *sp, const struct wr_sp_block *b, const struct tile *t, const void *arg)
{
    const struct wr_sp_grads *g = arg;
    int64_t size = sp->o.head_size;
    float *shares = sp->tiles, *d = shares + WR_SP_QUERIES * WR_SP_KEYS;
    struct wr_matrix q = wr_plain(b->q + t->q * b->q_stride, b->q_stride), k = wr_plain(b->k + t->k * b->k_stride, b->k_stride);
    struct wr_matrix dout = wr_plain(g->dout + t->q * g->dout_stride, g->dout_stride);
    scores(sp, b, t, shares);
    wr_gemm(&sp->gemm, t->nq, t->nk, size, 1, dout, wr_transposed(b->v + t->k * b->k_stride, b->k_stride), 0, d, t->nk);
    for (int64_t i = 0; i < t->nq; i++) {
        float *share = shares + i * t->nk, *grad = d + i * t->nk;
        int64_t n = visible(sp, b, t, i), at = (t->q + i) * g->step;
        sp->loops->exponentials(share, g->norms[at], (size_t)n);
        if (n && sp->o.drop)
            drop(sp, b, t, i, n, grad);
        sp->loops->back(grad, share, g->means[at], (float)sp->o.scale, (size_t)n);
        if (n && sp->o.drop)
            drop(sp, b, t, i, n, share);
        memset(share + n, 0, (size_t)(t->nk - n) * sizeof *share);
        memset(grad + n, 0, (size_t)(t->nk - n) * sizeof *grad);
    }
    wr_gemm(&sp->gemm, t->nk, size, t->nq, 1, wr_transposed(shares, t->nk), dout, 1, g->dv + t->k * g->dk_stride, g->dk_stride);
    wr_gemm(&sp->gemm, t->nq, size, t->nk, 1, wr_plain(d, t->nk), k, 1, g->dq + t->q * g->dq_stride, g->dq_stride);
    wr_gemm(&sp->gemm, t->nk, size, t->nq, 1, wr_transposed(d, t->nk), q, 1, g->dk + t->k * g->dk_stride, g->dk_stride);
}

void wr_sp_block_backward(const weir_sp *sp, const struct wr_sp_block *b, const struct wr_sp_grads *g)
{
    for_tiles(sp, b, tile_backward, g);
}
