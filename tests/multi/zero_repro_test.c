/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reproducible steps: after some steps with clipping, parameters and states have the bits of a loop of one process that knows nothing
 * of the engine, on any power of two of ranks, for every stage and bucket size.
 */
#include "tests/multi/zero_model.h"

enum { MICROS = 8, STEPS = 12, ELEMENTS_MAX = 12000 };

/* A tensor of the loop. */
struct exact {
    float *w, *grad[MICROS];
    void *states[WEIR_RULE_STATES_MAX];
    uint64_t n, rows, cols;
    const weir_group *group;
    bool decays;
};

struct loop {
    const struct model *m;
    const weir_zero_options *o;
    struct exact t[UNITS][TENSORS];
    uint64_t step;
    double norm;
};

static weir_rule *rule_of(weir_rule_kind kind)
{
    weir_rule_options o = {.size = sizeof o};
    weir_rule *rule;
    OK(weir_rule_defaults(kind, &o));
    o.isa = NULL;
    OK(weir_rule_create(&o, &rule, NULL));
    return rule;
}

static struct exact *exact_of(struct loop *l, int u, int i)
{
    const weir_zero_tensor *t = &l->m->tensors[u][i];
    return t->tied_unit >= 0 ? &l->t[t->tied_unit][t->tied_tensor] : &l->t[u][i];
}

static void loop_tensor(struct loop *l, int u, int i)
{
    const weir_zero_tensor *t = &l->m->tensors[u][i];
    struct exact *x = &l->t[u][i];
    x->n = elements(t);
    x->rows = t->ndim > 1 ? t->shape[0] : 1;
    x->cols = x->n / x->rows;
    x->decays = !(t->flags & WEIR_ZERO_NO_DECAY);
    x->group = t->flags & WEIR_ZERO_FROZEN || l->o->groups[t->group].flags & WEIR_GROUP_FROZEN ? NULL : &l->o->groups[t->group];
    x->w = malloc(x->n * sizeof(float));
    OK(weir_zero_init_values(t, l->o->seed, (uint64_t)u, (uint64_t)i, 0, x->n, x->w));
    for (int k = 0; k < MICROS; k++)
        x->grad[k] = calloc(x->n, sizeof(float));
    for (int k = 0; k < WEIR_RULE_STATES_MAX; k++)
        x->states[k] = calloc(x->n, sizeof(float));
}

static void loop_free(struct loop *l)
{
    for (int u = 0; u < UNITS; u++)
        for (int i = 0; i < TENSORS; i++) {
            free(l->t[u][i].w);
            for (int k = 0; k < MICROS; k++)
                free(l->t[u][i].grad[k]);
            for (int k = 0; k < WEIR_RULE_STATES_MAX; k++)
                free(l->t[u][i].states[k]);
        }
}

/* The gradient of an element for a micro-batch, in fp32 whatever the compiler. */
static float gradient(float w, int step, int micro, int u, int i, uint64_t e)
{
    volatile float scaled = 0.3f * w, x = scaled + noise(noise_seed(step, 0, micro, u, i, 0), (uint32_t)e);
    return x;
}

/* grad[0] becomes the sum of all, in the complete binary tree. */
static void add_tree(struct exact *x)
{
    for (int width = 1; width < MICROS; width *= 2)
        for (int k = 0; k < MICROS; k += 2 * width)
            for (uint64_t e = 0; e < x->n; e++)
                x->grad[k][e] += x->grad[k + width][e];
}

static void loop_update(struct loop *l, struct exact *x, double scale)
{
    weir_rule_step step = WEIR_RULE_STEP_INIT;
    weir_rule_data data = WEIR_RULE_DATA_INIT;
    OK(weir_group_step(x->group, l->step, scale, &step));
    step.weight_decay = x->decays ? step.weight_decay : 0;
    data.master = x->w;
    data.grad = x->grad[0];
    memcpy(data.states, x->states, sizeof data.states);
    void *work = aligned_alloc(64, (weir_rule_work_bytes(x->group->rule, x->rows, x->cols) + 127) / 64 * 64);
    OK(weir_rule_update_tensor(x->group->rule, &step, &data, 0, x->rows, x->cols, work, NULL));
    free(work);
}

static void loop_step(struct loop *l)
{
    static double blocks[16];
    double sum = 0, mean = 1.0 / MICROS;
    for (int u = UNITS; u-- > 0;)
        for (int i = 0; i < (int)l->m->units[u].ntensors; i++) {
            struct exact *x = exact_of(l, u, i);
            for (int k = 0; x->group && k < MICROS; k++)
                for (uint64_t e = 0; e < x->n; e++)
                    x->grad[k][e] += gradient(x->w[e], (int)l->step, k, u, i, e);
        }
    for (int u = 0; u < UNITS; u++)
        for (int i = 0; i < TENSORS; i++) {
            struct exact *x = &l->t[u][i];
            if (!x->n || !x->group)
                continue;
            add_tree(x);
            OK(weir_norm_partials(x->grad[0], WEIR_FP32, 0, x->n, blocks));
            sum += weir_norm_fold(blocks, weir_norm_blocks(0, x->n));
        }
    l->norm = sqrt(sum) * mean;
    l->step++;
    for (int u = 0; u < UNITS; u++)
        for (int i = 0; i < TENSORS; i++) {
            struct exact *x = &l->t[u][i];
            if (x->n && x->group)
                loop_update(l, x, mean * weir_clip_factor(l->norm, l->o->clip_norm));
            for (int k = 0; x->n && k < MICROS; k++)
                memset(x->grad[k], 0, x->n * sizeof(float));
        }
}

