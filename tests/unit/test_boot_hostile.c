/* SPDX-License-Identifier: BSD-3-Clause */
/* Strangers send 10,000 random and mutated messages to the bootstrap server while a job comes and works through it. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "comm/boot/client.h"
#include "comm/boot/sock.h"
#include "comm/boot/wire.h"
#include "tests/unit/boot_job.h"

enum { SENDERS = 4, MESSAGES = 10000 / SENDERS, RANKS = 4, CROWD = 150 };

static int strangers_done; /* threads that are */

/* Works until the strangers are done. */
static void work(struct job *job, int rank, struct wr_boot *boot)
{
    weir_error err;
    char key[32];
    int rounds = 0, all_done = 0;
    while (!all_done) {
        void *got = NULL;
        size_t n = 0;
        char value[2] = {(char)('a' + rank), wr_load_acquire(&strangers_done) == SENDERS};
        snprintf(key, sizeof key, "round-%d", rounds++);
        JOB_CHECK(job, wr_boot_put(boot, key, value, sizeof value, WR_BOOT_JOB, &err) == WEIR_OK);
        JOB_CHECK(job, wr_boot_fence(boot, &err) == WEIR_OK);
        if (wr_boot_get(boot, 0, key, &got, &n, &err) != WEIR_OK || n != 2 || ((char *)got)[0] != 'a') {
            JOB_CHECK(job, !"the job was disturbed");
            break;
        }
        all_done = ((char *)got)[1]; /* rank 0 decides, so that all stop in the same round */
        free(got);
    }
    JOB_CHECK(job, wr_boot_close(boot, true, &err) == WEIR_OK);
}

