/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bootstrap: how ranks find each other before there is a transport. Every launcher is reached through one ops table:
 * put values under keys, fence, get values of other ranks when they are first needed, barrier, abort.
 *
 * A component declares itself in the const table of comm/boot/detect.c; it keeps no globals and registers nothing.
 */
#ifndef WR_BOOT_H
#define WR_BOOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/context.h>

#include "base/config.h"
#include "base/log.h"

enum { WR_BOOT_KEY_MAX = 63 }; /* longest key; the shortest limit of the PMIs */

struct wr_boot;

/* What a component learns when it opens. Owned by the wr_boot. */
struct wr_boot_info {
    int rank, size;
    char job[128];     /* the launcher's name of the job, "" when it has none */
    int *node_of;      /* the launcher's node number of each rank, numbered from 0 by lowest rank; NULL when unknown */
    bool gets_are_local; /* the fence gathers everything: a get costs nothing, and all ranks' values are held anyway */
};

/* An event that the launcher or server reports about a rank. */
enum wr_boot_event_kind {
    WR_BOOT_EVENT_NONE,
    WR_BOOT_EVENT_RANK_LOST,  /* the rank's process ended without weir_finalize */
    WR_BOOT_EVENT_JOB_ABORTED /* a rank called weir_abort, or the server vanished */
};
struct wr_boot_event {
    enum wr_boot_event_kind kind;
    int rank;          /* whom it concerns, -1 when unknown */
    char host[64];     /* where, "" when unknown */
    char reason[192];  /* e.g. "killed by signal 9" */
};

/* Who will ask for a value. A launcher that spreads values by itself need not carry the ones of a node away from it. */
enum wr_boot_scope {
    WR_BOOT_JOB, /* any rank */
    WR_BOOT_NODE /* only ranks with the same number in node_of, when the launcher gave that map; else any rank */
};

/* Everything a component needs to open. All pointers outlive the boot except `options`. */
struct wr_boot_params {
    const struct wr_config *config;
    const struct wr_env *env;
    const struct wr_log *log;
    const weir_init_options *options; /* never NULL */
    const void *identity;             /* this host's identity (struct wr_host_id of topo/), given to our own server */
    size_t identity_len;
};

struct wr_boot_ops {
    const char *name; /* as weir_boot_name() gives it */
    /* Whether the environment says that this component started the process; `why` (may be NULL) gets a phrase. */
    bool (*detect)(const struct wr_boot_params *params, const char **why);
    weir_status (*open)(struct wr_boot *boot, const struct wr_boot_params *params, weir_error *err);
    /* Offers a value under a key of this rank, once; visible to others after the next fence. Values of any length. */
    weir_status (*put)(struct wr_boot *boot, const char *key, const void *value, size_t len, enum wr_boot_scope scope,
                       weir_error *err);
    /* Collective: makes earlier puts visible. */
    weir_status (*fence)(struct wr_boot *boot, weir_error *err);
    /* Fetches the value that `rank` put under `key`, allocated with malloc; WEIR_ERR_NOT_FOUND when it put none. */
    weir_status (*get)(struct wr_boot *boot, int rank, const char *key, void **value, size_t *len, weir_error *err);
    weir_status (*barrier)(struct wr_boot *boot, weir_error *err);
    /* Tells the launcher to end the job; may return (the caller then exits). */
    void (*abort)(struct wr_boot *boot, int code, const char *message);
    /* A descriptor that becomes readable when poll_event() has something, or -1. May be NULL. */
    int (*event_fd)(struct wr_boot *boot);
    /* Takes the next event without blocking; false when there is none. May be NULL. */
    bool (*poll_event)(struct wr_boot *boot, struct wr_boot_event *event);
    /* Collective farewell (goodbye is true), or only frees (false). */
    weir_status (*close)(struct wr_boot *boot, bool goodbye, weir_error *err);
};

struct wr_boot {
    const struct wr_boot_ops *ops;
    struct wr_boot_info info;
    const struct wr_log *log;
    int64_t timeout_ns; /* WEIR_BOOT_TIMEOUT */
    void *state;        /* the component's own */
};

/*
 * Chooses a component by the options, WEIR_BOOT and the environment, and opens it. Order: callbacks, unique id, weirrun,
 * PMIx, PMI-2, PMI-1, single. A process that a launcher started as one of several without a way to reach the others
 * gets WEIR_ERR_LAUNCHER with the option that was forgotten.
 */
weir_status wr_boot_open(const struct wr_boot_params *params, struct wr_boot **boot, weir_error *err);

/* Frees the boot in any case. */
weir_status wr_boot_close(struct wr_boot *boot, bool goodbye, weir_error *err);

/* Thin calls through the ops table, which add the operation and this rank to errors. Not thread safe. */
weir_status wr_boot_put(struct wr_boot *boot, const char *key, const void *value, size_t len, enum wr_boot_scope scope,
                        weir_error *err);
weir_status wr_boot_fence(struct wr_boot *boot, weir_error *err);
weir_status wr_boot_get(struct wr_boot *boot, int rank, const char *key, void **value, size_t *len, weir_error *err);
weir_status wr_boot_barrier(struct wr_boot *boot, weir_error *err);

#endif
