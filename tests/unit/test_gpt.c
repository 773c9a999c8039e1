/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The trainer's model: its loss and gradients against numbers recorded from PyTorch, its gradients against finite differences, with
 * dropout too, and cut into parts. Built in double (with GPT_DOUBLE) and in float, there with the loops of each instruction set.
 */
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/gpt/part.h"

enum { UNITS = 16, SEQUENCES = 3, ROWS_MAX = 64 };

/* A model with all its parameters, and gradients, in memory. */
struct model {
    struct gpt_config config;
    struct gpt_store store;
    const real *w[UNITS][GPT_BLOCK_TENSORS];
    real *dw[UNITS][GPT_BLOCK_TENSORS];
    real *values, *grads;
    int64_t size;
    int open; /* units between use and done */
};

static weir_status use(void *user, int unit, bool backward, const real *const **w, real *const **dw)
{
    struct model *m = user;
    *w = m->w[unit];
    if (backward)
        *dw = m->dw[unit];
    m->open++;
    return WEIR_OK;
}

static weir_status done(void *user, int unit, bool backward)
{
    (void)unit;
    (void)backward;
    ((struct model *)user)->open--;
    return WEIR_OK;
}

/* Parameters as tests/fixtures/gpt/make_torch.py has them. */
static void model_create(struct model *m, const struct gpt_config *config)
{
    memset(m, 0, sizeof *m);
    m->config = *config;
    m->store = (struct gpt_store){m, use, done};
    m->size = gpt_model_size(config);
    m->values = calloc((size_t)m->size, sizeof *m->values);
    m->grads = calloc((size_t)m->size, sizeof *m->grads);
    int64_t at = 0;
    for (int u = 0, n = 0; u < gpt_units(config); u++)
        for (int t = 0; t < gpt_unit_tensors(config, u); t++, n++) {
            struct gpt_tensor tensor;
            gpt_unit_tensor(config, u, t, &tensor);
            m->w[u][t] = m->values + at;
            m->dw[u][t] = m->grads + at;
            for (int64_t i = 0; i < tensor.rows * tensor.cols; i++)
                m->values[at + i] = (real)(0.3 * sin(0.7 * (double)i + n) + (tensor.initial == GPT_INITIAL_ONE));
            at += tensor.rows * tensor.cols;
        }
    assert_int_equal(at, m->size);
}

static void model_free(struct model *m)
{
    free(m->values);
    free(m->grads);
}

/* The model cut into parts of blocks, and a micro-batch. */
struct run {
    struct model *model;
    struct gpt_part parts[4];
    int nparts;
    struct gpt_micro micro;
    int32_t tokens[ROWS_MAX], targets[ROWS_MAX];
    real *between[4], *back[4];
};

static void run_create(struct run *r, struct model *m, const struct gpt_kernels *kernels, int nparts, bool split, int recompute)
{
    struct gpt_pass *pass = &r->micro.pass;
    const struct gpt_config *c = &m->config;
    memset(r, 0, sizeof *r);
    r->model = m;
    r->nparts = nparts;
    *pass = (struct gpt_pass){.config = c, .kernels = kernels, .sequences = SEQUENCES, .length = c->context, .dropout_key = 77,
                              .training = true, .first = 4};
    pass->scratch = calloc((size_t)gpt_scratch_size(pass), sizeof(real));
    for (int s = 0; s < SEQUENCES; s++)
        for (int t = 0; t < c->context; t++) {
            r->tokens[s * c->context + t] = (5 * s + 3 * t * t + t) % c->vocabulary;
            r->targets[s * c->context + t] = (7 * s + t * t + 4 * t + 2) % c->vocabulary;
        }
    r->micro.tokens = r->tokens;
    r->micro.targets = r->targets;
    r->micro.scale = 1.0 / (SEQUENCES * c->context);
    for (int p = 0; p < nparts; p++) {
        r->parts[p] = (struct gpt_part){.config = c, .store = &m->store, .first = p * c->layers / nparts,
                                        .last = (p + 1) * c->layers / nparts, .begins = p == 0, .ends = p == nparts - 1, .split = split,
                                        .recompute = recompute};
        assert_int_equal(gpt_part_create(&r->parts[p], pass, 1, 1), WEIR_OK);
        r->between[p] = calloc((size_t)gpt_pass_rows(pass) * (size_t)c->width, sizeof(real));
        r->back[p] = calloc((size_t)gpt_pass_rows(pass) * (size_t)c->width, sizeof(real));
    }
}

static void run_free(struct run *r)
{
    for (int p = 0; p < r->nparts; p++) {
        gpt_part_free(&r->parts[p]);
        free(r->between[p]);
        free(r->back[p]);
    }
    free(r->micro.pass.scratch);
}

