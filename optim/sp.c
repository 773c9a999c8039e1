/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans of attention over divided sequences: making, ending, checking of calls. */
#include "optim/sp.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "optim/agree.h"

static const char WHAT[] = "plan of attention";

static weir_status check_options(const weir_sp_options *o, int nranks, weir_error *err)
{
    if (o->method != WEIR_SP_ULYSSES && o->method != WEIR_SP_RING)
        return wr_error_set(err, WEIR_ERR_INVALID, "use WEIR_SP_ULYSSES or WEIR_SP_RING", "there is no method %llu",
                            (unsigned long long)o->method);
    if (o->flags & ~(uint64_t)(WEIR_SP_CAUSAL | WEIR_SP_ZIGZAG))
        return wr_error_set(err, WEIR_ERR_INVALID, "use WEIR_SP_CAUSAL, WEIR_SP_ZIGZAG or 0", "there are no flags 0x%llx",
                            (unsigned long long)o->flags);
    if (o->flags & WEIR_SP_ZIGZAG && o->method != WEIR_SP_RING)
        return wr_error_set(err, WEIR_ERR_INVALID, "use it with WEIR_SP_RING", "WEIR_SP_ZIGZAG is for rings: other methods divide the work by heads");
    if (o->sequences < 1 || o->heads < 1 || o->head_size < 1 || o->sequences > INT_MAX || o->heads > INT_MAX || o->head_size > INT_MAX ||
        o->heads > INT_MAX / 8 / o->head_size || o->length > INT_MAX || !isfinite(o->scale))
        return wr_error_set(err, WEIR_ERR_INVALID, "set options.sequences, length, heads and head_size",
                            "%lld sequences of %lld tokens with %lld heads of %lld numbers cannot be attended to", (long long)o->sequences,
                            (long long)o->length, (long long)o->heads, (long long)o->head_size);
    if (o->length < nranks)
        return wr_error_set(err, WEIR_ERR_INVALID, "use fewer ranks or longer sequences",
                            "sequences of %lld tokens cannot be divided among %d ranks", (long long)o->length, nranks);
    if (o->method == WEIR_SP_ULYSSES && o->heads < nranks)
        return wr_error_set(err, WEIR_ERR_INVALID, "use fewer ranks, or WEIR_SP_RING, which divides no heads",
                            "%lld heads cannot be divided among %d ranks", (long long)o->heads, nranks);
    return WEIR_OK;
}

static weir_status prepare(weir_sp *sp, const weir_sp_options *given, weir_error *err)
{
    static const struct wr_sp_class *const classes[] = {[WEIR_SP_ULYSSES] = &wr_sp_ulysses, [WEIR_SP_RING] = &wr_sp_ring};
    weir_sp_options *o = &sp->o;
    *o = (weir_sp_options)WEIR_SP_OPTIONS_INIT;
    if (!given)
        return wr_error_set(err, WEIR_ERR_INVALID, "start from WEIR_SP_OPTIONS_INIT", "there are no options");
    memcpy(o, given, WR_MIN(given->size, sizeof *o));
    weir_status status = check_options(o, sp->nranks, err);
    if (status == WEIR_OK)
        status = wr_gemm_choose(o->gemm, o->gemm_user, &sp->gemm, err);
    if (status != WEIR_OK)
        return status;
    if (o->scale == 0)
        o->scale = 1 / sqrt((double)o->head_size);
    sp->class = classes[o->method];
    sp->width = o->heads * o->head_size;
    sp->rows = wr_sp_rows_of(sp, sp->rank);
    for (int r = 0; r < sp->nranks; r++)
        sp->most_rows = WR_MAX(sp->most_rows, wr_sp_rows_of(sp, r));
    sp->tiles = aligned_alloc(64, 2 * WR_SP_QUERIES * WR_SP_KEYS * sizeof *sp->tiles);
    if (!sp->tiles)
        return wr_error_memory(err, 2 * WR_SP_QUERIES * WR_SP_KEYS * sizeof *sp->tiles, WHAT);
    return sp->class->prepare(sp, err);
}

static uint64_t hash_options(const weir_sp_options *o)
{
    int64_t scale;
    memcpy(&scale, &o->scale, sizeof scale);
    const int64_t numbers[] = {(int64_t)o->method, (int64_t)o->flags, o->sequences, o->length, o->heads, o->head_size, scale};
    return wr_agree_hash(WR_AGREE_HASH, numbers, sizeof numbers);
}

static weir_status set_up(weir_sp *sp)
{
    weir_status status = weir_mem_alloc(sp->comm, sp->class->elements(sp) * sizeof(float), 0, &sp->mem);
    if (status != WEIR_OK)
        return status;
    sp->memory = weir_mem_ptr(sp->mem);
    return sp->class->set_up(sp);
}

