/* SPDX-License-Identifier: BSD-3-Clause */
/* The bootstrap server with ranks as threads of this process. */
#include "tests/unit/unit.h"

#include <stdlib.h>

#include "base/clock.h"
#include "comm/boot/sock.h"
#include "comm/boot/wire.h"
#include "tests/unit/boot_job.h"

static void all_opened(const struct job *job, int first, int n)
{
    for (int rank = first; rank < first + n; rank++)
        if (job->open_status[rank] != WEIR_OK)
            fail_msg("rank %d: %s", rank, job->open_error[rank].message);
    assert_int_equal(job->failures, 0);
}

/* Everyone puts a value of its own length, and reads everyone's. */
static void exchange(struct job *job, int rank, struct wr_boot *boot)
{
    weir_error err;
    char value[4000];
    size_t len = (size_t)(rank * 100 + 1);
    memset(value, 'a' + rank, sizeof value);
    JOB_CHECK(job, boot->info.rank == rank && boot->info.size == job->size);
    JOB_CHECK(job, !strcmp(boot->ops->name, "tcp"));
    JOB_CHECK(job, wr_boot_put(boot, "card", value, len, WR_BOOT_JOB, &err) == WEIR_OK);
    JOB_CHECK(job, wr_boot_fence(boot, &err) == WEIR_OK);
    for (int peer = 0; peer < job->size; peer++) {
        void *got = NULL;
        size_t n = 0;
        JOB_CHECK(job, wr_boot_get(boot, peer, "card", &got, &n, &err) == WEIR_OK);
        JOB_CHECK(job, n == (size_t)(peer * 100 + 1) && ((char *)got)[n - 1] == 'a' + peer);
        free(got);
        JOB_CHECK(job, wr_boot_get(boot, peer, "none", &got, &n, &err) == WEIR_ERR_NOT_FOUND);
    }
    for (int i = 0; i < 20; i++)
        JOB_CHECK(job, wr_boot_barrier(boot, &err) == WEIR_OK);
    JOB_CHECK(job, wr_boot_close(boot, true, &err) == WEIR_OK);
}

static void ranks_exchange_values(void **state)
{
    (void)state;
    struct job job = {.rank_main = exchange};
    struct wr_server_options options = {.size = 8, .bind_address = "127.0.0.1", .arg = &job.finalized, .on_finalized = job_count};
    weir_error err;
    assert_ok(job_server_start(&job, &options, &err), &err);
    job_run_ranks(&job, 0, 8);
    /* and again: the second context of every rank is a session of its own */
    job_run_ranks(&job, 0, 8);
    all_opened(&job, 0, 8);
    job_server_stop(&job);
    assert_int_equal(job.finalized, 16);
}

static void check_nodes(struct job *job, int rank, struct wr_boot *boot)
{
    static const int want[] = {0, 1, 0, 1, 2};
    weir_error err;
    (void)rank;
    for (int i = 0; i < job->size; i++)
        JOB_CHECK(job, boot->info.node_of[i] == want[i]);
    JOB_CHECK(job, wr_boot_close(boot, true, &err) == WEIR_OK);
}

static void the_server_tells_who_shares_a_node(void **state)
{
    (void)state;
    static const int node[] = {7, 3, 7, 3, -1};
    struct job job = {.rank_main = check_nodes};
    struct wr_server_options options = {.size = 5};
    weir_error err;
    assert_ok(job_server_start(&job, &options, &err), &err);
    memcpy(job.node, node, sizeof node);
    job_run_ranks(&job, 0, 5);
    all_opened(&job, 0, 5);
    job_server_stop(&job);
}

