/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside the bootstrap server. server.c owns sockets, strangers and the handshake; server_job.c owns what the ranks that
 * have been let in ask for.
 *
 * A rank may join several times: the k-th context of every rank belongs to the k-th *session*, which has its own keys,
 * fences and farewell.
 */
#ifndef WR_BOOT_SERVER_IMPL_H
#define WR_BOOT_SERVER_IMPL_H

#include "base/list.h"
#include "comm/boot/kv.h"
#include "comm/boot/server.h"
#include "comm/boot/wire.h"

enum conn_state { CONN_STRANGER, CONN_JOINED, CONN_DEAD };

struct conn {
    struct wr_list link; /* in strangers, joined or dead of the server */
    struct wr_server *server;
    enum conn_state state;
    int fd;
    uint32_t epoll_events;
    int64_t deadline; /* a stranger's */
    uint8_t nonce[WR_WIRE_NONCE];
    struct wr_buf in, out;
    size_t out_sent;
    struct session *session; /* once joined */
    int rank;
    uint64_t pid;
};

struct member {
    struct wr_kv kv;
    struct conn *conn; /* NULL before it joined and after it left */
    bool joined, at_fence, farewell;
    int node;
    uint8_t identity[WR_WIRE_IDENTITY_MAX];
    size_t identity_len;
};

struct session {
    struct wr_list link;
    uint32_t number, fence;
    int njoined, nfence, nfarewell, nleft;
    struct member *members; /* one a rank */
};

struct rank_state {
    uint32_t joins; /* sessions that it joined: the number of its next one */
    int live;       /* of those, how many it is still in */
    uint64_t pid;
    char host[64];
    bool farewelled;       /* said so in the last session that it left */
    bool lost;             /* has been announced */
    int64_t lost_deadline; /* when not 0: announce it then, unless the owner knows a better reason before */
    char lost_reason[192];
};

struct wr_server {
    struct wr_server_options options;
    int epoll_fd, listen_fd;
    int port;
    int64_t accept_again; /* accepting is paused until then; 0 when it is not */
    bool full;            /* it is paused because of the strangers: one that leaves ends the pause */
    char address[80], secret_hex[WR_SECRET_HEX + 1];
    uint8_t secret[WR_SECRET_BYTES];
    struct wr_list strangers, joined, dead, sessions;
    int nstrangers;
    int nlost_pending;
    bool in_progress;
    struct rank_state *ranks;
    struct wr_boot_event aborted; /* kind NONE until a rank aborted the job */
};

/* server.c: appends a finished frame to what goes out, and sends what the socket takes. */
void wr_conn_send(struct conn *conn, const struct wr_buf *frame);
/* server.c: closes a connection; tells the job when it was a rank's. */
void wr_conn_drop(struct conn *conn, const char *reason);

/* server_job.c */
bool wr_job_admit(struct conn *conn, const struct wr_wire_hello *hello, char *refusal, size_t size);
/* What follows the welcome: news that the rank missed, and the node map when it was the last to come. */
void wr_job_admitted(struct conn *conn);
bool wr_job_frame(struct conn *conn, const struct wr_frame *frame); /* false: malformed, drop it */
void wr_job_left(struct conn *conn, const char *reason);
void wr_job_announce_lost(struct wr_server *server, int rank, const char *host, const char *reason);
void wr_job_free(struct wr_server *server);

#endif
