/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"

static void copies_are_bounded(void **state)
{
    (void)state;
    char s[4];
    assert_true(wr_str_copy(s, sizeof s, "abc"));
    assert_false(wr_str_copy(s, sizeof s, "abcd"));
    assert_string_equal(s, "abc");
    assert_false(wr_str_append(s, sizeof s, "x"));
    assert_true(wr_str_copy(s, sizeof s, "a"));
    assert_true(wr_str_append(s, sizeof s, "bc"));
    assert_string_equal(s, "abc");
}

static void a_buffer_grows(void **state)
{
    (void)state;
    struct wr_buf b = {0};
    for (int i = 0; i < 1000; i++)
        wr_buf_printf(&b, "%d,", i);
    assert_false(b.failed);
    assert_int_equal(b.len, 10 * 2 + 90 * 3 + 900 * 4);
    assert_int_equal(strlen(b.data), b.len);
    wr_buf_free(&b);
    wr_buf_add(&b, "", 0);
    assert_int_equal(b.len, 0);
    assert_string_equal(b.data, "");
    wr_buf_free(&b);
}

static void bytes_are_parsed(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
    } good[] = {
        {"0", 0},       {"64", 64},           {"1K", 1024},        {"1.5MiB", 1572864}, {"2 GB", 2ull << 30},
        {"3t", 3ull << 40}, {"inf", WR_BYTES_INF}, {"18446744073709551615", UINT64_MAX}, {"9007199254740993", 9007199254740993},
    };
    static const char *const bad[] = {"", "x", "-1", "1X", "1K1", "0x10", "1e99", "nan", " 1", "18446744073709551616", "K", "1..5"};
    uint64_t v = 77;
    for (size_t i = 0; i < WR_ARRAY_SIZE(good); i++) {
        assert_true(wr_parse_bytes(good[i].text, &v));
        assert_true(v == good[i].value);
    }
    v = 77;
    for (size_t i = 0; i < WR_ARRAY_SIZE(bad); i++) {
        if (wr_parse_bytes(bad[i], &v))
            fail_msg("'%s' was taken as %llu", bad[i], (unsigned long long)v);
        assert_true(v == 77);
    }
}

static void times_are_parsed(void **state)
{
    (void)state;
    int64_t v = 77;
    assert_true(wr_parse_time("50us", &v) && v == 50000);
    assert_true(wr_parse_time("1.5", &v) && v == 1500000000);
    assert_true(wr_parse_time("2m", &v) && v == 120000000000);
    assert_true(wr_parse_time("inf", &v) && v == WR_TIME_INF);
    v = 77;
    assert_false(wr_parse_time("soon", &v));
    assert_false(wr_parse_time("-1s", &v));
    assert_true(v == 77);
}

static void integers_and_booleans_are_parsed(void **state)
{
    (void)state;
    int64_t v = 0;
    bool b = false;
    assert_true(wr_parse_int("-17", &v) && v == -17);
    assert_true(wr_parse_int("0x10", &v) && v == 16);
    assert_false(wr_parse_int("12a", &v) || wr_parse_int("", &v) || wr_parse_int(" 1", &v) ||
                 wr_parse_int("99999999999999999999", &v));
    assert_true(wr_parse_bool("Yes", &b) && b);
    assert_true(wr_parse_bool("off", &b) && !b);
    assert_false(wr_parse_bool("maybe", &b));
}

static void numbers_are_written_for_people(void **state)
{
    (void)state;
    char s[32];
    assert_string_equal(wr_format_bytes(0, s, sizeof s), "0 B");
    assert_string_equal(wr_format_bytes(1536, s, sizeof s), "1.50 KiB");
    assert_string_equal(wr_format_bytes(64 << 20, s, sizeof s), "64 MiB");
    assert_string_equal(wr_format_bytes(WR_BYTES_INF, s, sizeof s), "inf");
    assert_string_equal(wr_format_time(999, s, sizeof s), "999 ns");
    assert_string_equal(wr_format_time(3200, s, sizeof s), "3.20 us");
    assert_string_equal(wr_format_time(120000000000, s, sizeof s), "2 min");
}

static void distances_are_right(void **state)
{
    (void)state;
    assert_int_equal(wr_str_distance("kitten", "sitting"), 3);
    assert_int_equal(wr_str_distance("", "abc"), 3);
    assert_int_equal(wr_str_distance("same", "same"), 0);
    assert_int_equal(wr_str_distance("ab", "ba"), 2);
}

static void ranges_are_short(void **state)
{
    (void)state;
    static const int list[] = {0, 1, 2, 5, 7, 8};
    char s[32], tiny[8];
    assert_string_equal(wr_format_ranges(list, 6, s, sizeof s), "0-2,5,7-8");
    assert_string_equal(wr_format_ranges(list, 0, s, sizeof s), "");
    assert_string_equal(wr_format_ranges(list, 6, tiny, sizeof tiny), "0-2...");
}

static void json_texts_are_escaped(void **state)
{
    (void)state;
    char *written = NULL;
    size_t len;
    FILE *out = open_memstream(&written, &len);
    assert_non_null(out);
    wr_json_text(out, "a \"b\" c\\d\n\x1f \xc3\xa9");
    assert_int_equal(fclose(out), 0);
    assert_string_equal(written, "a \\\"b\\\" c\\\\d\\u000a\\u001f \xc3\xa9");
    free(written);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_bounded),
        cmocka_unit_test(a_buffer_grows),
        cmocka_unit_test(bytes_are_parsed),
        cmocka_unit_test(times_are_parsed),
        cmocka_unit_test(integers_and_booleans_are_parsed),
        cmocka_unit_test(numbers_are_written_for_people),
        cmocka_unit_test(distances_are_right),
        cmocka_unit_test(ranges_are_short),
        cmocka_unit_test(json_texts_are_escaped),
    };
    return cmocka_run_group_tests_name("str", tests, NULL, NULL);
}
