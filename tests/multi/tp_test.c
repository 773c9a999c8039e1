/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tensor parallelism against the same layers of one process in double. Run by weirrun with any number of ranks: every rank computes the
 * whole and compares its part. TOLERANCE says how near.
 */
#include "tests/multi/parallel.h"

static int products; /* of own_gemm() */
static bool blas;

static weir_tp *make(int64_t tokens, int64_t width, uint64_t flags, bool own)
{
    weir_tp_options o = WEIR_TP_OPTIONS_INIT;
    weir_error error;
    weir_tp *tp;
    o.tokens = tokens;
    o.width = width;
    o.flags = flags;
    o.gemm = own || !blas ? own_gemm : NULL;
    o.gemm_user = &products;
    CHECK(weir_tp_create(comm, &o, &tp, &error) == WEIR_OK, "weir_tp_create: %s", error.message);
    return tp;
}

#define GOOD(call) CHECK((call) == WEIR_OK, "%s: %s", #call, weir_tp_error(tp)->message)

/* The whole layer: tokens x inputs -> tokens x outputs. */
struct whole {
    int64_t tokens, inputs, outputs;
    double *x, *w, *bias, *dy, *y, *dx, *dw, *dbias;
};

static struct whole make_whole(int64_t tokens, int64_t inputs, int64_t outputs)
{
    struct whole l = {tokens, inputs, outputs, numbers(tokens * inputs, 1), numbers(inputs * outputs, 2), numbers(outputs, 3),
                      numbers(tokens * outputs, 4), zeros(tokens * outputs), zeros(tokens * inputs), numbers(inputs * outputs, 5),
                      numbers(outputs, 6)};
    product(tokens, outputs, inputs, l.x, false, l.w, false, l.y);
    product(tokens, inputs, outputs, l.dy, false, l.w, true, l.dx);
    product(inputs, outputs, tokens, l.x, true, l.dy, false, l.dw);
    for (int64_t i = 0; i < tokens * outputs; i++) {
        l.y[i] += l.bias[i % outputs];
        l.dbias[i % outputs] += l.dy[i];
    }
    return l;
}

