/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/transport/shm/mail.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

enum { MAGIC = 0x7765724d, BACKLOG = 4096, MOST_CALLERS = 1024 };

struct caller {
    struct wr_list link;
    int fd;
};

struct arrived {
    struct wr_list link;
    struct wr_letter letter;
    int fd;
};

static socklen_t socket_name(struct sockaddr_un *un, const char *prefix, const char *name)
{
    size_t n = strlen(prefix), m = strnlen(name, sizeof ((struct wr_mail_address *)0)->name);
    memset(un, 0, sizeof *un);
    un->sun_family = AF_UNIX;
    memcpy(un->sun_path + 1, prefix, n);
    memcpy(un->sun_path + 1 + n, name, m);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n + m);
}

static weir_status bound_socket(int type, const char *prefix, const char *name, int *out, weir_error *err)
{
    struct sockaddr_un un;
    socklen_t len = socket_name(&un, prefix, name);
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return wr_error_errno(err, WEIR_ERR_SYSTEM, errno, "raise the limit of open files (ulimit -n)",
                              "no local socket for the ranks of this node");
    if (bind(fd, (struct sockaddr *)&un, len) || (type == SOCK_SEQPACKET && listen(fd, BACKLOG))) {
        int e = errno;
        close(fd);
        return wr_error_errno(err, WEIR_ERR_UNSUPPORTED, e, "shared memory needs abstract local sockets",
                              "cannot bind the local socket of this rank");
    }
    *out = fd;
    return WEIR_OK;
}

weir_status wr_mailbox_open(struct wr_mailbox *box, weir_error *err)
{
    uint8_t random[16 + sizeof box->address.nonce];
    memset(box, 0, sizeof *box);
    box->listener = box->bell = -1;
    wr_list_init(&box->arrived);
    wr_list_init(&box->callers);
    wr_list_init(&box->ties);
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return wr_error_errno(err, WEIR_ERR_SYSTEM, errno, NULL, "the kernel gave no random numbers");
    char *p = box->address.name;
    memcpy(p, "weir-", 5);
    for (int i = 0; i < 16; i++) {
        p[5 + 2 * i] = "0123456789abcdef"[random[i] >> 4];
        p[6 + 2 * i] = "0123456789abcdef"[random[i] & 15];
    }
    memcpy(box->address.nonce, random + 16, sizeof box->address.nonce);
    weir_status status = bound_socket(SOCK_SEQPACKET, "", p, &box->listener, err);
    if (status == WEIR_OK)
        status = bound_socket(SOCK_DGRAM, "b", p, &box->bell, err);
    if (status != WEIR_OK)
        wr_mailbox_close(box);
    return status;
}

static void close_callers(struct wr_list *head)
{
    struct caller *c, *tmp;
    wr_list_for_each_safe(c, tmp, head, link) {
        wr_list_remove(&c->link);
        close(c->fd);
        free(c);
    }
}

void wr_mailbox_close(struct wr_mailbox *box)
{
    struct arrived *a, *tmp;
    wr_list_for_each_safe(a, tmp, &box->arrived, link) {
        wr_list_remove(&a->link);
        if (a->fd >= 0)
            close(a->fd);
        free(a);
    }
    close_callers(&box->callers);
    close_callers(&box->ties);
    if (box->listener >= 0)
        close(box->listener);
    if (box->bell >= 0)
        close(box->bell);
    box->listener = box->bell = -1;
}

