/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ring: queries stay, blocks of keys and values go from each rank to the next. In step t rank r has the block of rank r - t; while it
 * attends to that, it sends it on and receives the next one. With WEIR_SP_CAUSAL the block of rank j is of no use to ranks before j, so
 * it ends at the last rank, and rank r makes r steps. With WEIR_SP_ZIGZAG, too, a block has a piece from each end: of the later one's keys
 * few ranks have use, of the earlier one's nearly all, and in each step every rank attends to two of four pairs of pieces.
 *
 * Backward, the gradients of a block follow it: each rank adds its own to what has come from the rank before, and the last one sends the
 * sum to the rank that the block belongs to.
 */
#include "optim/sp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <weir/p2p.h>

#include "base/error.h"

/* Registered memory: blocks of keys and values of any rank. */
enum buffer { KEYS, KEYS_TOO, GRADS, GRADS_TOO, GRADS_IN, GRADS_HOME, BUFFERS };

static int64_t block_elements(const weir_sp *sp, int rank, int64_t sequences)
{
    return sequences * wr_sp_rows_of(sp, rank) * 2 * sp->width;
}

static float *buffer(const weir_sp *sp, int which)
{
    return sp->memory + which * ((sp->o.sequences * sp->most_rows * 2 * sp->width + 15) / 16 * 16);
}

/* ---- making and ending ---- */

static weir_status prepare(weir_sp *sp, weir_error *err)
{
    size_t n = (size_t)(sp->o.sequences * sp->rows * sp->o.heads);
    sp->most = calloc(n, sizeof *sp->most);
    sp->sum = calloc(n, sizeof *sp->sum);
    return sp->most && sp->sum ? WEIR_OK : wr_error_memory(err, 2 * n * sizeof *sp->sum, "softmax");
}

static uint64_t elements(const weir_sp *sp)
{
    return (uint64_t)(buffer(sp, BUFFERS) - sp->memory);
}

static weir_status set_up(weir_sp *sp)
{
    (void)sp; /* messages need nothing */
    return WEIR_OK;
}

static void tear_down(weir_sp *sp)
{
    /* What an error has left under way reads and writes memory that is about to go. */
    for (int i = 0; i < WR_SP_OPEN; i++)
        weir_wait(&sp->open[i]);
}

/* ---- the way of the blocks ---- */

/* Whether later ranks only look at a block. */
static bool causal(const weir_sp *sp)
{
    return sp->o.flags & WEIR_SP_CAUSAL && wr_sp_pieces(sp) == 1;
}

/* Steps after the first one, in which a rank has its own block. */
static int steps(const weir_sp *sp)
{
    return causal(sp) ? sp->rank : sp->nranks - 1;
}

static int next_rank(const weir_sp *sp)
{
    return (sp->rank + 1) % sp->nranks;
}

static int rank_before(const weir_sp *sp)
{
    return (sp->rank + sp->nranks - 1) % sp->nranks;
}

/* Whose block this rank has in step t. */
static int block_at(const weir_sp *sp, int t)
{
    return (sp->rank + sp->nranks - t) % sp->nranks;
}

/* Whether the block of step t goes on to the next rank. */
static bool goes_on(const weir_sp *sp, int t)
{
    return causal(sp) ? sp->rank + 1 < sp->nranks : t + 1 < sp->nranks;
}

/* Who has the block of this rank last; this rank itself when no other one looks at it. */
static int last_with_mine(const weir_sp *sp)
{
    return causal(sp) ? sp->nranks - 1 : rank_before(sp);
}

enum kind { TAG_KEYS, TAG_GRADS, TAG_HOME };

static int tag_of(const weir_sp *sp, enum kind kind, int block)
{
    return (int)kind * sp->nranks + block;
}

/* Progress between computations; errors wait until finish(). */
static void poke(weir_sp *sp)
{
    for (int i = 0; i < WR_SP_OPEN; i++) {
        weir_status status = sp->open[i] ? weir_test(&sp->open[i]) : WEIR_OK;
        if (status < 0 && sp->failed == WEIR_OK)
            sp->failed = status;
    }
}

static weir_status finish(weir_sp *sp, enum wr_sp_open which)
{
    weir_status status = weir_wait(&sp->open[which]);
    return wr_sp_checked(sp, sp->failed != WEIR_OK ? sp->failed : status);
}

/* Starts to move a block's keys or gradients. */
static weir_status begin_send(weir_sp *sp, enum wr_sp_open which, int buf, const struct wr_sp_call *c, int block, enum kind kind, int to)
{
    uint64_t bytes = (uint64_t)block_elements(sp, block, c->sequences) * sizeof(float);
    return wr_sp_checked(sp, weir_isend(sp->comm, buffer(sp, buf), bytes, to, tag_of(sp, kind, block), &sp->open[which]));
}

static weir_status begin_receive(weir_sp *sp, enum wr_sp_open which, int buf, const struct wr_sp_call *c, int block, enum kind kind, int from)
{
    uint64_t bytes = (uint64_t)block_elements(sp, block, c->sequences) * sizeof(float);
    return wr_sp_checked(sp, weir_irecv(sp->comm, buffer(sp, buf), bytes, from, tag_of(sp, kind, block), NULL, &sp->open[which]));
}

