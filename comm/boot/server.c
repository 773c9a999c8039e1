/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/boot/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/boot/server_impl.h"
#include "comm/boot/siphash.h"
#include "comm/boot/sock.h"

#define STRANGER_NS      5000000000 /* to prove who it is */
#define STRANGERS_EXTRA  64         /* more than the ranks that may all come at once */
#define ANSWER_NS        250000000  /* to prove it while others wait for the place */
#define ACCEPT_PAUSE_NS  100000000
#define OUT_HIGH         ((size_t)32 << 20) /* a rank that does not read its answers is not read from */
#define READ_PER_WAKE_UP ((size_t)1 << 20)
#define ROUNDS           64

/* ---- creation ---- */

static weir_status open_listener(struct wr_server *s, weir_error *err)
{
    union wr_sockaddr any6 = {.in6 = {.sin6_family = AF_INET6}}, any4 = {.in = {.sin_family = AF_INET}}, a;
    const char *bind_address = s->options.bind_address;
    if (!bind_address) {
        if ((s->listen_fd = wr_sock_listen(&any6, s->options.port)) < 0)
            s->listen_fd = wr_sock_listen(&any4, s->options.port);
    } else if (!wr_sock_numeric(bind_address, &a)) {
        return wr_error_set(err, WEIR_ERR_INVALID, "give a numeric address such as 127.0.0.1",
                            "cannot listen on '%s': it is not a numeric address", bind_address);
    } else {
        s->listen_fd = wr_sock_listen(&a, s->options.port);
    }
    if (s->listen_fd < 0)
        return wr_error_errno(err, WEIR_ERR_SYSTEM, errno, "check the limits on sockets and the address",
                              "cannot open a listening socket on %s port %d", bind_address ? bind_address : "any address",
                              s->options.port);
    s->port = wr_sock_local_port(s->listen_fd);
    if (!bind_address)
        bind_address = "0.0.0.0";
    snprintf(s->address, sizeof s->address, strchr(bind_address, ':') ? "[%s]:%d" : "%s:%d", bind_address, s->port);
    return WEIR_OK;
}

weir_status wr_server_create(const struct wr_server_options *options, struct wr_server **server, weir_error *err)
{
    if (options->size < 1)
        return wr_error_set(err, WEIR_ERR_INVALID, "start at least one rank", "a job of %d ranks", options->size);
    struct wr_server *s = calloc(1, sizeof *s);
    if (!s)
        return wr_error_memory(err, sizeof *s, "the bootstrap server");
    weir_status status;
    s->options = *options;
    s->epoll_fd = s->listen_fd = -1;
    wr_list_init(&s->strangers);
    wr_list_init(&s->joined);
    wr_list_init(&s->dead);
    wr_list_init(&s->sessions);
    s->ranks = calloc((size_t)options->size, sizeof *s->ranks);
    if (!s->ranks) {
        status = wr_error_memory(err, (size_t)options->size * sizeof *s->ranks, "the bootstrap server");
        goto destroy;
    }
    if (getrandom(s->secret, sizeof s->secret, 0) != (ssize_t)sizeof s->secret) {
        status = wr_error_errno(err, WEIR_ERR_SYSTEM, errno, NULL, "getrandom failed");
        goto destroy;
    }
    for (int i = 0; i < WR_SECRET_BYTES; i++)
        snprintf(s->secret_hex + 2 * i, 3, "%02x", s->secret[i]);
    status = open_listener(s, err);
    if (status != WEIR_OK)
        goto destroy;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (s->epoll_fd < 0 || epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->listen_fd, &event)) {
        status = wr_error_errno(err, WEIR_ERR_SYSTEM, errno, "check the limit on open files", "epoll failed");
        goto destroy;
    }
    *server = s;
    return WEIR_OK;
destroy:
    wr_server_destroy(s);
    return status;
}

static void free_connections(struct wr_list *list)
{
    struct conn *conn, *next;
    wr_list_for_each_safe(conn, next, list, link) {
        wr_list_remove(&conn->link);
        if (conn->fd >= 0)
            close(conn->fd);
        wr_buf_free(&conn->in);
        wr_buf_free(&conn->out);
        free(conn);
    }
}

