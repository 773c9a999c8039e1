/* SPDX-License-Identifier: BSD-3-Clause */
/* Norms in fixed blocks, clipping, moving averages, conversion. */
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "optim/table.h"

enum { N = 3 * 4096 + 1234 };

static float *make(uint32_t seed, size_t n)
{
    float *x = malloc((n + 16) * sizeof(float));
    for (size_t i = 0; i < n + 16; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)seed / 2147483648.0f * exp2f((float)(i % 40) - 20);
    }
    return x;
}

/* The order that is promised, written down plainly: 16 lanes, then halves. */
static double block_sum(const float *x, size_t first, size_t n)
{
    double lane[16] = {0};
    for (size_t i = 0; i < n; i++)
        lane[(first + i) % 16] += (double)x[i] * (double)x[i];
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

static void norms_are_summed_as_promised(void **state)
{
    (void)state;
    float *x = make(1, N);
    for (int isa = 0; isa < WR_ISA_COUNT; isa++) {
        enum wr_isa got;
        if (!wr_isa_find(wr_isa_name((enum wr_isa)isa), &got))
            continue;
        for (size_t shift = 0; shift < 3; shift++)
            for (size_t first = 0; first < 4100; first += 1 + first / 3)
                for (size_t n = 1; n < N - first; n += 1 + n / 2) {
                    double sums[8], *sum = sums;
                    assert_true(weir_norm_blocks(first, n) <= 6);
                    wr_optim_table(got)->vector->norm_partials(x + shift + first, WEIR_FP32, first, n, sums);
                    for (size_t at = first; at < first + n;) {
                        size_t end = (at / 4096 + 1) * 4096 < first + n ? (at / 4096 + 1) * 4096 : first + n;
                        double want = block_sum(x + shift + at, at, end - at);
                        assert_memory_equal(sum++, &want, sizeof want);
                        at = end;
                    }
                    assert_int_equal(sum - sums, weir_norm_blocks(first, n));
                }
    }
    free(x);
}

static void norms_do_not_depend_on_the_division(void **state)
{
    (void)state;
    static const weir_type types[] = {WEIR_FP32, WEIR_BF16, WEIR_FP16};
    float *x = make(2, N);
    uint16_t *half = malloc(N * sizeof *half);
    for (int k = 0; k < 3; k++) {
        const void *v = x;
        double whole[8], parts[8], wide[8];
        if (k) {
            assert_int_equal(weir_convert(half, types[k], x, WEIR_FP32, N), WEIR_OK);
            v = half;
        }
        assert_int_equal(weir_norm_partials(v, types[k], 0, N, whole), WEIR_OK);
        assert_int_equal(weir_norm_partials(v, types[k], 0, 8192, parts), WEIR_OK);
        assert_int_equal(weir_norm_partials(v, types[k], 8192, N - 8192, parts + 2), WEIR_OK);
        assert_int_equal(weir_norm_blocks(0, N), 4);
        assert_memory_equal(whole, parts, 4 * sizeof(double));
        if (k) { /* the values in fp32 */
            float *back = malloc(N * sizeof(float));
            assert_int_equal(weir_convert(back, WEIR_FP32, half, types[k], N), WEIR_OK);
            assert_int_equal(weir_norm_partials(back, WEIR_FP32, 0, N, wide), WEIR_OK);
            assert_memory_equal(whole, wide, 4 * sizeof(double));
            free(back);
        }
        assert_true(weir_norm_fold(whole, 4) == (whole[0] + whole[1]) + (whole[2] + whole[3]));
        assert_true(weir_norm_fold(whole, 3) == whole[0] + whole[1] + whole[2]);
    }
    x[5000] = NAN;
    double sums[4];
    assert_int_equal(weir_norm_partials(x, WEIR_FP32, 0, N, sums), WEIR_OK);
    assert_true(isnan(sums[1]) && isfinite(sums[0]) && isfinite(sums[2]));
    assert_int_equal(weir_norm_partials(x, WEIR_FP64, 0, N, sums), WEIR_ERR_INVALID);
    assert_int_equal(weir_norm_partials(NULL, WEIR_FP32, 0, N, sums), WEIR_ERR_INVALID);
    assert_int_equal(weir_norm_partials(NULL, WEIR_FP32, 0, 0, NULL), WEIR_OK);
    assert_true(weir_norm_fold(NULL, 0) == 0);
    free(x);
    free(half);
}

static void clipping(void **state)
{
    (void)state;
    assert_true(weir_clip_factor(0.5, 1) == 1);
    assert_true(fabs(weir_clip_factor(4, 1) - 1 / (4 + 1e-6)) < 1e-15);
    assert_true(isnan(weir_clip_factor(NAN, 1)) && isnan(weir_clip_factor(INFINITY, 1)));
}

static void moving_average(void **state)
{
    (void)state;
    for (size_t n = 0; n < 100; n++) {
        float *average = make(3, n), *w = make(4, n), *before = make(3, n);
        assert_int_equal(weir_ema_update(average + 1, w + 3, n, 0.99), WEIR_OK);
        for (size_t i = 0; i < n; i++)
            assert_true(average[i + 1] == (float)0.99 * before[i + 1] + (float)(1 - 0.99) * w[i + 3]);
        assert_true(average[n + 1] == before[n + 1] && average[0] == before[0]);
        free(average);
        free(w);
        free(before);
    }
    float x[2] = {0};
    assert_int_equal(weir_ema_update(x, x + 1, 1, 1.5), WEIR_ERR_INVALID);
    assert_int_equal(weir_ema_update(x, NULL, 1, 0.5), WEIR_ERR_INVALID);
}

static void conversion(void **state)
{
    (void)state;
    float x[4] = {1, -2.5f, NAN, 65504}, back[4];
    uint16_t half[4];
    assert_int_equal(weir_convert(half, WEIR_FP16, x, WEIR_FP32, 4), WEIR_OK);
    assert_int_equal(half[0], 0x3c00);
    assert_int_equal(half[3], 0x7bff);
    assert_int_equal(weir_convert(back, WEIR_FP32, half, WEIR_FP16, 4), WEIR_OK);
    assert_true(back[1] == -2.5f && isnan(back[2]) && back[3] == 65504);
    assert_int_equal(weir_convert(half, WEIR_BF16, x, WEIR_FP32, 4), WEIR_OK);
    assert_int_equal(half[0], 0x3f80);
    assert_int_equal(weir_convert(back, WEIR_FP32, x, WEIR_FP32, 4), WEIR_OK);
    assert_memory_equal(back, x, sizeof x);
    assert_int_equal(weir_convert(half, WEIR_BF16, half, WEIR_FP16, 4), WEIR_ERR_INVALID);
    assert_int_equal(weir_convert(half, WEIR_INT32, x, WEIR_FP32, 4), WEIR_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_are_summed_as_promised),
        cmocka_unit_test(norms_do_not_depend_on_the_division),
        cmocka_unit_test(clipping),
        cmocka_unit_test(moving_average),
        cmocka_unit_test(conversion),
    };
    return cmocka_run_group_tests_name("vector", tests, NULL, NULL);
}
