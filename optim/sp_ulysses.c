/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ulysses: for each token and head an *item* goes to the rank that has the head, and the result comes back.
 *
 * A rank sends to rank b a row for each of its tokens, sequence after sequence; in a row the first parts of the items of b's heads come
 * one after the other, then their second parts, and so on. So what has come from rank a is a block of queries and keys that are
 * attended to where they lie, and results are written where they are sent from.
 */
#include "optim/sp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <weir/coll_v.h>

#include "base/error.h"

/* Numbers of an item in an exchange. */
static int64_t item(const weir_sp *sp, enum wr_sp_exchange which)
{
    int64_t size = sp->o.head_size;
    const int64_t items[] = {
        [WR_SP_THERE] = 3 * size,              /* query, key, value */
        [WR_SP_BACK] = size + 1,               /* result, norm */
        [WR_SP_THERE_BACKWARD] = 4 * size + 2, /* query, key, value, gradient of the result; norm, mean */
        [WR_SP_BACK_BACKWARD] = 3 * size,      /* gradients of query, key, value */
    };
    return items[which];
}

/* Elements, ended by a cache line. */
static int64_t lines(int64_t n)
{
    return (n + 15) / 16 * 16;
}

static int64_t items_here(const weir_sp *sp) /* by tokens: those of this rank, of all heads */
{
    return sp->o.sequences * sp->rows * sp->o.heads;
}

static int64_t items_there(const weir_sp *sp) /* by heads: those of this rank, of all tokens */
{
    return sp->o.sequences * sp->o.length * sp->heads;
}

/* Four buffers: with items by tokens and by heads, on their way there and back. */
struct buffers {
    float *there[2], *back[2]; /* [0] by tokens, [1] by heads */
};

static struct buffers buffers(const weir_sp *sp)
{
    struct buffers b;
    int64_t there = item(sp, WR_SP_THERE_BACKWARD), back = item(sp, WR_SP_BACK_BACKWARD);
    b.there[0] = sp->memory;
    b.there[1] = b.there[0] + lines(items_here(sp) * there);
    b.back[0] = b.there[1] + lines(items_there(sp) * there);
    b.back[1] = b.back[0] + lines(items_here(sp) * back);
    return b;
}

static uint64_t elements(const weir_sp *sp)
{
    int64_t there = item(sp, WR_SP_THERE_BACKWARD), back = item(sp, WR_SP_BACK_BACKWARD);
    return (uint64_t)(lines(items_here(sp) * there) + lines(items_there(sp) * there) + lines(items_here(sp) * back) + lines(items_there(sp) * back));
}

/* The rows that go between this rank and rank r, r's heads and this rank's tokens (by tokens), or the other way round. */
struct rows {
    float *first;
    int64_t tokens; /* of a sequence */
    int64_t heads;
};

static struct rows rows_with(const weir_sp *sp, bool by_heads, int r, int64_t numbers, float *buffer)
{
    int64_t tokens = by_heads ? weir_share(sp->o.length, sp->nranks, r) : sp->rows;
    int64_t heads = by_heads ? sp->heads : weir_share(sp->o.heads, sp->nranks, r);
    int64_t before = by_heads ? weir_share_first(sp->o.length, sp->nranks, r) * heads : tokens * weir_share_first(sp->o.heads, sp->nranks, r);
    return (struct rows){buffer + sp->o.sequences * before * numbers, tokens, heads};
}

/* ---- making and ending ---- */

static weir_status prepare(weir_sp *sp, weir_error *err)
{
    sp->heads = weir_share(sp->o.heads, sp->nranks, sp->rank);
    size_t n = (size_t)items_there(sp);
    sp->counts = calloc((size_t)sp->nranks * 2 * WR_SP_EXCHANGES, sizeof *sp->counts);
    sp->most = calloc(n, sizeof *sp->most);
    sp->sum = calloc(n, sizeof *sp->sum);
    if (!sp->counts || !sp->most || !sp->sum)
        return wr_error_memory(err, 2 * n * sizeof *sp->sum, "softmax");
    for (int which = 0; which < WR_SP_EXCHANGES; which++)
        for (int by_heads = 0; by_heads < 2; by_heads++)
            for (int r = 0; r < sp->nranks; r++) {
                int64_t tokens = by_heads ? weir_share(sp->o.length, sp->nranks, r) : sp->rows;
                int64_t heads = by_heads ? sp->heads : weir_share(sp->o.heads, sp->nranks, r);
                sp->counts[(2 * which + by_heads) * sp->nranks + r] = (uint64_t)(sp->o.sequences * tokens * heads * item(sp, which));
            }
    return WEIR_OK;
}

