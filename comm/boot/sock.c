/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/boot/sock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

enum { BACKLOG = 4096, KEEP_IDLE_S = 10, KEEP_INTERVAL_S = 5, KEEP_COUNT = 3, UNANSWERED_MS = 25000 };

bool wr_sock_numeric(const char *text, union wr_sockaddr *address)
{
    memset(address, 0, sizeof *address);
    if (inet_pton(AF_INET, text, &address->in.sin_addr) == 1)
        address->any.sa_family = AF_INET;
    else if (inet_pton(AF_INET6, text, &address->in6.sin6_addr) == 1)
        address->any.sa_family = AF_INET6;
    else
        return false;
    return true;
}

socklen_t wr_sock_len(const union wr_sockaddr *address)
{
    return address->any.sa_family == AF_INET ? sizeof address->in : sizeof address->in6;
}

void wr_sock_set_port(union wr_sockaddr *address, int port)
{
    if (address->any.sa_family == AF_INET)
        address->in.sin_port = htons((uint16_t)port);
    else
        address->in6.sin6_port = htons((uint16_t)port);
}

static int close_keeping_errno(int fd)
{
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

int wr_sock_listen(const union wr_sockaddr *address, int port)
{
    union wr_sockaddr a = *address;
    int off = 0, on = 1;
    int fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (a.any.sa_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (port)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    wr_sock_set_port(&a, port);
    if (bind(fd, &a.any, wr_sock_len(&a)) || listen(fd, BACKLOG))
        return close_keeping_errno(fd);
    return fd;
}

int wr_sock_local_port(int fd)
{
    union wr_sockaddr a;
    socklen_t len = sizeof a;
    if (getsockname(fd, &a.any, &len))
        return -1;
    return ntohs(a.any.sa_family == AF_INET ? a.in.sin_port : a.in6.sin6_port);
}

void wr_sock_tune(int fd)
{
    int on = 1, idle = KEEP_IDLE_S, interval = KEEP_INTERVAL_S, count = KEEP_COUNT, unanswered = UNANSWERED_MS;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered, sizeof unanswered);
}

/* Waits for an event by a deadline; false with errno. */
static bool wait_for(int fd, short events, int64_t deadline)
{
    struct pollfd p = {.fd = fd, .events = events};
    for (;;) {
        int n = poll(&p, 1, wr_deadline_poll_ms(deadline));
        if (n > 0)
            return true;
        if (n < 0 && errno != EINTR)
            return false;
        if (wr_deadline_passed(deadline)) {
            errno = ETIMEDOUT;
            return false;
        }
    }
}

int wr_sock_connect(const union wr_sockaddr *address, int64_t deadline)
{
    int error = 0;
    socklen_t len = sizeof error;
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, &address->any, wr_sock_len(address)) && errno != EINPROGRESS)
        return close_keeping_errno(fd);
    if (!wait_for(fd, POLLOUT, deadline) || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len))
        return close_keeping_errno(fd);
    if (error) {
        errno = error;
        return close_keeping_errno(fd);
    }
    wr_sock_tune(fd);
    return fd;
}

bool wr_sock_send_all(int fd, const void *data, size_t len, int64_t deadline)
{
    for (const char *p = data; len;) {
        ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
        if (n > 0) {
            p += n;
            len -= (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            if (!wait_for(fd, POLLOUT, deadline))
                return false;
        } else if (n < 0 && errno != EINTR) {
            return false;
        }
    }
    return true;
}
