/* SPDX-License-Identifier: BSD-3-Clause */
/* What has a row or a column for each word of a vocabulary: the embedding, and the loss. */
#include "optim/tp.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* The words of this rank: first .. first + n - 1. */
struct words {
    int64_t first, n;
};

static weir_status begin(weir_tp *tp, int64_t tokens, int64_t vocabulary, const int32_t *words, bool negative, struct words *mine)
{
    weir_status status = wr_tp_begin(tp, tokens);
    if (status != WEIR_OK)
        return status;
    if (vocabulary < 1 || vocabulary > INT32_MAX)
        return wr_tp_fail(tp, WEIR_ERR_INVALID, "give 1 to 2^31-1", "a vocabulary cannot have %lld words", (long long)vocabulary);
    for (int64_t i = 0; i < tokens; i++)
        if (words[i] >= vocabulary || (words[i] < 0 && !negative))
            return wr_tp_fail(tp, WEIR_ERR_INVALID, "check the data", "token %lld is %d, but there are %lld words", (long long)i,
                              (int)words[i], (long long)vocabulary);
    mine->first = weir_share_first(vocabulary, tp->nranks, tp->rank);
    mine->n = weir_share(vocabulary, tp->nranks, tp->rank);
    return WEIR_OK;
}

static bool has(const struct words *mine, int64_t word)
{
    return word >= mine->first && word < mine->first + mine->n;
}

weir_status weir_tp_embed_forward(weir_tp *tp, int64_t tokens, int64_t vocabulary, const int32_t *words, const float *table, float *y)
{
    size_t row = (size_t)tp->o.width;
    struct words mine;
    weir_status status = begin(tp, tokens, vocabulary, words, false, &mine);
    if (status != WEIR_OK)
        return status;
    for (int64_t i = 0; i < tokens; i++) {
        float *to = tp->parts + (size_t)i * row;
        if (has(&mine, words[i]))
            memcpy(to, table + (size_t)(words[i] - mine.first) * row, row * sizeof *to);
        else
            memset(to, 0, row * sizeof *to);
    }
    status = wr_tp_start(tp, WR_TP_REDUCE);
    return status == WEIR_OK ? wr_tp_reduced(tp, tokens, NULL, y) : status;
}

weir_status weir_tp_embed_backward(weir_tp *tp, int64_t tokens, int64_t vocabulary, const int32_t *words, const float *dy, float *dtable)
{
    size_t row = (size_t)tp->o.width;
    struct words mine;
    const float *all;
    weir_status status = begin(tp, tokens, vocabulary, words, false, &mine);
    if (status == WEIR_OK)
        status = weir_tp_gather(tp, tokens, dy, &all);
    if (status != WEIR_OK)
        return status;
    for (int64_t i = 0; i < tokens; i++)
        if (has(&mine, words[i]))
            tp->loops->add(dtable + (size_t)(words[i] - mine.first) * row, all + (size_t)i * row, row);
    return WEIR_OK;
}

/* The largest logit of each token over all ranks is left in tp->totals. */
static weir_status find_most(weir_tp *tp, int64_t tokens, const struct words *mine, const float *logits)
{
    for (int64_t i = 0; i < tokens; i++)
        tp->stats[i] = tp->loops->most(logits + i * mine->n, (size_t)mine->n);
    weir_status status = wr_tp_start(tp, WR_TP_MOST);
    return status == WEIR_OK ? wr_tp_wait(tp, WR_TP_MOST) : status;
}

/* Logits become exponentials relative to the largest; in tp->totals are the sum of these, and the target's logit, of each token. */
static weir_status add_up(weir_tp *tp, int64_t tokens, const struct words *mine, const int32_t *targets, float *logits)
{
    for (int64_t i = 0; i < tokens; i++) {
        float *row = logits + i * mine->n, most = tp->totals[i];
        tp->stats[2 * i + 1] = has(mine, targets[i]) ? row[targets[i] - mine->first] - most : 0;
        tp->stats[2 * i] = tp->loops->exponentials(row, most, (size_t)mine->n);
    }
    weir_status status = wr_tp_start(tp, WR_TP_SUMS);
    return status == WEIR_OK ? wr_tp_wait(tp, WR_TP_SUMS) : status;
}

weir_status weir_tp_cross_entropy(weir_tp *tp, int64_t tokens, int64_t vocabulary, const int32_t *targets, float scale, float *logits,
                                  float *losses, double *sum)
{
    struct words mine;
    double total = 0;
    weir_status status = begin(tp, tokens, vocabulary, targets, true, &mine);
    if (status == WEIR_OK)
        status = find_most(tp, tokens, &mine, logits);
    if (status == WEIR_OK)
        status = add_up(tp, tokens, &mine, targets, logits);
    if (status != WEIR_OK)
        return status;
    for (int64_t i = 0; i < tokens; i++) {
        float *row = logits + i * mine.n;
        bool counts = targets[i] >= 0;
        double loss = counts ? log((double)tp->totals[2 * i]) - (double)tp->totals[2 * i + 1] : 0;
        if (counts)
            tp->loops->scale(row, scale / tp->totals[2 * i], (size_t)mine.n);
        else if (mine.n)
            memset(row, 0, (size_t)mine.n * sizeof *row);
        if (has(&mine, targets[i]))
            row[targets[i] - mine.first] -= scale;
        if (losses)
            losses[i] = (float)loss;
        total += loss;
    }
    if (sum)
        *sum = total;
    return WEIR_OK;
}
