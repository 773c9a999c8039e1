/* SPDX-License-Identifier: BSD-3-Clause */
/* The interface of rules: instruction sets and divisions that give the same bits, types, limits, what is refused. */
#include "tests/unit/unit.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"

enum { MOST = 300, PAD = 320, STEPS = 3 };
static const uint32_t GUARD = 0x7fc5a5a5;

static uint64_t state_word = 1;

static float next_random(void)
{
    state_word = state_word * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(state_word >> 32) / 2147483648.0f;
}

/* A shard with its arrays at a chosen distance from an aligned address, and guards behind each. */
struct shard {
    size_t n, rows, shift;
    unsigned char *memory[3 + WEIR_RULE_STATES_MAX];
    size_t bytes[3 + WEIR_RULE_STATES_MAX];
    weir_rule_data d;
};

enum { MASTER, GRAD, OUT, STATE };

static void *array(struct shard *s, int which, size_t count, size_t element)
{
    s->bytes[which] = (count + s->shift) * element;
    s->memory[which] = calloc(1, s->bytes[which] + sizeof GUARD);
    memcpy(s->memory[which] + s->bytes[which], &GUARD, sizeof GUARD);
    return s->memory[which] + s->shift * element;
}

static void fill(void *p, weir_type type, size_t n, float scale)
{
    for (size_t i = 0; i < n; i++) {
        float v = next_random() * scale / (float)(1 << i % 9);
        if (type == WEIR_FP32)
            ((float *)p)[i] = v;
        else if (type == WEIR_BF16)
            half_to_bf16((half_bits_u *)p + i, &v, 1);
        else
            half_to_fp16((half_bits_u *)p + i, &v, 1);
    }
}

/* out_type WEIR_FP32: no low-precision copy */
static void open_shard(struct shard *s, const weir_rule *rule, size_t n, size_t shift, weir_type grad, weir_type out)
{
    *s = (struct shard){.n = n, .rows = n % 20 ? 1 : 20, .shift = shift, .d = WEIR_RULE_DATA_INIT};
    s->d.master = array(s, MASTER, n, sizeof(float));
    s->d.grad = array(s, GRAD, n, weir_type_size(grad));
    s->d.grad_type = grad;
    if (out != WEIR_FP32) {
        s->d.out = array(s, OUT, n, 2);
        s->d.out_type = out;
    }
    fill(s->d.master, WEIR_FP32, n, 1);
    for (unsigned k = 0; k < weir_rule_nstates(rule); k++) {
        weir_rule_state state = {.size = sizeof state};
        assert_int_equal(weir_rule_state_info(rule, k, &state), WEIR_OK);
        assert_non_null(state.name);
        size_t count = weir_rule_state_count(rule, k, s->rows, n / s->rows);
        s->d.states[k] = array(s, STATE + (int)k, count, weir_type_size((weir_type)state.type));
        for (size_t i = 0; state.type == WEIR_FP32 && i < count; i++)
            ((float *)s->d.states[k])[i] = (float)state.initial;
    }
}

static void close_shard(struct shard *s)
{
    for (size_t i = 0; i < sizeof s->memory / sizeof s->memory[0]; i++) {
        if (s->memory[i])
            assert_memory_equal(s->memory[i] + s->bytes[i], &GUARD, sizeof GUARD);
        free(s->memory[i]);
    }
}

/* The copy is the master rounded once. */
static void assert_copy(const struct shard *s)
{
    for (size_t i = 0; s->d.out && i < s->n; i++)
        assert_int_equal(((uint16_t *)s->d.out)[i],
                         s->d.out_type == WEIR_BF16 ? half_bf16(s->d.master[i]) : half_fp16(s->d.master[i]));
}

static void assert_same(const struct shard *a, const struct shard *b)
{
    for (size_t i = 0; i < sizeof a->memory / sizeof a->memory[0]; i++) {
        assert_int_equal(!a->memory[i], !b->memory[i]);
        if (!a->memory[i] || i == GRAD)
            continue;
        size_t size = i < STATE ? (i == OUT ? 2 : 4) : 0;
        size_t skip_a = size ? a->shift * size : (size_t)((unsigned char *)a->d.states[i - STATE] - a->memory[i]);
        size_t skip_b = size ? b->shift * size : (size_t)((unsigned char *)b->d.states[i - STATE] - b->memory[i]);
        assert_int_equal(a->bytes[i] - skip_a, b->bytes[i] - skip_b);
        assert_memory_equal(a->memory[i] + skip_a, b->memory[i] + skip_b, a->bytes[i] - skip_a);
    }
}

