/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/unit.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"

static void every_code_has_a_name_and_a_message(void **state)
{
    (void)state;
    int seen[64] = {0};
#define X(name, value, message)                                                                              \
    assert_int_equal(name, value);                                                                           \
    assert_string_equal(weir_status_name(name), #name);                                                      \
    assert_string_equal(weir_status_message(name), message);                                                 \
    assert_int_equal(seen[(value) + 32]++, 0);
    WEIR_STATUS_TABLE(X)
#undef X
    assert_string_equal(weir_status_name((weir_status)-999), "WEIR_ERR_UNKNOWN");
    assert_string_equal(weir_status_message((weir_status)-999), "unknown status");
}

static void an_error_becomes_one_line(void **state)
{
    (void)state;
    weir_error err;
    char line[1200];
    weir_status status = wr_error_set(&err, WEIR_ERR_PEER_LOST, "look at its log", "rank %d has gone", 3);
    assert_int_equal(status, WEIR_ERR_PEER_LOST);
    assert_int_equal(err.rank, -1);
    wr_error_at(&err, 3, "n1");
    wr_error_operation(&err, "weir_init");
    wr_error_operation(&err, "outer"); /* the inner name stays */
    assert_string_equal(wr_error_line(&err, line, sizeof line),
                        "weir_init: rank 3 has gone (rank 3 on host n1); look at its log");
    char tiny[9];
    assert_string_equal(wr_error_line(&err, tiny, sizeof tiny), "weir_ini");
}

static void errno_is_spelt_out(void **state)
{
    (void)state;
    weir_error err;
    assert_int_equal(wr_error_errno(&err, WEIR_ERR_SYSTEM, ENOENT, NULL, "cannot open %s", "x"), WEIR_ERR_SYSTEM);
    assert_string_equal(err.message, "cannot open x: No such file or directory");
    assert_int_equal(wr_error_set(NULL, WEIR_ERR_INVALID, NULL, "nobody listens"), WEIR_ERR_INVALID);
    char *huge = test_malloc(4000);
    memset(huge, 'x', 3999);
    huge[3999] = 0;
    wr_error_errno(&err, WEIR_ERR_SYSTEM, ENOENT, huge, "%s", huge);
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
    assert_int_equal(strlen(err.advice), sizeof err.advice - 1);
    test_free(huge);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_a_name_and_a_message),
        cmocka_unit_test(an_error_becomes_one_line),
        cmocka_unit_test(errno_is_spelt_out),
    };
    return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}