/* Rank 1 leaves without a farewell: all others learn it, in a fence and as an event. */
static void lose_rank_1(struct job *job, int rank, struct wr_boot *boot)
{
    weir_error err;
    struct wr_boot_event event;
    JOB_CHECK(job, wr_boot_fence(boot, &err) == WEIR_OK);
    if (rank == 1) {
        wr_boot_close(boot, false, &err);
        return;
    }
    JOB_CHECK(job, wr_boot_fence(boot, &err) == WEIR_ERR_PEER_LOST);
    JOB_CHECK(job, err.rank == 1 && strstr(err.message, "rank 1 was lost"));
    struct pollfd p = {.fd = boot->ops->event_fd(boot), .events = POLLIN};
    JOB_CHECK(job, poll(&p, 1, 10000) == 1);
    JOB_CHECK(job, boot->ops->poll_event(boot, &event));
    JOB_CHECK(job, event.kind == WR_BOOT_EVENT_RANK_LOST && event.rank == 1 && event.host[0]);
    JOB_CHECK(job, !boot->ops->poll_event(boot, &event));
    JOB_CHECK(job, poll(&p, 1, 0) == 0);
    /* the farewell does not wait for the dead */
    JOB_CHECK(job, wr_boot_close(boot, true, &err) == WEIR_ERR_PEER_LOST);
}

static void a_lost_rank_is_told_to_all(void **state)
{
    (void)state;
    struct job job = {.rank_main = lose_rank_1};
    struct wr_server_options options = {.size = 4, .bind_address = "127.0.0.1", .arg = &job.lost, .on_lost = job_count};
    weir_error err;
    assert_ok(job_server_start(&job, &options, &err), &err);
    job_run_ranks(&job, 0, 4);
    all_opened(&job, 0, 4);
    job_server_stop(&job);
    assert_true(job.lost >= 1);
}

static void abort_from_2(struct job *job, int rank, struct wr_boot *boot)
{
    weir_error err;
    if (rank == 2)
        boot->ops->abort(boot, 3, "no more");
    JOB_CHECK(job, wr_boot_fence(boot, &err) == WEIR_ERR_PEER_LOST);
    JOB_CHECK(job, rank == 2 || (err.rank == 2 && strstr(err.message, "no more")));
    wr_boot_close(boot, false, &err);
}

static void count_abort(void *arg, int rank, int code, const char *message)
{
    struct job *job = arg;
    JOB_CHECK(job, rank == 2 && code == 3 && !strcmp(message, "no more"));
    job->aborted++;
}

static void an_abort_reaches_all(void **state)
{
    (void)state;
    struct job job = {.rank_main = abort_from_2};
    struct wr_server_options options = {.size = 3, .bind_address = "127.0.0.1", .arg = &job, .on_abort = count_abort};
    weir_error err;
    assert_ok(job_server_start(&job, &options, &err), &err);
    job_run_ranks(&job, 0, 3);
    all_opened(&job, 0, 3);
    job_server_stop(&job);
    assert_int_equal(job.aborted, 1);
}

static void missing_ranks_are_named(void **state)
{
    (void)state;
    static const char *const soon[] = {"BOOT_TIMEOUT=200ms", NULL};
    struct job job = {.rank_main = exchange, .config = soon};
    struct wr_server_options options = {.size = 6, .bind_address = "127.0.0.1"};
    weir_error err;
    assert_ok(job_server_start(&job, &options, &err), &err);
    job_run_ranks(&job, 0, 1);
    assert_int_equal(job.open_status[0], WEIR_ERR_TIMEOUT);
    assert_non_null(strstr(job.open_error[0].message, "5 of 6 ranks did not come to weir_init"));
    assert_non_null(strstr(job.open_error[0].message, "1-5"));
    job_server_stop(&job);
}

/* Rank 1 is late: rank 0 gives up, tries again, and both go on. */
static void try_again(struct job *job, int rank, struct wr_boot *boot)
{
    weir_error err;
    weir_status status = WEIR_ERR_TIMEOUT;
    if (rank == 1)
        usleep(500000);
    boot->timeout_ns = 100000000;
    for (int i = 0; i < 200 && status == WEIR_ERR_TIMEOUT; i++) {
        status = wr_boot_barrier(boot, &err);
        JOB_CHECK(job, status == WEIR_OK || strstr(err.message, "of 2 ranks did not come"));
    }
    JOB_CHECK(job, status == WEIR_OK);
    boot->timeout_ns = 60000000000;
    JOB_CHECK(job, wr_boot_barrier(boot, &err) == WEIR_OK);
    JOB_CHECK(job, wr_boot_close(boot, true, &err) == WEIR_OK);
}