void wr_server_destroy(struct wr_server *s)
{
    if (!s)
        return;
    free_connections(&s->strangers);
    free_connections(&s->joined);
    free_connections(&s->dead);
    wr_job_free(s);
    if (s->listen_fd >= 0)
        close(s->listen_fd);
    if (s->epoll_fd >= 0)
        close(s->epoll_fd);
    free(s->ranks);
    free(s);
}

const char *wr_server_address(const struct wr_server *server)
{
    return server->address;
}

int wr_server_port(const struct wr_server *server)
{
    return server->port;
}

const char *wr_server_secret(const struct wr_server *server)
{
    return server->secret_hex;
}

int wr_server_fd(const struct wr_server *server)
{
    return server->epoll_fd;
}

/* ---- connections ---- */

static void watch(struct conn *conn)
{
    size_t waiting = conn->out.len - conn->out_sent;
    uint32_t events = (waiting < OUT_HIGH ? EPOLLIN : 0u) | (waiting ? EPOLLOUT : 0u);
    if (events == conn->epoll_events)
        return;
    struct epoll_event event = {.events = events, .data.ptr = conn};
    if (!epoll_ctl(conn->server->epoll_fd, EPOLL_CTL_MOD, conn->fd, &event))
        conn->epoll_events = events;
}

void wr_conn_drop(struct conn *conn, const char *reason)
{
    struct wr_server *s = conn->server;
    if (conn->state == CONN_DEAD)
        return;
    bool was_joined = conn->state == CONN_JOINED;
    if (!was_joined) {
        s->nstrangers--;
        wr_debug(s->options.log, BOOT, "dropped a stranger: %s", reason);
    }
    conn->state = CONN_DEAD;
    close(conn->fd); /* also leaves the epoll set */
    conn->fd = -1;
    wr_list_remove(&conn->link);
    wr_list_push_back(&s->dead, &conn->link);
    if (was_joined)
        wr_job_left(conn, reason);
}

/*
 * Lets a connection end: the event loop will read the end of file and drop it. Sending must not drop a connection itself,
 * because it happens while the lists of connections are walked.
 */
static void hang_up(struct conn *conn)
{
    conn->out.len = conn->out_sent = 0;
    shutdown(conn->fd, SHUT_RDWR);
}

static void flush(struct conn *conn)
{
    while (conn->out_sent < conn->out.len) {
        ssize_t n = send(conn->fd, conn->out.data + conn->out_sent, conn->out.len - conn->out_sent, MSG_NOSIGNAL);
        if (n > 0) {
            conn->out_sent += (size_t)n;
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            hang_up(conn);
            return;
        }
    }
    if (conn->out_sent == conn->out.len)
        conn->out_sent = conn->out.len = 0;
    watch(conn);
}

void wr_conn_send(struct conn *conn, const struct wr_buf *frame)
{
    if (conn->state == CONN_DEAD)
        return;
    if (!frame->failed)
        wr_buf_add(&conn->out, frame->data, frame->len);
    if (frame->failed || conn->out.failed)
        hang_up(conn); /* out of memory */
    else
        flush(conn);
}

/* ---- the handshake ---- */

/* Says why; the connection is dropped after it. */
static bool refuse(struct conn *conn, enum wr_wire_refusal number, const char *why)
{
    struct wr_buf answer = {0};
    wr_wire_write_text(&answer, WR_WIRE_REFUSED, number, why);
    wr_conn_send(conn, &answer);
    wr_buf_free(&answer);
    return false;
}

