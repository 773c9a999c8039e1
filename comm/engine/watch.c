/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/engine/watch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/list.h"
#include "base/compiler.h"
#include "base/str.h"

enum {
    MOST_ADDRESSES = 8,
    BACKLOG = 4096, /* the kernel completes connections up to here while this rank computes */
    GOODBYE = 'B'
};

/* What is published: big-endian IPv4 addresses and a port. */
struct address {
    uint16_t port, count;
    uint32_t ip[MOST_ADDRESSES];
};

/* A connection: to a peer that is watched, or from one that watches (peer -1). */
struct connection {
    struct wr_list link;
    int fd, peer;
    bool established;
    struct address address;
    unsigned next; /* the next address to try */
};

struct wr_watch {
    struct wr_watch_params params;
    int listener, events;
    struct address address;
    struct wr_list connections;
};

/* ---- sockets ---- */

/* The addresses of this host's interfaces; the loopback only when there is nothing else: on another host it would be that one. */
static void find_addresses(struct address *a)
{
    struct ifaddrs *list = NULL;
    if (!getifaddrs(&list))
        for (struct ifaddrs *i = list; i && a->count < MOST_ADDRESSES; i = i->ifa_next)
            if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET && i->ifa_flags & IFF_UP &&
                !(i->ifa_flags & IFF_LOOPBACK))
                a->ip[a->count++] = ((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr.s_addr;
    freeifaddrs(list);
    if (!a->count)
        a->ip[a->count++] = htonl(INADDR_LOOPBACK);
}

/* A silent peer is given up after the timeout: the kernel asks it three times meanwhile. */
static void set_timeouts(int fd, int64_t timeout_ns)
{
    int ms = (int)WR_MIN(timeout_ns / 1000000, (int64_t)3600000), on = 1, count = 3;
    int idle = WR_MAX(ms / 2000, 1), interval = WR_MAX(ms / 6000, 1);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}

weir_status wr_watch_open(const struct wr_watch_params *params, struct wr_watch **watch, weir_error *err)
{
    struct wr_watch *w = calloc(1, sizeof *w);
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t len = sizeof any;
    if (!w)
        return wr_error_memory(err, sizeof *w, "watching peers");
    w->params = *params;
    wr_list_init(&w->connections);
    w->events = epoll_create1(EPOLL_CLOEXEC);
    w->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = NULL};
    if (w->events < 0 || w->listener < 0 || bind(w->listener, (struct sockaddr *)&any, sizeof any) ||
        listen(w->listener, BACKLOG) || getsockname(w->listener, (struct sockaddr *)&any, &len) ||
        epoll_ctl(w->events, EPOLL_CTL_ADD, w->listener, &ev)) {
        weir_status status =
            wr_error_errno(err, WEIR_ERR_SYSTEM, errno, "raise the limit of open files, or set WEIR_WATCH=no",
                           "no socket to watch peers with");
        wr_watch_close(w);
        return status;
    }
    w->address.port = any.sin_port;
    find_addresses(&w->address);
    *watch = w;
    return WEIR_OK;
}

void wr_watch_address(const struct wr_watch *w, void *buf, size_t *len)
{
    size_t n = WR_MIN(*len, sizeof w->address);
    memcpy(buf, &w->address, n);
    *len = n;
}

int wr_watch_fd(const struct wr_watch *w)
{
    return w->events;
}

/* ---- connections ---- */

static void drop(struct connection *c)
{
    wr_list_remove(&c->link);
    if (c->fd >= 0)
        close(c->fd);
    free(c);
}

/* Starts to connect to the next address; false when there is none left. */
static bool try_next(struct wr_watch *w, struct connection *c)
{
    while (c->next < c->address.count) {
        struct sockaddr_in to = {.sin_family = AF_INET,
                                 .sin_port = c->address.port,
                                 .sin_addr.s_addr = c->address.ip[c->next++]};
        struct epoll_event ev = {.events = EPOLLOUT | EPOLLRDHUP, .data.ptr = c};
        if (c->fd >= 0)
            close(c->fd);
        c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (c->fd < 0)
            return false;
        set_timeouts(c->fd, w->params.timeout_ns);
        if ((!connect(c->fd, (struct sockaddr *)&to, sizeof to) || errno == EINPROGRESS) &&
            !epoll_ctl(w->events, EPOLL_CTL_ADD, c->fd, &ev))
            return true;
    }
    return false;
}