static double forward(struct run *r)
{
    double loss = 0;
    for (int p = 0; p < r->nparts; p++)
        assert_int_equal(gpt_part_forward(&r->parts[p], &r->micro, p ? r->between[p - 1] : NULL, r->between[p], &loss), WEIR_OK);
    return loss * r->micro.scale;
}

static void back(struct run *r)
{
    memset(r->model->grads, 0, (size_t)r->model->size * sizeof(real));
    for (int what = r->parts[0].split ? GPT_BACK_INPUT : GPT_BACK_BOTH; what; what = what == GPT_BACK_INPUT ? GPT_BACK_WEIGHT : 0)
        for (int p = r->nparts - 1; p >= 0; p--)
            assert_int_equal(gpt_part_back(&r->parts[p], &r->micro, (enum gpt_back)what, p ? r->between[p - 1] : NULL,
                                           r->back[p], p ? r->back[p - 1] : NULL), WEIR_OK);
    assert_int_equal(r->model->open, 0);
}

static double evaluate(struct run *r)
{
    double loss = 0;
    for (int p = 0; p < r->nparts; p++)
        assert_int_equal(gpt_part_evaluate(&r->parts[p], &r->micro, p ? r->between[p - 1] : NULL, r->between[p], &loss, NULL), WEIR_OK);
    return loss * r->micro.scale;
}

static const struct gpt_config torch_config = {11, 6, 8, 2, 2, 0, 1, 0};

#ifdef GPT_DOUBLE
static const double near = 1e-10;
static const char *const tables[] = {"generic"};
#else
static const double near = 3e-6;
static const char *const tables[] = {"generic", "avx2", "avx512"};
#endif

static void check_line(FILE *f, const char *name, const real *got, int64_t n)
{
    char word[64];
    assert_int_equal(fscanf(f, "%63s", word), 1);
    assert_string_equal(word, name);
    for (int64_t i = 0; i < n; i++) {
        double want;
        assert_int_equal(fscanf(f, "%lf", &want), 1);
        if (!(fabs((double)got[i] - want) <= near * (1 + fabs(want))))
            fail_msg("%s[%d]: %.12g instead of %.12g", name, (int)i, (double)got[i], want);
    }
}

static void torch_numbers(void **state)
{
    (void)state;
    char path[512];
    const char *top = getenv("top_srcdir");
    snprintf(path, sizeof path, "%s/tests/fixtures/gpt/torch.txt", top ? top : ".");
    int tried = 0;
    for (size_t k = 0; k < sizeof tables / sizeof *tables; k++) {
        const struct gpt_kernels *kernels = gpt_kernels_find(tables[k]);
        if (!kernels)
            continue;
        struct model m;
        struct run r;
        model_create(&m, &torch_config);
        run_create(&r, &m, kernels, 1, false, 0);
        FILE *f = fopen(path, "r");
        assert_non_null(f);
        real loss = (real)forward(&r);
        check_line(f, "loss", &loss, 1);
        back(&r);
        for (int u = 0; u < gpt_units(&m.config); u++)
            for (int t = 0; t < gpt_unit_tensors(&m.config, u); t++) {
                struct gpt_tensor tensor;
                gpt_unit_tensor(&m.config, u, t, &tensor);
                check_line(f, tensor.name, m.dw[u][t], tensor.rows * tensor.cols);
            }
        fclose(f);
        run_free(&r);
        model_free(&m);
        tried++;
    }
    assert_true(tried > 0);
}

/* Parts, the two halves of the backward pass at different times, and blocks that are computed twice change nothing. */
static void parts(void **state)
{
    (void)state;
    struct gpt_config config = {11, 6, 8, 2, 3, 0.2, 1, 0};
    struct model whole, cut;
    struct run a, b;
    model_create(&whole, &config);
    model_create(&cut, &config);
    run_create(&a, &whole, gpt_kernels_find(NULL), 1, false, 0);
    double loss = forward(&a);
    back(&a);
    double plain = evaluate(&a);
    for (int n = 1; n <= 3; n++)
        for (int how = 0; how < 4; how++) {
            run_create(&b, &cut, gpt_kernels_find(NULL), n, how == 1, how > 1 ? how - 1 : 0);
            assert_true(forward(&b) == loss);
            back(&b);
            assert_memory_equal(cut.grads, whole.grads, (size_t)whole.size * sizeof(real));
            b.micro.pass.training = false;
            assert_true(evaluate(&b) != plain);
            run_free(&b);
        }
    run_free(&a);
    model_free(&whole);
    model_free(&cut);
}