/* ---- the engine ---- */

#define DO(call) CHECK((call) == WEIR_OK, "%s: %s", #call, weir_zero_error(zero)->message)

static void pass(weir_zero *zero, const struct model *m, int step, int micro)
{
    DO(weir_zero_begin(zero, WEIR_ZERO_TRAIN));
    for (uint64_t u = 0; u < UNITS; u++) {
        DO(weir_zero_before_forward(zero, u));
        DO(weir_zero_after_forward(zero, u));
    }
    for (int u = UNITS; u-- > 0;) {
        DO(weir_zero_before_backward(zero, (uint64_t)u));
        for (int i = 0; i < (int)m->units[u].ntensors; i++) {
            const float *w = weir_zero_param(zero, (uint64_t)u, (uint64_t)i);
            float *g = weir_zero_grad(zero, (uint64_t)u, (uint64_t)i);
            for (uint64_t e = 0; g && e < elements(&m->tensors[u][i]); e++)
                g[e] += gradient(w[e], step, micro, u, i, e);
        }
        DO(weir_zero_after_backward(zero, (uint64_t)u));
    }
    DO(weir_zero_end(zero));
}

static void same_bits(weir_zero *zero, const float *values, const void *wanted, uint64_t n, const char *kind, int u, int i)
{
    const uint32_t *a = (const void *)values, *b = wanted;
    (void)zero;
    for (uint64_t e = 0; e < n; e++)
        CHECK(a[e] == b[e], "%s of unit %d, tensor %d, element %d: %.9g has other bits", kind, u, i, (int)e, values[e]);
}

static void compare(weir_zero *zero, struct loop *l, const char *state)
{
    float *values = malloc(ELEMENTS_MAX * sizeof *values);
    for (int u = 0; u < UNITS; u++)
        for (int i = 0; i < (int)l->m->units[u].ntensors; i++) {
            const struct exact *x = exact_of(l, u, i);
            DO(weir_zero_gather(zero, (uint64_t)u, (uint64_t)i, "param", values));
            same_bits(zero, values, x->w, x->n, "param", u, i);
            if (!x->group)
                continue;
            DO(weir_zero_gather(zero, (uint64_t)u, (uint64_t)i, state, values));
            same_bits(zero, values, x->states[0], x->n, state, u, i);
        }
    free(values);
}

static void run(const struct model *m, struct loop *l, weir_zero_options o, uint64_t stage)
{
    weir_zero *zero;
    weir_zero_budget b = {.size = sizeof b};
    weir_error err;
    o.stage = stage;
    o.partition = stage == 2 ? WEIR_ZERO_WHOLE_TENSOR : WEIR_ZERO_FLAT;
    o.bucket_bytes = stage % 2 ? 9000 : 1 << 20;
    o.accumulate = (uint64_t)(MICROS / size);
    CHECK(weir_zero_create(comm, &o, m->units, UNITS, &zero, &err) == WEIR_OK, "%s", err.message);
    OK(weir_zero_estimate(&o, m->units, UNITS, size, &b, &err));
    for (int step = 0; step < STEPS; step++) {
        weir_zero_report r = {.size = sizeof r};
        for (int k = 0; k < MICROS / size; k++)
            pass(zero, m, step, k * size + rank);
        DO(weir_zero_step(zero, NULL, &r));
        CHECK(step < STEPS - 1 || r.norm == l->norm, "norm %.17g, not %.17g", r.norm, l->norm);
        if (step == STEPS - 1)
            CHECK(r.memory_peak <= b.total_bytes * 103 / 100 + 16384, "%d bytes, the formula says %d", (int)r.memory_peak, (int)b.total_bytes);
    }
    compare(zero, l, "exp_avg");
    weir_zero_free(zero);
}

static void run_rule(weir_rule_kind kind)
{
    struct model m;
    struct loop l = {.m = &m};
    weir_zero_options o = WEIR_ZERO_OPTIONS_INIT;
    weir_group groups[3], group = WEIR_GROUP_INIT;
    weir_schedule schedule = WEIR_SCHEDULE_INIT;
    weir_rule *rule[2] = {rule_of(kind), rule_of(WEIR_RULE_ADAMW)};
    schedule.lr = 0.01;
    make_model(&m);
    m.tensors[4][2].shape[0] = 353; /* of several blocks of norms */
    for (int g = 0; g < 3; g++) {
        groups[g] = group;
        groups[g].rule = rule[g % 2];
        groups[g].schedule = &schedule;
        groups[g].weight_decay = 0.1;
    }
    groups[2].flags = WEIR_GROUP_FROZEN;
    o.groups = groups;
    o.ngroups = 3;
    o.flags = WEIR_ZERO_REPRODUCIBLE;
    o.clip_norm = 1;
    o.seed = 3;
    l.o = &o;
    for (int u = 0; u < UNITS; u++)
        for (uint64_t i = 0; i < m.units[u].ntensors; i++)
            if (m.tensors[u][i].tied_unit < 0)
                loop_tensor(&l, u, (int)i);
    for (int step = 0; step < STEPS; step++)
        loop_step(&l);
    for (uint64_t stage = 0; stage <= 3; stage++)
        run(&m, &l, o, stage);
    loop_free(&l);
    weir_rule_free(rule[0]);
    weir_rule_free(rule[1]);
}

int main(void)
{
    start();
    run_rule(WEIR_RULE_ADAMW);
    run_rule(WEIR_RULE_LAMB);
    finish("the same bits");
    return 0;
}
