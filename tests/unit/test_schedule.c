/* SPDX-License-Identifier: BSD-3-Clause */
/* Learning rates over time against values worked out by hand; groups of parameters. */
#include "tests/unit/unit.h"

#include <math.h>
#include <string.h>

static void assert_rate(const weir_schedule *s, uint64_t t, double want)
{
    double got = weir_schedule_lr(s, t);
    if (!(fabs(got - want) < 1e-14))
        fail_msg("step %llu: %.17g instead of %.17g", (unsigned long long)t, got, want);
}

static void rates(void **state)
{
    (void)state;
    weir_schedule s = WEIR_SCHEDULE_INIT;
    s.lr = 0.8;
    s.warmup = 4;
    assert_int_equal(weir_schedule_check(&s, NULL), WEIR_OK);
    assert_rate(&s, 1, 0.2);
    assert_rate(&s, 4, 0.8);
    assert_rate(&s, 1000, 0.8);
    s.warmup_lr = 0.4;
    assert_rate(&s, 1, 0.5);
    assert_rate(&s, 4, 0.8);
    s.total = 14;
    s.final_lr = 0.3;
    s.kind = WEIR_SCHEDULE_LINEAR;
    assert_rate(&s, 5, 0.75);
    assert_rate(&s, 9, 0.55);
    assert_rate(&s, 13, 0.35);
    assert_rate(&s, 14, 0.3);
    assert_rate(&s, 99, 0.3);
    s.kind = WEIR_SCHEDULE_COSINE;
    assert_rate(&s, 4, 0.8);
    assert_rate(&s, 9, 0.55);
    s.total = 10;
    assert_rate(&s, 6, 0.3 + 0.5 * 0.75); /* a third: cos 60 degrees is 1/2 */
    assert_rate(&s, 8, 0.3 + 0.5 * 0.25);
    assert_rate(&s, 10, 0.3);
    s.kind = WEIR_SCHEDULE_WSD;
    s.total = 20;
    s.decay = 4;
    assert_rate(&s, 16, 0.8);
    assert_rate(&s, 17, 0.3 + 0.5 * 0.75);
    assert_rate(&s, 19, 0.3 + 0.5 * 0.25);
    assert_rate(&s, 20, 0.3);
    s.flags = WEIR_SCHEDULE_SQRT;
    assert_int_equal(weir_schedule_check(&s, NULL), WEIR_OK);
    assert_rate(&s, 16, 0.8);
    assert_rate(&s, 17, 0.3 + 0.5 * 0.5);
    assert_rate(&s, 20, 0.3);
    s.warmup = 0;
    assert_rate(&s, 1, 0.8);
}

static void schedules_without_sense_are_refused(void **state)
{
    (void)state;
    weir_error error;
    weir_schedule_kind kind;
    assert_int_equal(weir_schedule_kind_find("wsd", &kind), WEIR_OK);
    assert_int_equal(kind, WEIR_SCHEDULE_WSD);
    assert_int_equal(weir_schedule_kind_find("sine", &kind), WEIR_ERR_NOT_FOUND);
    assert_null(weir_schedule_kind_name((weir_schedule_kind)9));
    weir_schedule s = WEIR_SCHEDULE_INIT;
    s.kind = WEIR_SCHEDULE_COSINE;
    s.warmup = s.total = 10;
    assert_int_equal(weir_schedule_check(&s, &error), WEIR_ERR_INVALID);
    assert_non_null(strstr(error.message, "total"));
    s.kind = WEIR_SCHEDULE_WSD;
    s.total = 15;
    s.decay = 6;
    assert_int_equal(weir_schedule_check(&s, &error), WEIR_ERR_INVALID);
    s.decay = 5;
    assert_int_equal(weir_schedule_check(&s, &error), WEIR_OK);
    s.lr = NAN;
    assert_int_equal(weir_schedule_check(&s, &error), WEIR_ERR_INVALID);
    s.lr = 1;
    s.kind = WEIR_SCHEDULE_LINEAR;
    s.flags = WEIR_SCHEDULE_SQRT;
    assert_int_equal(weir_schedule_check(&s, &error), WEIR_ERR_INVALID);
    s.kind = 4;
    assert_int_equal(weir_schedule_check(&s, &error), WEIR_ERR_INVALID);
}

static weir_rule *make(weir_rule_kind kind)
{
    weir_rule_options o = {.size = sizeof o};
    weir_rule *rule;
    weir_error error;
    assert_int_equal(weir_rule_defaults(kind, &o), WEIR_OK);
    assert_ok(weir_rule_create(&o, &rule, &error), &error);
    return rule;
}

static void groups(void **state)
{
    (void)state;
    weir_schedule s = WEIR_SCHEDULE_INIT;
    weir_group g = WEIR_GROUP_INIT;
    weir_rule_step step = WEIR_RULE_STEP_INIT;
    weir_rule *adamw = make(WEIR_RULE_ADAMW), *adamw8 = make(WEIR_RULE_ADAMW8), *adafactor = make(WEIR_RULE_ADAFACTOR);
    s.lr = 0.5;
    s.warmup = 2;
    g.rule = adamw;
    g.schedule = &s;
    g.lr_scale = 0.1;
    g.weight_decay = 0.01;
    assert_int_equal(weir_group_step(&g, 1, 0.125, &step), WEIR_OK);
    assert_true(step.lr == 0.25 * 0.1 && step.weight_decay == 0.01 && step.grad_scale == 0.125 && step.step == 1 &&
                step.ratio == 1);
    assert_int_equal(weir_group_step(&g, 0, 1, &step), WEIR_ERR_INVALID);
    assert_int_equal(weir_group_state_bytes(&g, 1, 1000), 8000);
    g.rule = adamw8;
    assert_int_equal(weir_group_state_bytes(&g, 1, 1000), 2000 + 2 * 4 * 4);
    g.rule = adafactor;
    assert_int_equal(weir_group_state_bytes(&g, 100, 200), 4 * 300);
    assert_int_equal(weir_group_state_bytes(&g, 1, 200), 4 * 200);
    g.flags = WEIR_GROUP_FROZEN;
    assert_int_equal(weir_group_step(&g, 1, 1, &step), WEIR_ERR_INVALID);
    assert_int_equal(weir_group_state_bytes(&g, 100, 200), 0);
    weir_rule_free(adamw);
    weir_rule_free(adamw8);
    weir_rule_free(adafactor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates),
        cmocka_unit_test(schedules_without_sense_are_refused),
        cmocka_unit_test(groups),
    };
    return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
