/* SPDX-License-Identifier: BSD-3-Clause */
/* Files on a local disk, by io_uring and by threads: bytes, calls that move less than they were asked for, disks without room, kernels
 * that refuse io_uring. */
#include "tests/unit/unit.h"

#include <dirent.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "optim/disk_impl.h"

enum { BLOCK = 16 * WR_DISK_PAGE, BLOCKS = 6 };

static const enum wr_disk_kind kinds[] = {WR_DISK_URING, WR_DISK_THREAD};
static char folder[] = "test-disk-XXXXXX";
static unsigned char *memory;

static weir_status make(enum wr_disk_kind kind, uint64_t bytes, uint64_t most, struct wr_disk **disk, weir_error *err)
{
    struct wr_disk_options o = {.folder = folder, .what = "numbers", .bytes = bytes, .kind = kind, .depth = 4, .memory = memory,
                                .memory_bytes = BLOCK * BLOCKS, .most = most};
    return wr_disk_open(&o, disk, err);
}

/* false: the kernel here refuses io_uring, or it is not built in. */
static bool can(enum wr_disk_kind kind)
{
    struct wr_disk *disk;
    if (make(kind, BLOCK, 0, &disk, NULL) != WEIR_OK)
        return false;
    wr_disk_close(disk);
    return true;
}

static unsigned char pattern(unsigned block, unsigned i)
{
    return (unsigned char)((i * 2654435761u + block * 40503u) >> 9);
}

static void fill(unsigned block)
{
    for (unsigned i = 0; i < BLOCK; i++)
        memory[block * BLOCK + i] = pattern(block, i);
}

static void prepare(struct wr_disk_op *op, unsigned block, bool write)
{
    *op = (struct wr_disk_op){.data = memory + block * BLOCK, .bytes = BLOCK, .at = block * BLOCK, .write = write};
}

/* Four operations are under way at once; `most` divides each into many calls. */
static void bytes_of(enum wr_disk_kind kind, uint64_t most)
{
    struct wr_disk *disk;
    struct wr_disk_op ops[BLOCKS];
    weir_error err;
    assert_ok(make(kind, BLOCK * BLOCKS, most, &disk, &err), &err);
    assert_string_equal(wr_disk_engine_name(disk), kind == WR_DISK_URING ? "io_uring" : "threads");
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned b = 0; b < BLOCKS; b++) {
            if (b >= 4)
                assert_ok(wr_disk_wait(disk, &ops[b - 4], &err), &err);
            fill(b);
            prepare(&ops[b], b, !round);
            if (round)
                memset(ops[b].data, 0, BLOCK);
            assert_ok(wr_disk_start(disk, &ops[b], &err), &err);
        }
        for (unsigned b = BLOCKS - 4; b < BLOCKS; b++)
            assert_ok(wr_disk_wait(disk, &ops[b], &err), &err);
    }
    for (unsigned b = 0; b < BLOCKS; b++)
        for (unsigned i = 0; i < BLOCK; i++)
            assert_int_equal(memory[b * BLOCK + i], pattern(b, i));
    wr_disk_close(disk);
}

static void test_bytes(void **state)
{
    (void)state;
    for (size_t k = 0; k < WR_ARRAY_SIZE(kinds); k++)
        for (int divided = 0; divided < 2; divided++)
            if (can(kinds[k]))
                bytes_of(kinds[k], divided ? 3 * WR_DISK_PAGE : 0);
}

/* The file has no name: nothing is left of it. */
static void test_nameless(void **state)
{
    struct wr_disk *disk;
    weir_error err;
    (void)state;
    assert_ok(make(WR_DISK_AUTO, BLOCK, 0, &disk, &err), &err);
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));)
        assert_int_equal(e->d_name[0], '.');
    closedir(dir);
    wr_disk_close(disk);
}

/* A file that ends too early: a read moves less, then nothing. */
static void test_short(void **state)
{
    (void)state;
    for (size_t k = 0; k < WR_ARRAY_SIZE(kinds); k++) {
        struct wr_disk *disk;
        struct wr_disk_op op;
        weir_error err;
        if (!can(kinds[k]))
            continue;
        assert_ok(make(kinds[k], BLOCK, 0, &disk, &err), &err);
        assert_int_equal(ftruncate(disk->fd, BLOCK / 2), 0);
        prepare(&op, 0, false);
        assert_ok(wr_disk_start(disk, &op, &err), &err);
        assert_int_equal(wr_disk_wait(disk, &op, &err), WEIR_ERR_IO);
        assert_non_null(strstr(err.message, "numbers: 65536 bytes at 0 cannot be read from the file in test-disk-"));
        assert_int_equal(op.done, BLOCK / 2);
        prepare(&op, 0, true); /* and goes on to work */
        assert_ok(wr_disk_start(disk, &op, &err), &err);
        assert_ok(wr_disk_wait(disk, &op, &err), &err);
        wr_disk_close(disk);
    }
}