static uint32_t next_random(uint32_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

/* One of: random bytes, a real message with some bytes changed, half of one, nothing, a huge length, an HTTP request. */
static void make_message(struct wr_buf *buf, uint32_t *seed)
{
    struct wr_wire_hello hello = {.rank = next_random(seed) % RANKS, .size = RANKS, .pid = 1, .node = -1, .host = "stranger"};
    buf->len = 0;
    switch (next_random(seed) % 6) {
    case 0:
        for (uint32_t i = next_random(seed) % 600; i; i--) {
            next_random(seed);
            wr_buf_add(buf, seed, 1);
        }
        return;
    case 1:
        wr_wire_write_hello(buf, &hello); /* of the right form, with a mac that is wrong */
        return;
    case 2:
        wr_wire_write_hello(buf, &hello);
        for (uint32_t i = 1 + next_random(seed) % 8; i; i--)
            buf->data[next_random(seed) % buf->len] ^= (char)(1 << next_random(seed) % 8);
        return;
    case 3:
        wr_wire_write_put(buf, "round-0", "evil", 4); /* what only ranks may send */
        wr_wire_write_number(buf, WR_WIRE_FENCE, 0);
        wr_wire_write_text(buf, WR_WIRE_ABORT, 1, "evil");
        return;
    case 4:
        wr_wire_write_hello(buf, &hello);
        buf->len = next_random(seed) % buf->len;
        return;
    default:
        wr_buf_str(buf, next_random(seed) % 2 ? "GET / HTTP/1.1\r\n\r\n" : "\xff\xff\xff\xff\x01\x02");
        return;
    }
}

/* A connection to the server, or -1. */
static int connect_to(const struct wr_server *server)
{
    union wr_sockaddr address;
    wr_sock_numeric("127.0.0.1", &address);
    wr_sock_set_port(&address, wr_server_port(server));
    return wr_sock_connect(&address, wr_deadline(5000000000));
}

struct sender {
    struct job *job;
    pthread_t thread;
    uint32_t seed;
};

static void *send_messages(void *arg)
{
    struct sender *sender = arg;
    struct job *job = sender->job;
    struct wr_buf buf = {0};
    uint32_t seed = sender->seed;
    int open[16], nopen = 0; /* some stay and say nothing more */
    for (int sent = 0; sent < MESSAGES;) {
        int fd = connect_to(job->server);
        if (fd < 0) {
            JOB_CHECK(job, errno == ECONNREFUSED || errno == ECONNRESET || errno == EADDRNOTAVAIL);
            usleep(1000);
            continue;
        }
        /* several messages a connection, until the server has had enough */
        for (int i = 0; i < 8 && sent < MESSAGES; i++, sent++) {
            make_message(&buf, &seed);
            if (send(fd, buf.data, buf.len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno != EAGAIN) {
                sent++;
                break;
            }
        }
        if (next_random(&seed) % 32 == 0 && nopen < 16)
            open[nopen++] = fd;
        else
            close(fd);
    }
    while (nopen)
        close(open[--nopen]);
    wr_buf_free(&buf);
    wr_add_acq_rel(&strangers_done, 1);
    return NULL;
}

static void count_lost(void *arg, int rank)
{
    struct job *job = arg;
    (void)rank;
    job->lost++;
}

static void count_joined(void *arg, int rank)
{
    struct job *job = arg;
    (void)rank;
    wr_add_acq_rel(&job->joined, 1);
}

static void strangers_do_not_disturb(void **state)
{
    (void)state;
    struct job job = {.rank_main = work};
    struct wr_server_options options = {.size = RANKS, .bind_address = "127.0.0.1", .arg = &job, .on_lost = count_lost,
                                        .on_joined = count_joined};
    struct sender senders[SENDERS];
    weir_error err;
    assert_ok(job_server_start(&job, &options, &err), &err);
    for (int i = 0; i < SENDERS; i++) {
        senders[i] = (struct sender){.job = &job, .seed = 2463534242u + (uint32_t)i};
        pthread_create(&senders[i].thread, NULL, send_messages, &senders[i]);
    }
    job_run_ranks(&job, 0, RANKS); /* the flood has begun */
    for (int i = 0; i < SENDERS; i++)
        pthread_join(senders[i].thread, NULL);
    job_server_stop(&job);
    for (int rank = 0; rank < RANKS; rank++)
        if (job.open_status[rank] != WEIR_OK)
            fail_msg("rank %d: %s", rank, job.open_error[rank].message);
    assert_int_equal(job.failures, 0);
    assert_int_equal(job.lost, 0);
    assert_int_equal(job.joined, RANKS);
}

/* Lets the server work until the rank's socket holds a message. True when it is of that type. */
static bool serve_until_answer(struct wr_server *server, int fd, enum wr_wire_type type)
{
    struct wr_frame frame;
    uint8_t bytes[512];
    for (int64_t end = wr_deadline(20000000000); !wr_deadline_passed(end);) {
        wr_server_progress(server);
        ssize_t n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT | MSG_PEEK);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return false;
        if (n > 0 && wr_wire_frame(bytes, (size_t)n, sizeof bytes, &frame) > 0)
            return frame.type == type;
        usleep(1000);
    }
    return false;
}

/* A crowd comes after a rank has answered the challenge and before the server has read the answer. */
static void a_crowd_pushes_no_rank_out(void **state)
{
    (void)state;
    int joined = 0, crowd[CROWD];
    struct wr_server_options options = {.size = 2, .bind_address = "127.0.0.1", .arg = &joined, .on_joined = job_count};
    struct wr_server *server;
    struct wr_wire_hello hello = {.rank = 1, .size = 2, .pid = 1, .node = -1, .host = "here"};
    struct wr_frame frame;
    struct wr_buf answer = {0};
    uint8_t bytes[512], nonce[WR_WIRE_NONCE], secret[WR_SECRET_BYTES];
    weir_error err;
    assert_ok(wr_server_create(&options, &server, &err), &err);
    assert_true(wr_secret_parse(wr_server_secret(server), secret));
    int fd = connect_to(server);
    assert_true(fd >= 0);
    assert_true(serve_until_answer(server, fd, WR_WIRE_CHALLENGE));
    ssize_t n = recv(fd, bytes, sizeof bytes, 0);
    assert_int_equal(wr_wire_frame(bytes, (size_t)n, sizeof bytes, &frame), 1);
    assert_true(wr_wire_read_challenge(&frame, nonce));
    wr_wire_hello_mac(secret, nonce, &hello, hello.mac);
    wr_wire_write_hello(&answer, &hello);
    for (int i = 0; i < CROWD; i++)
        crowd[i] = connect_to(server);
    assert_true(wr_sock_send_all(fd, answer.data, answer.len, WR_TIME_INF));
    wr_buf_free(&answer);
    usleep(400000); /* a rank that answers late would lose its place to the crowd now */
    assert_true(serve_until_answer(server, fd, WR_WIRE_WELCOME));
    assert_int_equal(joined, 1);
    /* and the crowd does not keep out who comes behind it */
    int late = connect_to(server);
    assert_true(late >= 0);
    assert_true(serve_until_answer(server, late, WR_WIRE_CHALLENGE));
    close(late);
    close(fd);
    for (int i = 0; i < CROWD; i++)
        if (crowd[i] >= 0)
            close(crowd[i]);
    wr_server_destroy(server);
}

/* Someone who only connects is dropped after some seconds, and the descriptor is given back. */
static void silence_is_dropped(void **state)
{
    (void)state;
    struct job job = {.rank_main = work};
    struct wr_server_options options = {.size = 1, .bind_address = "127.0.0.1"};
    weir_error err;
    char bytes[256];
    assert_ok(job_server_start(&job, &options, &err), &err);
    int fd = connect_to(job.server);
    assert_true(fd >= 0);
    int64_t start = wr_clock_ns();
    struct pollfd p = {.fd = fd, .events = POLLIN};
    ssize_t n;
    do {
        assert_int_equal(poll(&p, 1, 60000), 1);
        n = recv(fd, bytes, sizeof bytes, 0); /* first the challenge */
    } while (n > 0);
    assert_true(wr_clock_ns() - start > 2000000000);
    close(fd);
    job_server_stop(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_do_not_disturb),
        cmocka_unit_test(a_crowd_pushes_no_rank_out),
        cmocka_unit_test(silence_is_dropped),
    };
    return cmocka_run_group_tests_name("boot_hostile", tests, NULL, NULL);
}
