/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules' results beside those that other programs recorded, and beside mutants that must not pass. */
#include "tests/unit/unit.h"

#include <math.h>

#include "tests/unit/rule_numbers.h"

/* How a case is run differently from what it says. */
enum mutant {
    MUTANT_NONE,
    MUTANT_COUPLED,     /* weight decay into the gradient instead of the parameter */
    MUTANT_UNCORRECTED, /* no correction of the moments' bias */
    MUTANT_FORGETFUL,   /* AMSGrad without the maximum */
    MUTANT_ABRUPT,      /* Adafactor without the average of its steps */
    MUTANT_COUNT,
};

struct run {
    weir_rule *rule;
    const struct number_case *c;
    enum mutant mutant;
    double scale; /* gradients come multiplied by 1 / scale */
    float *w, *g;
    float *s[WEIR_RULE_STATES_MAX];
    void *work;
    size_t n;
    double slack;  /* the bound is that much wider */
    double worst;  /* error in units of the bound */
    size_t beyond; /* elements over it */
};

static void open_run(struct run *run)
{
    weir_error error;
    weir_rule_options o = run->c->options;
    if (run->mutant == MUTANT_COUPLED)
        o.kind = WEIR_RULE_ADAM;
    if (run->mutant == MUTANT_FORGETFUL)
        o.flags &= ~WEIR_RULE_AMSGRAD;
    if (run->mutant == MUTANT_ABRUPT)
        o.beta1 = 0;
    assert_ok(weir_rule_create(&o, &run->rule, &error), &error);
    run->n = run->c->rows * run->c->cols;
    run->w = malloc(run->n * sizeof(float));
    run->g = malloc(run->n * sizeof(float));
    run->work = aligned_alloc(64, (weir_rule_work_bytes(run->rule, run->c->rows, run->c->cols) + 127) / 64 * 64);
    for (uint32_t i = 0; i < run->n; i++)
        run->w[i] = numbers_weight(i);
    for (unsigned k = 0; k < weir_rule_nstates(run->rule); k++) {
        weir_rule_state state = {.size = sizeof state};
        assert_int_equal(weir_rule_state_info(run->rule, k, &state), WEIR_OK);
        uint64_t count = weir_rule_state_count(run->rule, k, run->c->rows, run->c->cols);
        run->s[k] = calloc(count + 1, weir_type_size((weir_type)state.type));
        for (uint64_t i = 0; state.type == WEIR_FP32 && i < count; i++)
            run->s[k][i] = (float)state.initial;
    }
}

static void close_run(struct run *run)
{
    for (int k = 0; k < WEIR_RULE_STATES_MAX; k++)
        free(run->s[k]);
    free(run->w);
    free(run->g);
    free(run->work);
    weir_rule_free(run->rule);
}

static void step(struct run *run, uint64_t t)
{
    weir_error error;
    weir_rule_step s = WEIR_RULE_STEP_INIT;
    weir_rule_data d = WEIR_RULE_DATA_INIT;
    s.step = run->mutant == MUTANT_UNCORRECTED ? t + 1000000 : t;
    s.lr = numbers_rate(run->c, t);
    s.weight_decay = run->c->weight_decay;
    s.grad_scale = run->scale;
    d.master = run->w;
    d.grad = run->g;
    for (int k = 0; k < WEIR_RULE_STATES_MAX; k++)
        d.states[k] = run->s[k];
    for (uint32_t i = 0; i < run->n; i++)
        run->g[i] = numbers_gradient(t, i) / (float)run->scale;
    assert_ok(weir_rule_update_tensor(run->rule, &s, &d, 0, run->c->rows, run->c->cols, run->work, &error), &error);
}

/* The bound: 30 steps of fp32 arithmetic, in another order of operations. */
static void compare(struct run *run, const struct number_row *row, const float *got)
{
    for (size_t i = 0; i < row->n; i++) {
        double bound = (5e-7 + 2e-6 * fabs(row->values[i])) * run->slack;
        double off = fabs(got[i] - row->values[i]) / bound;
        run->worst = off > run->worst || isnan(off) ? off : run->worst;
        run->beyond += !(off <= 1);
    }
}

static struct run run_case(const struct number_case *c, enum mutant mutant, double scale, double slack)
{
    struct run run = {.c = c, .mutant = mutant, .scale = scale, .slack = slack};
    open_run(&run);
    for (uint64_t t = 1; t <= c->steps; t++) {
        step(&run, t);
        for (int k = 0; k < c->nrows; k++)
            if (!strcmp(c->row[k].what, "w") && c->row[k].step == t)
                compare(&run, &c->row[k], run.w);
    }
    for (int k = 0; k < c->nrows; k++)
        for (unsigned i = 0; i < weir_rule_nstates(run.rule); i++) {
            weir_rule_state state = {.size = sizeof state};
            assert_int_equal(weir_rule_state_info(run.rule, i, &state), WEIR_OK);
            if (!strcmp(state.name, c->row[k].what))
                compare(&run, &c->row[k], run.s[i]);
        }
    close_run(&run);
    return run;
}

