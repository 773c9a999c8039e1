/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reproducible steps: norms, losses, and after all steps parameters and states have the bits of a loop of one process that knows nothing
 * of the engine, on any power of two of ranks, for every stage and bucket size, and when other ranks and stages have begun.
 *
 * zero_repro_test [brief] [save|resume FOLDER]; brief: one rule only; save: after half of the steps; resume: goes on from there
 */
#include "tests/multi/zero_model.h"

enum { MICROS = 8, STEPS = 50, FEWER = 12, ELEMENTS_MAX = 12000 };

static const char *save_to, *resume_from;

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
    double norm[STEPS], loss[STEPS];
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

/* The loss of a micro-batch: something of its own and of one of the parameters. */
static double loss_of(float w, int step, int micro)
{
    return (double)w / 3 + (double)noise(noise_seed(step, 1, micro, 0, 0, 1), 0);
}

static void loop_loss(struct loop *l)
{
    double loss[MICROS];
    for (int k = 0; k < MICROS; k++)
        loss[k] = loss_of(l->t[1][0].w[3], (int)l->step, k);
    for (int width = 1; width < MICROS; width *= 2)
        for (int k = 0; k < MICROS; k += 2 * width)
            loss[k] += loss[k + width];
    l->loss[l->step] = loss[0] / MICROS;
}

/* Squares of tensors are added without rounding: *rest is what *sum has lost (Knuth's two-sum). */
static void add_exactly(double *sum, double *rest, double x)
{
    double s = *sum + x, part = s - *sum;
    *rest += (*sum - (s - part)) + (x - part);
    *sum = s;
}

static void loop_step(struct loop *l)
{
    static double blocks[16];
    double sum = 0, rest = 0, mean = 1.0 / MICROS;
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
            add_exactly(&sum, &rest, weir_norm_fold(blocks, weir_norm_blocks(0, x->n)));
        }
    l->norm[l->step] = sqrt(sum + rest) * mean;
    loop_loss(l);
    double clip = weir_clip_factor(l->norm[l->step++], l->o->clip_norm);
    for (int u = 0; u < UNITS; u++)
        for (int i = 0; i < TENSORS; i++) {
            struct exact *x = &l->t[u][i];
            if (x->n && x->group)
                loop_update(l, x, mean * clip);
            for (int k = 0; x->n && k < MICROS; k++)
                memset(x->grad[k], 0, x->n * sizeof(float));
        }
}

/* ---- the engine ---- */

#define DO(call) CHECK((call) == WEIR_OK, "%s: %s", #call, weir_zero_error(zero)->message)

static double pass(weir_zero *zero, const struct model *m, int step, int micro)
{
    double loss = 0;
    DO(weir_zero_begin(zero, WEIR_ZERO_TRAIN));
    for (uint64_t u = 0; u < UNITS; u++) {
        DO(weir_zero_before_forward(zero, u));
        if (u == 1)
            loss = loss_of(((const float *)weir_zero_param(zero, 1, 0))[3], step, micro);
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
    return loss;
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

/* Half of the steps were made by others: those of the opposite stage have saved, this one goes on. */
static void keep(weir_zero *zero, uint64_t stage, bool save)
{
    char folder[512];
    weir_ckpt *ckpt;
    weir_error err;
    snprintf(folder, sizeof folder, "%s/stage%d", save ? save_to : resume_from, (int)(save ? stage : 3 - stage));
    CHECK(weir_ckpt_open(comm, folder, NULL, &ckpt, &err) == WEIR_OK, "%s", err.message);
    weir_status status = save ? weir_zero_save(zero, ckpt, NULL, 0, &err) : weir_zero_load(zero, ckpt, STEPS / 2, 0, NULL, &err);
    CHECK(status == WEIR_OK, "%s", err.message);
    OK(weir_ckpt_close(ckpt));
}

static void steps(weir_zero *zero, const struct loop *l, int from, int to, weir_zero_report *r)
{
    for (int step = from; step < to; step++) {
        weir_zero_step_options so = WEIR_ZERO_STEP_INIT;
        double losses[MICROS];
        so.losses = losses;
        for (int k = 0; k < MICROS / size; k++)
            losses[k] = pass(zero, l->m, step, k * size + rank);
        DO(weir_zero_step(zero, &so, r));
        CHECK(r->norm == l->norm[step], "step %d: norm %.17g, not %.17g", step, r->norm, l->norm[step]);
        CHECK(r->loss == l->loss[step], "step %d: loss %.17g, not %.17g", step, r->loss, l->loss[step]);
    }
}

static void run(const struct model *m, struct loop *l, weir_zero_options o, uint64_t stage)
{
    weir_zero *zero;
    weir_zero_budget b = {.size = sizeof b};
    weir_zero_report r = {.size = sizeof r};
    weir_error err;
    int n = (int)l->step;
    o.stage = stage;
    o.partition = stage == 2 ? WEIR_ZERO_WHOLE_TENSOR : WEIR_ZERO_FLAT;
    o.bucket_bytes = stage % 2 ? 9000 : 1 << 20;
    o.accumulate = (uint64_t)(MICROS / size);
    o.seed += resume_from ? 99 : 0; /* what is read is not what was there */
    CHECK(weir_zero_create(comm, &o, m->units, UNITS, &zero, &err) == WEIR_OK, "%s", err.message);
    OK(weir_zero_estimate(&o, m->units, UNITS, size, &b, &err));
    if (resume_from)
        keep(zero, stage, false);
    else
        steps(zero, l, 0, n / 2, &r);
    if (save_to)
        keep(zero, stage, true);
    steps(zero, l, n / 2, n, &r);
    CHECK(r.memory_peak <= b.total_bytes * 103 / 100 + 16384, "%d bytes, the formula says %d", (int)r.memory_peak, (int)b.total_bytes);
    compare(zero, l, "exp_avg");
    weir_zero_free(zero);
}

static void run_rule(weir_rule_kind kind, int nsteps)
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
    for (int step = 0; step < nsteps; step++)
        loop_step(&l);
    for (uint64_t stage = 0; stage <= 3; stage++)
        run(&m, &l, o, stage);
    loop_free(&l);
    weir_rule_free(rule[0]);
    weir_rule_free(rule[1]);
}

int main(int argc, char **argv)
{
    bool brief = false;
    start();
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "brief"))
            brief = true;
        else if (!strcmp(argv[i], "save") && i + 1 < argc)
            save_to = argv[++i];
        else if (!strcmp(argv[i], "resume") && i + 1 < argc)
            resume_from = argv[++i];
    run_rule(WEIR_RULE_ADAMW, STEPS);
    if (!brief)
        run_rule(WEIR_RULE_LAMB, FEWER);
    finish("the same bits");
    return 0;
}
