/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Attention over divided sequences against plain attention of one process in double, forward and backward, with and without dropout; and
 * that all ranks have the same to do where that is said. Run by weirrun with any number of ranks. TOLERANCE says how near.
 */
#include "tests/multi/parallel.h"

static int products; /* of own_gemm() */
static int drops;    /* calls of drop() */
static bool blas;

/* The whole: sequences x length rows of heads x size numbers. */
struct whole {
    weir_sp_options o;
    int64_t width;
    double *q, *k, *v, *dout, *out, *norms, *dq, *dk, *dv;
};

/* What a share is multiplied by: one in three is dropped, whoever asks. */
static double kept(int64_t s, int64_t h, int64_t query, int64_t key)
{
    return number((uint64_t)(((s * 64 + h) * 512 + query) * 512 + key), 9) < -1.0 / 3 ? 0 : 1.5;
}

static void drop(void *user, int64_t sequence, int64_t head, int64_t query, int64_t key, int64_t n, float *shares)
{
    ++*(int *)user;
    for (int64_t j = 0; j < n; j++)
        shares[j] *= (float)kept(sequence, head, query, key + j);
}

/* One head of one sequence. */
static void attend(struct whole *w, int64_t s, int64_t h)
{
    int64_t n = w->o.length, each = w->o.head_size;
    double scale = w->o.scale != 0 ? w->o.scale : 1 / sqrt((double)each), *p = zeros(n), *dp = zeros(n);
#define AT(x, i, d) w->x[(s * n + (i)) * w->width + h * each + (d)]
    for (int64_t i = 0; i < n; i++) {
        int64_t m = w->o.flags & WEIR_SP_CAUSAL ? i + 1 : n;
        double most = -INFINITY, sum = 0, mean = 0;
        for (int64_t j = 0; j < m; j++) {
            p[j] = 0;
            for (int64_t d = 0; d < each; d++)
                p[j] += scale * AT(q, i, d) * AT(k, j, d);
            most = fmax(most, p[j]);
        }
        for (int64_t j = 0; j < m; j++)
            sum += p[j] = exp(p[j] - most);
        w->norms[(s * n + i) * w->o.heads + h] = most + log(sum);
        for (int64_t j = 0; j < m; j++) {
            p[j] /= sum;
            dp[j] = 0;
            double keep = w->o.drop ? kept(s, h, i, j) : 1;
            for (int64_t d = 0; d < each; d++) {
                AT(out, i, d) += keep * p[j] * AT(v, j, d);
                AT(dv, j, d) += keep * p[j] * AT(dout, i, d);
                dp[j] += keep * AT(dout, i, d) * AT(v, j, d);
            }
            mean += p[j] * dp[j];
        }
        for (int64_t j = 0; j < m; j++)
            for (int64_t d = 0; d < each; d++) {
                AT(dq, i, d) += scale * p[j] * (dp[j] - mean) * AT(k, j, d);
                AT(dk, j, d) += scale * p[j] * (dp[j] - mean) * AT(q, i, d);
            }
    }
#undef AT
    free(p);
    free(dp);
}

static struct whole make_whole(const weir_sp_options *o)
{
    int64_t width = o->heads * o->head_size, n = o->sequences * o->length * width;
    struct whole w = {*o, width, numbers(n, 1), numbers(n, 2), numbers(n, 3), numbers(n, 4), zeros(n), zeros(n / o->head_size), zeros(n), zeros(n), zeros(n)};
    for (int64_t i = 0; i < n; i++)
        w.q[i] *= 4; /* shares that differ */
    for (int64_t s = 0; s < o->sequences; s++)
        for (int64_t h = 0; h < o->heads; h++)
            attend(&w, s, h);
    return w;
}

/* This rank's rows of a matrix of all tokens, into one whose rows are `stride` apart. */
static void take(const weir_sp *sp, const struct whole *w, int64_t sequences, const double *from, int64_t cols, float *to, int64_t stride)
{
    int64_t rows = weir_sp_rows(sp, NULL);
    for (int64_t s = 0; s < sequences; s++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < cols; j++)
                to[(s * rows + i) * stride + j] = (float)from[(s * w->o.length + weir_sp_place(sp, i)) * cols + j];
}

