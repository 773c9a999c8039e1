/* SPDX-License-Identifier: BSD-3-Clause */
/* Watching peers over TCP: a death is found, a goodbye is none, strangers do no harm. */
#include "tests/unit/unit.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/engine/watch.h"

struct seen {
    int lost, peer;
    char reason[64];
};

static void remember(void *arg, int peer, const char *reason)
{
    struct seen *s = arg;
    s->lost++;
    s->peer = peer;
    snprintf(s->reason, sizeof s->reason, "%s", reason);
}

static struct wr_watch *open_watch(struct seen *s)
{
    struct wr_watch_params p = {NULL, INT64_C(5000000000), remember, s};
    struct wr_watch *w;
    weir_error err;
    assert_ok(wr_watch_open(&p, &w, &err), &err);
    return w;
}

/* Progresses until something is lost, at most `ms`. */
static void run(struct wr_watch *w, const struct seen *s, int ms)
{
    int64_t deadline = wr_deadline(ms * INT64_C(1000000));
    while (!s->lost && !wr_deadline_passed(deadline)) {
        wr_watch_progress(w);
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
}

/* A child that listens, publishes its address through a pipe, and then does what `end` says. */
static pid_t child(char *address, size_t *len, const char *end)
{
    int fd[2], go[2];
    assert_int_equal(pipe(fd), 0);
    assert_int_equal(pipe(go), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct seen s = {0};
        struct wr_watch_params p = {NULL, INT64_C(5000000000), remember, &s};
        struct wr_watch *w;
        char buf[256];
        size_t n = sizeof buf;
        if (wr_watch_open(&p, &w, NULL))
            _exit(1);
        wr_watch_address(w, buf, &n);
        if (write(fd[1], buf, n) != (ssize_t)n)
            _exit(1);
        close(fd[1]);
        nanosleep(&(struct timespec){0, 200000000}, NULL); /* computes: nobody accepts */
        if (!strcmp(end, "goodbye"))
            wr_watch_close(w);
        else if (!strcmp(end, "exit after accepting"))
            wr_watch_progress(w);
        else if (!strcmp(end, "kill"))
            kill(getpid(), SIGKILL);
        _exit(0);
    }
    close(fd[1]);
    ssize_t n = read(fd[0], address, *len);
    assert_true(n > 0);
    *len = (size_t)n;
    close(fd[0]);
    close(go[0]);
    close(go[1]);
    return pid;
}

static void one_end(const char *end, int want_lost)
{
    struct seen s = {0};
    char address[256];
    size_t len = sizeof address;
    pid_t pid = child(address, &len, end);
    struct wr_watch *w = open_watch(&s);
    wr_watch_add(w, 7, address, len);
    run(w, &s, 100);
    assert_int_equal(s.lost, 0); /* it only computes */
    run(w, &s, want_lost ? 5000 : 600);
    assert_int_equal(s.lost, want_lost);
    if (want_lost)
        assert_int_equal(s.peer, 7);
    waitpid(pid, NULL, 0);
    run(w, &s, 50);
    assert_int_equal(s.lost, want_lost); /* once */
    wr_watch_close(w);
}

static void a_killed_peer_is_found(void **state)
{
    (void)state;
    one_end("kill", 1);
}

static void a_peer_that_exits_is_found(void **state)
{
    (void)state;
    one_end("exit after accepting", 1);
}

static void a_goodbye_is_no_loss(void **state)
{
    (void)state;
    one_end("goodbye", 0);
}

static void what_cannot_be_watched_is_no_loss(void **state)
{
    (void)state;
    struct seen s = {0};
    struct wr_watch *w = open_watch(&s), *gone = open_watch(&s);
    char address[256];
    size_t len = sizeof address;
    wr_watch_address(gone, address, &len);
    wr_watch_close(gone);
    wr_watch_add(w, 1, address, len); /* refused: nobody listens there any more */
    wr_watch_add(w, 2, address, len - 1);
    wr_watch_add(w, 3, "", 0);
    run(w, &s, 200);
    assert_int_equal(s.lost, 0);
    wr_watch_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_peer_is_found),
        cmocka_unit_test(a_peer_that_exits_is_found),
        cmocka_unit_test(a_goodbye_is_no_loss),
        cmocka_unit_test(what_cannot_be_watched_is_no_loss),
    };
    return cmocka_run_group_tests_name("watch", tests, NULL, NULL);
}