static weir_rule *make(weir_rule_kind kind, const char *isa, double momentum)
{
    weir_rule_options o = {.size = sizeof o};
    weir_rule *rule;
    weir_error error;
    assert_int_equal(weir_rule_defaults(kind, &o), WEIR_OK);
    o.isa = isa;
    o.momentum = momentum;
    if (weir_rule_create(&o, &rule, &error) == WEIR_ERR_UNSUPPORTED)
        return NULL;
    weir_rule_options got = {.size = sizeof got};
    assert_int_equal(weir_rule_get_options(rule, &got), WEIR_OK);
    assert_int_equal(got.kind, kind);
    assert_string_equal(got.isa, isa ? isa : got.isa);
    return rule;
}

static size_t piece_at(const struct shard *s, size_t at, size_t piece)
{
    return s->n - at < piece ? s->n - at : piece;
}

/* One step over a shard that is one tensor, in pieces of `piece` elements as far as the rule allows. */
static void one_step(const weir_rule *rule, const weir_rule_step *step, struct shard *s, size_t piece)
{
    weir_error error;
    weir_rule_step now = *step;
    size_t blocks = weir_norm_blocks(0, s->n),
           block_piece = (piece + WEIR_NORM_BLOCK - 1) / WEIR_NORM_BLOCK * WEIR_NORM_BLOCK;
    if (weir_rule_access(rule) == WEIR_ACCESS_MATRIX) {
        void *work = aligned_alloc(64, (weir_rule_work_bytes(rule, s->rows, s->n / s->rows) + 127) / 64 * 64);
        assert_ok(weir_rule_update_tensor(rule, step, &s->d, 0, s->rows, s->n / s->rows, work, &error), &error);
        free(work);
        return;
    }
    if (weir_rule_access(rule) == WEIR_ACCESS_TENSOR) {
        double *sums = calloc(2 * blocks + 1, sizeof(double)), *part = calloc(2 * blocks + 1, sizeof(double));
        for (size_t at = 0; at < s->n; at += block_piece) {
            size_t m = piece_at(s, at, block_piece), count = weir_norm_blocks(at, m), first = at / WEIR_NORM_BLOCK;
            assert_ok(weir_rule_prepare(rule, step, &s->d, at, m, part, &error), &error);
            memcpy(sums + first, part, count * sizeof(double));
            memcpy(sums + blocks + first, part + count, count * sizeof(double));
        }
        now.ratio = weir_rule_ratio(rule, step, weir_norm_fold(sums, blocks), weir_norm_fold(sums + blocks, blocks));
        free(sums);
        free(part);
    }
    for (size_t at = 0; at < s->n; at += piece)
        assert_ok(weir_rule_update(rule, &now, &s->d, at, piece_at(s, at, piece), &error), &error);
}

/* Some steps over a shard. */
static void drive(const weir_rule *rule, struct shard *s, size_t piece)
{
    weir_rule_step step = WEIR_RULE_STEP_INIT;
    step.lr = 0.01;
    step.weight_decay = 0.1;
    step.grad_scale = 0.25;
    for (step.step = 1; step.step <= STEPS; step.step++) {
        state_word = step.step + s->n;
        fill((void *)(uintptr_t)s->d.grad, (weir_type)s->d.grad_type, s->n, 4);
        one_step(rule, &step, s, piece);
    }
}

static void for_all_kinds(void (*body)(weir_rule_kind kind, const char *isa))
{
    static const char *const isas[] = {"generic", "avx2", "avx512"};
    for (int kind = 0; weir_rule_kind_name((weir_rule_kind)kind); kind++)
        for (size_t i = 0; i < 3; i++)
            body((weir_rule_kind)kind, isas[i]);
}

static void one_length(const weir_rule *first, const weir_rule *rule, size_t n, size_t k)
{
    static const weir_type grads[] = {WEIR_FP32, WEIR_BF16, WEIR_FP16};
    static const weir_type outs[] = {WEIR_FP32, WEIR_FP16, WEIR_BF16};
    struct shard a, b;
    state_word = n;
    open_shard(&a, first, n, 0, grads[k % 3], outs[(k + n) % 3]);
    state_word = n;
    open_shard(&b, rule, n, n % 17, grads[k % 3], outs[(k + n) % 3]);
    drive(first, &a, n + 1);
    size_t granule = weir_rule_granule(rule);
    drive(rule, &b, k % 2 ? n + 1 : granule == 1 ? 1 + n / 3 : granule);
    assert_same(&a, &b);
    assert_copy(&a);
    if (n > 1) /* it moved */
        assert_true(a.d.master[0] != b.d.master[1]);
    close_shard(&a);
    close_shard(&b);
}

