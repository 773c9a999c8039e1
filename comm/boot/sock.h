/* SPDX-License-Identifier: BSD-3-Clause */
/* TCP sockets for the bootstrap: never blocking, closed on exec. Functions that fail set errno. */
#ifndef WR_BOOT_SOCK_H
#define WR_BOOT_SOCK_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

union wr_sockaddr {
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
};

/* Parses a numeric IPv4 or IPv6 address; the port stays 0. */
bool wr_sock_numeric(const char *text, union wr_sockaddr *address);
socklen_t wr_sock_len(const union wr_sockaddr *address);
void wr_sock_set_port(union wr_sockaddr *address, int port);

/* Listens on an address; [::] also serves IPv4. Returns a descriptor or -1. */
int wr_sock_listen(const union wr_sockaddr *address, int port);
int wr_sock_local_port(int fd);

/* Connects by a deadline (of wr_deadline()). Returns a descriptor or -1. */
int wr_sock_connect(const union wr_sockaddr *address, int64_t deadline);

/* No delay for small messages; the kernel finds out when the other host is dead. */
void wr_sock_tune(int fd);

/* Sends everything by a deadline; false with errno. */
bool wr_sock_send_all(int fd, const void *data, size_t len, int64_t deadline);

#endif
