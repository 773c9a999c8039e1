/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Collective operations.
 *
 * Every call is collective over its communicator: all ranks call the same operations in the same order, with arguments that agree
 * where it is said. Counts are numbers of elements, in 64 bits. ::WEIR_IN_PLACE as the input means that the input stands in the
 * output buffer already.
 *
 * Each operation comes in three forms: weir_X() returns when this rank's part is done; weir_iX() starts it and gives a request;
 * weir_X_init() makes a request that can be started again and again with weir_start(), completed by weir_wait() or weir_test()
 * (which leave it to be started again), and is freed by weir_request_free(). A persistent request on memory from
 * weir_mem_alloc() is the fastest form: ranks of a node then work directly on each other's buffers.
 *
 * All ranks use the same form of a call. When ranks call different collectives, or different forms of one, all of them get
 * ::WEIR_ERR_MISMATCH, which names who called what; the communicator cannot be used after that.
 *
 * The first call of a kind (operation, type, count) sets up its plan together with the other ranks. weir_X() and weir_X_init() wait
 * for them. weir_iX() never does: it returns at once, and the set-up goes on whenever weir makes progress (in weir_test(), in any
 * call that waits, in the progress thread); what goes wrong in it is told by the request. So started calls of different
 * communicators may be made in different orders at different ranks.
 *
 * Results do not depend on timing: the same call on the same ranks and nodes gives the same bits.
 */
#ifndef WEIR_COLL_H
#define WEIR_COLL_H

#include <stddef.h>
#include <stdint.h>

#include <weir/comm.h>
#include <weir/type.h>