static void one_kind(weir_rule_kind kind, const char *isa)
{
    bool has_momentum = kind == WEIR_RULE_SGD || kind == WEIR_RULE_LARS;
    for (int momentum = 0; momentum <= has_momentum; momentum++) {
        weir_rule *generic = make(kind, "generic", momentum * 0.5), *rule = make(kind, isa, momentum * 0.5);
        for (size_t n = 0; rule && n <= MOST; n++)
            for (size_t k = 0; k < 6; k += 1 + (n > 40))
                one_length(generic, rule, n, k);
        weir_rule_free(generic);
        weir_rule_free(rule);
    }
}

static void all_sets_lengths_divisions_agree(void **state)
{
    (void)state;
    for_all_kinds(one_kind);
}

/* Several chunks, and the size from which the low-precision copy bypasses the cache. */
static void one_long(weir_rule_kind kind, const char *isa)
{
    enum { LONG = 600020 };
    weir_rule *generic = make(kind, "generic", 0.9), *rule = make(kind, isa, 0.9);
    struct shard a, b;
    if (rule) {
        state_word = 1;
        open_shard(&a, generic, LONG, 3, WEIR_FP16, WEIR_BF16);
        state_word = 1;
        open_shard(&b, rule, LONG, 1, WEIR_FP16, WEIR_BF16);
        drive(generic, &a, LONG);
        drive(rule, &b, 256 * 777);
        assert_same(&a, &b);
        close_shard(&a);
        close_shard(&b);
    }
    weir_rule_free(generic);
    weir_rule_free(rule);
}

static void long_shards_agree(void **state)
{
    (void)state;
    for_all_kinds(one_long);
}

/* Gradients in half precision are what they are in fp32. */
static void types_are_exact(void **state)
{
    (void)state;
    static const weir_type types[] = {WEIR_BF16, WEIR_FP16};
    weir_rule *rule = make(WEIR_RULE_ADAMW, NULL, 0);
    for (int k = 0; k < 2; k++) {
        struct shard a, b;
        state_word = 7;
        open_shard(&a, rule, MOST, 0, types[k], types[k]);
        state_word = 7;
        open_shard(&b, rule, MOST, 0, WEIR_FP32, WEIR_FP32);
        drive(rule, &a, MOST);
        weir_rule_step step = WEIR_RULE_STEP_INIT;
        step.lr = 0.01;
        step.weight_decay = 0.1;
        step.grad_scale = 0.25;
        for (step.step = 1; step.step <= STEPS; step.step++) {
            uint16_t half[MOST];
            state_word = step.step + MOST;
            fill(half, types[k], MOST, 4);
            for (size_t i = 0; i < MOST; i++)
                if (types[k] == WEIR_BF16)
                    half_from_bf16((float *)(uintptr_t)b.d.grad + i, half + i, 1);
                else
                    half_from_fp16((float *)(uintptr_t)b.d.grad + i, half + i, 1);
            assert_int_equal(weir_rule_update(rule, &step, &b.d, 0, MOST, NULL), WEIR_OK);
        }
        assert_memory_equal(a.d.master, b.d.master, MOST * sizeof(float));
        assert_copy(&a);
        close_shard(&a);
        close_shard(&b);
    }
    weir_rule_free(rule);
}

/* A NaN or an infinity reaches its own element, and with access element only that. */
static void one_not_finite(weir_rule_kind kind, const char *isa)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    weir_rule *rule = make(kind, isa, 0.9);
    for (size_t k = 0; rule && k < 3; k++) {
        struct shard s;
        open_shard(&s, rule, 100, 0, WEIR_FP32, WEIR_BF16);
        fill((void *)(uintptr_t)s.d.grad, WEIR_FP32, 100, 1);
        ((float *)(uintptr_t)s.d.grad)[37] = bad[k];
        weir_rule_step step = WEIR_RULE_STEP_INIT;
        step.lr = 0.1;
        one_step(rule, &step, &s, 100);
        if (kind == WEIR_RULE_LION && isinf(bad[k])) { /* only its sign counts */
            assert_false(isfinite(((float *)s.d.states[0])[37]));
            s.d.master[37] = bad[k];
            ((uint16_t *)s.d.out)[37] = half_bf16(bad[k]);
        }
        for (size_t i = 0; weir_rule_access(rule) == WEIR_ACCESS_ELEMENT && i < 100; i++)
            assert_int_equal(i == 37, !isfinite(s.d.master[i]));
        assert_false(isfinite(s.d.master[37]));
        float copy;
        half_from_bf16(&copy, (half_bits_u *)s.d.out + 37, 1);
        assert_false(isfinite(copy));
        close_shard(&s);
    }
    weir_rule_free(rule);
}

