/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums without rounding: what no order and no division can change, up to the ends of what a double holds. */
#include "tests/unit/unit.h"

#include <float.h>
#include <math.h>

#include "optim/exact.h"

static void known_sums(void **state)
{
    (void)state;
    const struct {
        double numbers[4], sum;
    } cases[] = {
        {{0, 0, 0, 0}, 0},
        {{1, 2, 3, 4}, 10},
        {{0x1p53, 1, 1, 0}, 0x1p53 + 2},                    /* one by one, both ones would be lost */
        {{0x1p200, 0x1p-200, 0, 0}, 0x1p200},
        {{0x1p-1074, 0x1p-1074, 0x1p-1074, 0}, 0x3p-1074},
        {{0x1.8p-1050, 0x1p-1022, 0, 0}, 0x1p-1022 + 0x1.8p-1050},
        {{DBL_MAX / 2, DBL_MAX / 2, 0, 0}, DBL_MAX},
        {{0xffffffffp0, 1, 0xffffffffp32, 0x1p32}, 0x1p32 + 0x1p64}, /* carries */
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct wr_exact sum = {{0}};
        for (int i = 0; i < 4; i++)
            wr_exact_add(&sum, cases[c].numbers[i]);
        assert_true(wr_exact_round(&sum) == cases[c].sum);
    }
}

static void any_order(void **state)
{
    (void)state;
    enum { N = 1000, PARTS = 7 };
    static double x[N];
    struct wr_exact one = {{0}}, other = {{0}}, parts[PARTS] = {{{0}}};
    double plain = 0, back = 0;
    for (int i = 0; i < N; i++) {
        x[i] = ldexp(1 + sin(i), (i * 37) % 60 - 30);
        wr_exact_add(&one, x[i]);
        wr_exact_add(&parts[i % PARTS], x[i]);
        plain += x[i];
    }
    for (int i = N; i-- > 0;)
        back += x[i];
    for (int p = 0; p < PARTS; p++)
        for (int i = 0; i < WR_EXACT_LIMBS; i++)
            other.limbs[i] += parts[p].limbs[i];
    assert_true(plain != back); /* or this shows nothing */
    assert_true(wr_exact_round(&one) == wr_exact_round(&other));
    assert_true(fabs(wr_exact_round(&one) - plain) <= 1e-12 * plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_sums), cmocka_unit_test(any_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
