/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans of tensor parallelism: making and ending, and what moves activations. */
#include "optim/tp.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/coll_v.h>

#include "base/error.h"
#include "optim/agree.h"

static const char WHAT[] = "tensor-parallel plan";

int64_t weir_share_first(int64_t total, int nranks, int rank)
{
    int64_t each = total / nranks, more = total % nranks;
    return rank * each + WR_MIN(rank, more);
}

int64_t weir_share(int64_t total, int nranks, int rank)
{
    return weir_share_first(total, nranks, rank + 1) - weir_share_first(total, nranks, rank);
}

/* ---- making and ending ---- */

static weir_status read_options(weir_tp *tp, const weir_tp_options *given, weir_error *err)
{
    weir_tp_options *o = &tp->o;
    *o = (weir_tp_options)WEIR_TP_OPTIONS_INIT;
    if (!given)
        return wr_error_set(err, WEIR_ERR_INVALID, "start from WEIR_TP_OPTIONS_INIT", "there are no options");
    memcpy(o, given, WR_MIN(given->size, sizeof *o));
    if (o->tokens < 1 || o->width < 1 || o->tokens > INT_MAX / 2 || o->width > INT_MAX)
        return wr_error_set(err, WEIR_ERR_INVALID, "set options.tokens and options.width", "%lld tokens of width %lld cannot be communicated",
                            (long long)o->tokens, (long long)o->width);
    if (o->flags & ~(uint64_t)WEIR_TP_SEQUENCE)
        return wr_error_set(err, WEIR_ERR_INVALID, "use WEIR_TP_SEQUENCE or 0", "there are no flags 0x%llx", (unsigned long long)o->flags);
    if (o->experts > 1)
        return wr_error_set(err, WEIR_ERR_UNSUPPORTED, "use layers that all tokens go through, options.experts 1",
                            "expert parallelism is not supported: %lld experts were asked for", (long long)o->experts);
    if (o->experts != 1)
        return wr_error_set(err, WEIR_ERR_INVALID, "set options.experts to 1", "there cannot be %lld experts", (long long)o->experts);
    return wr_gemm_choose(o->gemm, o->gemm_user, &tp->gemm, err);
}

static bool divided(const weir_tp *tp)
{
    return tp->o.flags & WEIR_TP_SEQUENCE;
}

/* Elements that end at a cache line. */
static uint64_t lines(uint64_t elements)
{
    enum { LINE = WR_CACHE_LINE / sizeof(float) };
    return (elements + LINE - 1) / LINE * LINE;
}

static weir_status make_memory(weir_tp *tp)
{
    uint64_t tokens = (uint64_t)tp->o.tokens, all = lines(tokens * (uint64_t)tp->o.width);
    uint64_t mine = divided(tp) ? lines((uint64_t)(weir_share(tp->o.tokens, tp->nranks, tp->rank) * tp->o.width)) : 0, pair = lines(2 * tokens);
    weir_status status = weir_mem_alloc(tp->comm, (2 * all + mine + 2 * pair) * sizeof(float), 0, &tp->mem);
    if (status != WEIR_OK)
        return status;
    tp->parts = weir_mem_ptr(tp->mem);
    tp->whole = tp->parts + all;
    tp->sum = divided(tp) ? tp->whole + all : tp->whole;
    tp->stats = tp->whole + all + mine;
    tp->totals = tp->stats + pair;
    return WEIR_OK;
}