static double worst(const struct number_case *c, enum mutant mutant, double scale, double slack)
{
    return run_case(c, mutant, scale, slack).worst;
}

struct tally {
    int mutants[MUTANT_COUNT];
    double worst[WEIR_RULE_ADAMW8 + 1];
};

/* How much wider the bound is: Muon multiplies many matrices in fp32 and its polynomial steepens small singular values. */
static double slack(const struct number_case *c)
{
    return c->options.kind == WEIR_RULE_MUON ? 2 : 1;
}

static void one_case(const struct number_case *c, void *arg)
{
    struct tally *tally = arg;
    const char *name = weir_rule_kind_name((weir_rule_kind)c->options.kind);
    double plain = worst(c, MUTANT_NONE, 1, slack(c)), scaled = worst(c, MUTANT_NONE, 1.0 / 1024, slack(c));
    if (!(plain <= 1 && scaled <= 1))
        fail_msg("%s (lr %g, wd %g): off by %g and %g times what is allowed", name, c->lr, c->weight_decay, plain,
                 scaled);
    tally->worst[c->options.kind] = fmax(plain, tally->worst[c->options.kind]);
    if (c->options.kind == WEIR_RULE_ADAMW && c->weight_decay > 0) {
        assert_true(worst(c, MUTANT_COUPLED, 1, 1) > 10);
        tally->mutants[MUTANT_COUPLED]++;
    }
    if (c->options.kind == WEIR_RULE_ADAMW || c->options.kind == WEIR_RULE_ADAM || c->options.kind == WEIR_RULE_LAMB) {
        assert_true(worst(c, MUTANT_UNCORRECTED, 1, 1) > 10);
        tally->mutants[MUTANT_UNCORRECTED]++;
    }
    if (c->options.flags & WEIR_RULE_AMSGRAD) {
        assert_true(worst(c, MUTANT_FORGETFUL, 1, 1) > 10);
        tally->mutants[MUTANT_FORGETFUL]++;
    }
    if (c->options.kind == WEIR_RULE_ADAFACTOR && c->options.beta1 > 0) {
        assert_true(worst(c, MUTANT_ABRUPT, 1, 1) > 10);
        tally->mutants[MUTANT_ABRUPT]++;
    }
}

/*
 * In 8 bits a moment may fall on the other side of the border between two codes in fp32 than in fp64, seldom; its parameter then
 * differs by a share of a step.
 */
static void one_case_of_8_bits(const struct number_case *c, void *arg)
{
    struct tally *tally = arg;
    struct run run = run_case(c, MUTANT_NONE, 1, 1);
    size_t compared = 0;
    for (int k = 0; k < c->nrows; k++)
        compared += c->row[k].n;
    print_message("adamw8: %zu of %zu beyond the bound, the worst %.1f times\n", run.beyond, compared, run.worst);
    assert_true(run.beyond * 50 <= compared);
    assert_true(run.worst * run.slack * 5e-7 < 0.1 * c->lr);
    tally->worst[c->options.kind] = run.worst;
}

/* Muon needs OpenBLAS, which a build may be without. */
static bool can_run(const struct number_case *c)
{
    weir_rule *rule = NULL;
    weir_error error;
    weir_status status = weir_rule_create(&c->options, &rule, &error);
    weir_rule_free(rule);
    if (status == WEIR_ERR_UNSUPPORTED)
        print_message("%s\n", error.message);
    return status != WEIR_ERR_UNSUPPORTED;
}

static void by_kind(const struct number_case *c, void *arg)
{
    if (!can_run(c))
        return;
    if (c->options.kind == WEIR_RULE_ADAMW8)
        one_case_of_8_bits(c, arg);
    else
        one_case(c, arg);
}

static void show(const struct tally *tally)
{
    for (int kind = 0; kind <= WEIR_RULE_ADAMW8; kind++)
        if (tally->worst[kind] > 0)
            print_message("%s: at most %.2f of the bound\n", weir_rule_kind_name((weir_rule_kind)kind),
                          tally->worst[kind]);
}

static void as_pytorch_recorded(void **state)
{
    struct tally tally = {0};
    (void)state;
    assert_int_equal(numbers_each("torch", by_kind, &tally), 16);
    assert_true(tally.mutants[MUTANT_COUPLED] >= 3 && tally.mutants[MUTANT_UNCORRECTED] >= 8);
    show(&tally);
}

static void as_the_papers_say(void **state)
{
    struct tally tally = {0};
    (void)state;
    assert_int_equal(numbers_each("papers", by_kind, &tally), 20);
    assert_true(tally.mutants[MUTANT_UNCORRECTED] >= 5);
    assert_true(tally.mutants[MUTANT_FORGETFUL] == 2 && tally.mutants[MUTANT_ABRUPT] == 2);
    show(&tally);
}

int main(void)
{
    setenv("OPENBLAS_NUM_THREADS", "1", 0); /* its threads are none that sanitizers know */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_pytorch_recorded),
        cmocka_unit_test(as_the_papers_say),
    };
    return cmocka_run_group_tests_name("rule_numbers", tests, NULL, NULL);
}