/* At the beginning of step t: its block leaves, the next one comes into the other buffer. */
static weir_status pass_on(weir_sp *sp, const struct wr_sp_call *c, int t)
{
    weir_status status = WEIR_OK;
    if (t < steps(sp))
        status = begin_receive(sp, WR_SP_KEYS_IN, KEYS + (t + 1) % 2, c, block_at(sp, t + 1), TAG_KEYS, rank_before(sp));
    if (status == WEIR_OK && goes_on(sp, t))
        status = begin_send(sp, WR_SP_KEYS_OUT, KEYS + t % 2, c, block_at(sp, t), TAG_KEYS, next_rank(sp));
    return status;
}

static weir_status passed_on(weir_sp *sp)
{
    weir_status in = finish(sp, WR_SP_KEYS_IN), out = finish(sp, WR_SP_KEYS_OUT);
    return in != WEIR_OK ? in : out;
}

/* This rank's keys and values become the first block. */
static void pack_keys(const weir_sp *sp, const struct wr_sp_call *c)
{
    float *to = buffer(sp, KEYS);
    size_t bytes = (size_t)sp->width * sizeof *to;
    for (int64_t i = 0; i < c->sequences * sp->rows; i++, to += 2 * sp->width) {
        memcpy(to, c->k + i * c->stride, bytes);
        memcpy(to + sp->width, c->v + i * c->stride, bytes);
    }
}

/* ---- computing ---- */

/* Head h of sequence s of this rank's queries, piece by piece with the keys in a buffer, those of rank j. */
static struct wr_sp_block block_of(const weir_sp *sp, const struct wr_sp_call *c, int buf, int j, int64_t s, int64_t h,
                                   const struct wr_sp_piece *queries, const struct wr_sp_piece *keys)
{
    int64_t at = h * sp->o.head_size;
    const float *k = buffer(sp, buf) + (s * wr_sp_rows_of(sp, j) + keys->row) * 2 * sp->width + at;
    return (struct wr_sp_block){s, h, queries->n, keys->n, queries->place, keys->place,
                                c->q + (s * sp->rows + queries->row) * c->stride + at, k, k + sp->width, c->stride, 2 * sp->width};
}

/* From this row of a sequence on. */
static struct wr_sp_sums sums_of(const weir_sp *sp, const struct wr_sp_call *c, int64_t s, int64_t h, int64_t first)
{
    int64_t row = s * sp->rows + first;
    return (struct wr_sp_sums){c->to + row * sp->width + h * sp->o.head_size, sp->width, sp->most + row * sp->o.heads + h,
                               sp->sum + row * sp->o.heads + h, sp->o.heads};
}

/* What this rank's queries find in the block of step t. */
static void attend(weir_sp *sp, const struct wr_sp_call *c, int t)
{
    int j = block_at(sp, t), pieces = wr_sp_pieces(sp);
    for (int64_t s = 0; s < c->sequences; s++)
        for (int64_t h = 0; h < sp->o.heads; h++) {
            for (int pair = 0; pair < pieces * pieces; pair++) {
                struct wr_sp_piece queries = wr_sp_piece(sp, sp->rank, pair / pieces), keys = wr_sp_piece(sp, j, pair % pieces);
                struct wr_sp_block block = block_of(sp, c, KEYS + t % 2, j, s, h, &queries, &keys);
                struct wr_sp_sums sums = sums_of(sp, c, s, h, queries.row);
                wr_sp_block_forward(sp, &block, &sums);
            }
            poke(sp);
        }
}

static weir_status forward(weir_sp *sp, const struct wr_sp_call *c)
{
    int64_t rows = c->sequences * sp->rows;
    for (int64_t i = 0; i < rows * sp->o.heads; i++) {
        sp->most[i] = -INFINITY;
        sp->sum[i] = 0;
    }
    memset(c->to, 0, (size_t)(rows * sp->width) * sizeof *c->to);
    pack_keys(sp, c);
    for (int t = 0; t <= steps(sp); t++) {
        weir_status status = pass_on(sp, c, t);
        if (status != WEIR_OK)
            return status;
        attend(sp, c, t);
        status = passed_on(sp);
        if (status != WEIR_OK)
            return status;
    }
    for (int64_t s = 0; s < c->sequences; s++)
        for (int64_t h = 0; h < sp->o.heads; h++) {
            struct wr_sp_sums sums = sums_of(sp, c, s, h, 0);
            wr_sp_block_finish(sp, sp->rows, &sums, c->to_norms + s * sp->rows * sp->o.heads + h, sp->o.heads);
        }
    return WEIR_OK;
}

