/* SPDX-License-Identifier: BSD-3-Clause */
/* Cutting layers into parts, against all possible cuts. */
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

/* The best cut of layers from `from` on into `parts`: the least maximum, or the least squares with parts of at most `most`. */
static double all_cuts(const double *w, int from, int layers, int parts, double most)
{
    double best = INFINITY, sum = 0;
    if (!parts)
        return from == layers ? 0 : INFINITY;
    for (int end = from + 1; end <= layers - parts + 1; end++) {
        sum += w[end - 1];
        double rest = all_cuts(w, end, layers, parts - 1, most), value;
        if (most < 0)
            value = rest > sum ? rest : sum;
        else
            value = sum > most ? INFINITY : rest + sum * sum;
        best = value < best ? value : best;
    }
    return best;
}

static void exact(void **unused)
{
    (void)unused;
    uint64_t seed = 5;
    for (int round = 0; round < 300; round++) {
        double w[10];
        int64_t first[11];
        weir_error err;
        int layers = 1 + round % 10;
        for (int i = 0; i < layers; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            w[i] = (double)((seed >> 40) % (round % 3 ? 20 : 3)); /* many that are equal, some that weigh nothing */
        }
        for (int parts = 1; parts <= layers; parts++) {
            double most = 0, squares = 0, least = all_cuts(w, 0, layers, parts, -1);
            assert_ok(weir_pipe_cut(w, layers, parts, first, &err), &err);
            assert_true(first[0] == 0 && first[parts] == layers);
            for (int p = 0; p < parts; p++) {
                double sum = 0;
                assert_true(first[p] < first[p + 1]);
                for (int64_t i = first[p]; i < first[p + 1]; i++)
                    sum += w[i];
                most = sum > most ? sum : most;
                squares += sum * sum;
            }
            assert_true(most == least);
            assert_true(squares == all_cuts(w, 0, layers, parts, least));
        }
    }
}

static void uniform(void **unused)
{
    (void)unused;
    int64_t first[9];
    weir_error err;
    for (int64_t layers = 1; layers <= 40; layers++)
        for (int64_t parts = 1; parts <= 8 && parts <= layers; parts++) {
            assert_ok(weir_pipe_cut(NULL, layers, parts, first, &err), &err);
            for (int64_t p = 0; p < parts; p++) {
                int64_t n = first[p + 1] - first[p];
                assert_true(n == layers / parts || n == (layers + parts - 1) / parts);
                assert_true(!p || n <= first[p] - first[p - 1]); /* the larger parts first */
            }
        }
}

/* An embedding and a head that weigh more than a layer: the ends get fewer layers. */
static void heavy_ends(void **unused)
{
    (void)unused;
    const double w[] = {2.5, 1, 1, 1, 1, 1, 1, 1, 1, 2.5};
    const int64_t wanted[] = {0, 2, 5, 8, 10};
    int64_t first[5];
    weir_error err;
    assert_ok(weir_pipe_cut(w, 10, 4, first, &err), &err);
    assert_memory_equal(first, wanted, sizeof wanted);
}

static void many_layers(void **unused)
{
    (void)unused;
    static double w[2048];
    static int64_t first[2049];
    weir_error err;
    for (int i = 0; i < 2048; i++)
        w[i] = 1e-3 * (1 + i % 7);
    assert_ok(weir_pipe_cut(w, 2048, 64, first, &err), &err);
    for (int p = 0; p < 64; p++) {
        double sum = 0;
        for (int64_t i = first[p]; i < first[p + 1]; i++)
            sum += w[i];
        assert_true(sum < 1e-3 * (8192.0 / 64 + 7));
    }
}

static void refusals(void **unused)
{
    (void)unused;
    double w[] = {1, -1};
    int64_t first[3] = {7, 7, 7};
    weir_error err;
    assert_int_equal(weir_pipe_cut(NULL, 2, 3, first, &err), WEIR_ERR_INVALID);
    assert_non_null(strstr(err.message, "2 layers cannot be cut into 3 parts"));
    assert_int_equal(weir_pipe_cut(NULL, 0, 0, first, &err), WEIR_ERR_INVALID);
    assert_int_equal(weir_pipe_cut(NULL, 4096, 2, first, &err), WEIR_ERR_INVALID);
    assert_int_equal(weir_pipe_cut(w, 2, 2, first, &err), WEIR_ERR_INVALID);
    assert_non_null(strstr(err.message, "of layer 1"));
    w[1] = NAN;
    assert_int_equal(weir_pipe_cut(w, 2, 2, first, NULL), WEIR_ERR_INVALID);
    assert_true(first[0] == 7 && first[1] == 7 && first[2] == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact), cmocka_unit_test(uniform), cmocka_unit_test(heavy_ends),
        cmocka_unit_test(many_layers), cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
