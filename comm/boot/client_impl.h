/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside the client: client_connect.c finds the server and shakes hands, client.c talks to it afterwards. */
#ifndef WR_BOOT_CLIENT_IMPL_H
#define WR_BOOT_CLIENT_IMPL_H

#include "base/list.h"
#include "comm/boot/client.h"

struct client {
    int fd;       /* the connection, -1 when there is none */
    int event_fd; /* an eventfd, readable while `events` holds something that was read in passing */
    int epoll_fd; /* both */
    bool joined;  /* both sides have proven that they know the secret: what comes now is the server's word */
    struct wr_buf in;
    size_t in_used; /* bytes of `in` that have been dealt with */
    bool ended;     /* the connection has ended */
    uint32_t request, fence;
    bool at_fence;   /* a fence was given up: the server still counts this rank as waiting in it */
    bool fence_done; /* and then it ended, while this rank asked for something else */
    struct wr_list events;       /* not yet taken by wr_client_poll_event() */
    struct wr_boot_event broken; /* the first event that means that not all ranks can come any more */
};

enum take_result { TAKE_FRAME, TAKE_NOTHING, TAKE_GARBAGE };

/*
 * Takes the next frame out of what was read; valid until the next read. Once joined, events are queued and passed over;
 * before, only short frames are taken and nothing that comes, nor the end of the connection, is an event of the job.
 */
enum take_result wr_client_take(struct client *c, struct wr_frame *frame);

/* Reads what there is, waiting for something until the deadline: 1 read, 0 deadline, -1 the connection has ended. */
int wr_client_read(struct client *c, int64_t deadline);

/* Finds the server and shakes hands; sets c->fd and c->joined. */
weir_status wr_client_connect(struct client *c, const struct wr_boot *boot, const struct wr_boot_params *params,
                              const struct wr_target *target, int64_t deadline, weir_error *err);

#endif
