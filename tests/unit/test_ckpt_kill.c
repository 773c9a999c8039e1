/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A save is killed, or fails, at each write, sync, rename, making and removal: the checkpoint that was committed last is whole each
 * time, and the next save goes through. And what would survive a power failure: nothing is committed before it is on the disk.
 */
#include "tests/unit/ckpt_world.h"

#include <errno.h>
#include <sys/wait.h>

/* What the table below does at operation `at` of a save, counted from 1. */
enum what { NOTHING, DIE, FAIL };

struct disk {
    enum what what;
    int count, at;
    /* the watch over the order: what is not on the disk yet */
    int nfiles;
    struct {
        char path[512];
        bool dirty, entry; /* its bytes; its name in the folder */
    } files[64];
    bool unmarked; /* a marker was removed, and its folder not synced yet */
    int commits;
};

static struct disk *disk_of(const struct wr_ckpt_fs *fs)
{
    return fs->arg;
}

/* Counts; true when this operation is to fail. */
static bool strike(const struct wr_ckpt_fs *fs)
{
    struct disk *d = disk_of(fs);
    if (++d->count != d->at)
        return false;
    if (d->what == DIE)
        _exit(9);
    errno = d->what == FAIL ? ENOSPC : 0;
    return d->what == FAIL;
}

static int find(struct disk *d, const char *path)
{
    for (int i = 0; i < d->nfiles; i++)
        if (!strcmp(d->files[i].path, path))
            return i;
    return -1;
}

static bool ends(const char *path, const char *end)
{
    size_t n = strlen(path), m = strlen(end);
    return n >= m && !strcmp(path + n - m, end);
}

/* Remembers a file or folder that was made. */
static void made(struct disk *d, const char *path)
{
    int i = find(d, path);
    if (i < 0)
        i = d->nfiles++;
    assert_true(i < 64);
    snprintf(d->files[i].path, sizeof d->files[i].path, "%s", path);
    d->files[i].dirty = false;
    d->files[i].entry = true;
}

static int disk_create(const struct wr_ckpt_fs *fs, const char *path)
{
    if (strike(fs))
        return -1;
    made(disk_of(fs), path);
    return wr_ckpt_fs_posix.create(fs, path);
}

static ssize_t disk_pwrite(const struct wr_ckpt_fs *fs, int fd, const void *data, size_t len, off_t at)
{
    struct disk *d = disk_of(fs);
    if (d->count + 1 == d->at && len > 1 &&
        wr_ckpt_fs_posix.pwrite(fs, fd, data, len / 2, at) < 0) /* half of it arrives */
        return -1;
    if (strike(fs))
        return -1;
    for (int i = 0; i < d->nfiles; i++) /* one file is written at a time */
        if (ends(d->files[i].path, ".tmp"))
            d->files[i].dirty = true;
    return wr_ckpt_fs_posix.pwrite(fs, fd, data, len, at);
}

static int disk_sync(const struct wr_ckpt_fs *fs, int fd, const char *path)
{
    struct disk *d = disk_of(fs);
    size_t n = strlen(path);
    if (strike(fs))
        return -1;
    for (int i = 0; i < d->nfiles; i++) {
        const char *other = d->files[i].path;
        if (!strcmp(other, path))
            d->files[i].dirty = false;
        if (!strncmp(other, path, n) && other[n] == '/' && !strchr(other + n + 1, '/'))
            d->files[i].entry = false;
    }
    d->unmarked = false;
    return wr_ckpt_fs_posix.sync(fs, fd, path);
}

static int disk_rename(const struct wr_ckpt_fs *fs, const char *from, const char *to)
{
    struct disk *d = disk_of(fs);
    if (strike(fs))
        return -1;
    int i = find(d, from);
    assert_true(i >= 0);
    if (d->files[i].dirty)
        fail_msg("%s gets its name before its bytes are on the disk", to);
    snprintf(d->files[i].path, sizeof d->files[i].path, "%s", to);
    d->files[i].entry = true;
    if (ends(to, WR_CKPT_MARKER)) {
        d->commits++;
        for (int k = 0; k < d->nfiles; k++)
            if (k != i && (d->files[k].dirty || d->files[k].entry))
                fail_msg("%s is not on the disk when the checkpoint is committed", d->files[k].path);
    }
    return wr_ckpt_fs_posix.rename(fs, from, to);
}

static int disk_mkdir(const struct wr_ckpt_fs *fs, const char *path)
{
    if (strike(fs))
        return -1;
    made(disk_of(fs), path);
    return wr_ckpt_fs_posix.mkdir(fs, path);
}

static int disk_remove(const struct wr_ckpt_fs *fs, const char *path)
{
    struct disk *d = disk_of(fs);
    if (strike(fs))
        return -1;
    if (d->unmarked)
        fail_msg("%s is removed before the disk knows that its checkpoint is none", path);
    int status = wr_ckpt_fs_posix.remove(fs, path);
    d->unmarked = !status && ends(path, WR_CKPT_MARKER);
    return status;
}