/* The gradients of step t: of its block in the caller's memory (step 0) or in a buffer. */
static void compute_grads(weir_sp *sp, const struct wr_sp_call *c, int t)
{
    int j = block_at(sp, t), pieces = wr_sp_pieces(sp);
    int64_t nk = wr_sp_rows_of(sp, j), stride = t ? 2 * sp->width : c->stride;
    float *dk = t ? buffer(sp, GRADS + t % 2) : c->dk, *dv = t ? dk + sp->width : c->dv;
    for (int64_t s = 0; s < c->sequences; s++)
        for (int64_t h = 0; h < sp->o.heads; h++) {
            for (int pair = 0; pair < pieces * pieces; pair++) {
                struct wr_sp_piece queries = wr_sp_piece(sp, sp->rank, pair / pieces), keys = wr_sp_piece(sp, j, pair % pieces);
                struct wr_sp_block block = block_of(sp, c, KEYS + t % 2, j, s, h, &queries, &keys);
                int64_t row = s * sp->rows + queries.row, at = h * sp->o.head_size, key = (s * nk + keys.row) * stride + at;
                struct wr_sp_grads grads = {c->dout + row * sp->width + at, sp->width, c->norms + row * sp->o.heads + h,
                                            sp->sum + row * sp->o.heads + h, sp->o.heads, c->dq + row * c->stride + at, dk + key, dv + key,
                                            c->stride, stride};
                wr_sp_block_backward(sp, &block, &grads);
            }
            poke(sp);
        }
}

/* Zeroes what compute_grads() adds to, and leaves the products of dout and out in sp->sum. */
static void clear_grads(weir_sp *sp, const struct wr_sp_call *c)
{
    size_t bytes = (size_t)sp->width * sizeof(float), each = (size_t)sp->o.head_size;
    for (int64_t i = 0; i < c->sequences * sp->rows; i++) {
        memset(c->dq + i * c->stride, 0, bytes);
        memset(c->dk + i * c->stride, 0, bytes);
        memset(c->dv + i * c->stride, 0, bytes);
    }
    for (int64_t i = 0; i < c->sequences * sp->rows * sp->o.heads; i++)
        sp->sum[i] = sp->loops->dot(c->dout + (size_t)i * each, c->out + (size_t)i * each, each);
}

/* Step t > 0 backward: the gradients of a block that belongs to another rank come, grow, and leave. */
static weir_status grow(weir_sp *sp, const struct wr_sp_call *c, int t)
{
    enum wr_sp_open out = t % 2 ? WR_SP_GRADS_OUT_TOO : WR_SP_GRADS_OUT;
    int j = block_at(sp, t), mine = GRADS + t % 2;
    size_t n = (size_t)block_elements(sp, j, c->sequences);
    bool more = t > 1; /* the rank before has this block, too, and it is not its own */
    weir_status status = finish(sp, out);
    if (status == WEIR_OK && more)
        status = begin_receive(sp, WR_SP_GRADS_IN, GRADS_IN, c, j, TAG_GRADS, rank_before(sp));
    if (status != WEIR_OK)
        return status;
    memset(buffer(sp, mine), 0, n * sizeof(float));
    compute_grads(sp, c, t);
    status = finish(sp, WR_SP_GRADS_IN);
    if (status != WEIR_OK)
        return status;
    if (more)
        sp->loops->add(buffer(sp, mine), buffer(sp, GRADS_IN), n);
    return goes_on(sp, t) ? begin_send(sp, out, mine, c, j, TAG_GRADS, next_rank(sp)) : begin_send(sp, out, mine, c, j, TAG_HOME, j);
}

/* The gradients that others have made of this rank's block are added to its own. */
static weir_status come_home(weir_sp *sp, const struct wr_sp_call *c)
{
    size_t width = (size_t)sp->width;
    const float *from = buffer(sp, GRADS_HOME);
    weir_status status = finish(sp, WR_SP_GRADS_HOME);
    for (int64_t i = 0; status == WEIR_OK && last_with_mine(sp) != sp->rank && i < c->sequences * sp->rows; i++, from += 2 * width) {
        sp->loops->add(c->dk + i * c->stride, from, width);
        sp->loops->add(c->dv + i * c->stride, from + width, width);
    }
    return status;
}

static weir_status backward(weir_sp *sp, const struct wr_sp_call *c)
{
    weir_status status = WEIR_OK;
    clear_grads(sp, c);
    pack_keys(sp, c);
    if (last_with_mine(sp) != sp->rank)
        status = begin_receive(sp, WR_SP_GRADS_HOME, GRADS_HOME, c, sp->rank, TAG_HOME, last_with_mine(sp));
    for (int t = 0; t <= steps(sp) && status == WEIR_OK; t++) {
        status = pass_on(sp, c, t);
        if (status == WEIR_OK && t == 0)
            compute_grads(sp, c, t);
        else if (status == WEIR_OK)
            status = grow(sp, c, t);
        if (status == WEIR_OK)
            status = passed_on(sp);
    }
    if (status == WEIR_OK)
        status = finish(sp, WR_SP_GRADS_OUT);
    if (status == WEIR_OK)
        status = finish(sp, WR_SP_GRADS_OUT_TOO);
    return status == WEIR_OK ? come_home(sp, c) : status;
}

const struct wr_sp_class wr_sp_ring = {prepare, elements, set_up, tear_down, forward, backward};
