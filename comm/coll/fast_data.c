/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data of the fast path: what a rank leaves for the others, and what it makes of theirs. Operands are combined in the
 * order of ranks, as the direct plans do, so that both give the same bits.
 */
#include <string.h>

#include "comm/coll/fast_impl.h"

/* Whether each rank has something else for each of the others: then its own share is left out. */
static bool has_shares(enum wr_collective coll)
{
    return coll == WR_COLL_REDUCE_SCATTER || coll == WR_COLL_ALLTOALL;
}

static uint64_t bytes_of(const struct wr_coll_call *call)
{
    return call->coll == WR_COLL_BARRIER ? 0 : call->count * weir_type_size(call->type);
}

static uint64_t left_of(const struct wr_fast *f, const struct wr_coll_call *call, uint64_t bytes)
{
    return has_shares(call->coll) ? bytes * (uint64_t)(f->n - 1) : bytes;
}

void wr_fast_sizes(const struct wr_fast *f, const struct wr_coll_call *call, uint64_t *left, uint64_t *read)
{
    uint64_t bytes = bytes_of(call);
    *left = left_of(f, call, bytes);
    *read = call->coll == WR_COLL_BCAST ? bytes : bytes * (uint64_t)(f->n - 1);
}

void wr_fast_prepare(struct wr_fast *f, struct wr_fast_call *c, const struct wr_coll_call *call)
{
    c->call = call;
    c->bytes = bytes_of(call);
    c->depth = left_of(f, call, c->bytes) <= WR_FAST_INLINE ? WR_FAST_SLOTS : WR_FAST_AREAS;
    c->hash = (uint32_t)f->state->hash;
    c->posted = false;
    c->all = call->coll != WR_COLL_BCAST;
    c->from = c->all ? f->me + 1 < f->n ? f->me + 1 : 0 : call->root;
    c->left = c->all ? f->n - 1 : call->root != f->me;
}

static const char *input_of(const struct wr_fast *f, const struct wr_fast_call *c)
{
    const struct wr_coll_call *call = c->call;
    if (call->in != WEIR_IN_PLACE)
        return call->in;
    return (const char *)call->out + (call->coll == WR_COLL_ALLGATHER ? (uint64_t)f->me * c->bytes : 0);
}

void wr_fast_put_in(struct wr_fast *f, const struct wr_fast_call *c)
{
    uint64_t left = left_of(f, c->call, c->bytes);
    if (!left || (c->call->coll == WR_COLL_BCAST && c->call->root != f->me))
        return;
    unsigned char *to = wr_fast_data_of(f, f->me, c->seq, left);
    const char *in = input_of(f, c);
    if (has_shares(c->call->coll)) {
        uint64_t before = (uint64_t)f->me * c->bytes;
        memcpy(to, in, before);
        memcpy(to + before, in + before + c->bytes, left - before);
    } else {
        memcpy(to, in, left);
    }
}

/* What `rank` left for this one. */
static const unsigned char *theirs(const struct wr_fast *f, const struct wr_fast_call *c, int rank)
{
    const unsigned char *from = wr_fast_data_of(f, rank, c->seq, left_of(f, c->call, c->bytes));
    return has_shares(c->call->coll) ? from + (uint64_t)(f->me - (rank < f->me)) * c->bytes : from;
}

static const struct wr_kernel *kernel_for(struct wr_fast *f, weir_type type, weir_op op)
{
    struct wr_kernel *k = &f->kernel[type][op];
    if (WR_UNLIKELY(!k->size))
        wr_kernel_find(type, op, NULL, k);
    return k;
}

static void combine(struct wr_fast *f, const struct wr_fast_call *c, const char *own)
{
    const struct wr_coll_call *call = c->call;
    struct wr_operand operand[WR_FAST_RANKS];
    for (int r = 0; r < f->n; r++)
        operand[r] = (struct wr_operand){r == f->me ? (const void *)own : theirs(f, c, r), false};
    wr_kernel_reduce(kernel_for(f, call->type, call->op), call->out, false, operand, (unsigned)f->n, call->count,
                     call->op == WEIR_AVG ? (uint64_t)f->n : 1);
}

void wr_fast_place_own(const struct wr_fast *f, const struct wr_fast_call *c)
{
    bool gathers = c->call->coll == WR_COLL_ALLGATHER;
    if (!c->bytes || (!gathers && c->call->coll != WR_COLL_ALLTOALL))
        return;
    const char *own = input_of(f, c) + (gathers ? 0 : (uint64_t)f->me * c->bytes);
    char *place = (char *)c->call->out + (uint64_t)f->me * c->bytes;
    if (place != own)
        memcpy(place, own, c->bytes);
}

static void collect(const struct wr_fast *f, const struct wr_fast_call *c)
{
    char *out = c->call->out;
    for (int r = 0; r < f->n; r++)
        if (r != f->me)
            memcpy(out + (uint64_t)r * c->bytes, theirs(f, c, r), c->bytes);
}

void wr_fast_take_out(struct wr_fast *f, const struct wr_fast_call *c)
{
    const struct wr_coll_call *call = c->call;
    if (!c->bytes)
        return;
    switch (call->coll) {
    case WR_COLL_BCAST:
        if (call->root != f->me)
            memcpy(call->out, theirs(f, c, call->root), c->bytes);
        break;
    case WR_COLL_ALLREDUCE:
        combine(f, c, input_of(f, c));
        break;
    case WR_COLL_REDUCE_SCATTER:
        combine(f, c, input_of(f, c) + (uint64_t)f->me * c->bytes);
        break;
    default:
        collect(f, c);
    }
}
