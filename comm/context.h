/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The context inside the library: what hangs off a weir_ctx, and how the layers above talk to the launcher.
 */
#ifndef WR_CONTEXT_H
#define WR_CONTEXT_H

#include <pthread.h>

#include <weir/context.h>
#include <weir/topo.h>

#include "base/config.h"
#include "base/log.h"
#include "comm/boot/boot.h"

struct weir_ctx {
    struct wr_env env; /* the process's own */
    struct wr_config config;
    struct wr_log log;
    int rank, size; /* as in boot->info; do not change */
    char host[64];  /* of this process */

    struct wr_boot *boot;
    pthread_mutex_t boot_lock; /* around every call of the boot but abort */

    /* Who shares a node: the launcher's nodes (or host identities) and the virtual nodes, numbered by lowest rank. */
    int *node_of;     /* one a rank */
    int nnodes;
    int *node_leader; /* the lowest rank of each node: it has put the node card */

    /* Levels of the network above the nodes, innermost first: level_groups[l * nnodes + node]; from weir_comm_world() on. */
    int nlevels;
    int *level_groups;

    uint64_t allgathers; /* that were begun: numbers their keys */

    pthread_mutex_t topo_lock;
    weir_topo *topo; /* NULL until weir_ctx_topo() was called */

    pthread_mutex_t comms_lock;
    struct wr_comms *comms; /* NULL until weir_comm_world() was called */
    void (*comms_close)(weir_ctx *ctx, bool abandon); /* frees it; `abandon` when the job does not end well */
    weir_error loss; /* set by comms_close(): a rank that was lost; status WEIR_OK: none */

    struct wr_user_ops *user_ops; /* weir_op_create(), under comms_lock; NULL: none */

    pthread_mutex_t error_lock;
    weir_error last_error;
};

/*
 * For every failure that leaves the library: remembers it for weir_last_error(), with `operation` (the public function's
 * name) and this rank and host where the error names none, and logs it once. Returns err->status. Thread safe.
 */
weir_status wr_ctx_fail(weir_ctx *ctx, weir_error *err, const char *operation);

/*
 * The calls of the boot under the context's lock. Thread safe; put keys once only, they cannot be changed everywhere.
 * What was put "on node" is only for ranks with the same node_of, and costs nothing elsewhere.
 */
weir_status wr_ctx_put(weir_ctx *ctx, const char *key, const void *value, size_t len, weir_error *err);
weir_status wr_ctx_put_on_node(weir_ctx *ctx, const char *key, const void *value, size_t len, weir_error *err);
weir_status wr_ctx_fence(weir_ctx *ctx, weir_error *err);
weir_status wr_ctx_get(weir_ctx *ctx, int rank, const char *key, void **value, size_t *len, weir_error *err);
weir_status wr_ctx_barrier(weir_ctx *ctx, weir_error *err);

/* The descriptor that is readable when wr_ctx_poll_event() has something (and sometimes when it has not), or -1. */
int wr_ctx_event_fd(weir_ctx *ctx);

/* The launcher's next event; false when there is none, or while another thread is inside a call of the boot. */
bool wr_ctx_poll_event(weir_ctx *ctx, struct wr_boot_event *event);

#endif
