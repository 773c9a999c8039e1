/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ZeRO engine against the loop of one process (zero_model.h): stages, rules, types, orders that differ between ranks.
 *
 * zero_test WHAT...: stages, brief (of them), rules, types, orders, groups; mutant-lost, mutant-mean and mutant-stale must fail
 */
#include "tests/multi/zero_model.h"

enum { STEPS = 5 };

/* Defects that the comparison must find: a gradient of one rank that is lost, a wrong mean, parameters of the step before. */
enum { NONE, LOST, MEAN, STALE };
static int mutant;

/* How a test runs. */
struct trial {
    weir_zero_options o;
    weir_group groups[3];
    weir_rule *rule[2];
    weir_schedule schedule;
    int orders;       /* 0: all the same; 1: they differ between ranks and steps */
    bool weighted;    /* rank r has r + 1 tokens a pass */
    double tolerance;
    int bad_rank, bad_step; /* whose gradient is not a number; -1: none */
};

static weir_rule *make_rule(weir_rule_kind kind)
{
    weir_rule_options o = {.size = sizeof o};
    weir_rule *rule;
    weir_error err;
    OK(weir_rule_defaults(kind, &o));
    if (kind == WEIR_RULE_SGD)
        o.momentum = 0.9;
    o.isa = NULL;
    CHECK(weir_rule_create(&o, &rule, &err) == WEIR_OK, "%s", err.message);
    return rule;
}

static void trial_make(struct trial *t, uint64_t stage, weir_rule_kind kind)
{
    weir_zero_options o = WEIR_ZERO_OPTIONS_INIT;
    weir_group group = WEIR_GROUP_INIT;
    weir_schedule schedule = WEIR_SCHEDULE_INIT;
    memset(t, 0, sizeof *t);
    t->schedule = schedule;
    t->schedule.lr = 0.02;
    t->schedule.warmup = 2;
    t->rule[0] = make_rule(kind);
    t->rule[1] = make_rule(WEIR_RULE_ADAMW);
    for (int g = 0; g < 3; g++) {
        t->groups[g] = group;
        t->groups[g].rule = t->rule[g == 1];
        t->groups[g].schedule = &t->schedule;
        t->groups[g].weight_decay = 0.1 * (g + 1);
        t->groups[g].lr_scale = g == 1 ? 0.5 : 1;
    }
    t->groups[2].flags = WEIR_GROUP_FROZEN;
    t->o = o;
    t->o.stage = stage;
    t->o.groups = t->groups;
    t->o.ngroups = 3;
    t->o.seed = 77;
    t->o.bucket_bytes = 2000;
    t->o.prefetch_bytes = 3000;
    t->o.max_live_bytes = 9000;
    t->o.persistent_bytes = 0;
    t->tolerance = 1e-5;
    t->bad_rank = t->bad_step = -1;
}

static void trial_free(struct trial *t)
{
    weir_rule_free(t->rule[0]);
    weir_rule_free(t->rule[1]);
}

/* ---- what a rank does ---- */

static void swap(struct use *a, struct use *b)
{
    struct use c = *a;
    *a = *b;
    *b = c;
}

/* Any rank can tell what another one does. */
static void plan_pass(const struct trial *t, const struct model *m, int step, int r, int micro, struct pass *pass)
{
    uint32_t dice = mix32((uint32_t)(step * 1000 + r * 10 + micro));
    pass->n = 0;
    for (int u = m->nunits; u-- > 0;)
        pass->backward[pass->n++] = (struct use){u, 0};
    if (!t->orders || step == 0)
        return;
    if (dice % 4 == 1) { /* a unit is left out */
        swap(&pass->backward[dice / 7 % (uint32_t)pass->n], &pass->backward[pass->n - 1]);
        pass->n--;
    }
    if (dice % 4 == 2) /* all are in another order */
        for (int i = pass->n - 1; i > 0; i--)
            swap(&pass->backward[i], &pass->backward[mix32(dice + (uint32_t)i) % (uint32_t)(i + 1)]);
    if (dice % 4 == 3) /* two are used once more, one at once and one in the end */
        for (int i = 0; i < 2; i++)
            pass->backward[pass->n++] = (struct use){i ? 2 : m->nunits - 1 - (int)(dice % 3), 1 + i};
}

static float read_param(const struct trial *t, const void *p, uint64_t e)
{
    float value;
    weir_type type = (weir_type)t->o.param_type;
    weir_convert(&value, WEIR_FP32, (const char *)p + e * weir_type_size(type), type, 1);
    return value;
}