static void compare(const weir_sp *sp, const struct whole *w, int64_t sequences, const double *want, int64_t cols, const float *got,
                    int64_t stride, const char *what)
{
    int64_t rows = weir_sp_rows(sp, NULL);
    for (int64_t s = 0; s < sequences; s++)
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < cols; j++) {
                int64_t place = weir_sp_place(sp, i);
                double g = got[(s * rows + i) * stride + j], x = want[(s * w->o.length + place) * cols + j];
                CHECK(is_near(g, x), "%s of method %d, flags %d: %g at token %lld of sequence %lld, number %lld, instead of %g", what,
                      (int)w->o.method, (int)w->o.flags, g, (long long)place, (long long)s, (long long)j, x);
            }
}

static weir_sp *make(const weir_sp_options *options, bool own)
{
    weir_sp_options o = *options;
    weir_error error;
    weir_sp *sp;
    o.gemm = own || !blas ? own_gemm : NULL;
    o.gemm_user = &products;
    CHECK(weir_sp_create(comm, &o, &sp, &error) == WEIR_OK, "weir_sp_create: %s", error.message);
    return sp;
}

#define GOOD(call) CHECK((call) == WEIR_OK, "%s: %s", #call, weir_sp_error(sp)->message)

/* Queries, keys and values side by side, with room behind them that stays as it is. */
static void once(weir_sp *sp, const struct whole *w, int64_t sequences)
{
    int64_t rows = weir_sp_rows(sp, NULL) * sequences, width = w->width, stride = 3 * width + 1, n = rows * width;
    float *qkv = nothing(rows * stride), *dqkv = nothing(rows * stride), *out = nothing(n), *dout = nothing(n), *norms = nothing(rows * w->o.heads);
    take(sp, w, sequences, w->q, width, qkv, stride);
    take(sp, w, sequences, w->k, width, qkv + width, stride);
    take(sp, w, sequences, w->v, width, qkv + 2 * width, stride);
    take(sp, w, sequences, w->dout, width, dout, width);
    GOOD(weir_sp_attention_forward(sp, sequences, qkv, qkv + width, qkv + 2 * width, stride, out, norms));
    compare(sp, w, sequences, w->out, width, out, width, "result");
    compare(sp, w, sequences, w->norms, w->o.heads, norms, w->o.heads, "norm");
    GOOD(weir_sp_attention_backward(sp, sequences, qkv, qkv + width, qkv + 2 * width, stride, out, norms, dout, dqkv, dqkv + width,
                                    dqkv + 2 * width));
    compare(sp, w, sequences, w->dq, width, dqkv, stride, "gradient of the query");
    compare(sp, w, sequences, w->dk, width, dqkv + width, stride, "gradient of the key");
    compare(sp, w, sequences, w->dv, width, dqkv + 2 * width, stride, "gradient of the value");
    for (int64_t i = 0; i < rows; i++)
        CHECK(isnan(dqkv[i * stride + 3 * width]), "something was written behind row %lld", (long long)i);
    free(qkv), free(dqkv), free(out), free(dout), free(norms);
}

static void shapes(uint64_t method, uint64_t flags)
{
    static const struct {
        int64_t sequences, length, heads, size;
        double scale;
    } all[] = {{1, 16, 4, 8, 0}, {3, 11, 5, 3, 0}, {2, 4, 4, 1, 0.7}, {1, 300, 4, 4, 0}, {2, 70, 6, 16, 0}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        weir_sp_options o = WEIR_SP_OPTIONS_INIT;
        o.method = method;
        o.flags = flags;
        o.sequences = all[i].sequences;
        o.length = all[i].length;
        o.heads = all[i].heads;
        o.head_size = all[i].size;
        o.scale = all[i].scale;
        o.drop = i == 1 || i == 3 ? drop : NULL;
        o.drop_user = &drops;
        struct whole w = make_whole(&o);
        weir_sp *sp = make(&o, i == 2);
        once(sp, &w, o.sequences);
        once(sp, &w, o.sequences - 1);
        once(sp, &w, 0);
        once(sp, &w, o.sequences);
        weir_sp_free(sp);
        double *arrays[] = {w.q, w.k, w.v, w.dout, w.out, w.norms, w.dq, w.dk, w.dv};
        for (size_t a = 0; a < sizeof arrays / sizeof arrays[0]; a++)
            free(arrays[a]);
    }
}

