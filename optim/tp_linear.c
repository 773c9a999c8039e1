/* SPDX-License-Identifier: BSD-3-Clause */
/* Linear layers whose outputs (columns) or inputs (rows) are divided. */
#include "optim/tp.h"

#include <limits.h>
#include <string.h>

/* A layer as one rank computes it. */
struct layer {
    int64_t tokens, inputs, outputs;
    int layout;
    const float *w;
};

static weir_status check(weir_tp *tp, const struct layer *l, int64_t part)
{
    weir_status status = wr_tp_begin(tp, l->tokens);
    if (status != WEIR_OK)
        return status;
    if (part < 0 || part > INT_MAX)
        return wr_tp_fail(tp, WEIR_ERR_INVALID, "give this rank's share, see weir_share()", "a layer cannot have %lld inputs or outputs on a rank",
                          (long long)part);
    if (l->layout != WEIR_TP_ROW_PER_INPUT && l->layout != WEIR_TP_ROW_PER_OUTPUT)
        return wr_tp_fail(tp, WEIR_ERR_INVALID, "use WEIR_TP_ROW_PER_INPUT or WEIR_TP_ROW_PER_OUTPUT", "there is no layout %d", l->layout);
    return WEIR_OK;
}

/* y = x w. */
static void forward(const weir_tp *tp, const struct layer *l, const float *x, float *y)
{
    struct wr_matrix w = l->layout == WEIR_TP_ROW_PER_INPUT ? wr_plain(l->w, l->outputs) : wr_transposed(l->w, l->inputs);
    wr_gemm(&tp->gemm, l->tokens, l->outputs, l->inputs, 1, wr_plain(x, l->inputs), w, 0, y, l->outputs);
}

/* dx = dy w'. */
static void back_input(const weir_tp *tp, const struct layer *l, const float *dy, float *dx)
{
    struct wr_matrix w = l->layout == WEIR_TP_ROW_PER_INPUT ? wr_transposed(l->w, l->outputs) : wr_plain(l->w, l->inputs);
    wr_gemm(&tp->gemm, l->tokens, l->inputs, l->outputs, 1, wr_plain(dy, l->outputs), w, 0, dx, l->inputs);
}

/* dw += x' dy, dbias += the sum of dy's rows; either may be NULL. */
static void back_weight(const weir_tp *tp, const struct layer *l, const float *x, const float *dy, float *dw, float *dbias)
{
    struct wr_matrix in = wr_transposed(x, l->inputs), out = wr_transposed(dy, l->outputs);
    if (dw && l->layout == WEIR_TP_ROW_PER_INPUT)
        wr_gemm(&tp->gemm, l->inputs, l->outputs, l->tokens, 1, in, wr_plain(dy, l->outputs), 1, dw, l->outputs);
    else if (dw)
        wr_gemm(&tp->gemm, l->outputs, l->inputs, l->tokens, 1, out, wr_plain(x, l->inputs), 1, dw, l->inputs);
    for (int64_t i = 0; dbias && i < l->tokens; i++)
        tp->loops->add(dbias, dy + i * l->outputs, (size_t)l->outputs);
}

weir_status weir_tp_column_forward(weir_tp *tp, int64_t tokens, int64_t outputs, int layout, const float *x, const float *w,
                                   const float *bias, float *y)
{
    struct layer l = {tokens, tp->o.width, outputs, layout, w};
    const float *all;
    weir_status status = check(tp, &l, outputs);
    if (status == WEIR_OK)
        status = wr_tp_gather_start(tp, tokens, x, &all);
    if (status == WEIR_OK)
        status = wr_tp_gathered(tp);
    if (status != WEIR_OK)
        return status;
    forward(tp, &l, all, y);
    for (int64_t i = 0; bias && i < tokens; i++)
        tp->loops->add(y + i * outputs, bias, (size_t)outputs);
    return WEIR_OK;
}

weir_status weir_tp_column_backward(weir_tp *tp, int64_t tokens, int64_t outputs, int layout, const float *x, const float *w,
                                    const float *dy, float *dx, float *dw, float *dbias)
{
    struct layer l = {tokens, tp->o.width, outputs, layout, w};
    const float *all = NULL;
    weir_status status = check(tp, &l, outputs);
    /* x comes while dx is computed, and that is summed up while dw is. */
    if (status == WEIR_OK && dw)
        status = wr_tp_gather_start(tp, tokens, x, &all);
    if (status == WEIR_OK && dx)
        back_input(tp, &l, dy, tp->parts);
    if (status == WEIR_OK && dw)
        status = wr_tp_gathered(tp);
    if (status == WEIR_OK && dx)
        status = wr_tp_start(tp, WR_TP_REDUCE);
    if (status != WEIR_OK)
        return status;
    back_weight(tp, &l, all, dy, dw, dbias);
    return dx ? wr_tp_reduced(tp, tokens, NULL, dx) : WEIR_OK;
}

weir_status weir_tp_row_forward(weir_tp *tp, int64_t tokens, int64_t inputs, int layout, const float *x, const float *w,
                                const float *bias, float *y)
{
    struct layer l = {tokens, inputs, tp->o.width, layout, w};
    weir_status status = check(tp, &l, inputs);
    if (status != WEIR_OK)
        return status;
    forward(tp, &l, x, tp->parts);
    status = wr_tp_start(tp, WR_TP_REDUCE);
    return status == WEIR_OK ? wr_tp_reduced(tp, tokens, bias, y) : status;
}

weir_status weir_tp_row_backward(weir_tp *tp, int64_t tokens, int64_t inputs, int layout, const float *x, const float *w, const float *dy,
                                 float *dx, float *dw, float *dbias)
{
    struct layer l = {tokens, inputs, tp->o.width, layout, w};
    const float *all;
    weir_status status = check(tp, &l, inputs);
    if (status == WEIR_OK)
        status = wr_tp_gather_start(tp, tokens, dy, &all);
    if (status == WEIR_OK)
        status = wr_tp_gathered(tp);
    if (status != WEIR_OK)
        return status;
    if (dx)
        back_input(tp, &l, all, dx);
    back_weight(tp, &l, x, all, dw, dbias);
    return WEIR_OK;
}