static void add_grad(const struct trial *t, void *g, uint64_t e, float x)
{
    float value;
    weir_type type = (weir_type)t->o.grad_type;
    void *at = (char *)g + e * weir_type_size(type);
    weir_convert(&value, WEIR_FP32, at, type, 1);
    value += x;
    weir_convert(at, type, &value, WEIR_FP32, 1);
}

static void check_params(const struct trial *t, weir_zero *zero, struct plain *p, int u)
{
    for (int i = 0; i < (int)p->m->units[u].ntensors; i++) {
        const struct plain_tensor *x = plain_of(p, u, i);
        const void *w = weir_zero_param(zero, (uint64_t)u, (uint64_t)i);
        CHECK(w && (uintptr_t)w % 64 == 0, "parameter %d of unit %d is not there", i, u);
        for (uint64_t e = 0; e < x->n; e++) {
            float value = read_param(t, w, e);
            CHECK(fabs(value - x->seen[e]) <= t->tolerance * (1 + fabs(x->seen[e])), "unit %d, tensor %d, element %d, after %d steps: %.9g, not %.9g",
                  u, i, (int)e, (int)p->step, value, x->seen[e]);
        }
    }
}

static void backward(const struct trial *t, weir_zero *zero, struct plain *p, int step, int micro, struct use use)
{
    double scale = weir_zero_loss_scale(zero) * (t->weighted ? rank + 1 : 1);
    uint64_t u = (uint64_t)use.unit;
    CHECK(weir_zero_before_backward(zero, u) == WEIR_OK, "%s", weir_zero_error(zero)->message);
    check_params(t, zero, p, use.unit);
    bool stale = mutant == STALE && step == 2 && rank == 0 && use.unit == 1;
    bool lost = mutant == LOST && step == 2 && rank == size - 1 && use.unit == 2;
    for (int i = 0; !lost && i < (int)p->m->units[u].ntensors; i++) {
        const struct plain_tensor *x = plain_of(p, use.unit, i);
        const void *w = weir_zero_param(zero, u, (uint64_t)i);
        void *g = weir_zero_grad(zero, u, (uint64_t)i);
        uint32_t seed = noise_seed(step, rank, micro, use.unit, i, use.number);
        CHECK((g == NULL) == x->frozen, "gradient %d of unit %d", i, use.unit);
        for (uint64_t e = 0; g && e < x->n; e++)
            add_grad(t, g, e, (float)(scale * (0.3 * (stale ? 0.99f : 1) * read_param(t, w, e) + noise(seed, (uint32_t)e))));
        if (g && step == t->bad_step && rank == t->bad_rank && use.unit == 3 && i == 0)
            add_grad(t, g, 5, NAN);
    }
    CHECK(weir_zero_after_backward(zero, u) == WEIR_OK, "%s", weir_zero_error(zero)->message);
}

static void forward(const struct trial *t, weir_zero *zero, struct plain *p)
{
    for (int u = 0; u < p->m->nunits; u++) {
        CHECK(weir_zero_before_forward(zero, (uint64_t)u) == WEIR_OK, "%s", weir_zero_error(zero)->message);
        check_params(t, zero, p, u);
        OK(weir_zero_after_forward(zero, (uint64_t)u));
    }
}

static void run_pass(const struct trial *t, weir_zero *zero, struct plain *p, int step, int micro)
{
    struct pass pass;
    plan_pass(t, p->m, step, rank, micro, &pass);
    OK(weir_zero_begin(zero, WEIR_ZERO_TRAIN));
    forward(t, zero, p);
    for (int k = 0; k < pass.n; k++)
        backward(t, zero, p, step, micro, pass.backward[k]);
    CHECK(weir_zero_end(zero) == WEIR_OK, "%s", weir_zero_error(zero)->message);
    if (t->orders && (step + rank) % 3 == 1) { /* an evaluation on some ranks only */
        OK(weir_zero_begin(zero, WEIR_ZERO_EVAL));
        forward(t, zero, p);
        OK(weir_zero_end(zero));
    }
}