static void a_fence_can_be_tried_again(void **state)
{
    (void)state;
    static const char *const soon[] = {"BOOT_TIMEOUT=20s", NULL};
    struct job job = {.rank_main = try_again, .config = soon};
    struct wr_server_options options = {.size = 2, .bind_address = "127.0.0.1"};
    weir_error err;
    assert_ok(job_server_start(&job, &options, &err), &err);
    job_run_ranks(&job, 0, 2);
    all_opened(&job, 0, 2);
    job_server_stop(&job);
}

/* Rank 0 gives up each of many fences again and again, in ways that read the end of the fence in passing. */
static void give_up_often(struct job *job, int rank, struct wr_boot *boot)
{
    weir_error err;
    struct wr_boot_event event;
    void *value;
    size_t len;
    for (int round = 0; round < 60; round++) {
        weir_status status = WEIR_ERR_TIMEOUT;
        if (rank == 1)
            usleep((useconds_t)(round % 7 * 100));
        boot->timeout_ns = rank == 1 ? 20000000000 : 0;
        for (int64_t end = wr_deadline(20000000000); status == WEIR_ERR_TIMEOUT && !wr_deadline_passed(end);) {
            status = wr_boot_barrier(boot, &err);
            boot->timeout_ns = 20000000000;
            if (status == WEIR_ERR_TIMEOUT && round % 3 == 1)
                JOB_CHECK(job, wr_boot_get(boot, 1, "none", &value, &len, &err) == WEIR_ERR_NOT_FOUND);
            if (status == WEIR_ERR_TIMEOUT && round % 3 == 2)
                JOB_CHECK(job, !boot->ops->poll_event(boot, &event));
            boot->timeout_ns = 0;
        }
        JOB_CHECK(job, status == WEIR_OK);
        if (status != WEIR_OK)
            break;
    }
    boot->timeout_ns = 20000000000;
    JOB_CHECK(job, wr_boot_close(boot, true, &err) == WEIR_OK);
}

static void no_end_of_a_fence_is_missed(void **state)
{
    (void)state;
    struct job job = {.rank_main = give_up_often};
    struct wr_server_options options = {.size = 2, .bind_address = "127.0.0.1"};
    weir_error err;
    assert_ok(job_server_start(&job, &options, &err), &err);
    job_run_ranks(&job, 0, 2);
    all_opened(&job, 0, 2);
    job_server_stop(&job);
}

static void a_wrong_secret_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"JOB_SECRET=00112233445566778899aabbccddeeff", NULL};
    struct job job = {.rank_main = exchange, .config = wrong};
    struct wr_server_options options = {.size = 1, .bind_address = "127.0.0.1", .arg = &job.joined, .on_joined = job_count};
    weir_error err;
    assert_ok(job_server_start(&job, &options, &err), &err);
    job_run_ranks(&job, 0, 1);
    assert_int_equal(job.open_status[0], WEIR_ERR_LAUNCHER);
    assert_non_null(strstr(job.open_error[0].message, "secret"));
    job_server_stop(&job);
    assert_int_equal(job.joined, 0); /* it is the server that refuses */
}

/* Ends the connection of whoever comes, the second one with lies before it. */
static void *mislead(void *arg)
{
    const int *listen_fd = arg;
    struct pollfd p = {.fd = *listen_fd, .events = POLLIN};
    struct wr_boot_event event = {.kind = WR_BOOT_EVENT_JOB_ABORTED, .rank = 0, .reason = "a lie"};
    struct wr_buf lies = {0};
    wr_wire_write_event(&lies, &event);
    for (int n = 0; poll(&p, 1, 60000) > 0 && p.revents == POLLIN; n++) {
        int fd = accept(*listen_fd, NULL, NULL);
        if (fd < 0)
            break;
        if (n == 1 && !wr_sock_send_all(fd, lies.data, lies.len, WR_TIME_INF))
            perror("send");
        close(fd);
    }
    wr_buf_free(&lies);
    return NULL;
}

