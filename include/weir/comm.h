/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Communicators and requests.
 */
#ifndef WEIR_COMM_H
#define WEIR_COMM_H

#include <stddef.h>
#include <stdint.h>

#include <weir/status.h>
#include <weir/context.h>
#include <weir/topo.h>

#ifdef __cplusplus
extern "C" {
#endif

/** An ordered set of ranks that communicate, opaque. */
typedef struct weir_comm weir_comm;

/**
 * An operation that was started, opaque. Whoever starts an operation gets a request and completes it by weir_test(),
 * weir_wait(), weir_waitall() or weir_waitany(), which free it and set the variable to NULL. The buffers of the operation
 * belong to weir from the start until the request has completed, in success or in error.
 */
typedef struct weir_request weir_request;

/**
 * The communicator of all ranks of the job. The first call opens the transports.
 *
 * Collective in the first call; later calls only return it.
 *
 * @param ctx        a context
 * @param[out] comm  owned by the context, valid until weir_finalize()
 * @return ::WEIR_OK; ::WEIR_ERR_TRANSPORT when no transport reaches all ranks, with what was tried; ::WEIR_ERR_TIMEOUT,
 *         ::WEIR_ERR_LAUNCHER, ::WEIR_ERR_NO_MEMORY
 *
 * Thread safety: safe from any thread, but it is one collective call a process.
 */
weir_status weir_comm_world(weir_ctx *ctx, weir_comm **comm);

/** The context of a communicator. Thread safety: safe from any thread. */
weir_ctx *weir_comm_ctx(const weir_comm *comm);

/** The rank of this process in a communicator. Thread safety: safe from any thread. */
int weir_comm_rank(const weir_comm *comm);

/** The number of ranks in a communicator. Thread safety: safe from any thread. */
int weir_comm_size(const weir_comm *comm);

/** How bytes travel to a rank of a communicator: "self", "shm", "ofi", "ucx"; NULL when out of range. Thread safety: safe. */
const char *weir_comm_transport(const weir_comm *comm, int rank);

/**
 * What carries the bytes below that transport, as its library calls it: "memfd", "tcp;ofi_rxm", "rc_verbs"; "" when there is
 * nothing to tell, NULL when out of range. Thread safety: safe.
 */
const char *weir_comm_provider(const weir_comm *comm, int rank);

/** The rank in the job (that of weir_comm_world()) of a rank of a communicator; -1 when out of range. Thread safety: safe. */
int weir_comm_world_rank(const weir_comm *comm, int rank);

/**
 * The topology of a communicator: its ranks with its own numbers, the nodes that they are on and the levels that divide them;
 * what all of them have in common is no level. All questions of weir/topo.h can be asked.
 *
 * The first call works it out from weir_ctx_topo(); later calls only return it. Not collective.
 *
 * @param comm       a communicator
 * @param[out] topo  owned by the communicator, valid until weir_comm_free() or weir_finalize()
 * @return ::WEIR_OK; what weir_ctx_topo() returns; ::WEIR_ERR_STALE when comm was freed; ::WEIR_ERR_NO_MEMORY
 *
 * Thread safety: safe from any thread.
 */
weir_status weir_comm_topo(weir_comm *comm, const weir_topo **topo);

/** @name Communicators of some of the ranks */
/** @{ */

/** The color of a rank that is to be in none of the new communicators. */
#define WEIR_COLOR_NONE (-1)

/**
 * Divides the ranks of a communicator into new ones: ranks that give the same color are together, ordered by key and, where
 * keys are equal, by their rank in `comm`. A new communicator has its own ranks, messages, memory and collectives, and its own
 * view of the nodes; it uses the connections that there are.
 *
 * Collective over comm.
 *
 * @param comm       a communicator
 * @param color      0 or more, or ::WEIR_COLOR_NONE
 * @param key        any number
 * @param[out] made  to be freed by weir_comm_free(); NULL with ::WEIR_COLOR_NONE; set on success only
 * @return ::WEIR_OK on all ranks, or an error: ::WEIR_ERR_INVALID for another negative color; ::WEIR_ERR_NO_MEMORY;
 *         ::WEIR_ERR_PEER_LOST; ::WEIR_ERR_STALE when comm was freed; ::WEIR_ERR_LIMIT after a thousand million communicators
 *
 * Thread safety: one collective call at a time for each communicator.
 */
weir_status weir_comm_split(weir_comm *comm, int color, int key, weir_comm **made);

/** A communicator of the same ranks in the same order, whose messages and collectives do not meet those of `comm`. As
 * weir_comm_split(). */
weir_status weir_comm_dup(weir_comm *comm, weir_comm **made);

/**
 * Frees a communicator that weir_comm_split(), weir_comm_dup() or weir_comm_shrink() made. Requests on it must have completed,
 * and its persistent requests and its memory must have been freed before.
 *
 * Collective over comm, unless one of its ranks was lost: then it returns at once.
 *
 * @param comm  a communicator, not to be used any more; NULL does nothing
 * @return ::WEIR_OK; ::WEIR_ERR_BUSY when it is in use still, on all ranks; ::WEIR_ERR_INVALID for that of all ranks;
 *         ::WEIR_ERR_STALE when it was freed before
 *
 * Thread safety: one collective call at a time for each communicator.
 */
weir_status weir_comm_free(weir_comm *comm);

/**
 * The communicator of the ranks that are left, in their order, after ranks of `comm` were lost (::WEIR_ERR_PEER_LOST). All ranks
 * that are left get the same one; it works like any other. Ranks may be lost during the call: then they are left out, or, when
 * the others had decided already, the new communicator has lost ranks in its turn and can be shrunk again. What was made on
 * `comm` (requests, memory) can still be freed, each rank for itself.
 *
 * Collective over the ranks that are left. Once for each communicator.
 *
 * @param comm       a communicator
 * @param[out] made  to be freed by weir_comm_free(); set on success only
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID when it was shrunk before; ::WEIR_ERR_TIMEOUT as WEIR_TIMEOUT has it;
 *         ::WEIR_ERR_PEER_LOST when the others take this rank for lost; ::WEIR_ERR_NO_MEMORY
 *
 * Thread safety: one call that makes communicators at a time in a process.
 */
weir_status weir_comm_shrink(weir_comm *comm, weir_comm **made);

/** @} */

/** @name Requests */
/** @{ */

/**
 * Progresses all operations of the context and tells whether one has completed, without waiting.
 *
 * @param[in,out] request  a request, set to NULL when it has completed; NULL counts as complete
 * @return ::WEIR_OK when it has completed well, ::WEIR_IN_PROGRESS when not yet, or the operation's error
 *
 * Thread safety: safe from any thread on different requests.
 */
weir_status weir_test(weir_request **request);

/**
 * Waits until an operation has completed. Spins for a short time, then lets other processes run, then sleeps.
 *
 * @param[in,out] request  a request, set to NULL; NULL counts as complete
 * @return ::WEIR_OK or the operation's error; ::WEIR_ERR_PEER_LOST when the operation cannot complete because a rank is gone
 *
 * Thread safety: safe from any thread on different requests.
 */
weir_status weir_wait(weir_request **request);

/**
 * Waits until all of `n` operations have completed.
 *
 * @param n  number of requests
 * @param[in,out] requests  n requests, each set to NULL
 * @return ::WEIR_OK, or the first error in the order of the array
 *
 * Thread safety: safe from any thread on different requests.
 */
weir_status weir_waitall(size_t n, weir_request **requests);

/**
 * Waits until one of `n` operations has completed.
 *
 * @param n  number of requests
 * @param[in,out] requests  n requests; NULL ones are passed over; the completed one is set to NULL
 * @param[out] index        which one; n when all were NULL
 * @return ::WEIR_OK or the completed operation's error; ::WEIR_ERR_TIMEOUT when none has completed within WEIR_TIMEOUT and one of
 *         them is a collective: that one has ended, then
 *
 * Thread safety: safe from any thread on different requests.
 */
weir_status weir_waitany(size_t n, weir_request **requests, size_t *index);

/** @} */

#ifdef __cplusplus
}
#endif

#endif
