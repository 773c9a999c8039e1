/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The context: how a process joins a job, who it is there, and how it leaves.
 *
 * A context holds all state of the library. A process may hold several at once; they do not know each other.
 */
#ifndef WEIR_CONTEXT_H
#define WEIR_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

#include <weir/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A context, opaque. Created by weir_init(), destroyed by weir_finalize(). */
typedef struct weir_ctx weir_ctx;

/**
 * The address of a job that is started without a launcher, in the manner of NCCL's unique id.
 * One process creates it; the user hands the bytes to all others by whatever means; each gives it to weir_init().
 * The content is opaque, has no pointers, and is a secret: who knows it can join the job.
 */
typedef struct weir_unique_id {
    char bytes[256]; /**< opaque */
} weir_unique_id;

/**
 * Callbacks by which a program that has ranks already (for example MPI's) lends its communication to weir_init().
 * They are called by the thread that is inside a call of weir that is documented as collective, never at another
 * time, and must stay callable until weir_finalize() has returned.
 */
typedef struct weir_boot_callbacks {
    size_t size; /**< sizeof(weir_boot_callbacks) */
    int rank;    /**< this process, 0 <= rank < nranks */
    int nranks;  /**< number of processes */
    void *user;  /**< handed to the callbacks untouched */
    /**
     * All-gather of `bytes` bytes a rank: `recv` holds nranks * bytes, ordered by rank. Returns 0 on success.
     */
    int (*allgather)(void *user, const void *send, void *recv, size_t bytes);
    /** Ends the whole job with an exit code; may be NULL, then weir_abort() ends this process only. */
    void (*abort)(void *user, int code, const char *message);
} weir_boot_callbacks;

/** Options of weir_init(). Start from ::WEIR_INIT_OPTIONS_INIT; fields are only ever appended. */
typedef struct weir_init_options {
    size_t size;    /**< sizeof(weir_init_options) at the caller's compile time */
    uint64_t flags; /**< none is defined yet: must be 0 */
    /**
     * Configuration of this context, a NULL-terminated array of "NAME=value" (with or without the prefix WEIR_).
     * Wins over the environment. May be NULL. Read during the call only.
     */
    const char *const *config;
    /** Join the job of this id with `rank` and `nranks` below; NULL when a launcher started the process. */
    const weir_unique_id *unique_id;
    int64_t rank;   /**< with unique_id: this process */
    int64_t nranks; /**< with unique_id: number of processes */
    /** Join by these callbacks; NULL when not wanted. Excludes unique_id. Read during the call only. */
    const weir_boot_callbacks *callbacks;
    /** When not NULL, receives the description of the failure if weir_init() fails; owned by the caller. */
    weir_error *error;
} weir_init_options;

/** Initial value for ::weir_init_options: everything is found out from the environment. */
#define WEIR_INIT_OPTIONS_INIT                                                                               \
    {                                                                                                        \
        sizeof(weir_init_options), 0, NULL, NULL, 0, 0, NULL, NULL                                           \
    }

/**
 * Joins the job: reads the configuration, finds the launcher, learns rank and size, publishes where this process
 * sits.
 *
 * Collective: all processes of the job must call it. Without a launcher, unique id or callbacks the process is a job
 * of one rank; but a process that a launcher started as one of several and that finds no way to reach the others
 * fails with ::WEIR_ERR_LAUNCHER instead of running alone.
 *
 * @param options  NULL for the defaults; read during the call only
 * @param[out] ctx set on success only; to be given to weir_finalize() in the end
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID for bad options; ::WEIR_ERR_CONFIG for a bad value of a configuration
 *         variable; ::WEIR_ERR_LAUNCHER when the launcher is missing or unusable; ::WEIR_ERR_TIMEOUT when the others
 *         did not come within WEIR_BOOT_TIMEOUT; ::WEIR_ERR_NO_MEMORY, ::WEIR_ERR_SYSTEM
 *
 * Thread safety: different threads may call it at once, each makes its own context.
 */
weir_status weir_init(const weir_init_options *options, weir_ctx **ctx);