static void free_whole(struct whole *l)
{
    double *all[] = {l->x, l->w, l->bias, l->dy, l->y, l->dx, l->dw, l->dbias};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

static void column(weir_tp *tp, int64_t tokens, int64_t width, int64_t outputs, int layout)
{
    struct whole l = make_whole(tokens, width, outputs);
    int64_t first = weir_share_first(outputs, size, rank), n = weir_share(outputs, size, rank), row, rows = weir_tp_rows(tp, tokens, &row);
    float *x = part_of(l.x, width, row, rows, 0, width, false), *w = part_of(l.w, outputs, 0, width, first, n, layout);
    float *bias = part_of(l.bias, outputs, 0, 1, first, n, false), *dy = part_of(l.dy, outputs, 0, tokens, first, n, false);
    float *y = nothing(tokens * n), *dx = nothing(rows * width);
    double *seed = numbers(width * outputs, 5), *seed_bias = numbers(outputs, 6);
    float *dw = part_of(seed, outputs, 0, width, first, n, layout), *dbias = part_of(seed_bias, outputs, 0, 1, first, n, false);
    GOOD(weir_tp_column_forward(tp, tokens, n, layout, x, w, bias, y));
    GOOD(weir_tp_column_backward(tp, tokens, n, layout, x, w, dy, dx, dw, dbias));
    expect(y, l.y, outputs, 0, tokens, first, n, false, "column-parallel forward");
    expect(dx, l.dx, width, row, rows, 0, width, false, "column-parallel dx");
    expect(dbias, l.dbias, outputs, 0, 1, first, n, false, "column-parallel dbias");
    expect(dw, l.dw, outputs, 0, width, first, n, layout, "column-parallel dw");
    /* dx alone, and the weights' gradients alone */
    dx = nothing(rows * width);
    GOOD(weir_tp_column_backward(tp, tokens, n, layout, NULL, w, dy, dx, NULL, NULL));
    expect(dx, l.dx, width, row, rows, 0, width, false, "column-parallel dx alone");
    dw = part_of(seed, outputs, 0, width, first, n, layout);
    GOOD(weir_tp_column_backward(tp, tokens, n, layout, x, w, dy, NULL, dw, NULL));
    expect(dw, l.dw, outputs, 0, width, first, n, layout, "column-parallel dw alone");
    free(x), free(w), free(bias), free(dy), free(seed), free(seed_bias);
    free_whole(&l);
}

static void row(weir_tp *tp, int64_t tokens, int64_t inputs, int64_t width, int layout)
{
    struct whole l = make_whole(tokens, inputs, width);
    int64_t first = weir_share_first(inputs, size, rank), n = weir_share(inputs, size, rank), at, rows = weir_tp_rows(tp, tokens, &at);
    float *x = part_of(l.x, inputs, 0, tokens, first, n, false), *w = part_of(l.w, width, first, n, 0, width, layout);
    float *bias = part_of(l.bias, width, 0, 1, 0, width, false), *dy = part_of(l.dy, width, at, rows, 0, width, false);
    float *y = nothing(rows * width), *dx = nothing(tokens * n);
    double *seed = numbers(inputs * width, 5), *seed_bias = numbers(width, 6);
    float *dw = part_of(seed, width, first, n, 0, width, layout), *dbias = part_of(seed_bias, width, 0, 1, 0, width, false);
    GOOD(weir_tp_row_forward(tp, tokens, n, layout, x, w, bias, y));
    GOOD(weir_tp_row_backward(tp, tokens, n, layout, x, w, dy, dx, dw, dbias));
    expect(y, l.y, width, at, rows, 0, width, false, "row-parallel forward");
    expect(dx, l.dx, inputs, 0, tokens, first, n, false, "row-parallel dx");
    expect(dw, l.dw, width, first, n, 0, width, layout, "row-parallel dw");
    expect(dbias, l.dbias, width, 0, 1, 0, width, false, "row-parallel dbias");
    free(x), free(w), free(bias), free(dy), free(seed), free(seed_bias);
    free_whole(&l);
}

/* The communications alone: gather brings everybody's rows, reduce adds up; and what one rank alone has would be found wrong. */
static void alone(weir_tp *tp, int64_t tokens, int64_t width)
{
    double *x = numbers(tokens * width, 7), *sum = zeros(tokens * width);
    int64_t at, rows = weir_tp_rows(tp, tokens, &at), n = 0, wrong = 0;
    for (int r = 0; r < size; r++)
        for (int64_t i = 0; i < tokens * width; i++)
            sum[i] += number((uint64_t)i, 100 + (uint64_t)r);
    float *mine = part_of(x, width, at, rows, 0, width, false), *all = nothing(tokens * width), *y = nothing(rows * width);
    const float *whole;
    GOOD(weir_tp_gather(tp, tokens, mine, &whole));
    memcpy(all, whole, (size_t)(tokens * width) * sizeof *all);
    expect(all, x, width, 0, tokens, 0, width, false, "gather");
    double *part = numbers(tokens * width, 100 + (uint64_t)rank);
    all = part_of(part, width, 0, tokens, 0, width, false);
    GOOD(weir_tp_reduce_start(tp, tokens, all));
    GOOD(weir_tp_gather(tp, tokens, mine, &whole)); /* may come in between */
    CHECK(weir_tp_reduce(tp, tokens, all, y) == WEIR_ERR_INVALID, "two sums at once");
    GOOD(weir_tp_reduce_end(tp, y));
    CHECK(weir_tp_reduce_end(tp, y) == WEIR_ERR_INVALID, "a sum that was not started");
    for (int64_t i = 0; i < rows * width; i++, n++)
        wrong += !is_near(part[at * width + i], sum[at * width + i]);
    CHECK(size == 1 || wrong > n / 2 || n == 0, "a sum that lacks the others would pass");
    expect(y, sum, width, at, rows, 0, width, false, "reduce");
    free(all), free(x), free(sum), free(mine), free(part);
}

static int32_t *draw_words(int64_t n, int64_t vocabulary, uint64_t seed)
{
    int32_t *words = calloc((size_t)n + 1, sizeof *words);
    for (int64_t i = 0; i < n; i++)
        words[i] = (int32_t)((number((uint64_t)i, seed) + 1) / 2 * (double)vocabulary);
    return words;
}

static void embedding(weir_tp *tp, int64_t tokens, int64_t width, int64_t vocabulary)
{
    int64_t first = weir_share_first(vocabulary, size, rank), n = weir_share(vocabulary, size, rank), at, rows = weir_tp_rows(tp, tokens, &at);
    int32_t *words = draw_words(tokens, vocabulary, 8);
    double *table = numbers(vocabulary * width, 9), *dy = numbers(tokens * width, 10), *y = zeros(tokens * width), *dtable = zeros(vocabulary * width);
    for (int64_t i = 0; i < tokens * width; i++) {
        y[i] = table[words[i / width] * width + i % width];
        dtable[words[i / width] * width + i % width] += dy[i];
    }
    float *mine = part_of(table, width, first, n, 0, width, false), *dy_mine = part_of(dy, width, at, rows, 0, width, false);
    float *got = nothing(rows * width), *dgot = calloc((size_t)(n * width) + 1, sizeof *dgot);
    GOOD(weir_tp_embed_forward(tp, tokens, vocabulary, words, mine, got));
    GOOD(weir_tp_embed_backward(tp, tokens, vocabulary, words, dy_mine, dgot));
    expect(got, y, width, at, rows, 0, width, false, "embedding forward");
    expect(dgot, dtable, width, first, n, 0, width, false, "embedding backward");
    free(words), free(table), free(dy), free(y), free(dtable), free(mine), free(dy_mine);
}

/* height: of the logits; large ones would overflow without the largest being taken away. */
static void cross_entropy(weir_tp *tp, int64_t tokens, int64_t vocabulary, double height)
{
    int64_t first = weir_share_first(vocabulary, size, rank), n = weir_share(vocabulary, size, rank);
    int32_t *targets = draw_words(tokens, vocabulary, 11);
    double *logits = numbers(tokens * vocabulary, 12), *losses = zeros(tokens), total = 0, got_total;
    for (int64_t i = 0; i < tokens * vocabulary; i++)
        logits[i] = (double)(float)(logits[i] * height);
    if (tokens > 2)
        targets[2] = -1;
    float *mine = part_of(logits, vocabulary, 0, tokens, first, n, false), *got = nothing(tokens);
    for (int64_t i = 0; i < tokens; i++) {
        double *row = logits + i * vocabulary, sum = 0, most = row[0];
        for (int64_t j = 0; j < vocabulary; j++)
            most = fmax(most, row[j]);
        for (int64_t j = 0; j < vocabulary; j++)
            sum += exp(row[j] - most);
        losses[i] = targets[i] < 0 ? 0 : log(sum) + most - row[targets[i]];
        total += losses[i];
        for (int64_t j = 0; j < vocabulary; j++)
            row[j] = targets[i] < 0 ? 0 : 0.5 * (exp(row[j] - most) / sum - (j == targets[i]));
    }
    GOOD(weir_tp_cross_entropy(tp, tokens, vocabulary, targets, 0.5f, mine, got, &got_total));
    expect(mine, logits, vocabulary, 0, tokens, first, n, false, "gradient of the cross-entropy");
    expect(got, losses, 1, 0, tokens, 0, 1, false, "cross-entropy");
    CHECK(is_near(got_total, total), "the sum of the losses is %g instead of %g", got_total, total);
    free(targets), free(logits), free(losses);
}

static void everything(uint64_t flags, bool own)
{
    static const struct {
        int64_t tokens, width;
    } shapes[] = {{12, 16}, {7, 5}, {33, 24}, {2, 1}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        int64_t width = shapes[s].width;
        weir_tp *tp = make(shapes[s].tokens, width, flags, own);
        /* as many tokens as there is room for, fewer, none, and all again behind what those left */
        for (int64_t part = 0; part < 4; part++) {
            int64_t tokens = part == 1 ? shapes[s].tokens / 2 : part == 2 ? 0 : shapes[s].tokens;
            for (int layout = 0; layout < 2; layout++) {
                column(tp, tokens, width, 11, layout);
                column(tp, tokens, width, 2, layout);
                row(tp, tokens, 13, width, layout);
                row(tp, tokens, 1, width, layout);
            }
            alone(tp, tokens, width);
            embedding(tp, tokens, width, 19);
            embedding(tp, tokens, width, 3);
            cross_entropy(tp, tokens, 37, 4);
            cross_entropy(tp, tokens, 3, 1);
            cross_entropy(tp, tokens, 129, 300);
        }
        weir_tp_free(tp);
    }
}

/* Two layers with a bend between them, as in a perceptron, backward by the chain rule: their communications are conjugate. */
static void perceptron(uint64_t flags)
{
    enum { TOKENS = 10, WIDTH = 6, INNER = 14 };
    weir_tp *tp = make(TOKENS, WIDTH, flags, false);
    double *x = numbers(TOKENS * WIDTH, 20), *w1 = numbers(WIDTH * INNER, 21), *w2 = numbers(INNER * WIDTH, 22), *dy = numbers(TOKENS * WIDTH, 23);
    double *h = zeros(TOKENS * INNER), *dh = zeros(TOKENS * INNER), *y = zeros(TOKENS * WIDTH), *dx = zeros(TOKENS * WIDTH);
    product(TOKENS, INNER, WIDTH, x, false, w1, false, h);
    for (int i = 0; i < TOKENS * INNER; i++)
        h[i] *= h[i];
    product(TOKENS, WIDTH, INNER, h, false, w2, false, y);
    product(TOKENS, INNER, WIDTH, dy, false, w2, true, dh);
    for (int i = 0; i < TOKENS * INNER; i++)
        dh[i] *= 2 * copysign(sqrt(h[i]), 1);
    int64_t first = weir_share_first(INNER, size, rank), n = weir_share(INNER, size, rank), at, rows = weir_tp_rows(tp, TOKENS, &at);
    float *mx = part_of(x, WIDTH, at, rows, 0, WIDTH, false), *mw1 = part_of(w1, INNER, 0, WIDTH, first, n, false);
    float *mw2 = part_of(w2, WIDTH, first, n, 0, WIDTH, false), *mdy = part_of(dy, WIDTH, at, rows, 0, WIDTH, false);
    float *mh = nothing(TOKENS * n), *square = nothing(TOKENS * n), *mdh = nothing(TOKENS * n), *my = nothing(rows * WIDTH);
    float *mdx = nothing(rows * WIDTH);
    GOOD(weir_tp_column_forward(tp, TOKENS, n, 0, mx, mw1, NULL, mh));
    for (int64_t i = 0; i < TOKENS * n; i++)
        square[i] = mh[i] * mh[i];
    GOOD(weir_tp_row_forward(tp, TOKENS, n, 0, square, mw2, NULL, my));
    GOOD(weir_tp_row_backward(tp, TOKENS, n, 0, square, mw2, mdy, mdh, NULL, NULL));
    for (int64_t i = 0; i < TOKENS * n; i++)
        mdh[i] *= 2 * mh[i];
    GOOD(weir_tp_column_backward(tp, TOKENS, n, 0, mx, mw1, mdh, mdx, NULL, NULL));
    double *inner = zeros(TOKENS * INNER);
    product(TOKENS, INNER, WIDTH, x, false, w1, false, inner);
    for (int i = 0; i < TOKENS * INNER; i++)
        dh[i] = inner[i] < 0 ? -dh[i] : dh[i];
    product(TOKENS, WIDTH, INNER, dh, false, w1, true, dx);
    expect(my, y, WIDTH, at, rows, 0, WIDTH, false, "perceptron forward");
    expect(mdx, dx, WIDTH, at, rows, 0, WIDTH, false, "perceptron backward");
    free(x), free(w1), free(w2), free(dy), free(h), free(dh), free(y), free(dx), free(inner);
    free(mx), free(mw1), free(mw2), free(mdy), free(mh), free(square), free(mdh);
    weir_tp_free(tp);
}

static void refused(weir_tp_options o, weir_status status, const char *text)
{
    weir_error error = {.status = WEIR_OK};
    weir_tp *tp = NULL;
    weir_status got = weir_tp_create(comm, &o, &tp, &error);
    CHECK(got == status && !tp, "%s: %s", text, weir_status_name(got));
    CHECK(strstr(error.message, text), "'%s' is not in: %s", text, error.message);
}

static void refusals(void)
{
    weir_tp_options o = WEIR_TP_OPTIONS_INIT, other;
    o.gemm = own_gemm;
    o.gemm_user = &products;
    refused(o, WEIR_ERR_INVALID, "0 tokens of width 0");
    o.tokens = o.width = 4;
    other = o;
    other.experts = 8;
    refused(other, WEIR_ERR_UNSUPPORTED, "expert parallelism is not supported: 8 experts");
    other = o;
    other.flags = 2;
    refused(other, WEIR_ERR_INVALID, "no flags 0x2");
    if (size > 1) {
        other = o;
        other.width += rank == 1;
        refused(other, WEIR_ERR_MISMATCH, "different options");
        other.width = rank == 1 ? 0 : 4;
        refused(other, rank == 1 ? WEIR_ERR_INVALID : WEIR_ERR_CANCELED, rank == 1 ? "width 0" : "another rank");
    }
    float x[32] = {0}, y[64];
    int32_t words[4] = {0, 1, 5, 2};
    weir_tp *tp = make(4, 4, 0, true);
    CHECK(weir_tp_column_forward(tp, 5, 1, 0, x, x, NULL, y) == WEIR_ERR_INVALID && strstr(weir_tp_error(tp)->message, "5 tokens"), "too many");
    CHECK(weir_tp_row_forward(tp, 4, -1, 0, x, x, NULL, y) == WEIR_ERR_INVALID, "negative inputs");
    CHECK(weir_tp_row_forward(tp, 4, 1, 2, x, x, NULL, y) == WEIR_ERR_INVALID && strstr(weir_tp_error(tp)->message, "layout 2"), "a layout");
    CHECK(weir_tp_embed_forward(tp, 4, 5, words, x, y) == WEIR_ERR_INVALID && strstr(weir_tp_error(tp)->message, "token 2 is 5"), "a word");
    words[2] = -1;
    CHECK(weir_tp_embed_forward(tp, 4, 5, words, x, y) == WEIR_ERR_INVALID, "a negative word");
    CHECK(weir_tp_cross_entropy(tp, 4, 0, words, 1, x, NULL, NULL) == WEIR_ERR_INVALID, "an empty vocabulary");
    alone(tp, 4, 4); /* and it still works */
    weir_tp_free(tp);
    weir_tp_free(NULL);
}

int main(void)
{
    start();
    blas = weir_blas_core();
    for (uint64_t flags = 0; flags < 2; flags++) {
        everything(flags, false);
        perceptron(flags);
    }
    everything(WEIR_TP_SEQUENCE, true);
    CHECK(products > 0, "the caller's products were not asked for");
    refusals();
    finish("tensor parallelism");
    return 0;
}