static void what_is_not_finite_goes_through(void **state)
{
    (void)state;
    for_all_kinds(one_not_finite);
}

/* What is done in parts is what is done at once, where a whole tensor is in one place. */
static void whole_tensors_are_the_same(void **state)
{
    (void)state;
    enum { N = 3 * 4096 + 700, FIRST = 4096 };
    for (int kind = 0; weir_rule_kind_name((weir_rule_kind)kind); kind++) {
        weir_rule *rule = make((weir_rule_kind)kind, NULL, 0.9);
        if (!rule || weir_rule_access(rule) == WEIR_ACCESS_MATRIX) {
            weir_rule_free(rule);
            continue;
        }
        struct shard a, b;
        weir_rule_step step = WEIR_RULE_STEP_INIT;
        weir_error error;
        void *work = aligned_alloc(64, (weir_rule_work_bytes(rule, 4, N / 4) + 127) / 64 * 64);
        state_word = 5;
        open_shard(&a, rule, N, 0, WEIR_BF16, WEIR_BF16);
        state_word = 5;
        open_shard(&b, rule, FIRST + N, 0, WEIR_BF16, WEIR_BF16);
        memcpy(b.d.master + FIRST, a.d.master, N * sizeof(float));
        step.lr = 0.1;
        step.weight_decay = 0.1;
        fill((void *)(uintptr_t)a.d.grad, WEIR_BF16, N, 1);
        memcpy((char *)(uintptr_t)b.d.grad + FIRST * 2, a.d.grad, N * 2);
        one_step(rule, &step, &a, 256);
        assert_ok(weir_rule_update_tensor(rule, &step, &b.d, FIRST, 4, N / 4, work, &error), &error);
        assert_memory_equal(a.d.master, b.d.master + FIRST, N * sizeof(float));
        assert_memory_equal(a.d.out, (char *)b.d.out + FIRST * 2, N * 2);
        close_shard(&a);
        close_shard(&b);
        free(work);
        weir_rule_free(rule);
    }
}

struct half {
    const weir_rule *rule;
    const struct shard *s;
    size_t first, n;
    pthread_t thread;
};

static void *update_half(void *arg)
{
    struct half *h = arg;
    weir_rule_step step = WEIR_RULE_STEP_INIT;
    step.lr = 0.1;
    for (step.step = 1; step.step <= 20; step.step++)
        if (weir_rule_update(h->rule, &step, &h->s->d, h->first, h->n, NULL) != WEIR_OK)
            return h;
    return NULL;
}

/* Two threads at ranges that touch each other do what one does. */
static void threads_share_a_shard(void **state)
{
    (void)state;
    enum { N = 4096 };
    for (int kind = 0; weir_rule_kind_name((weir_rule_kind)kind); kind++) {
        weir_rule *rule = make((weir_rule_kind)kind, NULL, 0.9);
        struct shard a, b;
        void *failed;
        if (!rule || weir_rule_access(rule) != WEIR_ACCESS_ELEMENT) {
            weir_rule_free(rule);
            continue;
        }
        size_t border = weir_rule_granule(rule) == 1 ? 1933 : 1792;
        struct half halves[3] = {{.rule = rule, .s = &a, .n = border},
                                 {.rule = rule, .s = &a, .first = border, .n = N - border},
                                 {.rule = rule, .s = &b, .n = N}};
        state_word = 9;
        open_shard(&a, rule, N, 0, WEIR_FP32, WEIR_BF16);
        fill((void *)(uintptr_t)a.d.grad, WEIR_FP32, N, 1);
        state_word = 9;
        open_shard(&b, rule, N, 0, WEIR_FP32, WEIR_BF16);
        fill((void *)(uintptr_t)b.d.grad, WEIR_FP32, N, 1);
        for (int i = 0; i < 3; i++)
            assert_int_equal(pthread_create(&halves[i].thread, NULL, update_half, &halves[i]), 0);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(pthread_join(halves[i].thread, &failed), 0);
            assert_null(failed);
        }
        assert_same(&a, &b);
        close_shard(&a);
        close_shard(&b);
        weir_rule_free(rule);
    }
}