/* What is far from all others must not swallow or overflow anything. */
static void extremes(uint64_t method, uint64_t flags)
{
    weir_sp_options o = WEIR_SP_OPTIONS_INIT;
    o.method = method;
    o.flags |= flags;
    o.sequences = 1;
    o.length = 40;
    o.heads = 4;
    o.head_size = 2;
    weir_sp *sp = make(&o, true);
    int64_t rows = weir_sp_rows(sp, NULL), width = 8;
    float *q = nothing(rows * width), *k = nothing(rows * width), *v = nothing(rows * width), *out = nothing(rows * width), *norms = nothing(rows * 4);
    for (int64_t i = 0; i < rows * width; i++) {
        int64_t token = weir_sp_place(sp, i / width);
        q[i] = 100;
        k[i] = token == 20 ? 50 : token == 0 ? -50 : 0; /* scores of 7000 and -7000 */
        v[i] = (float)token;
    }
    GOOD(weir_sp_attention_forward(sp, 1, q, k, v, width, out, norms));
    for (int64_t i = 0; i < rows * width; i++) {
        int64_t token = weir_sp_place(sp, i / width);
        double want = token == 0 ? 0 : token < 20 ? (double)(token + 1) / 2 : 20;
        CHECK(is_near(out[i], want), "extremes: %g at token %lld instead of %g", out[i], (long long)token, want);
    }
    free(q), free(k), free(v), free(out), free(norms);
    weir_sp_free(sp);
}

/* Every token has one owner, who knows it. */
static void owners(uint64_t flags, int64_t length)
{
    weir_sp_options o = WEIR_SP_OPTIONS_INIT;
    o.method = WEIR_SP_RING;
    o.flags |= flags;
    o.length = length;
    o.sequences = o.heads = o.head_size = 1;
    weir_sp *sp = make(&o, true);
    int64_t mine = 0, row, first, rows = weir_sp_rows(sp, &first);
    CHECK(first == weir_sp_place(sp, 0), "the first token is %lld", (long long)first);
    for (int64_t i = 0; i < length; i++) {
        int owner = weir_sp_owner(sp, i, &row);
        CHECK(owner >= 0 && owner < size, "token %lld has no owner", (long long)i);
        if (owner != rank)
            continue;
        CHECK(row == mine && weir_sp_place(sp, row) == i, "token %lld is row %lld", (long long)i, (long long)row);
        mine++;
    }
    CHECK(mine == rows && weir_sp_owner(sp, length, NULL) < 0, "%lld tokens of %lld", (long long)mine, (long long)rows);
    weir_sp_free(sp);
}

/* A product that is only counted. */
static void count_gemm(void *user, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a, int lda,
                       const float *b, int ldb, float beta, float *c, int ldc)
{
    (void)transpose_a, (void)transpose_b, (void)alpha, (void)a, (void)lda, (void)b, (void)ldb;
    *(double *)user += (double)m * n * k;
    for (int i = 0; i < m && beta == 0; i++)
        memset(c + i * ldc, 0, (size_t)n * sizeof *c);
}

/* Of the ranks' products, what the one with most has over the one with least. */
static double unequal(uint64_t flags)
{
    enum { TOKENS = 512, WIDTH = 4 }; /* of a rank */
    static float x[TOKENS * WIDTH], y[TOKENS * WIDTH], norms[TOKENS * WIDTH], dx[3][TOKENS * WIDTH];
    weir_sp_options o = WEIR_SP_OPTIONS_INIT;
    weir_error error;
    weir_sp *sp;
    double work = 0, most, least;
    o.method = WEIR_SP_RING;
    o.flags = flags;
    o.sequences = o.heads = 1;
    o.head_size = WIDTH;
    o.length = TOKENS * size;
    o.gemm = count_gemm;
    o.gemm_user = &work;
    CHECK(weir_sp_create(comm, &o, &sp, &error) == WEIR_OK, "weir_sp_create: %s", error.message);
    GOOD(weir_sp_attention_forward(sp, 1, x, x, x, WIDTH, y, norms));
    GOOD(weir_sp_attention_backward(sp, 1, x, x, x, WIDTH, y, norms, x, dx[0], dx[1], dx[2]));
    OK(weir_allreduce(comm, &work, &most, 1, WEIR_FP64, WEIR_MAX));
    OK(weir_allreduce(comm, &work, &least, 1, WEIR_FP64, WEIR_MIN));
    weir_sp_free(sp);
    return most / least;
}

