/* SPDX-License-Identifier: BSD-3-Clause */
/* The reduction kernels against plain arithmetic written independently, and the instruction sets against each other. */
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "comm/kernel/kernel.h"

enum { MOST = 300, SOURCES = 5, STRIDE = MOST + 8 };

static uint64_t state_word = 1;

static uint64_t next_random(void)
{
    state_word = state_word * 6364136223846793005u + 1442695040888963407u;
    return state_word ^ state_word >> 29;
}

/* ---- an independent reference, one element at a time ---- */

/* Rounds to a binary format with `bits` of significand (the hidden one included), least exponent and largest value. */
static double round_to(double x, int bits, int min_exponent, double most)
{
    int e;
    if (isnan(x) || isinf(x) || x == 0)
        return x;
    frexp(x, &e);
    double ulp = ldexp(1, (e - 1 < min_exponent ? min_exponent : e - 1) - bits + 1);
    double r = nearbyint(x / ulp) * ulp; /* to even in the default mode */
    return fabs(r) > most ? copysign(INFINITY, x) : r;
}

static double half_value(weir_type type, uint16_t h)
{
    if (type == WEIR_BF16) {
        uint32_t u = (uint32_t)h << 16;
        float f;
        memcpy(&f, &u, sizeof f);
        return f;
    }
    int e = h >> 10 & 31, m = h & 1023;
    double sign = h & 0x8000 ? -1 : 1;
    if (e == 31)
        return m ? NAN : sign * INFINITY;
    return sign * (e ? ldexp(1024 + m, e - 25) : ldexp(m, -24));
}

static double half_rounded(weir_type type, double x)
{
    return type == WEIR_BF16 ? round_to(x, 8, -126, 0x1.fep127) : round_to(x, 11, -14, 65504);
}

static float combine_float(weir_op op, float a, float b)
{
    switch (op) {
    case WEIR_SUM:
    case WEIR_AVG:
        return a + b;
    case WEIR_PROD:
        return a * b;
    case WEIR_MIN:
        return isnan(a) || isnan(b) ? NAN : fminf(a, b);
    default:
        return isnan(a) || isnan(b) ? NAN : fmaxf(a, b);
    }
}

static double combine_double(weir_op op, double a, double b)
{
    switch (op) {
    case WEIR_SUM:
    case WEIR_AVG:
        return a + b;
    case WEIR_PROD:
        return a * b;
    case WEIR_MIN:
        return isnan(a) || isnan(b) ? NAN : fmin(a, b);
    default:
        return isnan(a) || isnan(b) ? NAN : fmax(a, b);
    }
}

static bool is_signed(weir_type type)
{
    return type <= WEIR_INT64;
}

static uint64_t int_value(weir_type type, const void *p)
{
    uint64_t v = 0;
    size_t size = weir_type_size(type);
    memcpy(&v, p, size);
    if (is_signed(type) && size < 8 && v >> (8 * size - 1))
        v |= ~(uint64_t)0 << 8 * size;
    return v;
}

static uint64_t combine_int(weir_type type, weir_op op, uint64_t a, uint64_t b)
{
    bool less = is_signed(type) ? (int64_t)a < (int64_t)b : a < b;
    uint64_t r = op == WEIR_SUM || op == WEIR_AVG ? a + b
                 : op == WEIR_PROD                ? a * b
                 : op == WEIR_MIN                 ? (less ? a : b)
                 : op == WEIR_MAX                 ? (less ? b : a)
                 : op == WEIR_AND                 ? (a & b)
                 : op == WEIR_OR                  ? (a | b)
                                                  : (a ^ b);
    return int_value(type, &r); /* wrapped to the type */
}

static bool same_float(double want, double got)
{
    return (isnan(want) && isnan(got)) || (want == got && (want != 0 || signbit(want) == signbit(got)));
}

/* min and max of zeros of different sign may give either */
static bool same_but_zero(weir_op op, double want, double got)
{
    return same_float(want, got) || ((op == WEIR_MIN || op == WEIR_MAX) && want == 0 && got == 0);
}

static void check_element(const struct wr_kernel *k, const unsigned char *const *src, unsigned nsrc, size_t i, const unsigned char *dst,
                          uint64_t by)
{
    size_t size = k->size;
    if (k->type == WEIR_FP64) {
        double acc, v, got;
        memcpy(&acc, src[0] + i * size, size);
        for (unsigned s = 1; s < nsrc; s++) {
            memcpy(&v, src[s] + i * size, size);
            acc = combine_double(k->op, acc, v);
        }
        acc = by > 1 ? acc / (double)by : acc;
        memcpy(&got, dst + i * size, size);
        assert_true(same_but_zero(k->op, acc, got));
    } else if (k->type == WEIR_FP32 || k->type == WEIR_FP16 || k->type == WEIR_BF16) {
        bool half = k->type != WEIR_FP32;
        float acc = 0, v;
        uint16_t h;
        for (unsigned s = 0; s < nsrc; s++) {
            if (half) {
                memcpy(&h, src[s] + i * size, size);
                v = (float)half_value(k->type, h);
            } else {
                memcpy(&v, src[s] + i * size, size);
            }
            acc = s ? combine_float(k->op, acc, v) : v;
        }
        acc = by > 1 ? acc / (float)by : acc;
        double want = acc, got;
        if (half) {
            memcpy(&h, dst + i * size, size);
            got = half_value(k->type, h);
            want = half_rounded(k->type, acc);
        } else {
            memcpy(&v, dst + i * size, size);
            got = v;
        }
        if (!same_but_zero(k->op, want, got))
            fail_msg("%s %s: %.10g instead of %.10g", weir_type_name(k->type), weir_op_name(k->op), got, want);
    } else {
        uint64_t acc = int_value(k->type, src[0] + i * size);
        for (unsigned s = 1; s < nsrc; s++)
            acc = combine_int(k->type, k->op, acc, int_value(k->type, src[s] + i * size));
        if (by > 1)
            acc = is_signed(k->type) ? (uint64_t)((int64_t)acc / (int64_t)by) : acc / by;
        assert_true(int_value(k->type, dst + i * size) == int_value(k->type, &acc));
    }
}