/* In 8 bits each moment is within half a step of its code, and what is not zero stays so where it is divided by. */
static void moments_in_8_bits(void **state)
{
    (void)state;
    enum { N = 1024 };
    weir_rule *rule = make(WEIR_RULE_ADAMW8, NULL, 0), *exact = make(WEIR_RULE_ADAMW, NULL, 0);
    struct shard a, b;
    weir_rule_step step = WEIR_RULE_STEP_INIT;
    open_shard(&a, rule, N, 0, WEIR_FP32, WEIR_FP32);
    open_shard(&b, exact, N, 0, WEIR_FP32, WEIR_FP32);
    memcpy(b.d.master, a.d.master, N * sizeof(float));
    for (size_t i = 0; i < N; i++)
        ((float *)(uintptr_t)a.d.grad)[i] = ((float *)(uintptr_t)b.d.grad)[i] = next_random() * exp2f(-(float)(i % 24));
    step.lr = 0.1;
    assert_int_equal(weir_rule_update(rule, &step, &a.d, 0, N, NULL), WEIR_OK);
    assert_int_equal(weir_rule_update(exact, &step, &b.d, 0, N, NULL), WEIR_OK);
    assert_memory_equal(a.d.master, b.d.master, N * sizeof(float)); /* the first step is exact */
    const int8_t *m = a.d.states[0];
    const uint8_t *v = a.d.states[2];
    const float *scale_m = a.d.states[1], *scale_v = a.d.states[3];
    for (size_t i = 0; i < N; i++) {
        float most_m = 0, most_v = 0;
        for (size_t k = i / 256 * 256; k < i / 256 * 256 + 256; k++) {
            most_m = fmaxf(most_m, fabsf(((float *)b.d.states[0])[k]));
            most_v = fmaxf(most_v, ((float *)b.d.states[1])[k]);
        }
        assert_true(scale_m[i / 256] == most_m && scale_v[i / 256] == most_v);
        assert_true(v[i] > 0);
        float x = ((float *)b.d.states[0])[i];
        assert_true(m[i] == 0 || (m[i] > 0) == (x > 0));
        if (fabsf(x) == most_m)
            assert_int_equal(abs(m[i]), 127);
    }
    close_shard(&a);
    close_shard(&b);
    weir_rule_free(rule);
    weir_rule_free(exact);
}

