/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bootstrap server of weir's own TCP wire: run by weirrun for the ranks that it starts, and by the process that
 * called weir_unique_id_create(). It keeps the keys and values, fences, barriers, and tells ranks about lost ones.
 *
 * It never blocks: the owner waits for wr_server_fd() in its own loop and calls wr_server_progress(). Not thread safe.
 */
#ifndef WR_BOOT_SERVER_H
#define WR_BOOT_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/status.h>

#include "base/log.h"

enum { WR_SECRET_BYTES = 16, WR_SECRET_HEX = 2 * WR_SECRET_BYTES };

struct wr_server;

struct wr_server_options {
    int size;                 /* ranks of the job */
    const char *bind_address; /* numeric address to listen on; "127.0.0.1" for a job on one host, NULL for all */
    int port;                 /* 0: any */
    const struct wr_log *log; /* may be NULL */
    void *arg;                /* handed to the callbacks, all of which may be NULL; called inside wr_server_progress() */
    void (*on_joined)(void *arg, int rank);    /* the rank answered the challenge */
    void (*on_finalized)(void *arg, int rank); /* the rank said farewell: its end is no loss */
    void (*on_lost)(void *arg, int rank);      /* the connection of a joined rank ended without farewell */
    void (*on_abort)(void *arg, int rank, int code, const char *message);
};

weir_status wr_server_create(const struct wr_server_options *options, struct wr_server **server, weir_error *err);
void wr_server_destroy(struct wr_server *server);

/* "address:port" for WEIR_JOB_SERVER. With bind_address NULL the owner replaces the address by one that is reachable. */
const char *wr_server_address(const struct wr_server *server);
int wr_server_port(const struct wr_server *server);

/* The job's secret as hexadecimal digits, for WEIR_JOB_SECRET. */
const char *wr_server_secret(const struct wr_server *server);

/* An epoll descriptor: readable when there is something to do. */
int wr_server_fd(const struct wr_server *server);

/* Does what can be done without blocking. Also drops strangers that have not joined within a few seconds, so call it at
 * least every wr_server_timeout_ms() milliseconds. */
void wr_server_progress(struct wr_server *server);
int wr_server_timeout_ms(const struct wr_server *server);

/* The owner learnt that a rank's process ended: tells all others once (a no-op after that rank's farewell). */
void wr_server_rank_lost(struct wr_server *server, int rank, const char *host, const char *reason);

/* Whether every rank has said farewell. */
bool wr_server_done(const struct wr_server *server);

#endif