/* Operands with ordinary numbers, and with all kinds of special ones. */
static void make_operands(weir_type type, unsigned char *buffer, size_t n)
{
    static const float special[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1e-40f, -1e-8f, 6e-5f, 65504, 65520, 3e38f, 5.96e-8f};
    size_t size = weir_type_size(type);
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = next_random();
        if (type == WEIR_FP32 || type == WEIR_FP64) {
            float f = (float)((int64_t)(bits % 2000001) - 1000000) / 1024.0f;
            double d;
            if (bits >> 60 == 0)
                f = special[bits % (sizeof special / sizeof special[0])];
            d = f;
            memcpy(buffer + i * size, type == WEIR_FP32 ? (void *)&f : (void *)&d, size);
        } else {
            memcpy(buffer + i * size, &bits, size); /* any bits: for fp16 and bf16 NaN, infinity, subnormal too */
        }
    }
}

static void for_all_kernels(void (*body)(const char *isa, struct wr_kernel *k))
{
    static const char *const isas[] = {"generic", "avx2", "avx512"};
    for (size_t a = 0; a < 3; a++)
        for (int type = 0; type <= WEIR_FP64; type++)
            for (int op = 0; op <= WEIR_XOR; op++) {
                struct wr_kernel k;
                if (wr_kernel_find((weir_type)type, (weir_op)op, isas[a], &k))
                    body(isas[a], &k);
            }
}

static unsigned char *operand[SOURCES];
static unsigned char *result;

static void one_kernel(const char *isa, struct wr_kernel *k)
{
    (void)isa;
    for (size_t n = 0; n <= MOST; n += n < 70 ? 1 : 23)
        for (unsigned nsrc = 1; nsrc <= SOURCES; nsrc += 1 + (n > 40)) {
            struct wr_operand src[SOURCES];
            const unsigned char *at[SOURCES];
            size_t shift = (n + nsrc) % 5; /* not aligned to anything */
            for (unsigned s = 0; s < nsrc; s++) {
                at[s] = operand[s] + (shift + s) % 3;
                make_operands(k->type, operand[s] + (shift + s) % 3, n);
                src[s] = (struct wr_operand){at[s], false};
            }
            memset(result, 0xa5, MOST * 8 + 16);
            uint64_t by = k->op == WEIR_AVG ? nsrc : 1;
            wr_kernel_reduce(k, result + shift, false, src, nsrc, n, by);
            for (size_t i = 0; i < n; i++)
                check_element(k, at, nsrc, i, result + shift, by);
            assert_int_equal(result[shift + n * k->size], 0xa5);
            /* into the first operand, and into the last */
            memcpy(result, at[0], n * k->size);
            if (nsrc > 1) {
                unsigned char *keep = malloc(n * k->size + 1);
                memcpy(keep, at[nsrc - 1], n * k->size);
                unsigned char *last = operand[nsrc - 1] + (shift + nsrc - 1) % 3;
                wr_kernel_reduce(k, last, false, src, nsrc, n, by);
                at[nsrc - 1] = keep;
                for (size_t i = 0; i < n; i++)
                    check_element(k, at, nsrc, i, last, by);
                free(keep);
            }
        }
}

static int open_buffers(void **state)
{
    (void)state;
    for (int s = 0; s < SOURCES; s++)
        operand[s] = malloc(STRIDE * 8);
    result = malloc(STRIDE * 8);
    return 0;
}

static int close_buffers(void **state)
{
    (void)state;
    for (int s = 0; s < SOURCES; s++)
        free(operand[s]);
    free(result);
    return 0;
}

static void all_types_and_operations(void **state)
{
    (void)state;
    for_all_kernels(one_kernel);
}