/* A connection to the box, or the reason why there is none. */
static weir_status call(const struct wr_mail_address *to, int64_t deadline, int *out, weir_error *err)
{
    struct sockaddr_un un;
    socklen_t len = socket_name(&un, "", to->name);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return wr_error_errno(err, WEIR_ERR_SYSTEM, errno, "raise the limit of open files (ulimit -n)",
                              "no local socket for a letter");
    while (connect(fd, (struct sockaddr *)&un, len)) {
        int e = errno;
        if ((e == EAGAIN || e == EINTR) && !wr_deadline_passed(deadline)) {
            poll(NULL, 0, 1); /* too many letters are waiting there */
            continue;
        }
        close(fd);
        if (e == ECONNREFUSED)
            return wr_error_set(err, WEIR_ERR_PEER_LOST, "look at the other rank's output",
                                "the peer's local socket is gone");
        return wr_error_errno(err, e == EAGAIN ? WEIR_ERR_TIMEOUT : WEIR_ERR_SYSTEM, e, NULL,
                              "cannot reach the peer's local socket");
    }
    *out = fd;
    return WEIR_OK;
}

/* Writes one letter to a connection. */
static weir_status post(int sock, const struct wr_letter *letter, int fd, weir_error *err)
{
    struct iovec iov = {(void *)(uintptr_t)letter, sizeof *letter};
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (fd >= 0) {
        memset(&control, 0, sizeof control);
        msg.msg_control = control.room;
        msg.msg_controllen = sizeof control.room;
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    ssize_t n;
    do
        n = sendmsg(sock, &msg, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n == (ssize_t)sizeof *letter)
        return WEIR_OK;
    if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
        return wr_error_set(err, WEIR_ERR_PEER_LOST, "look at the other rank's output", "the peer's local socket is gone");
    return wr_error_errno(err, WEIR_ERR_SYSTEM, errno, NULL, "cannot send a letter to a rank of this node");
}

weir_status wr_mail_send(const struct wr_mail_address *to, struct wr_letter *letter, int fd, int64_t deadline,
                         weir_error *err)
{
    int sock;
    letter->magic = MAGIC;
    memcpy(letter->nonce, to->nonce, sizeof letter->nonce);
    weir_status status = call(to, deadline, &sock, err);
    if (status != WEIR_OK)
        return status;
    status = post(sock, letter, fd, err);
    close(sock); /* what was sent stays readable */
    return status;
}

weir_status wr_mail_tie(const struct wr_mail_address *to, int sender, int *fd, pid_t *pid, weir_error *err)
{
    struct wr_letter letter = {.magic = MAGIC, .kind = WR_LETTER_TIE, .sender = sender};
    struct ucred cred = {0};
    socklen_t len = sizeof cred;
    int sock;
    weir_status status = call(to, wr_deadline(1000000000), &sock, err);
    if (status != WEIR_OK)
        return status;
    memcpy(letter.nonce, to->nonce, sizeof letter.nonce);
    status = post(sock, &letter, -1, err);
    if (status == WEIR_OK && (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) || cred.uid != geteuid()))
        status = wr_error_set(err, WEIR_ERR_PROTOCOL, NULL, "the peer's local socket belongs to another user");
    if (status != WEIR_OK) {
        close(sock);
        return status;
    }
    *fd = sock;
    *pid = cred.pid;
    return WEIR_OK;
}

/* Reads a connection's letter: 1 a letter, 0 not yet, -1 nothing will come of it. */
static int receive(struct wr_mailbox *box, int sock, struct wr_letter *letter, int *fd)
{
    struct iovec iov = {letter, sizeof *letter};
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(4 * sizeof(int))];
    } control;
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
    struct ucred cred = {0};
    socklen_t len = sizeof cred;
    *fd = -1;
    ssize_t n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
            int got;
            memcpy(&got, CMSG_DATA(c) + i * sizeof got, sizeof got);
            if (*fd >= 0)
                close(*fd);
            *fd = got;
        }
    }
    if (n == (ssize_t)sizeof *letter && letter->magic == MAGIC &&
        !memcmp(letter->nonce, box->address.nonce, sizeof letter->nonce) &&
        !getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) && cred.uid == geteuid()) {
        letter->pid = cred.pid;
        return 1;
    }
    if (*fd >= 0)
        close(*fd);
    return -1;
}