static weir_status set_up(weir_sp *sp)
{
    struct buffers b = buffers(sp);
    weir_status status = WEIR_OK;
    for (int which = 0; which < WR_SP_EXCHANGES && status == WEIR_OK; which++) {
        bool home = which == WR_SP_BACK || which == WR_SP_BACK_BACKWARD;
        float **buffer = home ? b.back : b.there;
        const uint64_t *counts = sp->counts + (size_t)(2 * which * sp->nranks), *by_heads = counts + sp->nranks;
        status = weir_alltoallv_init(sp->comm, buffer[home], home ? by_heads : counts, NULL, buffer[!home], home ? counts : by_heads, NULL,
                                     WEIR_FP32, &sp->exchange[which]);
    }
    return status;
}

static void tear_down(weir_sp *sp)
{
    for (int which = 0; which < WR_SP_EXCHANGES; which++)
        weir_request_free(&sp->exchange[which]);
}

static weir_status exchange(weir_sp *sp, enum wr_sp_exchange which)
{
    weir_status status = weir_start(sp->exchange[which]);
    return wr_sp_checked(sp, status == WEIR_OK ? weir_wait(&sp->exchange[which]) : status);
}

/* ---- packing and unpacking, by tokens ---- */

/* Copies part `at` (its first number in an item) of all items: `numbers` of each head between buffer and a matrix of this rank's tokens. */
static void copy(const weir_sp *sp, const struct wr_sp_call *c, enum wr_sp_exchange which, int64_t at, int64_t numbers, float *matrix,
                 int64_t stride, bool out)
{
    struct buffers b = buffers(sp);
    int64_t size = item(sp, which);
    for (int r = 0; r < sp->nranks; r++) {
        struct rows rows = rows_with(sp, false, r, size, out ? b.there[0] : b.back[0]);
        int64_t first = weir_share_first(sp->o.heads, sp->nranks, r) * numbers;
        size_t bytes = (size_t)(rows.heads * numbers) * sizeof *matrix;
        for (int64_t i = 0; i < c->sequences * sp->rows; i++) {
            float *there = rows.first + i * rows.heads * size + at * rows.heads, *here = matrix + i * stride + first;
            memcpy(out ? there : here, out ? here : there, bytes);
        }
    }
}

static void pack(const weir_sp *sp, const struct wr_sp_call *c, enum wr_sp_exchange which, int64_t at, int64_t numbers, const float *matrix,
                 int64_t stride)
{
    copy(sp, c, which, at, numbers, (float *)(uintptr_t)matrix, stride, true);
}

static void pack_inputs(const weir_sp *sp, const struct wr_sp_call *c, enum wr_sp_exchange which)
{
    int64_t size = sp->o.head_size;
    pack(sp, c, which, 0, size, c->q, c->stride);
    pack(sp, c, which, size, size, c->k, c->stride);
    pack(sp, c, which, 2 * size, size, c->v, c->stride);
}

/* ---- computing, by heads ---- */

/* Head h of sequence s: queries that came from rank a, keys from rank b. */
static struct wr_sp_block block_of(const weir_sp *sp, const struct rows *a, const struct rows *b, int64_t size, int64_t s, int64_t h, int from_a,
                                   int from_b)
{
    int64_t stride = sp->heads * size, each = sp->o.head_size;
    const float *q = a->first + s * a->tokens * stride + h * each, *k = b->first + s * b->tokens * stride + (sp->heads + h) * each;
    return (struct wr_sp_block){s, weir_share_first(sp->o.heads, sp->nranks, sp->rank) + h, a->tokens, b->tokens, weir_share_first(sp->o.length, sp->nranks, from_a),
                                weir_share_first(sp->o.length, sp->nranks, from_b), q, k, k + sp->heads * each, stride, stride};
}

/* Results of head h of sequence s for the queries of rank a. */
static void attend(const weir_sp *sp, const struct buffers *m, int64_t s, int64_t h, int a)
{
    int64_t size = item(sp, WR_SP_THERE), back = item(sp, WR_SP_BACK), each = sp->o.head_size;
    struct rows queries = rows_with(sp, true, a, size, m->there[1]), results = rows_with(sp, true, a, back, m->back[1]);
    float *row = results.first + s * results.tokens * sp->heads * back;
    struct wr_sp_sums sums = {row + h * each, sp->heads * back, sp->most, sp->sum, 1};
    for (int64_t i = 0; i < queries.tokens; i++) {
        sums.most[i] = -INFINITY;
        sums.sum[i] = 0;
        memset(sums.out + i * sums.stride, 0, (size_t)each * sizeof *sums.out);
    }
    for (int b = 0; b < sp->nranks; b++) {
        struct rows keys = rows_with(sp, true, b, size, m->there[1]);
        struct wr_sp_block block = block_of(sp, &queries, &keys, size, s, h, a, b);
        wr_sp_block_forward(sp, &block, &sums);
    }
    wr_sp_block_finish(sp, queries.tokens, &sums, row + sp->heads * each + h, sums.stride);
}

