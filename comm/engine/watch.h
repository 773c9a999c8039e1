/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finding out that a rank on another node has died, without its help and without the launcher's: an idle TCP connection to
 * each peer that is used. The kernels answer for it, so a rank that only computes is not taken for dead; a process that ends
 * resets it at once, and a host that vanishes is noticed after WEIR_PEER_TIMEOUT. An orderly end says goodbye first.
 *
 * One descriptor a peer in use, and one for each peer that uses this rank. Not thread safe (the engine's lock).
 */
#ifndef WR_ENGINE_WATCH_H
#define WR_ENGINE_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/status.h>

#include "base/log.h"

struct wr_watch;

struct wr_watch_params {
    const struct wr_log *log;
    int64_t timeout_ns; /* a silent host is given up after this */
    void (*on_lost)(void *arg, int peer, const char *reason);
    void *arg;
};

/* Listens. WEIR_ERR_SYSTEM when no socket can be had. */
weir_status wr_watch_open(const struct wr_watch_params *params, struct wr_watch **watch, weir_error *err);

/* Says goodbye to everybody and closes. NULL is allowed. */
void wr_watch_close(struct wr_watch *w);

/* Where others reach this rank, for publication: at most `*len` bytes, which then tells how many. */
void wr_watch_address(const struct wr_watch *w, void *buf, size_t *len);

/* Begins to watch a peer at its address. What cannot be watched (a firewall, say) is logged, and is no loss. */
void wr_watch_add(struct wr_watch *w, int peer, const void *address, size_t len);

/* A descriptor that is readable when wr_watch_progress() has something to do. */
int wr_watch_fd(const struct wr_watch *w);

/* Looks at the connections without blocking. */
void wr_watch_progress(struct wr_watch *w);

#endif
