/* SPDX-License-Identifier: BSD-3-Clause */
/* The tuning file: what it sets, where it is looked for, and what a damaged or hostile one does. */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "comm/plan/tuning.h"

static weir_status parse(const char *text, struct wr_cost *cost, weir_error *err)
{
    char *copy = strdup(text);
    wr_cost_default(cost);
    weir_status status = wr_tuning_parse(copy, cost, err);
    free(copy);
    return status;
}

static void what_is_written_holds(void **state)
{
    (void)state;
    struct wr_cost cost, standard;
    weir_error err;
    wr_cost_default(&standard);
    assert_int_equal(parse("weir-tuning 1\n# on h1\nlatency 2500\n\n  copy\t0.125 # ns a byte\r\nhop 50\nhop1 7\nrails 2\nend\n", &cost, &err), WEIR_OK);
    assert_true(cost.latency == 2500 && cost.copy == 0.125 && cost.rails == 2 && cost.hop[0] == 50 && cost.hop[1] == 7);
    assert_true(cost.reduce == standard.reduce && cost.bandwidth == standard.bandwidth);
    assert_int_equal(parse("weir-tuning 1\nend", &cost, &err), WEIR_OK);
    assert_memory_equal(&cost, &standard, sizeof cost);
}

static void hostile_texts_are_errors_that_name_the_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "does not begin"},
        {"weir-tuning 2\nend\n", "does not begin"},
        {"weir-tuning 1\nlatency 3\n", "'end', is missing"},
        {"weir-tuning 1\nend\nlatency 3\n", "after the line 'end'"},
        {"weir-tuning 1\nlatency\nend\n", "line 2: it is not a key and a value"},
        {"weir-tuning 1\nflag 1\nlatency 3 4\nend\n", "line 3: it is not a key"},
        {"weir-tuning 1\nlatency x\nend\n", "line 2: the cost latency=x has no number"},
        {"weir-tuning 1\nlatency nan\nend\n", "no number"},
        {"weir-tuning 1\nlatency inf\nend\n", "no number"},
        {"weir-tuning 1\nlatency 1e999\nend\n", "no number"},
        {"weir-tuning 1\nlatency -1\nend\n", "too small"},
        {"weir-tuning 1\nlatency 1e300\nend\n", "too large"},
        {"weir-tuning 1\nrails 1e8\nend\n", "too large"},
        {"weir-tuning 1\nrails 0\nend\n", "too small"},
        {"weir-tuning 1\nbandwidth 0\nend\n", "too small"},
        {"weir-tuning 1\nuplink 1e300\nend\n", "no cost"},
        {"weir-tuning 1\nhop9 1\nend\n", "no cost"},
        {"weir-tuning 1\n%s%n 1\nend\n", "no cost %s%n"},
        {"weir-tuning 1\nlatency 3\nlatency 3\nend\n", "line 3: latency stands there twice"},
    };
    struct wr_cost cost, standard;
    weir_error err;
    wr_cost_default(&standard);
    for (size_t i = 0; i < WR_ARRAY_SIZE(bad); i++) {
        assert_int_equal(parse(bad[i].text, &cost, &err), WEIR_ERR_CONFIG);
        if (!strstr(err.message, bad[i].says))
            fail_msg("'%s' gives '%s'", bad[i].text, err.message);
        assert_memory_equal(&cost, &standard, sizeof cost);
    }
}

static void put_file(const char *path, const char *text)
{
    assert_true(wr_file_replace(path, text, strlen(text)));
}

static void files_and_places(void **state)
{
    (void)state;
    char dir[] = "/tmp/weir-tuning-XXXXXX", path[128], found[512], off[] = "off";
    const char *vars[] = {NULL};
    weir_ctx ctx = {.host = "h1", .env = {vars}};
    struct wr_cost cost;
    weir_error err;
    assert_non_null(mkdtemp(dir));
    wr_log_init(&ctx.log);
    ctx.log.level[WR_LOG_PLAN] = WR_LOG_OFF;
    ctx.config.cache_dir = dir;
    snprintf(path, sizeof path, "%s/tuning.h1", dir);
    assert_true(wr_tuning_path(&ctx, found, sizeof found));
    assert_string_equal(found, path);
    assert_int_equal(wr_tuning_load(&ctx, &cost, &err), WEIR_OK); /* absent */
    put_file(path, "weir-tuning 1\nflag 77\nend\n");
    assert_int_equal(wr_tuning_load(&ctx, &cost, &err), WEIR_OK);
    assert_true(cost.flag == 77);
    put_file(path, "weir-tuning 1\nflag 78\n"); /* damaged: as good as absent, but for a warning */
    assert_int_equal(wr_tuning_load(&ctx, &cost, &err), WEIR_OK);
    assert_true(cost.flag == 300);
    ctx.config.tuning_file = path; /* asked for */
    assert_int_equal(wr_tuning_load(&ctx, &cost, &err), WEIR_ERR_CONFIG);
    assert_non_null(strstr(err.message, path));
    put_file(path, "weir-tuning 1\nflag 78\nend\n");
    assert_int_equal(wr_tuning_load(&ctx, &cost, &err), WEIR_OK);
    assert_true(cost.flag == 78);
    char *large = malloc(2 * WR_TUNING_MAX);
    memset(large, '\n', 2 * WR_TUNING_MAX);
    assert_true(wr_file_replace(path, large, 2 * WR_TUNING_MAX));
    free(large);
    assert_int_equal(wr_tuning_load(&ctx, &cost, &err), WEIR_ERR_CONFIG);
    unlink(path);
    assert_int_equal(wr_tuning_load(&ctx, &cost, &err), WEIR_ERR_CONFIG);
    ctx.config.tuning_file = dir; /* no regular file */
    assert_int_equal(wr_tuning_load(&ctx, &cost, &err), WEIR_ERR_CONFIG);
    ctx.config.tuning_file = off;
    assert_false(wr_tuning_path(&ctx, found, sizeof found));
    assert_int_equal(wr_tuning_load(&ctx, &cost, &err), WEIR_OK);
    assert_int_equal(rmdir(dir), 0);
}

static void numbers_do_not_depend_on_the_locale(void **state)
{
    (void)state;
    double v = 0;
    assert_true(wr_parse_real("0.034", &v) && v == 0.034);
    assert_true(wr_parse_real("-1.5e3", &v) && v == -1500);
    assert_true(wr_parse_real(".5", &v) && v == 0.5);
    static const char *const bad[] = {"", ".", "-", "1,5", "1.2.3", "0x10", "1e", "1e+", "1e9999", "nan", "1 ", " 1", "1e400"};
    for (size_t i = 0; i < WR_ARRAY_SIZE(bad); i++)
        assert_false(wr_parse_real(bad[i], &v));
    assert_true(v == 0.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_holds),
        cmocka_unit_test(hostile_texts_are_errors_that_name_the_line),
        cmocka_unit_test(files_and_places),
        cmocka_unit_test(numbers_do_not_depend_on_the_locale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