#ifdef GPT_DOUBLE
static double loss_with(struct run *r, int64_t i, double value)
{
    double before = r->model->values[i];
    r->model->values[i] = value;
    double loss = evaluate(r);
    r->model->values[i] = before;
    return loss;
}

/* Each parameter's gradient against a difference of four points, whose error is of the fourth order. */
static void differences(void **state)
{
    (void)state;
    for (int dropped = 0; dropped < 2; dropped++) {
        struct gpt_config config = {11, 6, 8, 2, 2, dropped ? 0.3 : 0, 1, 0};
        struct model m;
        struct run r;
        model_create(&m, &config);
        run_create(&r, &m, gpt_kernels_find(NULL), 1, false, 0);
        forward(&r);
        back(&r);
        const double h = 2e-5;
        for (int64_t i = 0; i < m.size; i++) {
            double v = m.values[i];
            double near_by = loss_with(&r, i, v + h) - loss_with(&r, i, v - h);
            double further = loss_with(&r, i, v + 2 * h) - loss_with(&r, i, v - 2 * h), slope = (8 * near_by - further) / (12 * h);
            if (!(fabs(slope - m.grads[i]) <= 1e-9 * (1 + fabs(slope))))
                fail_msg("parameter %d: slope %.12g, gradient %.12g", (int)i, slope, m.grads[i]);
        }
        run_free(&r);
        model_free(&m);
    }
}
#endif

/* Ranks that divide a model have the numbers of the whole one, each once where a tensor is divided. */
static void divided_values(void **state)
{
    (void)state;
    enum { WAYS = 2, MOST = 12 * 48 };
    struct gpt_config config = {19, 6, 12, 3, 1, 0, 1, 0}, mine = config;
    static real whole[MOST], part[MOST];
    mine.ways = WAYS;
    for (int u = 0; u < gpt_units(&config); u++)
        for (int t = 0; t < gpt_unit_tensors(&config, u); t++) {
            struct gpt_tensor tensor;
            int64_t place = 0, run = 0, n = 0;
            gpt_unit_tensor(&config, u, t, &tensor);
            gpt_initial_values(&config, u, t, 5, 0, tensor.rows * tensor.cols, whole);
            for (mine.way = 0; mine.way < WAYS; mine.way++) {
                gpt_unit_tensor(&mine, u, t, &tensor);
                gpt_initial_values(&mine, u, t, 5, 0, tensor.rows * tensor.cols, part);
                for (int64_t i = 0; i < tensor.rows * tensor.cols; i++, n++) {
                    gpt_tensor_place(&tensor, i, &place, &run);
                    assert_true(place < tensor.whole_rows * tensor.whole_cols && run > 0 && part[i] == whole[place]);
                    whole[place] = gpt_tensor_divided(&tensor) ? NAN : whole[place]; /* nobody else has it */
                }
            }
            assert_int_equal(n, tensor.whole_rows * tensor.whole_cols * (gpt_tensor_divided(&tensor) ? 1 : WAYS));
        }
}

/* Whoever makes a part of a tensor makes the same numbers, of the distribution that is said. */
static void initial_values(void **state)
{
    (void)state;
    struct gpt_config config = {256, 64, 64, 4, 2, 0, 1, 0};
    static real all[64 * 256], some[1000];
    double sum = 0, square = 0;
    int64_t n = 64 * 256;
    gpt_initial_values(&config, 2, GPT_FC_WEIGHT, 5, 0, n, all);
    gpt_initial_values(&config, 2, GPT_FC_WEIGHT, 5, 777, 1000, some);
    assert_memory_equal(some, all + 777, sizeof some);
    gpt_initial_values(&config, 3, GPT_FC_WEIGHT, 5, 777, 1000, some);
    assert_memory_not_equal(some, all + 777, sizeof some);
    for (int64_t i = 0; i < n; i++) {
        sum += all[i];
        square += (double)all[i] * all[i];
    }
    assert_true(fabs(sum / n) < 6e-4 && fabs(sqrt(square / n) - 0.02) < 5e-4);
    gpt_initial_values(&config, 4, 0, 5, 0, 64, some);
    gpt_initial_values(&config, 4, 1, 5, 0, 64, some + 64);
    for (int i = 0; i < 64; i++)
        assert_true(some[i] == 1 && some[64 + i] == 0);
}

int main(void)
{
    openblas_set_num_threads(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(torch_numbers),
        cmocka_unit_test(parts),
#ifdef GPT_DOUBLE
        cmocka_unit_test(differences),
#endif
        cmocka_unit_test(divided_values),
        cmocka_unit_test(initial_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