static weir_status make_requests(weir_tp *tp)
{
    uint64_t tokens = (uint64_t)tp->o.tokens, all = tokens * (uint64_t)tp->o.width;
    weir_status status = WEIR_OK;
    if (divided(tp)) {
        uint64_t *counts = calloc((size_t)tp->nranks, sizeof *counts);
        for (int r = 0; counts && r < tp->nranks; r++)
            counts[r] = (uint64_t)(weir_share(tp->o.tokens, tp->nranks, r) * tp->o.width);
        /* a rank without memory must not leave the others alone in these calls */
        status = wr_agree(tp->comm, counts ? WEIR_OK : wr_error_memory(&tp->error, sizeof *counts, WHAT), 0, WHAT, &tp->error);
        if (status == WEIR_OK)
            status = weir_reduce_scatterv_init(tp->comm, tp->parts, tp->sum, counts, WEIR_FP32, WEIR_SUM, &tp->request[WR_TP_REDUCE]);
        if (status == WEIR_OK)
            status = weir_allgatherv_init(tp->comm, WEIR_IN_PLACE, tp->whole, counts, NULL, WEIR_FP32, &tp->request[WR_TP_GATHER]);
        free(counts);
    } else {
        status = weir_allreduce_init(tp->comm, tp->parts, tp->sum, all, WEIR_FP32, WEIR_SUM, &tp->request[WR_TP_REDUCE]);
    }
    if (status == WEIR_OK)
        status = weir_allreduce_init(tp->comm, tp->stats, tp->totals, tokens, WEIR_FP32, WEIR_MAX, &tp->request[WR_TP_MOST]);
    if (status == WEIR_OK)
        status = weir_allreduce_init(tp->comm, tp->stats, tp->totals, 2 * tokens, WEIR_FP32, WEIR_SUM, &tp->request[WR_TP_SUMS]);
    return status;
}

weir_status weir_tp_create(weir_comm *comm, const weir_tp_options *options, weir_tp **tp, weir_error *error)
{
    weir_tp *t = calloc(1, sizeof *t);
    weir_status status = t ? read_options(t, options, error) : wr_error_memory(error, sizeof *t, WHAT);
    uint64_t hash = 0;
    if (status == WEIR_OK) {
        const int64_t numbers[] = {t->o.tokens, t->o.width, (int64_t)t->o.flags};
        hash = wr_agree_hash(WR_AGREE_HASH, numbers, sizeof numbers);
    }
    status = wr_agree(comm, status, hash, WHAT, error);
    if (status != WEIR_OK) {
        free(t);
        return status;
    }
    t->comm = comm;
    t->rank = weir_comm_rank(comm);
    t->nranks = weir_comm_size(comm);
    t->loops = wr_optim_table_best()->softmax;
    status = make_memory(t);
    if (status == WEIR_OK)
        status = make_requests(t);
    if (status != WEIR_OK) {
        wr_agree_comm_error(comm, status, error);
        weir_tp_free(t);
        return status;
    }
    *tp = t;
    return WEIR_OK;
}

void weir_tp_free(weir_tp *tp)
{
    if (!tp)
        return;
    for (int i = 0; i < WR_TP_REQUESTS; i++)
        weir_request_free(&tp->request[i]);
    if (tp->mem)
        weir_mem_free(tp->mem);
    free(tp);
}

/* ---- errors ---- */

const weir_error *weir_tp_error(const weir_tp *tp)
{
    return &tp->error;
}

weir_status wr_tp_fail(weir_tp *tp, weir_status status, const char *advice, const char *fmt, ...)
{
    char message[sizeof tp->error.message];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    return wr_error_set(&tp->error, status, advice, "%s", message);
}

/* What a gather has to check, too, which may come while a sum is under way. */
static weir_status begin(weir_tp *tp, int64_t tokens)
{
    if (tp->broken)
        return tp->error.status;
    if (tokens < 0 || tokens > tp->o.tokens)
        return wr_tp_fail(tp, WEIR_ERR_INVALID, "make it for the largest number of tokens", "%lld tokens were given, 0 to %lld can be",
                          (long long)tokens, (long long)tp->o.tokens);
    return WEIR_OK;
}

weir_status wr_tp_begin(weir_tp *tp, int64_t tokens)
{
    weir_status status = begin(tp, tokens);
    if (status == WEIR_OK && tp->summing)
        status = wr_tp_fail(tp, WEIR_ERR_INVALID, "call weir_tp_reduce_end() first", "a sum that was started has not been waited for");
    return status;
}