/* The loop's gradients of all ranks. With tokens every gradient counts as often as its rank has tokens. */
static double plain_all(const struct trial *t, struct plain *p, int step)
{
    struct pass pass;
    double n = 0;
    for (int r = 0; r < size; r++)
        for (int micro = 0; micro < (int)t->o.accumulate; micro++)
            for (int times = 0; times < (t->weighted ? r + 1 : 1); times++) {
                plan_pass(t, p->m, step, r, micro, &pass);
                plain_pass(p, step, r, micro, &pass);
                n++;
            }
    return n;
}

static void run_step(const struct trial *t, weir_zero *zero, struct plain *p, int step)
{
    weir_zero_step_options so = WEIR_ZERO_STEP_INIT;
    weir_zero_report report = {.size = sizeof report};
    bool bad = step == t->bad_step;
    for (int micro = 0; micro < (int)t->o.accumulate; micro++)
        run_pass(t, zero, p, step, micro);
    so.weight = t->weighted ? (double)((rank + 1) * (int)t->o.accumulate) : 0;
    so.passes = mutant == MEAN ? 2 * t->o.accumulate : 0;
    weir_status status = weir_zero_step(zero, &so, &report);
    plain_step(p, plain_all(t, p, step), bad);
    if (bad && t->o.nonfinite == WEIR_ZERO_ERROR) {
        CHECK(status == WEIR_ERR_NOT_FINITE, "%d", status);
        return;
    }
    CHECK(status == WEIR_OK, "%s", weir_zero_error(zero)->message);
    CHECK(report.skipped == bad && report.step == p->step, "step %d", (int)report.step);
    CHECK(bad || fabs(report.norm - p->norm) <= 30 * t->tolerance * p->norm, "norm %.9g, not %.9g", report.norm, p->norm);
}

static void compare_arrays(const struct trial *t, weir_zero *zero, struct plain *p)
{
    float values[53 * 31];
    for (int u = 0; u < p->m->nunits; u++)
        for (int i = 0; i < (int)p->m->units[u].ntensors; i++) {
            const struct plain_tensor *x = plain_of(p, u, i);
            CHECK(weir_zero_gather(zero, (uint64_t)u, (uint64_t)i, "param", values) == WEIR_OK, "%s", weir_zero_error(zero)->message);
            for (uint64_t e = 0; e < x->n; e++) {
                float wanted = x->frozen ? x->seen[e] : x->w[e];
                CHECK(fabs(values[e] - wanted) <= t->tolerance * (1 + fabs(wanted)), "unit %d, tensor %d, element %d: %.9g, not %.9g", u, i,
                      (int)e, values[e], wanted);
            }
            if (x->frozen)
                continue;
            OK(weir_zero_gather(zero, (uint64_t)u, (uint64_t)i, "grad", values));
            for (uint64_t e = 0; e < x->n; e++)
                CHECK(fabs(values[e] - x->mean[e]) <= 10 * t->tolerance * (1 + fabs(x->mean[e])), "gradient of unit %d, tensor %d, element %d: %.9g, not %.9g",
                      u, i, (int)e, values[e], x->mean[e]);
        }
}

static void run_trial(struct trial *t)
{
    struct model m;
    struct plain p;
    weir_zero *zero;
    weir_error err;
    make_model(&m);
    plain_create(&p, &m, &t->o);
    CHECK(weir_zero_create(comm, &t->o, m.units, UNITS, &zero, &err) == WEIR_OK, "%s", err.message);
    for (int step = 0; step < STEPS; step++)
        run_step(t, zero, &p, step);
    compare_arrays(t, zero, &p);
    weir_zero_free(zero);
    plain_free(&p);
}

/* ---- tests ---- */

static void stages(int variants)
{
    for (uint64_t stage = 0; stage <= 3; stage++)
        for (int variant = variants - 1; variant >= 0; variant--) {
            struct trial t;
            trial_make(&t, stage, WEIR_RULE_ADAMW);
            t.o.flags = variant == 1 ? WEIR_ZERO_PRIVATE : 0;
            t.o.accumulate = variant == 2 ? 3 : 1;
            t.o.partition = variant == 1;
            t.o.clip_norm = variant == 2 ? 0.7 : 0;
            t.weighted = variant == 3;
            if (variant == 3 && stage >= 2)
                t.o.reduce = WEIR_ZERO_REDUCE_ONCE;
            if (variant == 3)
                t.o.bucket_bytes = 1 << 20;
            run_trial(&t);
            trial_free(&t);
        }
}