static struct connection *new_connection(struct wr_watch *w, int fd, int peer)
{
    struct connection *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->fd = fd;
    c->peer = peer;
    wr_list_push_back(&w->connections, &c->link);
    return c;
}

void wr_watch_add(struct wr_watch *w, int peer, const void *address, size_t len)
{
    struct connection *c = len == sizeof c->address ? new_connection(w, -1, peer) : NULL;
    if (c) {
        memcpy(&c->address, address, sizeof c->address);
        c->address.count = (uint16_t)WR_MIN(c->address.count, MOST_ADDRESSES);
        if (try_next(w, c))
            return;
        drop(c);
    }
    wr_info(w->params.log, TRANSPORT, "rank %d cannot be watched", peer);
}

static void accept_all(struct wr_watch *w)
{
    for (;;) {
        int fd = accept4(w->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return;
        struct connection *c = new_connection(w, fd, -1);
        struct epoll_event ev = {.events = EPOLLRDHUP, .data.ptr = c};
        if (!c) {
            close(fd);
            return;
        }
        set_timeouts(fd, w->params.timeout_ns);
        if (epoll_ctl(w->events, EPOLL_CTL_ADD, fd, &ev))
            drop(c);
    }
}

/* Nothing came back: of a connection that has stood, the kernel may also say so in the words of its last attempt. */
static bool is_silence(int error)
{
    return error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH || error == EHOSTDOWN;
}

/* A connection that we made has something: it stands, failed, or the peer said or did something. */
static void look_at(struct wr_watch *w, struct connection *c, uint32_t what)
{
    int error = 0;
    socklen_t len = sizeof error;
    char byte, text[96];
    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len);
    if (!c->established) {
        if (error || what & (EPOLLERR | EPOLLHUP)) {
            if (!try_next(w, c)) {
                wr_info(w->params.log, TRANSPORT, "rank %d cannot be watched: %s", c->peer,
                        wr_strerror(error, text, sizeof text));
                drop(c);
            }
            return;
        }
        struct epoll_event ev = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = c};
        c->established = !epoll_ctl(w->events, EPOLL_CTL_MOD, c->fd, &ev);
        return;
    }
    ssize_t n = error ? -1 : recv(c->fd, &byte, 1, MSG_DONTWAIT);
    if (n < 0 && !error) {
        if (errno == EAGAIN || errno == EINTR)
            return;
        error = errno;
    }
    if (n != 1 || byte != GOODBYE)
        w->params.on_lost(w->params.arg, c->peer,
                          is_silence(error) ? "its host does not answer" : "its process has ended");
    drop(c);
}

void wr_watch_progress(struct wr_watch *w)
{
    struct epoll_event ev[32];
    int n = epoll_wait(w->events, ev, WR_ARRAY_SIZE(ev), 0);
    for (int i = 0; i < n; i++) {
        struct connection *c = ev[i].data.ptr;
        if (!c)
            accept_all(w);
        else if (c->peer < 0)
            drop(c); /* who watched us has gone: that is known from our own connection to it, if we have one */
        else
            look_at(w, c, ev[i].events);
    }
}

void wr_watch_close(struct wr_watch *w)
{
    struct connection *c, *next;
    char byte = GOODBYE;
    if (!w)
        return;
    if (w->listener >= 0)
        accept_all(w);
    wr_list_for_each_safe (c, next, &w->connections, link) {
        if (c->peer < 0 && send(c->fd, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1)
            shutdown(c->fd, SHUT_WR);
        drop(c);
    }
    if (w->listener >= 0)
        close(w->listener);
    if (w->events >= 0)
        close(w->events);
    free(w);
}