static void balance(void)
{
    double without = unequal(WEIR_SP_CAUSAL), with = unequal(WEIR_SP_CAUSAL | WEIR_SP_ZIGZAG);
    CHECK(with == 1, "one rank has %g times the work of another", with);
    CHECK(size == 1 || without > size - 0.5, "without zigzag one rank has %g times the work of another", without);
}

static void refused(weir_sp_options o, weir_status status, const char *text)
{
    weir_error error = {.status = WEIR_OK};
    weir_sp *sp = NULL;
    weir_status got = weir_sp_create(comm, &o, &sp, &error);
    CHECK(got == status && !sp, "%s: %s", text, weir_status_name(got));
    CHECK(strstr(error.message, text), "'%s' is not in: %s", text, error.message);
}

static void refusals(void)
{
    weir_sp_options o = WEIR_SP_OPTIONS_INIT, other;
    o.gemm = own_gemm;
    o.gemm_user = &products;
    refused(o, WEIR_ERR_INVALID, "0 sequences");
    o.sequences = 1;
    o.length = o.heads = o.head_size = 4;
    other = o;
    other.method = 2;
    refused(other, WEIR_ERR_INVALID, "no method 2");
    other = o;
    other.flags = WEIR_SP_CAUSAL | WEIR_SP_ZIGZAG;
    refused(other, WEIR_ERR_INVALID, "for rings");
    other = o;
    other.flags = 4;
    refused(other, WEIR_ERR_INVALID, "no flags 0x4");
    if (size > 1) {
        other = o;
        other.length = size - 1;
        refused(other, WEIR_ERR_INVALID, "cannot be divided among");
        other = o;
        other.heads = size - 1;
        refused(other, WEIR_ERR_INVALID, "heads cannot be divided among");
        other = o;
        other.method = rank == 1 ? WEIR_SP_RING : WEIR_SP_ULYSSES;
        refused(other, WEIR_ERR_MISMATCH, "different options");
        other.sequences = rank == 1 ? 0 : 1;
        refused(other, rank == 1 ? WEIR_ERR_INVALID : WEIR_ERR_CANCELED, rank == 1 ? "0 sequences" : "another rank");
    }
    float x[16] = {0}, y[16];
    weir_sp *sp = make(&o, true);
    CHECK(weir_sp_attention_forward(sp, 2, x, x, x, 16, y, y) == WEIR_ERR_INVALID && strstr(weir_sp_error(sp)->message, "2 sequences"), "too many");
    CHECK(weir_sp_attention_forward(sp, 1, x, x, x, 15, y, y) == WEIR_ERR_INVALID && strstr(weir_sp_error(sp)->message, "15 apart"), "a stride");
    weir_sp_free(sp);
    weir_sp_free(NULL);
}

int main(void)
{
    start();
    blas = weir_blas_core();
    for (uint64_t method = 0; method < 2; method++) {
        shapes(method, WEIR_SP_CAUSAL);
        shapes(method, 0);
        extremes(method, 0);
    }
    shapes(WEIR_SP_RING, WEIR_SP_CAUSAL | WEIR_SP_ZIGZAG);
    shapes(WEIR_SP_RING, WEIR_SP_ZIGZAG);
    extremes(WEIR_SP_RING, WEIR_SP_ZIGZAG);
    owners(0, 37);
    owners(WEIR_SP_ZIGZAG, 37);
    owners(WEIR_SP_ZIGZAG, size);
    balance();
    CHECK(drops > 0, "nothing was to be dropped");
    CHECK(products > 0, "the caller's products were not asked for");
    refusals();
    finish("attention over divided sequences");
    return 0;
}