static void rules(void)
{
    static const weir_rule_kind kinds[] = {WEIR_RULE_SGD, WEIR_RULE_ADAGRAD, WEIR_RULE_LION, WEIR_RULE_LAMB, WEIR_RULE_LARS,
                                           WEIR_RULE_ADAFACTOR, WEIR_RULE_MUON, WEIR_RULE_ADAMW8};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        for (uint64_t stage = 0; stage <= 3; stage++) {
            struct trial t;
            if (kinds[k] == WEIR_RULE_MUON && !weir_blas_core())
                continue;
            trial_make(&t, stage, kinds[k]);
            if (kinds[k] == WEIR_RULE_LION || kinds[k] == WEIR_RULE_ADAMW8) /* small differences can change a sign or a code */
                t.tolerance = 2e-3;
            if (kinds[k] == WEIR_RULE_MUON)
                t.tolerance = 1e-4;
            run_trial(&t);
            trial_free(&t);
        }
}

static void types(void)
{
    static const struct {
        weir_type param, grad, reduce;
        double scale, tolerance;
        uint64_t window;
    } cases[] = {
        {WEIR_BF16, WEIR_FP32, WEIR_FP32, 1, 1e-2, 0},
        {WEIR_BF16, WEIR_BF16, WEIR_BF16, 1, 3e-2, 0},
        {WEIR_FP16, WEIR_FP16, WEIR_FP16, 64, 1e-2, 2},
        {WEIR_FP32, WEIR_FP32, WEIR_BF16, 1, 2e-2, 0},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++)
        for (uint64_t stage = 0; stage <= 3; stage++) {
            struct trial t;
            trial_make(&t, stage, WEIR_RULE_SGD);
            t.groups[1].rule = t.rule[0];
            t.o.param_type = (uint64_t)cases[k].param;
            t.o.grad_type = (uint64_t)cases[k].grad;
            t.o.reduce_type = (uint64_t)cases[k].reduce;
            t.o.loss_scale = cases[k].scale;
            t.o.scale_window = cases[k].window;
            t.tolerance = cases[k].tolerance;
            t.o.accumulate = 1 + k % 2;
            t.bad_step = k % 2 ? -1 : 2;
            t.bad_rank = size - 1;
            run_trial(&t);
            trial_free(&t);
        }
}

static void orders(void)
{
    for (uint64_t stage = 0; stage <= 3; stage++)
        for (int variant = 0; variant < 3; variant++) {
            struct trial t;
            trial_make(&t, stage, WEIR_RULE_ADAMW);
            t.orders = 1;
            t.o.flags = variant == 1 ? WEIR_ZERO_PRIVATE : 0;
            t.o.accumulate = variant == 1 ? 2 : 1;
            t.o.nonfinite = WEIR_ZERO_ERROR;
            t.bad_rank = 0;
            t.bad_step = variant == 2 ? 3 : -1;
            if (stage == 3) {
                t.o.prefetch_bytes = variant == 1 ? 0 : 1 << 20;
                t.o.max_live_bytes = variant == 2 ? 0 : 1 << 20;
                t.o.reuse_bytes = variant == 0 ? 4000 : 0;
                t.o.persistent_bytes = variant == 0 ? 300 : 0;
            }
            run_trial(&t);
            trial_free(&t);
        }
}

/* Groups of ranks that divide, and are replicas of each other. */
static void groups(void)
{
    for (uint64_t stage = 1; stage <= 3; stage++)
        for (int group = 1; group <= size; group++) {
            struct trial t;
            if (size % group)
                continue;
            trial_make(&t, stage, stage == 2 ? WEIR_RULE_LAMB : WEIR_RULE_ADAMW);
            t.o.shard_group = (uint64_t)group;
            t.o.accumulate = 2;
            t.orders = 1;
            run_trial(&t);
            trial_free(&t);
        }
}

int main(int argc, char **argv)
{
    start();
    for (int i = 1; i < argc; i++) {
        const char *what = argv[i];
        if (!strcmp(what, "stages"))
            stages(4);
        else if (!strcmp(what, "brief"))
            stages(1);
        else if (!strcmp(what, "rules"))
            rules();
        else if (!strcmp(what, "types"))
            types();
        else if (!strcmp(what, "orders"))
            orders();
        else if (!strcmp(what, "groups"))
            groups();
        else {
            mutant = !strcmp(what, "mutant-lost") ? LOST : !strcmp(what, "mutant-mean") ? MEAN : STALE;
            stages(1);
        }
        barrier();
    }
    finish(argc > 1 ? argv[1] : "nothing");
    return 0;
}