static struct wr_ckpt_fs disk_table(struct disk *d)
{
    return (struct wr_ckpt_fs){disk_create, disk_pwrite, disk_sync, disk_rename, disk_mkdir, disk_remove, d};
}

/* All that say that they are committed are whole. Returns the step of the last. */
static uint64_t check_all(const char *folder, const char *when, int n)
{
    struct wr_ckpt_name *names;
    size_t count;
    weir_error err;
    char path[512];
    assert_ok(wr_ckpt_scan(folder, &names, &count, &err), &err);
    for (size_t i = 0; i < count; i++) {
        weir_ckpt_source *source;
        if (!names[i].committed)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, names[i].name);
        if (weir_ckpt_source_open(path, WEIR_CKPT_LATEST, &source, &err) != WEIR_OK ||
            !model_check(source, names[i].step, &err))
            fail_msg("%s operation %d: %s", when, n, err.message);
        weir_ckpt_source_close(source);
    }
    free(names);
    return model_latest(folder);
}

/* A save goes through afterwards, and leaves nothing of what was before. */
static void check_next(const char *folder)
{
    weir_error err;
    weir_ckpt_info info = {.size = sizeof info};
    size_t n;
    assert_ok(model_save(&wr_ckpt_fs_posix, folder, 3, 1, &err), &err);
    assert_int_equal(model_latest(folder), 3);
    assert_ok(weir_ckpt_list(folder, &info, 1, &n, &err), &err);
    assert_int_equal(n, 1);
}

static void test_order(void **state)
{
    (void)state;
    char folder[256], inner[300];
    weir_error err;
    static struct disk d;
    struct wr_ckpt_fs fs = disk_table(&d);
    make_temporary(folder);
    snprintf(inner, sizeof inner, "%s/a/b", folder);
    for (uint64_t step = 1; step <= 3; step++)
        assert_ok(model_save(&fs, inner, step, 1, &err), &err);
    assert_int_equal(d.commits, 3);
    assert_int_equal(model_latest(inner), 3);
    remove_tree(folder);
}

/* One save of step 2 over a committed step 1, which is killed at operation n; false: there are not so many. */
static bool killed_at(int n)
{
    char folder[256];
    weir_error err;
    static struct disk d;
    struct wr_ckpt_fs fs = disk_table(&d);
    int status;
    memset(&d, 0, sizeof d);
    d.what = DIE;
    d.at = n;
    make_temporary(folder);
    assert_ok(model_save(&wr_ckpt_fs_posix, folder, 1, 1, &err), &err);
    pid_t pid = fork();
    if (!pid)
        _exit(model_save(&fs, folder, 2, 1, &err) == WEIR_OK ? 0 : 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 9 || WEXITSTATUS(status) == 0));
    uint64_t latest = check_all(folder, "killed at", n);
    if (latest != 1 && latest != 2)
        fail_msg("killed at operation %d: step %llu is left", n, (unsigned long long)latest);
    if (WEXITSTATUS(status) == 0)
        assert_int_equal(latest, 2);
    check_next(folder);
    remove_tree(folder);
    return WEXITSTATUS(status) == 9;
}

static void test_killed(void **state)
{
    (void)state;
    int n = 1;
    while (killed_at(n))
        n++;
    print_message("killed at each of %d operations\n", n - 1);
    assert_true(n > 25);
}

/* The same with an operation that fails; true: the save noticed it. */
static bool failed_at(int n, bool *reached)
{
    char folder[256];
    weir_error err;
    static struct disk d;
    struct wr_ckpt_fs fs = disk_table(&d);
    memset(&d, 0, sizeof d);
    d.what = FAIL;
    d.at = n;
    make_temporary(folder);
    assert_ok(model_save(&wr_ckpt_fs_posix, folder, 1, 1, &err), &err);
    weir_status status = model_save(&fs, folder, 2, 1, &err);
    *reached = d.count >= n;
    uint64_t latest = check_all(folder, "failed at", n);
    if (status != WEIR_OK) {
        assert_int_equal(status, WEIR_ERR_LIMIT);
        if (!strstr(err.message, folder) || !err.advice[0])
            fail_msg("operation %d: %s", n, err.message);
        if (latest != 1 && latest != 2) /* 2: the marker has its name, only that the disk knows it is not sure */
            fail_msg("operation %d failed: step %llu is left", n, (unsigned long long)latest);
    } else if (latest != 2) {
        fail_msg("operation %d failed and the save did not: step %llu is left", n, (unsigned long long)latest);
    }
    check_next(folder);
    remove_tree(folder);
    return status != WEIR_OK;
}

static void test_failed(void **state)
{
    (void)state;
    bool reached = true;
    int n = 0, noticed = 0;
    while (reached)
        noticed += failed_at(++n, &reached);
    print_message("%d operations failed, %d of them fail the save\n", n - 1, noticed);
    assert_true(noticed >= 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
