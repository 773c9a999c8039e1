/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A model for the tests of the ZeRO engine, and the loop of one process that they are compared with.
 *
 * The gradient of an element is 0.3 times the parameter as the program sees it, plus noise of the step, the rank, the micro-batch and
 * the use: a stale parameter, a lost gradient or one that is counted twice changes what follows. The loop adds the gradients of
 * all ranks and micro-batches in fp64, knows tied tensors by their origin, and calls the rules on whole tensors.
 */
#ifndef WR_TEST_ZERO_MODEL_H
#define WR_TEST_ZERO_MODEL_H

#include <math.h>

#include "tests/multi/multi.h"

enum { UNITS = 8, TENSORS = 4, USES = 64 };

struct model {
    weir_zero_unit units[UNITS];
    weir_zero_tensor tensors[UNITS][TENSORS];
    int nunits;
};

/* One use of a unit in the backward pass. */
struct use {
    int unit, number;
};

/* What a rank does in a micro-batch. */
struct pass {
    struct use backward[USES];
    int n;
};

static inline uint32_t mix32(uint32_t x)
{
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

static inline float noise(uint32_t seed, uint32_t i)
{
    return (float)((double)(mix32(seed * 0x9e3779b9u + i) >> 8) / 16777216.0 - 0.5);
}

static inline void add_tensor(struct model *m, int unit, const char *name, uint64_t group, uint64_t rows, uint64_t cols)
{
    weir_zero_unit *u = &m->units[unit];
    weir_zero_tensor *t = &m->tensors[unit][u->ntensors++], empty = WEIR_ZERO_TENSOR_INIT;
    *t = empty;
    t->name = name;
    t->group = group;
    t->ndim = rows && cols ? 2 : cols ? 1 : 0;
    t->shape[0] = rows ? rows : cols;
    t->shape[1] = cols;
    t->init = WEIR_ZERO_INIT_NORMAL;
    t->init_b = 0.5;
    u->tensors = m->tensors[unit];
}

static inline void make_model(struct model *m)
{
    static const char *const names[UNITS] = {"embed", "layer0", "layer1", "layer2", "odd", "head", "nothing", "still"};
    memset(m, 0, sizeof *m);
    m->nunits = UNITS;
    for (int u = 0; u < UNITS; u++) {
        weir_zero_unit empty = WEIR_ZERO_UNIT_INIT;
        m->units[u] = empty;
        m->units[u].name = names[u];
    }
    add_tensor(m, 0, "table", 0, 37, 8);
    for (int u = 1; u <= 3; u++) {
        add_tensor(m, u, "weight", 0, 8, 24);
        add_tensor(m, u, "bias", 1, 0, 24);
        m->tensors[u][1].flags = WEIR_ZERO_NO_DECAY;
        add_tensor(m, u, "gain", 1, 0, 7);
        m->tensors[u][2].init = WEIR_ZERO_INIT_CONSTANT;
        m->tensors[u][2].init_a = 1;
    }
    add_tensor(m, 2, "fixed", 1, 0, 300);
    m->tensors[2][3].flags = WEIR_ZERO_FROZEN;
    add_tensor(m, 4, "scalar", 1, 0, 0);
    add_tensor(m, 4, "one", 1, 0, 1);
    add_tensor(m, 4, "large", 0, 53, 31);
    m->tensors[4][2].init = WEIR_ZERO_INIT_UNIFORM;
    m->tensors[4][2].init_a = -0.5;
    add_tensor(m, 5, "table", 0, 37, 8);
    m->tensors[5][0].tied_unit = 0;
    m->tensors[5][0].tied_tensor = 0;
    add_tensor(m, 5, "bias", 1, 0, 37);
    add_tensor(m, 7, "all", 2, 5, 13);
}

static inline uint64_t elements(const weir_zero_tensor *t)
{
    uint64_t n = 1;
    for (uint64_t d = 0; d < t->ndim; d++)
        n *= t->shape[d];
    return n;
}

/* ---- the loop ---- */

struct plain_tensor {
    float *w;      /* masters */
    float *seen;   /* as the program sees them */
    double *grad;
    float *mean;
    void *states[WEIR_RULE_STATES_MAX];
    uint64_t n, rows, cols;
    bool frozen;
};

struct plain {
    const struct model *m;
    weir_zero_options o;
    struct plain_tensor t[UNITS][TENSORS];
    uint64_t step;
    double norm;
};

static inline struct plain_tensor *plain_of(struct plain *p, int unit, int tensor)
{
    const weir_zero_tensor *t = &p->m->tensors[unit][tensor];
    return t->tied_unit >= 0 ? &p->t[t->tied_unit][t->tied_tensor] : &p->t[unit][tensor];
}

static inline void plain_round(const struct plain *p, struct plain_tensor *x)
{
    uint16_t *half = malloc(x->n * 2);
    weir_type type = (weir_type)p->o.param_type;
    if (type == WEIR_FP32) {
        memcpy(x->seen, x->w, x->n * sizeof(float));
    } else {
        weir_convert(half, type, x->w, WEIR_FP32, x->n);
        weir_convert(x->seen, WEIR_FP32, half, type, x->n);
    }
    free(half);
}

static inline void plain_tensor_create(struct plain *p, int u, int i)
{
    const weir_zero_tensor *t = &p->m->tensors[u][i];
    const weir_group *group = &p->o.groups[t->group];
    struct plain_tensor *x = &p->t[u][i];
    x->n = elements(t);
    x->rows = t->ndim > 1 ? t->shape[0] : 1;
    x->cols = x->n / x->rows;
    x->frozen = t->flags & WEIR_ZERO_FROZEN || group->flags & WEIR_GROUP_FROZEN;
    x->w = malloc(x->n * sizeof(float));
    x->seen = malloc(x->n * sizeof(float));
    x->grad = calloc(x->n, sizeof(double));
    x->mean = calloc(x->n, sizeof(float));
    weir_zero_init_values(t, p->o.seed, (uint64_t)u, (uint64_t)i, 0, x->n, x->w);
    plain_round(p, x);
    for (unsigned k = 0; !x->frozen && k < weir_rule_nstates(group->rule); k++) {
        weir_rule_state s = {.size = sizeof s};
        weir_rule_state_info(group->rule, k, &s);
        uint64_t n = s.span ? weir_rule_state_count(group->rule, k, 1, x->n) : weir_rule_state_count(group->rule, k, x->rows, x->cols);
        x->states[k] = n ? calloc(n, 4) : NULL;
    }
}

static inline void plain_create(struct plain *p, const struct model *m, const weir_zero_options *o)
{
    memset(p, 0, sizeof *p);
    p->m = m;
    p->o = *o;
    for (int u = 0; u < m->nunits; u++)
        for (uint64_t i = 0; i < m->units[u].ntensors; i++)
            if (m->tensors[u][i].tied_unit < 0)
                plain_tensor_create(p, u, (int)i);
}

static inline void plain_free(struct plain *p)
{
    for (int u = 0; u < UNITS; u++)
        for (int i = 0; i < TENSORS; i++) {
            struct plain_tensor *x = &p->t[u][i];
            for (int k = 0; k < WEIR_RULE_STATES_MAX; k++)
                free(x->states[k]);
            free(x->w);
            free(x->seen);
            free(x->grad);
            free(x->mean);
        }
}

static inline uint32_t noise_seed(int step, int r, int micro, int unit, int tensor, int number)
{
    return mix32((uint32_t)(((step * 64 + r) * 8 + micro) * UNITS + unit) * TENSORS * 16 + (uint32_t)tensor * 16 + (uint32_t)number);
}

/* Adds the gradients of a rank's micro-batch, in units of the loss scale. */
static inline void plain_pass(struct plain *p, int step, int r, int micro, const struct pass *pass)
{
    for (int k = 0; k < pass->n; k++) {
        int u = pass->backward[k].unit;
        for (int i = 0; i < (int)p->m->units[u].ntensors; i++) {
            struct plain_tensor *x = plain_of(p, u, i);
            uint32_t seed = noise_seed(step, r, micro, u, i, pass->backward[k].number);
            for (uint64_t e = 0; !x->frozen && e < x->n; e++)
                x->grad[e] += 0.3 * x->seen[e] + noise(seed, (uint32_t)e);
        }
    }
}

static inline void plain_update(struct plain *p, int u, int i, double scale)
{
    const weir_zero_tensor *t = &p->m->tensors[u][i];
    const weir_group *group = &p->o.groups[t->group];
    struct plain_tensor *x = &p->t[u][i];
    weir_rule_step step;
    weir_rule_data data = WEIR_RULE_DATA_INIT;
    step.size = sizeof step;
    OK(weir_group_step(group, p->step, scale, &step));
    if (t->flags & WEIR_ZERO_NO_DECAY)
        step.weight_decay = 0;
    data.master = x->w;
    data.grad = x->mean;
    memcpy(data.states, x->states, sizeof data.states);
    uint64_t work = (weir_rule_work_bytes(group->rule, x->rows, x->cols) + 127) / 64 * 64;
    void *memory = aligned_alloc(64, work);
    OK(weir_rule_update_tensor(group->rule, &step, &data, 0, x->rows, x->cols, memory, NULL));
    free(memory);
    plain_round(p, x);
}

/* Takes the mean over `n` and updates; `skip`: only throws the gradients away. */
static inline void plain_step(struct plain *p, double n, bool skip)
{
    double sum = 0;
    for (int u = 0; u < p->m->nunits; u++)
        for (uint64_t i = 0; i < p->m->units[u].ntensors; i++) {
            struct plain_tensor *x = &p->t[u][i];
            for (uint64_t e = 0; e < x->n; e++) {
                x->mean[e] = (float)(x->grad[e] / n);
                sum += (double)x->mean[e] * x->mean[e];
                x->grad[e] = 0;
            }
        }
    p->norm = sqrt(sum);
    if (skip)
        return;
    p->step++;
    for (int u = 0; u < p->m->nunits; u++)
        for (uint64_t i = 0; i < p->m->units[u].ntensors; i++)
            if (p->t[u][i].n && !p->t[u][i].frozen)
                plain_update(p, u, (int)i, p->o.clip_norm > 0 ? weir_clip_factor(p->norm, p->o.clip_norm) : 1);
}

#endif