weir_status weir_sp_create(weir_comm *comm, const weir_sp_options *options, weir_sp **sp, weir_error *error)
{
    weir_sp *s = calloc(1, sizeof *s);
    weir_status status = WEIR_ERR_NO_MEMORY;
    if (s) {
        s->comm = comm;
        s->rank = weir_comm_rank(comm);
        s->nranks = weir_comm_size(comm);
        s->loops = wr_optim_table_best()->softmax;
        status = prepare(s, options, error);
    } else {
        wr_error_memory(error, sizeof *s, WHAT);
    }
    status = wr_agree(comm, status, s ? hash_options(&s->o) : 0, WHAT, error);
    if (status == WEIR_OK && (status = set_up(s)) != WEIR_OK)
        wr_agree_comm_error(comm, status, error);
    if (status == WEIR_OK)
        *sp = s;
    else
        weir_sp_free(s);
    return status;
}

void weir_sp_free(weir_sp *sp)
{
    if (!sp)
        return;
    if (sp->mem) {
        sp->class->tear_down(sp);
        weir_mem_free(sp->mem);
    }
    free(sp->tiles);
    free(sp->most);
    free(sp->sum);
    free(sp->counts);
    free(sp);
}

const weir_error *weir_sp_error(const weir_sp *sp)
{
    return &sp->error;
}

/* ---- who has what ---- */

struct wr_sp_piece wr_sp_piece(const weir_sp *sp, int rank, int k)
{
    int n = sp->nranks * wr_sp_pieces(sp), which = k ? n - 1 - rank : rank;
    int64_t row = k ? weir_share(sp->o.length, n, rank) : 0;
    return (struct wr_sp_piece){row, weir_share(sp->o.length, n, which), weir_share_first(sp->o.length, n, which)};
}

int64_t wr_sp_rows_of(const weir_sp *sp, int rank)
{
    struct wr_sp_piece last = wr_sp_piece(sp, rank, wr_sp_pieces(sp) - 1);
    return last.row + last.n;
}

int64_t weir_sp_rows(const weir_sp *sp, int64_t *first)
{
    if (first)
        *first = wr_sp_piece(sp, sp->rank, 0).place;
    return sp->rows;
}

int64_t weir_sp_place(const weir_sp *sp, int64_t row)
{
    struct wr_sp_piece piece = wr_sp_piece(sp, sp->rank, 0);
    if (row >= piece.n && wr_sp_pieces(sp) > 1)
        piece = wr_sp_piece(sp, sp->rank, 1);
    return piece.place + row - piece.row;
}

int weir_sp_owner(const weir_sp *sp, int64_t place, int64_t *row)
{
    for (int r = 0; r < sp->nranks; r++)
        for (int k = 0; k < wr_sp_pieces(sp); k++) {
            struct wr_sp_piece piece = wr_sp_piece(sp, r, k);
            if (place < piece.place || place >= piece.place + piece.n)
                continue;
            if (row)
                *row = piece.row + place - piece.place;
            return r;
        }
    return -1;
}

weir_status wr_sp_checked(weir_sp *sp, weir_status status)
{
    if (status == WEIR_OK)
        return WEIR_OK;
    sp->broken = true;
    return wr_agree_comm_error(sp->comm, status, &sp->error);
}

static weir_status begin(weir_sp *sp, int64_t sequences, int64_t stride)
{
    if (sp->broken)
        return sp->error.status;
    if (sequences < 0 || sequences > sp->o.sequences)
        return wr_error_set(&sp->error, WEIR_ERR_INVALID, "make it for the largest number of sequences",
                            "%lld sequences were given, 0 to %lld can be", (long long)sequences, (long long)sp->o.sequences);
    if (stride < sp->width || stride > INT_MAX)
        return wr_error_set(&sp->error, WEIR_ERR_INVALID, "give the numbers from row to row", "rows of %lld numbers cannot stand %lld apart",
                            (long long)sp->width, (long long)stride);
    return WEIR_OK;
}

weir_status weir_sp_attention_forward(weir_sp *sp, int64_t sequences, const float *q, const float *k, const float *v, int64_t stride,
                                      float *out, float *norms)
{
    struct wr_sp_call call = {.sequences = sequences, .stride = stride, .q = q, .k = k, .v = v, .to = out, .to_norms = norms};
    weir_status status = begin(sp, sequences, stride);
    return status == WEIR_OK ? sp->class->forward(sp, &call) : status;
}

weir_status weir_sp_attention_backward(weir_sp *sp, int64_t sequences, const float *q, const float *k, const float *v, int64_t stride,
                                       const float *out, const float *norms, const float *dout, float *dq, float *dk, float *dv)
{
    struct wr_sp_call call = {.sequences = sequences, .stride = stride, .q = q, .k = k, .v = v, .out = out, .norms = norms, .dout = dout,
                              .dq = dq, .dk = dk, .dv = dv};
    weir_status status = begin(sp, sequences, stride);
    return status == WEIR_OK ? sp->class->backward(sp, &call) : status;
}