/* No room: when the file is made, and later. */
static void test_full(void **state)
{
    struct rlimit before, limit;
    struct wr_disk *disk = NULL;
    weir_error err;
    (void)state;
    assert_int_equal(make(WR_DISK_AUTO, (uint64_t)1 << 60, 0, &disk, &err), WEIR_ERR_IO);
    assert_non_null(strstr(err.message, "numbers: 1152921504606846976 bytes cannot be had in test-disk-"));
    assert_non_null(strstr(err.message, "No space left on device"));
    assert_null(disk);
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    limit.rlim_cur = BLOCK;
    setrlimit(RLIMIT_FSIZE, &limit);
    weir_status status = make(WR_DISK_AUTO, 2 * BLOCK, 0, &disk, &err);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(status, WEIR_ERR_IO);
    assert_non_null(strstr(err.message, "File too large"));
}

/* A limit that comes after the file: writing fails with a sentence, and the program lives. */
static void test_full_later(void **state)
{
    struct rlimit before, limit;
    (void)state;
    void (*was)(int) = signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    for (size_t k = 0; k < WR_ARRAY_SIZE(kinds); k++) {
        struct wr_disk *disk;
        struct wr_disk_op op;
        weir_error err;
        if (!can(kinds[k]))
            continue;
        assert_ok(make(kinds[k], 2 * BLOCK, 0, &disk, &err), &err);
        limit = before;
        limit.rlim_cur = BLOCK + BLOCK / 2;
        setrlimit(RLIMIT_FSIZE, &limit);
        prepare(&op, 1, true);
        weir_status status = wr_disk_start(disk, &op, &err);
        if (status == WEIR_OK)
            status = wr_disk_wait(disk, &op, &err);
        setrlimit(RLIMIT_FSIZE, &before);
        assert_int_equal(status, WEIR_ERR_IO);
        assert_non_null(strstr(err.message, "cannot be written to the file in test-disk-"));
        wr_disk_close(disk);
    }
    signal(SIGXFSZ, was);
}

static void test_nowhere(void **state)
{
    struct wr_disk_options o = {.folder = "no/such/folder", .what = "numbers", .bytes = BLOCK, .depth = 2};
    struct wr_disk *disk = NULL;
    weir_error err;
    (void)state;
    assert_int_equal(wr_disk_open(&o, &disk, &err), WEIR_ERR_IO);
    assert_non_null(strstr(err.message, "numbers: no file can be made in no/such/folder: No such file"));
    assert_null(disk);
}

/* As in a container: io_uring_setup() is not permitted. */
static bool forbid_uring(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 425 /* io_uring_setup everywhere */, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = WR_ARRAY_SIZE(code), .filter = code};
    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int in_container(void)
{
    struct wr_disk *disk;
    weir_error err;
    if (!forbid_uring())
        return 77;
    if (make(WR_DISK_URING, BLOCK, 0, &disk, &err) != WEIR_ERR_UNSUPPORTED || !strstr(err.message, "io_uring is refused"))
        return 1;
    if (make(WR_DISK_AUTO, BLOCK, 0, &disk, &err) != WEIR_OK)
        return 2;
    if (strcmp(wr_disk_engine_name(disk), "threads"))
        return 3;
    wr_disk_close(disk);
    return 0;
}

static void test_refused(void **state)
{
    int status;
    (void)state;
    pid_t pid = fork();
    if (pid == 0)
        _exit(in_container());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int set_up(void **state)
{
    (void)state;
    memory = aligned_alloc(WR_DISK_PAGE, BLOCK * BLOCKS);
    return memory && mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    free(memory);
    return rmdir(folder); /* fails when something is left in it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),      cmocka_unit_test(test_nameless), cmocka_unit_test(test_short),
        cmocka_unit_test(test_full),       cmocka_unit_test(test_full_later), cmocka_unit_test(test_nowhere),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
