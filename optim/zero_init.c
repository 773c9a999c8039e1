/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Initial values. Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) makes four words from a counter
 * and a key; the counter is a quarter of the element's number and the number of the tensor, the key is the seed. Normal numbers by
 * Box and Muller, two from each pair of words.
 */
#include <math.h>
#include <string.h>

#include <weir/vector.h>

#include "base/compiler.h"
#include "optim/zero_update.h"

enum { WORDS = 4, ROUNDS = 10, CHUNK = 4096 };

static void philox(uint32_t c[WORDS], uint64_t key)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int r = 0; r < ROUNDS; r++) {
        uint64_t a = (uint64_t)c[0] * 0xd2511f53u, b = (uint64_t)c[2] * 0xcd9e8d57u;
        uint32_t next[WORDS] = {(uint32_t)(b >> 32) ^ c[1] ^ k0, (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ k1, (uint32_t)a};
        memcpy(c, next, sizeof next);
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
}

/* In (0, 1), never at its ends. */
static double unit_interval(uint32_t word)
{
    return ((double)word + 0.5) / 4294967296.0;
}

/* The four values from element 4 * quad on. */
static void four(const weir_zero_tensor *t, uint64_t seed, uint64_t unit, uint64_t index, uint64_t quad, float out[WORDS])
{
    uint32_t c[WORDS] = {(uint32_t)quad, (uint32_t)(quad >> 32), (uint32_t)unit, (uint32_t)index};
    philox(c, seed);
    for (int i = 0; i < WORDS; i += 2) {
        double u = unit_interval(c[i]), v = unit_interval(c[i + 1]);
        if (t->init == WEIR_ZERO_INIT_UNIFORM) {
            out[i] = (float)(t->init_a + (t->init_b - t->init_a) * u);
            out[i + 1] = (float)(t->init_a + (t->init_b - t->init_a) * v);
        } else {
            double radius = sqrt(-2 * log(u)), angle = 2 * 3.14159265358979323846 * v;
            out[i] = (float)(t->init_a + t->init_b * radius * cos(angle));
            out[i + 1] = (float)(t->init_a + t->init_b * radius * sin(angle));
        }
    }
}

static void fill_random(const weir_zero_tensor *t, uint64_t seed, uint64_t unit, uint64_t index, uint64_t first, uint64_t n, float *values)
{
    float quad[WORDS];
    for (uint64_t i = 0; i < n;) {
        uint64_t at = first + i, m = WR_MIN(n - i, WORDS - at % WORDS);
        four(t, seed, unit, index, at / WORDS, quad);
        memcpy(values + i, quad + at % WORDS, m * sizeof *values);
        i += m;
    }
}

weir_status weir_zero_init_values(const weir_zero_tensor *tensor, uint64_t seed, uint64_t unit, uint64_t index,
                                  uint64_t first, uint64_t n, float *values)
{
    if (!tensor || (n && !values) || tensor->init > WEIR_ZERO_INIT_CALLBACK ||
        (tensor->init == WEIR_ZERO_INIT_CALLBACK && !tensor->init_fn))
        return WEIR_ERR_INVALID;
    if (tensor->init == WEIR_ZERO_INIT_CALLBACK)
        tensor->init_fn(tensor->init_user, unit, index, first, n, values);
    else if (tensor->init == WEIR_ZERO_INIT_CONSTANT)
        for (uint64_t i = 0; i < n; i++)
            values[i] = (float)tensor->init_a;
    else
        fill_random(tensor, seed, unit, index, first, n, values);
    return WEIR_OK;
}

/* States begin as their rule says; their memory is zero. */
static void fill_states(const weir_zero *zero, const struct wr_zero_piece *p)
{
    const weir_rule *rule = wr_zero_group(&zero->o, p->tensor)->rule;
    for (unsigned k = 0; !p->tensor->frozen && k < weir_rule_nstates(rule); k++) {
        weir_rule_state s = {.size = sizeof s};
        weir_rule_state_info(rule, k, &s);
        uint64_t n = s.initial != 0 && p->states[k] ? wr_zero_state_entries(rule, k, p) : 0;
        for (uint64_t i = 0; i < n; i++)
            ((float *)p->states[k])[i] = (float)s.initial;
    }
}

static weir_status fill_piece(void *arg, const struct wr_zero_piece *p, uint64_t piece, uint64_t from)
{
    const weir_zero *zero = arg;
    const struct wr_zero_tensor *t = p->tensor;
    float values[CHUNK];
    weir_status status = WEIR_OK;
    (void)piece;
    (void)from;
    fill_states(zero, p);
    for (uint64_t at = 0; status == WEIR_OK && at < p->n; at += CHUNK) {
        uint64_t n = WR_MIN(p->n - at, (uint64_t)CHUNK);
        status = weir_zero_init_values(&t->said, zero->o.seed, t->unit, t->index, p->first + at, n, values);
        if (p->master)
            memcpy(p->master + at, values, n * sizeof *values);
        if (p->param != p->master)
            weir_convert((unsigned char *)p->param + at * zero->wsize, (weir_type)zero->o.param_type, values, WEIR_FP32, n);
    }
    return status;
}

weir_status wr_zero_fill(weir_zero *zero)
{
    return wr_zero_make_params(zero, false, true, false, fill_piece);
}
