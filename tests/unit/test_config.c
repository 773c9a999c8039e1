/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/config.h"

static void defaults_are_valid(void **state)
{
    (void)state;
    struct wr_config c;
    weir_error err;
    static const char *const none[] = {NULL};
    struct wr_env env = {none};
    assert_ok(wr_config_load(&c, &env, NULL, &err), &err);
    assert_string_equal(c.log, "warn");
    assert_null(c.log_file);
    assert_int_equal(c.boot, 0);
    assert_true(c.boot_timeout == 120000000000);
    wr_config_free(&c);
}

static void overrides_win_over_the_environment(void **state)
{
    (void)state;
    static const char *const vars[] = {"WEIR_NODES=3", "WEIR_BOOT=pmi1", "WEIR_PLACEMENT=", NULL};
    static const char *const overrides[] = {"NODES=5", "WEIR_BOOT=pmix", NULL};
    struct wr_env env = {vars};
    struct wr_config c;
    weir_error err;
    char word[16];
    assert_ok(wr_config_load(&c, &env, NULL, &err), &err);
    assert_int_equal(c.nodes, 3);
    assert_string_equal(wr_config_word("BOOT", c.boot, word, sizeof word), "pmi1");
    assert_string_equal(c.placement, "block"); /* empty is unset */
    wr_config_free(&c);
    assert_ok(wr_config_load(&c, &env, overrides, &err), &err);
    assert_int_equal(c.nodes, 5);
    assert_string_equal(wr_config_word("WEIR_BOOT", c.boot, word, sizeof word), "pmix");
    wr_config_free(&c);
}

static void a_bad_value_names_variable_value_and_choice(void **state)
{
    (void)state;
    static const struct {
        const char *entry, *want1, *want2;
    } bad[] = {
        {"WEIR_NODES=many", "WEIR_NODES=many", "a whole number in 0..1048576"},
        {"WEIR_NODES=-1", "WEIR_NODES=-1", "0..1048576"},
        {"WEIR_BOOT=ssh", "WEIR_BOOT=ssh", "auto|tcp|pmix|pmi2|pmi1|single"},
        {"WEIR_BOOT=pmi", "WEIR_BOOT=pmi", "auto|tcp|pmix|pmi2|pmi1|single"},
        {"WEIR_BOOT_TIMEOUT=soon", "WEIR_BOOT_TIMEOUT=soon", "a time such as"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *vars[] = {bad[i].entry, NULL};
        struct wr_env env = {vars};
        struct wr_config c;
        weir_error err;
        assert_int_equal(wr_config_load(&c, &env, NULL, &err), WEIR_ERR_CONFIG);
        assert_non_null(strstr(err.message, bad[i].want1));
        assert_non_null(strstr(err.message, bad[i].want2));
    }
}

static void an_unknown_override_is_an_error(void **state)
{
    (void)state;
    static const char *const none[] = {NULL};
    static const char *const unknown[] = {"PLACEMNT=cyclic", NULL};
    static const char *const no_value[] = {"NODES", NULL};
    struct wr_env env = {none};
    struct wr_config c;
    weir_error err;
    assert_int_equal(wr_config_load(&c, &env, unknown, &err), WEIR_ERR_CONFIG);
    assert_non_null(strstr(err.message, "did you mean WEIR_PLACEMENT?"));
    assert_int_equal(wr_config_load(&c, &env, no_value, &err), WEIR_ERR_CONFIG);
}

struct seen {
    int count;
    char name[64], nearest[64];
};

static void remember(void *arg, const char *name, const char *nearest)
{
    struct seen *s = arg;
    s->count++;
    strcpy(s->name, name);
    strcpy(s->nearest, nearest ? nearest : "-");
}

static void misspelt_variables_are_found(void **state)
{
    (void)state;
    static const struct {
        const char *entry, *nearest;
    } cases[] = {
        {"WEIR_TOPOLGY_FILE=x", "WEIR_TOPOLOGY_FILE"}, {"WEIR_NODE=2", "WEIR_NODES"}, {"WEIR_QQQQ=2", "-"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *vars[] = {"PATH=/bin", "WEIR_LOG=warn", cases[i].entry, "WEIRD=1", NULL};
        struct wr_env env = {vars};
        struct seen s = {0};
        wr_config_unknown(&env, remember, &s);
        assert_int_equal(s.count, 1);
        assert_string_equal(s.nearest, cases[i].nearest);
    }
}

static void every_entry_prints_and_parses_back(void **state)
{
    (void)state;
    static const char *const none[] = {NULL};
    struct wr_env env = {none};
    struct wr_config c, d;
    weir_error err;
    size_t n;
    const struct wr_config_entry *e = wr_config_entries(&n);
    assert_ok(wr_config_load(&c, &env, NULL, &err), &err);
    for (size_t i = 0; i < n; i++) {
        char value[256], override[400];
        wr_config_format(&c, &e[i], value, sizeof value);
        snprintf(override, sizeof override, "%s=%s", e[i].name, value);
        const char *overrides[] = {override, NULL};
        assert_ok(wr_config_load(&d, &env, overrides, &err), &err);
        wr_config_free(&d);
        assert_true(strlen(e[i].help) > 10);
        assert_true(e[i].help[strlen(e[i].help) - 1] != '.');
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(e[i].name, e[j].name);
    }
    wr_config_free(&c);
}

static void secrets_are_not_printed(void **state)
{
    (void)state;
    static const char *const vars[] = {"WEIR_JOB_SECRET=00112233445566778899aabbccddeeff", NULL};
    struct wr_env env = {vars};
    struct wr_config c;
    weir_error err;
    size_t n;
    char value[256];
    const struct wr_config_entry *e = wr_config_entries(&n);
    assert_ok(wr_config_load(&c, &env, NULL, &err), &err);
    for (size_t i = 0; i < n; i++)
        assert_null(strstr(wr_config_format(&c, &e[i], value, sizeof value), "0011"));
    wr_config_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_valid),
        cmocka_unit_test(overrides_win_over_the_environment),
        cmocka_unit_test(a_bad_value_names_variable_value_and_choice),
        cmocka_unit_test(an_unknown_override_is_an_error),
        cmocka_unit_test(misspelt_variables_are_found),
        cmocka_unit_test(every_entry_prints_and_parses_back),
        cmocka_unit_test(secrets_are_not_printed),
    };
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