static weir_status checked(weir_tp *tp, weir_status status)
{
    if (status == WEIR_OK)
        return WEIR_OK;
    tp->broken = true;
    return wr_agree_comm_error(tp->comm, status, &tp->error);
}

/* ---- moving activations ---- */

weir_status wr_tp_start(weir_tp *tp, enum wr_tp_request which)
{
    return checked(tp, weir_start(tp->request[which]));
}

weir_status wr_tp_wait(weir_tp *tp, enum wr_tp_request which)
{
    return checked(tp, weir_wait(&tp->request[which]));
}

int64_t weir_tp_rows(const weir_tp *tp, int64_t tokens, int64_t *first)
{
    int64_t begin = divided(tp) ? WR_MIN(weir_share_first(tp->o.tokens, tp->nranks, tp->rank), tokens) : 0;
    int64_t end = divided(tp) ? WR_MIN(weir_share_first(tp->o.tokens, tp->nranks, tp->rank + 1), tokens) : tokens;
    if (first)
        *first = begin;
    return end - begin;
}

weir_status wr_tp_gather_start(weir_tp *tp, int64_t tokens, const float *x, const float **all)
{
    int64_t first, rows = weir_tp_rows(tp, tokens, &first);
    *all = divided(tp) ? tp->whole : x;
    if (!divided(tp))
        return WEIR_OK;
    if (rows)
        memcpy(tp->whole + first * tp->o.width, x, (size_t)(rows * tp->o.width) * sizeof *x);
    return wr_tp_start(tp, WR_TP_GATHER);
}

weir_status wr_tp_gathered(weir_tp *tp)
{
    return divided(tp) ? wr_tp_wait(tp, WR_TP_GATHER) : WEIR_OK;
}

weir_status wr_tp_reduced(weir_tp *tp, int64_t tokens, const float *bias, float *y)
{
    int64_t width = tp->o.width, rows = weir_tp_rows(tp, tokens, NULL);
    weir_status status = wr_tp_wait(tp, WR_TP_REDUCE);
    if (status != WEIR_OK || !rows)
        return status;
    memcpy(y, tp->sum, (size_t)(rows * width) * sizeof *y);
    for (int64_t i = 0; bias && i < rows; i++)
        tp->loops->add(y + i * width, bias, (size_t)width);
    return WEIR_OK;
}

weir_status weir_tp_gather(weir_tp *tp, int64_t tokens, const float *x, const float **whole)
{
    const float *all;
    weir_status status = begin(tp, tokens);
    if (status == WEIR_OK)
        status = wr_tp_gather_start(tp, tokens, x, &all);
    if (status == WEIR_OK)
        status = wr_tp_gathered(tp);
    if (status == WEIR_OK)
        *whole = all;
    return status;
}

weir_status weir_tp_reduce_start(weir_tp *tp, int64_t tokens, const float *x)
{
    weir_status status = wr_tp_begin(tp, tokens);
    if (status != WEIR_OK)
        return status;
    if (tokens)
        memcpy(tp->parts, x, (size_t)(tokens * tp->o.width) * sizeof *x);
    status = wr_tp_start(tp, WR_TP_REDUCE);
    tp->summing = status == WEIR_OK;
    tp->tokens = tokens;
    return status;
}

weir_status weir_tp_reduce_end(weir_tp *tp, float *y)
{
    weir_status status = begin(tp, 0);
    if (status == WEIR_OK && !tp->summing)
        status = wr_tp_fail(tp, WEIR_ERR_INVALID, "call weir_tp_reduce_start() first", "no sum was started");
    if (status != WEIR_OK)
        return status;
    tp->summing = false;
    return wr_tp_reduced(tp, tp->tokens, NULL, y);
}

weir_status weir_tp_reduce(weir_tp *tp, int64_t tokens, const float *x, float *y)
{
    weir_status status = weir_tp_reduce_start(tp, tokens, x);
    return status == WEIR_OK ? weir_tp_reduce_end(tp, y) : status;
}