static weir_status forward(weir_sp *sp, const struct wr_sp_call *c)
{
    struct buffers m = buffers(sp);
    pack_inputs(sp, c, WR_SP_THERE);
    weir_status status = exchange(sp, WR_SP_THERE);
    if (status != WEIR_OK)
        return status;
    for (int64_t s = 0; s < c->sequences; s++)
        for (int64_t h = 0; h < sp->heads; h++)
            for (int a = 0; a < sp->nranks; a++)
                attend(sp, &m, s, h, a);
    status = exchange(sp, WR_SP_BACK);
    if (status != WEIR_OK)
        return status;
    copy(sp, c, WR_SP_BACK, 0, sp->o.head_size, c->to, sp->width, false);
    copy(sp, c, WR_SP_BACK, sp->o.head_size, 1, c->to_norms, sp->o.heads, false);
    return WEIR_OK;
}

/* The gradients of head h of sequence s between the queries of rank a and the keys of rank b. */
static void attend_back(const weir_sp *sp, const struct buffers *m, int64_t s, int64_t h, int a, int b)
{
    int64_t size = item(sp, WR_SP_THERE_BACKWARD), back = item(sp, WR_SP_BACK_BACKWARD), each = sp->o.head_size;
    struct rows queries = rows_with(sp, true, a, size, m->there[1]), keys = rows_with(sp, true, b, size, m->there[1]);
    struct rows dqueries = rows_with(sp, true, a, back, m->back[1]), dkeys = rows_with(sp, true, b, back, m->back[1]);
    struct wr_sp_block block = block_of(sp, &queries, &keys, size, s, h, a, b);
    int64_t stride = sp->heads * back;
    const float *row = queries.first + s * queries.tokens * sp->heads * size, *numbers = row + 4 * sp->heads * each + h;
    float *dk = dkeys.first + s * dkeys.tokens * stride + (sp->heads + h) * each;
    struct wr_sp_grads grads = {row + (3 * sp->heads + h) * each, sp->heads * size, numbers, numbers + sp->heads, sp->heads * size,
                                dqueries.first + s * dqueries.tokens * stride + h * each, dk, dk + sp->heads * each, stride, stride};
    wr_sp_block_backward(sp, &block, &grads);
}

/* The means, of this rank's tokens: products of dout and out. They go where the forward pass had its results. */
static const float *means(const weir_sp *sp, const struct wr_sp_call *c, float *to)
{
    int64_t each = sp->o.head_size;
    for (int64_t i = 0; i < c->sequences * sp->rows * sp->o.heads; i++)
        to[i] = sp->loops->dot(c->dout + i * each, c->out + i * each, (size_t)each);
    return to;
}

static weir_status backward(weir_sp *sp, const struct wr_sp_call *c)
{
    enum wr_sp_exchange there = WR_SP_THERE_BACKWARD, back = WR_SP_BACK_BACKWARD;
    struct buffers m = buffers(sp);
    int64_t each = sp->o.head_size;
    pack_inputs(sp, c, there);
    pack(sp, c, there, 3 * each, each, c->dout, sp->width);
    pack(sp, c, there, 4 * each, 1, c->norms, sp->o.heads);
    pack(sp, c, there, 4 * each + 1, 1, means(sp, c, m.back[0]), sp->o.heads);
    weir_status status = exchange(sp, there);
    if (status != WEIR_OK)
        return status;
    memset(m.back[1], 0, (size_t)(items_there(sp) * item(sp, back)) * sizeof(float));
    for (int64_t s = 0; s < c->sequences; s++)
        for (int64_t h = 0; h < sp->heads; h++)
            for (int a = 0; a < sp->nranks; a++)
                for (int b = 0; b < sp->nranks; b++)
                    attend_back(sp, &m, s, h, a, b);
    status = exchange(sp, back);
    if (status != WEIR_OK)
        return status;
    copy(sp, c, back, 0, each, c->dq, c->stride, false);
    copy(sp, c, back, each, each, c->dk, c->stride, false);
    copy(sp, c, back, 2 * each, each, c->dv, c->stride, false);
    return WEIR_OK;
}

const struct wr_sp_class wr_sp_ulysses = {prepare, elements, set_up, tear_down, forward, backward};
