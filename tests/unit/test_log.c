/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

static void levels_follow_the_specification(void **state)
{
    (void)state;
    struct wr_log log;
    weir_error err;
    wr_log_init(&log);
    assert_int_equal(log.level[WR_LOG_BOOT], WR_LOG_WARN);
    assert_ok(wr_log_set_levels(&log, "error,boot:trace,topo:off", &err), &err);
    assert_int_equal(log.level[WR_LOG_CTX], WR_LOG_ERROR);
    assert_int_equal(log.level[WR_LOG_BOOT], WR_LOG_TRACE);
    assert_int_equal(log.level[WR_LOG_TOPO], WR_LOG_OFF);
    assert_ok(wr_log_set_levels(&log, "error,plan", &err), &err);
    assert_int_equal(log.level[WR_LOG_PLAN], WR_LOG_INFO);
    static const char *const bad[] = {"loud", "boot:", "bot:info", ":info", "warn,,x"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(wr_log_set_levels(&log, bad[i], &err), WEIR_ERR_CONFIG);
        assert_int_equal(log.level[WR_LOG_CTX], WR_LOG_ERROR); /* unchanged */
    }
}

static void lines_go_to_the_file_of_the_rank(void **state)
{
    (void)state;
    struct wr_log log;
    weir_error err;
    char dir[] = "/tmp/weir-test-log-XXXXXX", path[64], line[256] = "";
    assert_non_null(mkdtemp(dir));
    wr_log_init(&log);
    log.rank = 7;
    snprintf(path, sizeof path, "%s/log.%%r", dir);
    assert_ok(wr_log_open(&log, path, &err), &err);
    wr_warn(&log, BOOT, "number %d", 42);
    wr_info(&log, BOOT, "not shown");
    wr_log_close(&log);
    snprintf(path, sizeof path, "%s/log.7", dir);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    assert_non_null(strstr(line, "rank 7] warn boot: number 42\n"));
    assert_null(fgets(line, sizeof line, f));
    fclose(f);
    unlink(path);
    rmdir(dir);
    assert_int_equal(wr_log_open(&log, "/nonexistent/x", &err), WEIR_ERR_IO);
    wr_warn(NULL, BOOT, "nobody listens");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_follow_the_specification),
        cmocka_unit_test(lines_go_to_the_file_of_the_rank),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