static bool handle_hello(struct conn *conn, const struct wr_frame *frame)
{
    struct wr_server *s = conn->server;
    struct wr_wire_hello hello;
    struct wr_wire_welcome welcome;
    struct wr_buf answer = {0};
    uint8_t mac[WR_WIRE_MAC];
    char refusal[256];
    if (!wr_wire_read_hello(frame, &hello))
        return false;
    wr_wire_hello_mac(s->secret, conn->nonce, &hello, mac);
    if (!wr_equal_constant_time(mac, hello.mac, sizeof mac))
        return refuse(conn, WR_WIRE_REFUSED_SECRET, "the job's secret does not match");
    if (!wr_job_admit(conn, &hello, refusal, sizeof refusal))
        return refuse(conn, WR_WIRE_REFUSED_RANK, refusal);
    s->nstrangers--;
    wr_list_remove(&conn->link);
    wr_list_push_back(&s->joined, &conn->link);
    conn->state = CONN_JOINED;
    welcome.session = conn->session->number;
    wr_wire_welcome_mac(s->secret, conn->nonce, hello.nonce, welcome.session, welcome.mac);
    wr_wire_write_welcome(&answer, &welcome);
    wr_conn_send(conn, &answer);
    wr_buf_free(&answer);
    wr_job_admitted(conn);
    return true;
}

/* Takes whole frames from what has come in; a connection that sends anything else is dropped. */
static void handle_input(struct conn *conn)
{
    size_t done = 0;
    while (conn->state != CONN_DEAD) {
        struct wr_frame frame;
        size_t max = conn->state == CONN_STRANGER ? WR_WIRE_STRANGER_MAX : WR_WIRE_PAYLOAD_MAX;
        int found = wr_wire_frame(conn->in.data + done, conn->in.len - done, max, &frame);
        if (!found)
            break;
        if (found > 0)
            done += WR_WIRE_HEADER + frame.len;
        if (found < 0 || !(conn->state == CONN_STRANGER ? handle_hello(conn, &frame) : wr_job_frame(conn, &frame)))
            wr_conn_drop(conn, "it sent something that is not of this job");
    }
    if (done && conn->state != CONN_DEAD) {
        memmove(conn->in.data, conn->in.data + done, conn->in.len - done);
        conn->in.len -= done;
    }
}

static void handle_readable(struct conn *conn)
{
    char chunk[16384];
    for (size_t total = 0; conn->state != CONN_DEAD && total < READ_PER_WAKE_UP;) {
        size_t want = conn->state == CONN_STRANGER ? WR_WIRE_HEADER + WR_WIRE_STRANGER_MAX - conn->in.len : sizeof chunk;
        ssize_t n = recv(conn->fd, chunk, want, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            wr_conn_drop(conn, "its connection ended without a farewell");
            return;
        }
        total += (size_t)n;
        wr_buf_add(&conn->in, chunk, (size_t)n);
        if (conn->in.failed)
            wr_conn_drop(conn, "the server is out of memory");
        else
            handle_input(conn);
    }
}

/* ---- strangers ---- */

static bool has_room(const struct wr_server *s)
{
    return s->nstrangers < s->options.size + STRANGERS_EXTRA;
}

static void pause_accepting(struct wr_server *s, int64_t until)
{
    epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, s->listen_fd, NULL); /* it would stay readable */
    s->accept_again = until;
    s->full = !has_room(s);
}

static void resume_accepting(struct wr_server *s, int64_t now)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (s->accept_again && (s->accept_again <= now || (s->full && has_room(s))) &&
        !epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->listen_fd, &event))
        s->accept_again = 0;
}

/* Drops a stranger whose time is over, unless its proof lies unread in the socket: a server that was kept from running
 * must not blame the rank. */
static void give_up_stranger(struct conn *conn, const char *reason)
{
    handle_readable(conn);
    if (conn->state == CONN_STRANGER)
        wr_conn_drop(conn, reason);
}

static void accept_one(struct wr_server *s, int fd)
{
    struct conn *conn = calloc(1, sizeof *conn);
    struct wr_buf frame = {0};
    if (!conn) {
        close(fd);
        return;
    }
    conn->server = s;
    conn->fd = fd;
    conn->rank = -1;
    conn->epoll_events = EPOLLIN;
    conn->deadline = wr_deadline(STRANGER_NS);
    wr_list_push_back(&s->strangers, &conn->link);
    s->nstrangers++;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
    wr_sock_tune(fd);
    if (getrandom(conn->nonce, sizeof conn->nonce, 0) != (ssize_t)sizeof conn->nonce ||
        epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &event)) {
        wr_conn_drop(conn, "the server is out of resources");
        return;
    }
    wr_wire_write_challenge(&frame, conn->nonce);
    wr_conn_send(conn, &frame);
    wr_buf_free(&frame);
}