/* Puts a letter among those that arrived. */
static void keep(struct wr_mailbox *box, const struct wr_letter *letter, int fd)
{
    struct arrived *a = malloc(sizeof *a);
    if (!a) { /* its receiver will run into the deadline */
        if (fd >= 0)
            close(fd);
        return;
    }
    a->letter = *letter;
    a->fd = fd;
    wr_list_push_back(&box->arrived, &a->link);
}

void wr_mail_collect(struct wr_mailbox *box)
{
    for (int i = 0; i < MOST_CALLERS; i++) {
        int sock = accept4(box->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (sock < 0)
            break;
        struct caller *c = malloc(sizeof *c);
        if (!c) {
            close(sock);
            break;
        }
        c->fd = sock;
        wr_list_push_back(&box->callers, &c->link);
    }
    struct caller *c, *tmp;
    wr_list_for_each_safe(c, tmp, &box->callers, link) {
        struct wr_letter letter;
        int fd, got = receive(box, c->fd, &letter, &fd);
        if (!got)
            continue;
        wr_list_remove(&c->link);
        if (got > 0 && letter.kind == WR_LETTER_TIE) {
            if (fd >= 0)
                close(fd);
            wr_list_push_back(&box->ties, &c->link);
            continue;
        }
        if (got > 0)
            keep(box, &letter, fd);
        close(c->fd);
        free(c);
    }
    struct pollfd p = {.events = 0};
    wr_list_for_each_safe(c, tmp, &box->ties, link) {
        p.fd = c->fd;
        if (poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR))) {
            wr_list_remove(&c->link);
            close(c->fd);
            free(c);
        }
    }
}

weir_status wr_mail_take(struct wr_mailbox *box, const struct wr_mail_address *from, int kind, int sender, uint64_t tag,
                         int64_t deadline, struct wr_letter *letter, int *fd, weir_error *err)
{
    bool gone = false;
    for (;;) {
        struct arrived *a;
        wr_mail_collect(box);
        wr_list_for_each(a, &box->arrived, link) {
            if (a->letter.kind != kind || a->letter.sender != sender || a->letter.tag != tag)
                continue;
            *letter = a->letter;
            *fd = a->fd;
            wr_list_remove(&a->link);
            free(a);
            return WEIR_OK;
        }
        if (gone)
            return wr_error_set(err, WEIR_ERR_PEER_LOST, "look at that rank's output",
                                "rank %d ended before it handed over shared memory", sender);
        if (wr_deadline_passed(deadline))
            return wr_error_set(err, WEIR_ERR_TIMEOUT, "see whether that rank hangs or computes",
                                "rank %d did not hand over shared memory in time", sender);
        struct pollfd p = {.fd = box->listener, .events = POLLIN};
        int ms = wr_deadline_poll_ms(deadline), most = wr_list_empty(&box->callers) ? 50 : 1;
        if (poll(&p, 1, ms < 0 || ms > most ? most : ms) == 0)
            gone = !wr_mail_alive(from); /* a last look follows: it may have sent and left */
    }
}

bool wr_mail_alive(const struct wr_mail_address *to)
{
    struct sockaddr_un un;
    socklen_t len = socket_name(&un, "b", to->name);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return true;
    bool alive = !connect(fd, (struct sockaddr *)&un, len) || errno != ECONNREFUSED;
    close(fd);
    return alive;
}

void wr_mail_ring(struct wr_mailbox *box, const struct wr_mail_address *to)
{
    struct sockaddr_un un;
    socklen_t len = socket_name(&un, "b", to->name);
    /* A full bell is rung already, and a box that is gone needs no bell. */
    ssize_t n = sendto(box->bell, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&un, len);
    (void)n;
}

void wr_mail_silence(struct wr_mailbox *box)
{
    char byte[8];
    while (recv(box->bell, byte, sizeof byte, MSG_DONTWAIT) >= 0)
        ;
}