/* What an attempt met that came to nothing is forgotten: the next one joins a job that is whole. */
static void a_failed_attempt_leaves_nothing_behind(void **state)
{
    (void)state;
    char server[80];
    const char *const config[] = {server, NULL};
    struct job job = {.rank_main = exchange, .config = config};
    struct wr_server_options options = {.size = 3, .bind_address = "127.0.0.1"};
    union wr_sockaddr loopback;
    pthread_t thread;
    weir_error err;
    assert_true(wr_sock_numeric("127.0.0.1", &loopback));
    int listen_fd = wr_sock_listen(&loopback, 0);
    assert_true(listen_fd >= 0);
    assert_ok(job_server_start(&job, &options, &err), &err);
    snprintf(server, sizeof server, "JOB_SERVER=127.0.0.1:%d,%s", wr_sock_local_port(listen_fd), wr_server_address(job.server));
    pthread_create(&thread, NULL, mislead, &listen_fd);
    job_run_ranks(&job, 0, 3);
    shutdown(listen_fd, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(listen_fd);
    all_opened(&job, 0, 3);
    job_server_stop(&job);
}

static void a_wrong_size_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"JOB_SIZE=5", NULL};
    struct job job = {.rank_main = exchange, .config = wrong};
    struct wr_server_options options = {.size = 2, .bind_address = "127.0.0.1"};
    weir_error err;
    assert_ok(job_server_start(&job, &options, &err), &err);
    job_run_ranks(&job, 1, 1);
    assert_int_equal(job.open_status[1], WEIR_ERR_LAUNCHER);
    assert_non_null(strstr(job.open_error[1].message, "this job has 2 ranks"));
    job_server_stop(&job);
}

/* The owner learns why a process ended after its connection has ended. */
static void the_owners_reason_wins(void **state)
{
    (void)state;
    struct job job = {.size = 2};
    struct wr_server_options options = {.size = 2, .bind_address = "127.0.0.1", .arg = &job.lost, .on_lost = job_count};
    weir_error err;
    assert_ok(wr_server_create(&options, &job.server, &err), &err);
    wr_server_rank_lost(job.server, 1, "n5", "killed by signal 9");
    wr_server_rank_lost(job.server, 1, "n5", "twice");
    wr_server_rank_lost(job.server, 7, "n5", "out of range");
    job.wake_fd = eventfd(0, EFD_CLOEXEC);
    job.node[0] = -1;
    job.rank_main = exchange;
    pthread_create(&job.thread, NULL, job_serve, &job);
    job_run_ranks(&job, 0, 1); /* comes later, and is told all the same */
    assert_int_equal(job.open_status[0], WEIR_ERR_PEER_LOST);
    assert_int_equal(job.open_error[0].rank, 1);
    assert_string_equal(job.open_error[0].host, "n5");
    assert_non_null(strstr(job.open_error[0].message, "killed by signal 9"));
    job_server_stop(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_exchange_values),
        cmocka_unit_test(the_server_tells_who_shares_a_node),
        cmocka_unit_test(a_lost_rank_is_told_to_all),
        cmocka_unit_test(an_abort_reaches_all),
        cmocka_unit_test(missing_ranks_are_named),
        cmocka_unit_test(a_fence_can_be_tried_again),
        cmocka_unit_test(no_end_of_a_fence_is_missed),
        cmocka_unit_test(a_wrong_secret_is_refused),
        cmocka_unit_test(a_failed_attempt_leaves_nothing_behind),
        cmocka_unit_test(a_wrong_size_is_refused),
        cmocka_unit_test(the_owners_reason_wins),
    };
    return cmocka_run_group_tests_name("boot_server", tests, NULL, NULL);
}
