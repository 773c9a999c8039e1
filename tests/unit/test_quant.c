/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks of int8: how far elements are from what they were, the same bits on all instruction sets, what is not finite. */
#include "tests/unit/unit.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <weir/vector.h>

#include "optim/table.h"

enum { N = 4096 + 96 };

static void make(uint32_t seed, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)seed / 2147483648.0f * exp2f((float)(i / 64 % 40) - 20);
    }
}

static float largest(const float *x, size_t n)
{
    float most = 0;
    for (size_t i = 0; i < n; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

static void elements_are_half_a_scale_away(void **state)
{
    (void)state;
    static float x[N], y[N];
    static char packed[2 * N];
    make(1, x, N);
    for (uint64_t block = 32; block <= 4096; block = block * 2 + 32 * (block == 128))
        for (uint64_t n = 1; n <= N; n += 1 + n / 2) {
            assert_true(wr_quant_bytes(n, block) <= sizeof packed);
            wr_quant_pack(packed, x, WEIR_FP32, n, block);
            wr_quant_unpack(y, WEIR_FP32, packed, n, block);
            for (uint64_t at = 0; at < n; at += block) {
                uint64_t m = n - at < block ? n - at : block;
                float scale = largest(x + at, m) / 127;
                assert_true(fabsf(((const float *)(const void *)packed)[at / block] - scale) <= scale * FLT_EPSILON);
                for (uint64_t i = at; i < at + m; i++)
                    assert_true(fabsf(x[i] - y[i]) <= scale * 0.50002f);
            }
        }
}

static void sets_give_the_same_bits(void **state)
{
    (void)state;
    static float x[N], y[N], sum[N], first[2][N];
    static int8_t codes[N], first_codes[N];
    const float most = 127;
    make(2, x, N);
    for (int isa = 0; isa < WR_ISA_COUNT; isa++) {
        enum wr_isa got;
        if (!wr_isa_find(wr_isa_name((enum wr_isa)isa), &got))
            continue;
        const struct wr_quant_loops *q = wr_optim_table(got)->quant;
        for (size_t at = 0, n = 1; at + n <= N; at += n, n += 13) {
            float scale = q->encode(codes + at, x + at, n);
            q->decode(y + at, codes + at, scale, n);
            memcpy(sum + at, x + at, n * sizeof *x);
            q->add(sum + at, codes + at, scale, n);
            for (size_t i = at; i < at + n; i++)
                assert_true(fabsf(y[i]) <= most * scale && sum[i] == x[i] + y[i]);
        }
        if (isa == WR_ISA_GENERIC) {
            memcpy(first_codes, codes, sizeof codes);
            memcpy(first[0], y, sizeof y);
            memcpy(first[1], sum, sizeof sum);
        }
        assert_memory_equal(codes, first_codes, sizeof codes);
        assert_memory_equal(y, first[0], sizeof y);
        assert_memory_equal(sum, first[1], sizeof sum);
    }
}

static void rounds_to_the_nearest(void **state)
{
    (void)state;
    const float x[8] = {127, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 63.4f, -63.6f};
    const int8_t wanted[8] = {127, 0, 2, 2, 0, -2, 63, -64};
    int8_t codes[8];
    assert_true(wr_optim_table_best()->quant->encode(codes, x, 8) == 1);
    assert_memory_equal(codes, wanted, sizeof codes);
}

/* One element that is not finite is found in every element of its block, and nowhere else. */
static void what_is_not_finite_stays_so(void **state)
{
    (void)state;
    static const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    float x[96], y[96];
    char packed[256];
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        make(3, x, 96);
        x[40 + k] = bad[k];
        wr_quant_pack(packed, x, WEIR_FP32, 96, 32);
        wr_quant_unpack(y, WEIR_FP32, packed, 96, 32);
        for (int i = 0; i < 96; i++)
            assert_true((i / 32 == 1) == !isfinite(y[i]));
        memset(y, 0, sizeof y);
        wr_quant_add(y, packed, 96, 32, 32, 32);
        for (int i = 0; i < 32; i++)
            assert_true(isnan(y[i]));
    }
    memset(x, 0, sizeof x);
    x[0] = 1e-40f;
    x[32] = FLT_MAX / 2;
    wr_quant_pack(packed, x, WEIR_FP32, 96, 32);
    wr_quant_unpack(y, WEIR_FP32, packed, 96, 32);
    assert_true(y[0] == 0 && y[31] == 0 && isfinite(y[32]) && y[33] == 0);
}

static void half_widths_are_rounded_once(void **state)
{
    (void)state;
    static float x[N], y[N], back[N];
    static uint16_t half[N], out[N];
    static char a[2 * N], b[2 * N];
    static const weir_type types[] = {WEIR_BF16, WEIR_FP16};
    for (int k = 0; k < 2; k++) {
        make(4, x, N);
        assert_int_equal(weir_convert(half, types[k], x, WEIR_FP32, N), WEIR_OK);
        assert_int_equal(weir_convert(x, WEIR_FP32, half, types[k], N), WEIR_OK);
        wr_quant_pack(a, x, WEIR_FP32, N, 256);
        wr_quant_pack(b, half, types[k], N, 256);
        assert_memory_equal(a, b, wr_quant_bytes(N, 256));
        wr_quant_unpack(y, WEIR_FP32, a, N, 256);
        wr_quant_unpack(out, types[k], a, N, 256);
        assert_int_equal(weir_convert(half, types[k], y, WEIR_FP32, N), WEIR_OK);
        assert_memory_equal(out, half, sizeof out);
        assert_int_equal(weir_convert(back, WEIR_FP32, out, types[k], N), WEIR_OK);
    }
}

/* Ranges of any lengths, one after the other where wr_quant_before() says, do not overlap. */
static void places_are_far_enough_apart(void **state)
{
    (void)state;
    uint32_t dice = 5;
    for (uint64_t block = 32; block <= 4096; block *= 2)
        for (int round = 0; round < 50; round++) {
            uint64_t at = 0, end = 0;
            for (uint64_t part = 0; part < 30; part++) {
                dice = dice * 1664525u + 1013904223u;
                uint64_t n = (dice >> 16) % 300 * (round % 2 ? 32 : 1), place = wr_quant_before(at, part, block);
                assert_true(place >= end);
                end = place + wr_quant_bytes(n, block);
                at += n;
            }
            assert_true(wr_quant_before(at, 30, block) >= end);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_are_half_a_scale_away), cmocka_unit_test(sets_give_the_same_bits),
        cmocka_unit_test(rounds_to_the_nearest),          cmocka_unit_test(what_is_not_finite_stays_so),
        cmocka_unit_test(half_widths_are_rounded_once),   cmocka_unit_test(places_are_far_enough_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