/*
 * Takes one of those who wait to be accepted. One a round: those inside get their turn first, so that a flood cannot push
 * out a rank that has answered or was not given the time to answer.
 */
static void accept_next(struct wr_server *s)
{
    if (!has_room(s)) {
        struct conn *oldest = wr_list_first(&s->strangers, struct conn, link);
        int64_t its_turn = oldest->deadline - STRANGER_NS + ANSWER_NS;
        if (its_turn > wr_clock_ns()) {
            pause_accepting(s, its_turn);
            return;
        }
        give_up_stranger(oldest, "others wait for its place");
    }
    int fd = accept4(s->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        accept_one(s, fd);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
        if (!wr_list_empty(&s->strangers))
            give_up_stranger(wr_list_first(&s->strangers, struct conn, link), "no descriptors are left");
        pause_accepting(s, wr_deadline(ACCEPT_PAUSE_NS));
        wr_warn(s->options.log, BOOT, "the bootstrap server cannot accept a connection for now: raise the limit on open files");
    }
}

/* ---- the owner's calls ---- */

static void expire(struct wr_server *s)
{
    int64_t now = wr_clock_ns();
    while (!wr_list_empty(&s->strangers)) {
        struct conn *oldest = wr_list_first(&s->strangers, struct conn, link);
        if (oldest->deadline > now)
            break;
        give_up_stranger(oldest, "it did not say who it is in time");
    }
    resume_accepting(s, now);
    for (int rank = 0; s->nlost_pending && rank < s->options.size; rank++) {
        struct rank_state *r = &s->ranks[rank];
        if (r->lost_deadline && r->lost_deadline <= now)
            wr_job_announce_lost(s, rank, r->host, r->lost_reason);
    }
}

void wr_server_progress(struct wr_server *s)
{
    struct epoll_event events[64];
    if (s->in_progress) /* called by a callback */
        return;
    s->in_progress = true;
    for (int round = 0; round < ROUNDS; round++) {
        int n = epoll_wait(s->epoll_fd, events, (int)WR_ARRAY_SIZE(events), 0);
        if (n <= 0)
            break;
        for (int i = 0; i < n; i++) {
            struct conn *conn = events[i].data.ptr;
            if (!conn) {
                accept_next(s);
                continue;
            }
            if (conn->state != CONN_DEAD && events[i].events & EPOLLOUT)
                flush(conn);
            if (conn->state != CONN_DEAD && events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
                handle_readable(conn);
        }
        free_connections(&s->dead);
        resume_accepting(s, wr_clock_ns());
    }
    expire(s);
    free_connections(&s->dead);
    s->in_progress = false;
}

int wr_server_timeout_ms(const struct wr_server *s)
{
    int64_t first = WR_TIME_INF;
    if (!wr_list_empty(&s->strangers))
        first = wr_list_first(&s->strangers, struct conn, link)->deadline;
    if (s->accept_again)
        first = WR_MIN(first, s->accept_again);
    for (int rank = 0; s->nlost_pending && rank < s->options.size; rank++)
        if (s->ranks[rank].lost_deadline)
            first = WR_MIN(first, s->ranks[rank].lost_deadline);
    return wr_deadline_poll_ms(first);
}

void wr_server_rank_lost(struct wr_server *s, int rank, const char *host, const char *reason)
{
    if (rank < 0 || rank >= s->options.size)
        return;
    wr_server_progress(s); /* its farewell may lie unread in its socket */
    struct rank_state *r = &s->ranks[rank];
    if (r->lost || (r->farewelled && !r->live))
        return;
    wr_job_announce_lost(s, rank, host ? host : r->host, reason);
}

bool wr_server_done(const struct wr_server *s)
{
    for (int rank = 0; rank < s->options.size; rank++)
        if (!s->ranks[rank].farewelled || s->ranks[rank].live)
            return false;
    const struct conn *conn;
    wr_list_for_each(conn, &s->joined, link)
        if (conn->out.len)
            return false;
    return true;
}