/**
 * Leaves the job and frees the context.
 *
 * Collective: returns when all processes of the job have come here, or with an error when one was lost: at once where
 * the launcher knows of it, else after WEIR_PEER_TIMEOUT at the latest. The context is freed in either case and must not be used
 * again.
 *
 * Started by a PMI or PMIx launcher, the process itself stays known to the launcher until it ends by exit() or by
 * returning from main(), so that weir_init() can be called again; ended by _exit() it may be reported as failed.
 *
 * @param ctx  a context, or NULL (nothing happens)
 * @return ::WEIR_OK; ::WEIR_ERR_PEER_LOST, ::WEIR_ERR_TIMEOUT, ::WEIR_ERR_LAUNCHER when the farewell failed
 *
 * Thread safety: no other thread may be inside a call on this context, or make one afterwards.
 */
weir_status weir_finalize(weir_ctx *ctx);

/**
 * Ends the whole job at once: the launcher is told, then this process exits with `code`. Does not return.
 *
 * @param ctx      a context
 * @param code     exit code, 1..255; others become 1
 * @param message  one line for the launcher's report, or NULL
 *
 * Thread safety: safe from any thread.
 */
void weir_abort(weir_ctx *ctx, int code, const char *message);

/** The rank of this process, 0 <= rank < size. Thread safety: safe from any thread. */
int weir_rank(const weir_ctx *ctx);

/** The number of processes of the job. Thread safety: safe from any thread. */
int weir_size(const weir_ctx *ctx);

/** How the ranks found each other: "pmix", "pmi2", "pmi1", "tcp", "id", "user" or "single". Thread safety: safe. */
const char *weir_boot_name(const weir_ctx *ctx);

/**
 * Waits until all processes of the job have come here; goes through the launcher, so it is slow (for set-up).
 *
 * Collective.
 * @return ::WEIR_OK; ::WEIR_ERR_TIMEOUT, ::WEIR_ERR_PEER_LOST, ::WEIR_ERR_LAUNCHER
 *
 * Thread safety: one thread at a time for each context.
 */
weir_status weir_boot_barrier(weir_ctx *ctx);

/**
 * Brings `bytes` bytes of every process to every process; goes through the launcher, so it is slow: for set-up, with
 * little data.
 *
 * Collective, with the same `bytes` everywhere.
 * @param ctx        a context
 * @param send       what this process contributes, `bytes` long; may be NULL when bytes is 0
 * @param[out] recv  room for weir_size() * `bytes`, ordered by rank; undefined after a failure
 * @param bytes      bytes a process
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID; ::WEIR_ERR_PROTOCOL when another process gave another size;
 *         ::WEIR_ERR_TIMEOUT, ::WEIR_ERR_PEER_LOST, ::WEIR_ERR_LAUNCHER, ::WEIR_ERR_NO_MEMORY
 *
 * Thread safety: one thread at a time for each context.
 */
weir_status weir_boot_allgather(weir_ctx *ctx, const void *send, void *recv, size_t bytes);

/**
 * The description of the last call on this context that failed.
 *
 * @param ctx  a context
 * @return owned by the context; valid until weir_finalize(); rewritten by the next call that fails. Its status is
 *         ::WEIR_OK when no call has failed.
 *
 * Thread safety: the content may change while another thread has a call fail on the same context.
 */
const weir_error *weir_last_error(const weir_ctx *ctx);

/**
 * Makes the id of a new job that is started without a launcher. The calling process serves the job's bootstrap from a
 * thread of its own until every rank has called weir_finalize(), or until the process ends; it must be one of the ranks'
 * processes, or outlive them.
 *
 * @param nranks   number of ranks that will join
 * @param[out] id  set on success only
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID when nranks < 1; ::WEIR_ERR_SYSTEM when no socket could be opened
 *
 * Thread safety: safe from any thread.
 */
weir_status weir_unique_id_create(int nranks, weir_unique_id *id);

/** The version that the program runs with, e.g. "0.1.0". Thread safety: safe. */
const char *weir_version(void);

#ifdef __cplusplus
}
#endif

#endif