#ifdef __cplusplus
extern "C" {
#endif

/** As an input buffer: the input is in the output buffer. */
#define WEIR_IN_PLACE ((const void *)-1)

/** @name All-reduce: out[i] = in_0[i] op in_1[i] op ... on every rank. In place: out holds the input. */
/** @{ */

/**
 * All-reduce.
 *
 * @param comm   a communicator
 * @param in     `count` elements, or ::WEIR_IN_PLACE
 * @param out    `count` elements; must not overlap in
 * @param count  elements, the same at all ranks
 * @param type   type of the elements, the same at all ranks
 * @param op     how they are combined, the same at all ranks
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID; ::WEIR_ERR_MISMATCH when the ranks' arguments differ; ::WEIR_ERR_PEER_LOST;
 *         ::WEIR_ERR_NO_MEMORY; ::WEIR_ERR_TRANSPORT
 *
 * Thread safety: one collective call at a time for each communicator.
 */
weir_status weir_allreduce(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op);

/** Starts what weir_allreduce() does. The buffers belong to weir until the request has completed. */
weir_status weir_iallreduce(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op,
                            weir_request **request);

/** A persistent weir_allreduce(). */
weir_status weir_allreduce_init(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op,
                                weir_request **request);

/** @} */
/** @name Reduce-scatter: rank r gets elements r * count .. (r + 1) * count - 1 of the combined vector. */
/** @{ */

/**
 * Reduce-scatter. `in` has size * count elements, `out` count. In place: out holds the whole input, the result is its beginning.
 * Otherwise as weir_allreduce().
 */
weir_status weir_reduce_scatter(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op);

/** Starts what weir_reduce_scatter() does. */
weir_status weir_ireduce_scatter(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op,
                                 weir_request **request);

/** A persistent weir_reduce_scatter(). */
weir_status weir_reduce_scatter_init(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op,
                                     weir_request **request);

/** @} */
/** @name All-gather: every rank gets the inputs of all, in rank order. */
/** @{ */

/**
 * All-gather. `in` has count elements, `out` size * count. In place: this rank's input stands at its place in out.
 * Otherwise as weir_allreduce().
 *
 * When `out` is in a window that the ranks of a node share (::WEIR_MEM_NODE_SHARED), all of them must give the same place: the
 * node then gets one result instead of one a rank. No rank may change the window before all ranks of the node have read it.
 */
weir_status weir_allgather(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type);

/** Starts what weir_allgather() does. */
weir_status weir_iallgather(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_request **request);

/** A persistent weir_allgather(). */
weir_status weir_allgather_init(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_request **request);

/** @} */
/** @name Broadcast: every rank gets the root's buffer. */
/** @{ */

/**
 * Broadcast of `count` elements of `buffer` at rank `root` into `buffer` at all ranks. `root` and `count` must agree.
 * Otherwise as weir_allreduce().
 */
weir_status weir_bcast(weir_comm *comm, void *buffer, uint64_t count, weir_type type, int root);

/** Starts what weir_bcast() does. */
weir_status weir_ibcast(weir_comm *comm, void *buffer, uint64_t count, weir_type type, int root, weir_request **request);

/** A persistent weir_bcast(). */
weir_status weir_bcast_init(weir_comm *comm, void *buffer, uint64_t count, weir_type type, int root, weir_request **request);

/** @} */
/** @name Reduce: out[i] = in_0[i] op in_1[i] op ... on the root. */
/** @{ */

/**
 * Reduce. `in` has count elements at every rank, `out` at the root only (elsewhere it is not used and may be NULL). `root`,
 * `count`, `type` and `op` must agree. In place, which is each rank's own choice: out holds the input.
 * Otherwise as weir_allreduce().
 */
weir_status weir_reduce(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op,
                        int root);

/** Starts what weir_reduce() does. */
weir_status weir_ireduce(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op,
                         int root, weir_request **request);

/** A persistent weir_reduce(). */
weir_status weir_reduce_init(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op,
                             int root, weir_request **request);

/** @} */
/** @name Gather: the root gets the inputs of all, in rank order. */
/** @{ */

/**
 * Gather. `in` has count elements at every rank, `out` size * count at the root (elsewhere it is not used and may be NULL).
 * `root`, `count` and `type` must agree. In place, at the root: its own input stands at its place in out.
 * Otherwise as weir_allreduce().
 */
weir_status weir_gather(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, int root);

/** Starts what weir_gather() does. */
weir_status weir_igather(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, int root,
                         weir_request **request);

/** A persistent weir_gather(). */
weir_status weir_gather_init(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, int root,
                             weir_request **request);

/** @} */
/** @name Scatter: rank r gets elements r * count .. (r + 1) * count - 1 of the root's input. */
/** @{ */

/**
 * Scatter. `in` has size * count elements at the root (elsewhere it is not used and may be NULL), `out` count at every rank.
 * `root`, `count` and `type` must agree. In place, at the root: out holds the whole input, and the root's own part stays where
 * it is in it. Otherwise as weir_allreduce().
 */
weir_status weir_scatter(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, int root);

/** Starts what weir_scatter() does. */
weir_status weir_iscatter(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, int root,
                          weir_request **request);

/** A persistent weir_scatter(). */
weir_status weir_scatter_init(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, int root,
                              weir_request **request);

/** @} */
/** @name All-to-all: rank r gets the r-th part of every rank's input, in rank order. */
/** @{ */

/**
 * All-to-all. `in` and `out` have size * count elements; `count` and `type` must agree. Not in place.
 * Otherwise as weir_allreduce().
 */
weir_status weir_alltoall(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type);

/** Starts what weir_alltoall() does. */
weir_status weir_ialltoall(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type,
                           weir_request **request);

/** A persistent weir_alltoall(). */
weir_status weir_alltoall_init(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type,
                               weir_request **request);

/** @} */
/** @name Scan: out[i] of rank r is in_0[i] op in_1[i] op ... in_r[i]. */
/** @{ */

/**
 * Inclusive scan. `in` and `out` have count elements; `count`, `type` and `op` must agree. The average is that of ranks 0 .. r.
 * In place: out holds the input. Otherwise as weir_allreduce().
 */
weir_status weir_scan(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op);

/** Starts what weir_scan() does. */
weir_status weir_iscan(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op,
                       weir_request **request);

/** A persistent weir_scan(). */
weir_status weir_scan_init(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op,
                           weir_request **request);

/** @} */
/** @name Exclusive scan: out[i] of rank r is in_0[i] op in_1[i] op ... in_(r-1)[i]. */
/** @{ */

/**
 * Exclusive scan. As weir_scan() without the rank's own input; `out` of rank 0 is left as it is.
 */
weir_status weir_exscan(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op);

/** Starts what weir_exscan() does. */
weir_status weir_iexscan(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op,
                         weir_request **request);

/** A persistent weir_exscan(). */
weir_status weir_exscan_init(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op,
                             weir_request **request);

/** @} */
/** @name Barrier: returns when all ranks have come. */
/** @{ */

/** Barrier. As weir_allreduce() without data. */
weir_status weir_barrier(weir_comm *comm);

/** Starts what weir_barrier() does. */
weir_status weir_ibarrier(weir_comm *comm, weir_request **request);

/** A persistent weir_barrier(). */
weir_status weir_barrier_init(weir_comm *comm, weir_request **request);

/** @} */
/** @name Persistent requests */
/** @{ */

/**
 * Starts a persistent request. It must not be running.
 *
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID for a request that is not persistent; ::WEIR_ERR_BUSY when it is running
 *
 * Thread safety: one collective call at a time for each communicator.
 */
weir_status weir_start(weir_request *request);

/**
 * Frees a persistent request that is not running. Collective: all ranks free theirs, in the same order.
 *
 * @param[in,out] request  set to NULL; NULL does nothing
 *
 * Thread safety: one collective call at a time for each communicator.
 */
weir_status weir_request_free(weir_request **request);

/** @} */

#ifdef __cplusplus
}
#endif

#endif
