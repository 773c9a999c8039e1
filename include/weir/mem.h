/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Registered memory, and one-sided operations on it.
 *
 * Memory from weir_mem_alloc() is mapped by the ranks of the node and registered with the network at once: it is the memory
 * on which everything is fastest. Memory that the user has allocated can be registered too. Both give a ::weir_mem, which is
 * known on every rank of the communicator; a rank reads and writes another rank's part by handle, rank and offset.
 */
#ifndef WEIR_MEM_H
#define WEIR_MEM_H

#include <stddef.h>
#include <stdint.h>

#include <weir/comm.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Memory that all ranks of a communicator know, opaque. */
typedef struct weir_mem weir_mem;

/** Flags of weir_mem_alloc(). */
typedef enum weir_mem_flags {
    WEIR_MEM_NODE_SHARED = 1 /**< one window a node instead of one part a rank: all ranks of a node see the same bytes */
} weir_mem_flags;

/** Bytes that a context holds. */
typedef struct weir_mem_info {
    size_t size;         /**< set by the caller to sizeof(weir_mem_info) */
    uint64_t allocated;  /**< given out by weir_mem_alloc() to this rank */
    uint64_t mapped;     /**< of other ranks, mapped into this process */
    uint64_t registered; /**< registered with the network */
    uint64_t staging;    /**< buffers of the library itself */
    uint64_t pss;        /**< proportional set size of the process: shared pages divided by their users */
    uint64_t limit;      /**< WEIR_MEM_LIMIT, UINT64_MAX for none */
} weir_mem_info;

/**
 * Allocates registered memory, zeroed, aligned to a page, bound to this rank's NUMA domain, on huge pages where they can be
 * had.
 *
 * Collective over comm. `bytes` may differ between ranks and may be 0. With ::WEIR_MEM_NODE_SHARED all ranks of a node must
 * ask for the same number.
 *
 * @param comm      a communicator
 * @param bytes     bytes of this rank's part
 * @param flags     ::weir_mem_flags or 0
 * @param[out] mem  to be freed by weir_mem_free(); set on success only
 * @return ::WEIR_OK on all ranks, or an error on all ranks: ::WEIR_ERR_NO_MEMORY; ::WEIR_ERR_LIMIT when WEIR_MEM_LIMIT would be
 *         exceeded; ::WEIR_ERR_INVALID; ::WEIR_ERR_MISMATCH; ::WEIR_ERR_PEER_LOST
 *
 * Thread safety: one collective call at a time for each communicator.
 */
weir_status weir_mem_alloc(weir_comm *comm, uint64_t bytes, uint64_t flags, weir_mem **mem);

/**
 * Frees what weir_mem_alloc() gave. From the return on, operations that use the handle fail; keys of the memory that peers
 * still hold are refused by weir.
 *
 * Collective over the communicator; waits for the others, so that nobody writes to memory that is gone.
 *
 * Thread safety: one collective call at a time for each communicator.
 */
weir_status weir_mem_free(weir_mem *mem);

/**
 * Registers memory of the user, so that it moves without a copy and can be reached by peers. A registration that the system
 * refuses (RLIMIT_MEMLOCK) is not an error: the memory then moves through staging buffers, and one warning says so.
 *
 * Collective over comm. The memory must stay allocated until weir_mem_deregister().
 *
 * @param comm      a communicator
 * @param addr      may be NULL when bytes is 0
 * @param bytes     bytes of this rank's part; may differ between ranks
 * @param[out] mem  to be given to weir_mem_deregister(); set on success only
 * @return as weir_mem_alloc()
 *
 * Thread safety: one collective call at a time for each communicator.
 */
weir_status weir_mem_register(weir_comm *comm, void *addr, uint64_t bytes, weir_mem **mem);

/** Ends a registration; as weir_mem_free(), but the memory stays the user's. */
weir_status weir_mem_deregister(weir_mem *mem);

/** This rank's part (or the node's window). Thread safety: safe. */
void *weir_mem_ptr(const weir_mem *mem);

/** Bytes of a rank's part; 0 when out of range. Thread safety: safe. */
uint64_t weir_mem_bytes(const weir_mem *mem, int rank);

/**
 * The part of another rank as a pointer in this process: not NULL only when it is mapped (same node, weir_mem_alloc()).
 * Thread safety: safe from any thread.
 */
void *weir_mem_peer_ptr(weir_mem *mem, int rank);

/** How much memory the context holds. Thread safety: safe from any thread. */
weir_status weir_mem_usage(weir_ctx *ctx, weir_mem_info *info);

/** @name One-sided operations. Offsets and lengths are in bytes and are checked against the target's part */
/** @{ */

/**
 * Starts writing `bytes` bytes to `offset` of `rank`'s part. Completion means that `src` may be reused; the data is visible at
 * the target after weir_flush(), or when a signal that was sent with it or after weir_flush() is seen there.
 * `*request` is NULL when it is complete already, as often on the node.
 *
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID when the range does not fit; ::WEIR_ERR_STALE for freed memory; ::WEIR_ERR_PEER_LOST;
 *         ::WEIR_ERR_TRANSPORT
 *
 * Thread safety: safe from any thread.
 */
weir_status weir_put(weir_mem *mem, const void *src, uint64_t bytes, int rank, uint64_t offset, weir_request **request);

/** Starts reading `bytes` bytes from `offset` of `rank`'s part; complete when the data is in `dst`. Otherwise as weir_put(). */
weir_status weir_get(weir_mem *mem, void *dst, uint64_t bytes, int rank, uint64_t offset, weir_request **request);

/**
 * As weir_put(), and then adds 1 to signal `signal` of the target's part, after the data is visible there. bytes 0 is a bare
 * signal. Each ::weir_mem has signals 0..WEIR_SIGNALS-1 of its own on every rank, starting at 0.
 */
weir_status weir_put_signal(weir_mem *mem, const void *src, uint64_t bytes, int rank, uint64_t offset, int signal,
                            weir_request **request);

/** Number of signals of each ::weir_mem. */
#define WEIR_SIGNALS 16

/**
 * Waits until this rank's signal `signal` has reached at least `value`.
 *
 * @return ::WEIR_OK; ::WEIR_ERR_PEER_LOST when a rank of the communicator was lost meanwhile
 *
 * Thread safety: safe from any thread.
 */
weir_status weir_signal_wait(weir_mem *mem, int signal, uint64_t value);

/** The present value of this rank's signal `signal`. Progresses. Thread safety: safe from any thread. */
uint64_t weir_signal_read(weir_mem *mem, int signal);

/** Waits until all earlier puts of this rank on `mem` to `rank` (-1: to all) are visible there. */
weir_status weir_flush(weir_mem *mem, int rank);

/** @} */

#ifdef __cplusplus
}
#endif

#endif
