/* SPDX-License-Identifier: BSD-3-Clause */
/* The kept measurement of networks: writing, reading, and what a damaged or foreign file does, which is nothing. */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "comm/engine/measured.h"

static char root[64], path[128];

static int make_root(void **state)
{
    (void)state;
    strcpy(root, "/tmp/weir-measured-XXXXXX");
    snprintf(path, sizeof path, "%s/a/b/networks.h", mkdtemp(root) ? root : "/nowhere");
    return 0;
}

static int remove_root(void **state)
{
    char part[128];
    (void)state;
    unlink(path);
    snprintf(part, sizeof part, "%s/a/b", root);
    rmdir(part);
    snprintf(part, sizeof part, "%s/a", root);
    rmdir(part);
    return rmdir(root); /* nothing temporary was left */
}

static void put_file(const char *text, size_t len)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, len, f), len);
    fclose(f);
}

static bool reads(const char *key)
{
    struct wr_measured m[2] = {{"ofi", 7, 7}, {"ucx", 7, 7}};
    bool ok = wr_measured_read(path, key, m, 2);
    if (!ok) /* untouched */
        for (int i = 0; i < 2; i++)
            assert_true(m[i].small_ns == 7 && m[i].large_ns == 7);
    return ok;
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    struct wr_measured m[2] = {{"ofi", 5000, 300000}, {"ucx", 0, 0}}, back[2] = {{"ucx", 7, 7}, {"ofi", 7, 7}},
                       one = {"ofi", 7, 7};
    assert_false(reads("key a"));
    assert_true(wr_measured_write(path, "key a", m, 2));
    assert_true(wr_measured_read(path, "key a", back, 2));
    assert_true(back[1].small_ns == 5000 && back[1].large_ns == 300000 && !back[0].small_ns && !back[0].large_ns);
    assert_false(reads("key b"));
    assert_false(reads("key"));
    assert_false(wr_measured_read(path, "key a", &one, 1)); /* of more networks */
    assert_true(wr_measured_write(path, "key b", m, 2));
    assert_true(reads("key b"));
    struct timespec old[2] = {{time(NULL) - 40 * 24 * 3600, 0}, {time(NULL) - 40 * 24 * 3600, 0}};
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    assert_false(reads("key b"));
    assert_false(wr_measured_write("/proc/weir/x", "key a", m, 2));
}

#define HEAD "weir-networks 1\nkey\n"

static void hostile_files_are_as_good_as_none(void **state)
{
    (void)state;
    static const char good[] = HEAD "ofi 5 6\nucx 7 8\nend\n";
    static const char *const bad[] = {"",
                                      "\n",
                                      "weir-networks 2\nkey\nofi 5 6\nucx 7 8\nend\n",
                                      HEAD,
                                      HEAD "end\n",
                                      HEAD "ofi 5 6\nucx 7 8\n",
                                      HEAD "ofi 5 6\nend\n",
                                      HEAD "ofi 5 6\nofi 5 6\nend\n",
                                      HEAD "ofi 5 6\nucx 7 8\nshm 1 1\nend\n",
                                      HEAD "ofi 5 6\nucx 7\nend\n",
                                      HEAD "ofi 5 6\nucx 7 8 9\nend\n",
                                      HEAD "ofi 5 6\nucx -7 8\nend\n",
                                      HEAD "ofi 5 6\nucx 7 -8\nend\n",
                                      HEAD "ofi 5 6\nucx 0 8\nend\n",
                                      HEAD "ofi 5 6\nucx 99999999999999999999 8\nend\n",
                                      HEAD "ofi 5 6\nucx 9000000000000000000 8\nend\n",
                                      HEAD "ofi 5 6\nucx x 8\nend\n",
                                      HEAD "ofi 5 6\nucxucxucxucx 7 8\nend\n",
                                      HEAD "ofi 5 6\nucx 7 8\nend\nmore\n",
                                      HEAD "ofi 5 6\n%s%n%s 7 8\nend\n"};
    struct wr_measured m[2] = {{"ofi", 1, 1}, {"ucx", 1, 1}};
    char large[8192];
    assert_true(wr_measured_write(path, "key", m, 2));
    put_file(good, sizeof good - 1);
    assert_true(reads("key"));
    for (size_t i = 0; i < WR_ARRAY_SIZE(bad); i++) {
        put_file(bad[i], strlen(bad[i]));
        if (reads("key"))
            fail_msg("believed: %s", bad[i]);
    }
    for (size_t len = 0; len + 1 < sizeof good - 1; len++) { /* cut anywhere */
        put_file(good, len);
        assert_false(reads("key"));
    }
    put_file(good, sizeof good); /* with a null byte */
    assert_false(reads("key"));
    memset(large, '\n', sizeof large);
    memcpy(large, good, sizeof good - 1);
    put_file(large, sizeof large);
    assert_false(reads("key"));
    /* what is no regular file */
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_false(reads("key"));
    unlink(path);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_false(reads("key"));
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_false(reads("key"));
    assert_false(wr_measured_write(path, "key", m, 2));
    rmdir(path);
}

static void the_order_is_by_speed(void **state)
{
    (void)state;
    struct wr_measured m[] = {{"a", 1000, 1000}, {"b", 900, 1000}};
    wr_measured_order(m, 2);
    assert_string_equal(m[0].name, "a"); /* not enough of a difference */
    m[1].small_ns = 500;
    wr_measured_order(m, 2);
    assert_string_equal(m[0].name, "b");
    struct wr_measured n[] = {{"a", 0, 0}, {"b", 500, 500}, {"c", 100, 100}};
    wr_measured_order(n, 3);
    assert_string_equal(n[0].name, "c");
    assert_string_equal(n[2].name, "a");
    struct wr_measured none[] = {{"a", 0, 0}, {"b", 0, 0}};
    wr_measured_order(none, 2);
    assert_string_equal(none[0].name, "a");
}

static void the_place_of_the_file(void **state)
{
    (void)state;
    char text[512], home[600];
    const char *vars[] = {home, NULL, NULL};
    weir_ctx ctx = {.host = "h1", .env = {vars}};
    strcpy(home, "HOME=/home/me");
    assert_true(wr_measured_path(&ctx, text, sizeof text));
    assert_string_equal(text, "/home/me/.cache/weir/networks.h1");
    vars[1] = "XDG_CACHE_HOME=/c";
    assert_true(wr_measured_path(&ctx, text, sizeof text));
    assert_string_equal(text, "/c/weir/networks.h1");
    char dir[] = "/scratch", off[] = "off";
    ctx.config.cache_dir = dir;
    assert_true(wr_measured_path(&ctx, text, sizeof text));
    assert_string_equal(text, "/scratch/networks.h1");
    ctx.config.cache_dir = off;
    assert_false(wr_measured_path(&ctx, text, sizeof text));
    ctx.config.cache_dir = NULL;
    vars[1] = NULL;
    memset(home + 6, 'x', sizeof home - 7);
    home[sizeof home - 1] = '\0';
    assert_false(wr_measured_path(&ctx, text, sizeof text));
    strcpy(ctx.host, "../h");
    strcpy(home, "HOME=/home/me");
    assert_false(wr_measured_path(&ctx, text, sizeof text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_written_is_read, make_root, remove_root),
        cmocka_unit_test_setup_teardown(hostile_files_are_as_good_as_none, make_root, remove_root),
        cmocka_unit_test(the_order_is_by_speed),
        cmocka_unit_test(the_place_of_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