static void wrong_settings_are_refused(void **state)
{
    (void)state;
    weir_rule *rule = NULL;
    weir_error error;
    weir_rule_kind kind;
    assert_int_equal(weir_rule_kind_find("adamw", &kind), WEIR_OK);
    assert_int_equal(kind, WEIR_RULE_ADAMW);
    assert_int_equal(weir_rule_kind_find("adamx", &kind), WEIR_ERR_NOT_FOUND);
    assert_null(weir_rule_kind_name((weir_rule_kind)99));
    weir_rule_options o = {.size = 8};
    assert_int_equal(weir_rule_defaults(kind, &o), WEIR_ERR_INVALID);
    o.size = sizeof o;
    assert_int_equal(weir_rule_defaults((weir_rule_kind)99, &o), WEIR_ERR_INVALID);
    assert_int_equal(weir_rule_defaults(kind, &o), WEIR_OK);
    o.beta2 = 1;
    assert_int_equal(weir_rule_create(&o, &rule, &error), WEIR_ERR_INVALID);
    assert_non_null(strstr(error.message, "beta2"));
    o.beta2 = NAN;
    assert_int_equal(weir_rule_create(&o, &rule, &error), WEIR_ERR_INVALID);
    o.beta2 = 0.99;
    o.flags = WEIR_RULE_NESTEROV; /* not of this rule */
    assert_int_equal(weir_rule_create(&o, &rule, &error), WEIR_ERR_INVALID);
    o.flags = 0;
    o.isa = "mmx";
    assert_int_equal(weir_rule_create(&o, &rule, &error), WEIR_ERR_UNSUPPORTED);
    assert_null(rule);
    /* a caller of an older version, whose struct ends early, gets the defaults for the rest */
    o.isa = NULL;
    o.eps = 77;
    o.size = offsetof(weir_rule_options, eps);
    assert_ok(weir_rule_create(&o, &rule, &error), &error);
    weir_rule_options got = {.size = sizeof got};
    assert_int_equal(weir_rule_get_options(rule, &got), WEIR_OK);
    assert_true(got.eps == 1e-8 && got.beta2 == 0.99);
    weir_rule_free(rule);
    weir_rule_free(NULL);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    weir_rule *rule = make(WEIR_RULE_ADAMW, NULL, 0);
    weir_error error;
    struct shard s;
    open_shard(&s, rule, 64, 0, WEIR_FP32, WEIR_BF16);
    weir_rule_step step = WEIR_RULE_STEP_INIT;
    weir_rule_data d = s.d;
    assert_ok(weir_rule_update(rule, &step, &d, 64, 0, &error), &error);
    assert_int_equal(weir_rule_update(NULL, &step, &d, 0, 64, &error), WEIR_ERR_INVALID);
    step.step = 0;
    assert_int_equal(weir_rule_update(rule, &step, &d, 0, 64, &error), WEIR_ERR_INVALID);
    step.step = 1;
    d.states[1] = NULL;
    assert_int_equal(weir_rule_update(rule, &step, &d, 0, 64, &error), WEIR_ERR_INVALID);
    assert_non_null(strstr(error.message, "state"));
    d = s.d;
    d.master = (float *)(void *)((char *)d.master + 2);
    assert_int_equal(weir_rule_update(rule, &step, &d, 0, 63, &error), WEIR_ERR_INVALID);
    d = s.d;
    d.grad_type = WEIR_FP64;
    assert_int_equal(weir_rule_update(rule, &step, &d, 0, 64, &error), WEIR_ERR_INVALID);
    d = s.d;
    d.out_type = WEIR_FP32;
    assert_int_equal(weir_rule_update(rule, &step, &d, 0, 64, NULL), WEIR_ERR_INVALID);
    double sums[2];
    assert_int_equal(weir_rule_prepare(rule, &step, &s.d, 0, 64, sums, &error), WEIR_ERR_INVALID);
    assert_true(weir_rule_ratio(rule, &step, 1, 4) == 1);
    weir_rule_free(rule);
    rule = make(WEIR_RULE_ADAFACTOR, NULL, 0);
    assert_int_equal(weir_rule_update(rule, &step, &s.d, 0, 64, &error), WEIR_ERR_INVALID);
    assert_non_null(strstr(error.message, "weir_rule_update_tensor"));
    assert_int_equal(weir_rule_update_tensor(rule, &step, &s.d, 0, 8, 8, NULL, &error), WEIR_ERR_INVALID);
    assert_int_equal(weir_rule_update_tensor(rule, &step, &s.d, 0, UINT64_MAX, 8, NULL, &error), WEIR_ERR_INVALID);
    assert_int_equal(weir_rule_state_count(rule, 0, 8, 9), 8);
    assert_int_equal(weir_rule_state_count(rule, 1, 8, 9), 9);
    assert_int_equal(weir_rule_state_count(rule, 2, 8, 9), 0);
    assert_int_equal(weir_rule_state_count(rule, 2, 1, 9), 9);
    weir_rule_free(rule);
    rule = make(WEIR_RULE_ADAMW8, NULL, 0);
    assert_int_equal(weir_rule_state_count(rule, 1, 1, 257), 2);
    assert_int_equal(weir_rule_granule(rule), 256);
    for (int k = 2; k < WEIR_RULE_STATES_MAX; k++)
        s.d.states[k] = s.d.states[0];
    assert_int_equal(weir_rule_update(rule, &step, &s.d, 32, 32, &error), WEIR_ERR_INVALID);
    assert_non_null(strstr(error.message, "granule"));
    s.d.states[2] = s.d.states[3] = NULL;
    close_shard(&s);
    weir_rule_free(rule);
}

int main(void)
{
    setenv("OPENBLAS_NUM_THREADS", "1", 0); /* its threads are none that sanitizers know */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_sets_lengths_divisions_agree),
        cmocka_unit_test(long_shards_agree),
        cmocka_unit_test(types_are_exact),
        cmocka_unit_test(what_is_not_finite_goes_through),
        cmocka_unit_test(whole_tensors_are_the_same),
        cmocka_unit_test(threads_share_a_shard),
        cmocka_unit_test(moments_in_8_bits),
        cmocka_unit_test(wrong_settings_are_refused),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests_name("rule", tests, NULL, NULL);
}