/* All 65536 patterns through fp32 and back; and values around every rounding boundary. */
static void one_conversion(const char *isa, struct wr_kernel *k)
{
    (void)isa;
    if (k->op != WEIR_MAX || (k->type != WEIR_FP16 && k->type != WEIR_BF16))
        return;
    static uint16_t in[65536], out[65536];
    static float wide[65536];
    for (uint32_t i = 0; i < 65536; i++)
        in[i] = (uint16_t)i;
    struct wr_operand narrow = {in, false}, partial = {wide, true};
    wr_kernel_reduce(k, wide, true, &narrow, 1, 65536, 1);
    wr_kernel_reduce(k, out, false, &partial, 1, 65536, 1);
    for (uint32_t i = 0; i < 65536; i++) {
        double v = half_value(k->type, in[i]);
        assert_true(same_float(v, wide[i]));
        if (isnan(v))
            assert_true(isnan(half_value(k->type, out[i])));
        else
            assert_int_equal(in[i], out[i]);
    }
    for (uint32_t i = 0; i < 65536; i++) {
        uint32_t u = (uint32_t)next_random();
        memcpy(&wide[i], &u, sizeof u);
        if (i % 2) /* near a tie */
            wide[i] = nextafterf((float)(half_value(k->type, (uint16_t)u) * (1 + ldexp(1, k->type == WEIR_BF16 ? -8 : -11))),
                                 i % 4 == 1 ? INFINITY : -INFINITY);
    }
    wr_kernel_reduce(k, out, false, &partial, 1, 65536, 1);
    for (uint32_t i = 0; i < 65536; i++)
        assert_true(same_float(half_rounded(k->type, wide[i]), half_value(k->type, out[i])));
}

static void half_conversions_round_to_nearest_even(void **state)
{
    (void)state;
    for_all_kernels(one_conversion);
}

/* Long vectors (streaming stores) give the same bits on every instruction set; partial operands mix with others. */
static void long_vectors_agree(void **state)
{
    (void)state;
    enum { N = 300001 };
    static const weir_type types[] = {WEIR_FP32, WEIR_BF16, WEIR_FP16, WEIR_INT16, WEIR_FP64};
    static const char *const isas[] = {"generic", "avx2", "avx512"};
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        unsigned char *a = malloc(N * 8), *b = malloc(N * 8), *c = malloc(N * 8), *out = malloc(N * 8), *first = malloc(N * 8);
        struct wr_kernel k;
        assert_true(wr_kernel_find(types[t], WEIR_SUM, "generic", &k));
        bool partial = k.size != k.partial_size;
        make_operands(types[t], a, N);
        make_operands(types[t], b, N);
        make_operands(partial ? WEIR_FP32 : types[t], c, N);
        struct wr_operand src[] = {{a, false}, {b, false}, {c, partial}};
        for (int i = 0; i < 3; i++) {
            if (!wr_kernel_find(types[t], WEIR_SUM, isas[i], &k))
                continue;
            memset(out, 0, N * 8);
            k.stream_bytes = 1 << 18;
            wr_kernel_reduce(&k, out, false, src, 3, N, 1);
            if (i == 0)
                memcpy(first, out, N * 8);
            else
                assert_memory_equal(first, out, N * k.size);
        }
        free(a);
        free(b);
        free(c);
        free(out);
        free(first);
    }
}

static void user_sub(void *arg, void *inout, const void *src, uint64_t n)
{
    (void)arg;
    for (uint64_t i = 0; i < n; i++)
        ((int32_t *)inout)[i] = ((int32_t *)inout)[i] - ((const int32_t *)src)[i];
}

static void user_operations_are_applied_from_left_to_right(void **state)
{
    (void)state;
    int32_t a[5000], b[5000], c[5000], out[5000];
    struct wr_kernel k;
    assert_true(wr_kernel_find(WEIR_INT32, WEIR_SUM, NULL, &k));
    k.user = user_sub;
    for (int i = 0; i < 5000; i++) {
        a[i] = 7 * i;
        b[i] = i;
        c[i] = 2 * i;
    }
    struct wr_operand src[] = {{a, false}, {b, false}, {c, false}};
    wr_kernel_reduce(&k, out, false, src, 3, 5000, 1);
    for (int i = 0; i < 5000; i++)
        assert_int_equal(out[i], 4 * i);
}

static void what_does_not_exist_is_refused(void **state)
{
    (void)state;
    struct wr_kernel k;
    assert_false(wr_kernel_find(WEIR_FP32, WEIR_AND, NULL, &k));
    assert_false(wr_kernel_find(WEIR_BF16, WEIR_XOR, NULL, &k));
    assert_false(wr_kernel_find((weir_type)99, WEIR_SUM, NULL, &k));
    assert_false(wr_kernel_find(WEIR_FP32, WEIR_SUM, "mmx", &k));
    assert_true(wr_kernel_find(WEIR_UINT8, WEIR_AND, NULL, &k));
    assert_int_equal(weir_type_size((weir_type)99), 0);
    assert_null(weir_op_name((weir_op)99));
    assert_string_equal(weir_type_name(WEIR_BF16), "bf16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_types_and_operations, open_buffers, close_buffers),
        cmocka_unit_test(half_conversions_round_to_nearest_even),
        cmocka_unit_test(long_vectors_agree),
        cmocka_unit_test(user_operations_are_applied_from_left_to_right),
        cmocka_unit_test(what_does_not_exist_is_refused),
    };
    return cmocka_run_group_tests_name("kernel", tests, NULL, NULL);
}
