/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Collective operations whose counts differ by rank.
 *
 * What <weir/coll.h> says of collectives holds for these, too. Counts and offsets are numbers of elements; the arrays have one
 * entry a rank and belong to the caller, who may change them after the return of any of the forms. Parts must not overlap in an
 * output.
 *
 * Gather, scatter and all-to-all are set up once for each type of element, whatever the counts, so that counts may change from
 * call to call at no cost. All-gather and reduce-scatter are set up once for each set of counts.
 */
#ifndef WEIR_COLL_V_H
#define WEIR_COLL_V_H

#include <weir/coll.h>

#ifdef __cplusplus
extern "C" {
#endif

/** @name Gather with unequal counts */
/** @{ */

/**
 * Gather: the root gets the inputs of all ranks, each at its place.
 *
 * `root` and `type` must agree. The root's counts[r] must be the count of rank r; that is not checked.
 *
 * @param comm     a communicator
 * @param in       `count` elements, or ::WEIR_IN_PLACE at the root: its input is at its place in out
 * @param count    elements of this rank
 * @param out      at the root: the result; elsewhere not used
 * @param counts   at the root: elements from each rank; elsewhere not used
 * @param offsets  at the root: where they begin in out, in elements, or NULL for one after the other; elsewhere not used
 * @param type     type of the elements
 * @param root     the rank that gets them
 * @return as weir_allreduce()
 *
 * Thread safety: one collective call at a time for each communicator.
 */
weir_status weir_gatherv(weir_comm *comm, const void *in, uint64_t count, void *out, const uint64_t *counts,
                         const uint64_t *offsets, weir_type type, int root);

/** Starts what weir_gatherv() does. Counts and offsets are not needed after the return. */
weir_status weir_igatherv(weir_comm *comm, const void *in, uint64_t count, void *out, const uint64_t *counts,
                          const uint64_t *offsets, weir_type type, int root, weir_request **request);

/** A persistent weir_gatherv(). */
weir_status weir_gatherv_init(weir_comm *comm, const void *in, uint64_t count, void *out, const uint64_t *counts,
                              const uint64_t *offsets, weir_type type, int root, weir_request **request);

/** @} */
/** @name Scatter with unequal counts */
/** @{ */

/**
 * Scatter: rank r gets its part of the root's input.
 *
 * `root` and `type` must agree. The root's counts[r] must be the count of rank r; that is not checked.
 *
 * @param comm     a communicator
 * @param in       at the root: the parts, or ::WEIR_IN_PLACE: they are in out, where the root's own stays; elsewhere not used
 * @param counts   at the root: elements for each rank; elsewhere not used
 * @param offsets  at the root: where they begin, in elements, or NULL for one after the other; elsewhere not used
 * @param out      `count` elements
 * @param count    elements of this rank
 * @param type     type of the elements
 * @param root     the rank that has them
 * @return as weir_allreduce()
 *
 * Thread safety: one collective call at a time for each communicator.
 */
weir_status weir_scatterv(weir_comm *comm, const void *in, const uint64_t *counts, const uint64_t *offsets, void *out,
                          uint64_t count, weir_type type, int root);

/** Starts what weir_scatterv() does. Counts and offsets are not needed after the return. */
weir_status weir_iscatterv(weir_comm *comm, const void *in, const uint64_t *counts, const uint64_t *offsets, void *out,
                           uint64_t count, weir_type type, int root, weir_request **request);

/** A persistent weir_scatterv(). */
weir_status weir_scatterv_init(weir_comm *comm, const void *in, const uint64_t *counts, const uint64_t *offsets,
                               void *out, uint64_t count, weir_type type, int root, weir_request **request);

/** @} */
/** @name All-gather with unequal counts */
/** @{ */

/**
 * All-gather: every rank gets the inputs of all, each at its place.
 *
 * `counts` and `type` must agree; `offsets` need not. With offsets that leave gaps or another order the result is copied once
 * more.
 *
 * @param comm     a communicator
 * @param in       counts[rank] elements, or ::WEIR_IN_PLACE (then at all ranks): they are at their place in out
 * @param out      the result
 * @param counts   elements of each rank, the same at all ranks
 * @param offsets  where they begin in out, in elements, or NULL for one after the other
 * @param type     type of the elements
 * @return as weir_allreduce()
 *
 * Thread safety: one collective call at a time for each communicator.
 */
weir_status weir_allgatherv(weir_comm *comm, const void *in, void *out, const uint64_t *counts, const uint64_t *offsets,
                            weir_type type);

/** Starts what weir_allgatherv() does. Counts and offsets are not needed after the return. */
weir_status weir_iallgatherv(weir_comm *comm, const void *in, void *out, const uint64_t *counts,
                             const uint64_t *offsets, weir_type type, weir_request **request);

/** A persistent weir_allgatherv(). */
weir_status weir_allgatherv_init(weir_comm *comm, const void *in, void *out, const uint64_t *counts,
                                 const uint64_t *offsets, weir_type type, weir_request **request);

/** @} */
/** @name Reduce-scatter with unequal counts */
/** @{ */

/**
 * Reduce-scatter: rank r gets counts[r] elements of the combined vector, those after the ones of the ranks below r.
 *
 * All arguments but the buffers must agree.
 *
 * @param comm    a communicator
 * @param in      the sum of counts elements, or ::WEIR_IN_PLACE (then at all ranks): out holds them
 * @param out     counts[rank] elements; in place the result is at its beginning
 * @param counts  elements for each rank, the same at all ranks
 * @param type    type of the elements
 * @param op      how they are combined
 * @return as weir_allreduce()
 *
 * Thread safety: one collective call at a time for each communicator.
 */
weir_status weir_reduce_scatterv(weir_comm *comm, const void *in, void *out, const uint64_t *counts, weir_type type,
                                 weir_op op);

/** Starts what weir_reduce_scatterv() does. Counts and offsets are not needed after the return. */
weir_status weir_ireduce_scatterv(weir_comm *comm, const void *in, void *out, const uint64_t *counts, weir_type type,
                                  weir_op op, weir_request **request);

/** A persistent weir_reduce_scatterv(). */
weir_status weir_reduce_scatterv_init(weir_comm *comm, const void *in, void *out, const uint64_t *counts,
                                      weir_type type, weir_op op, weir_request **request);

/** @} */
/** @name All-to-all with unequal counts */
/** @{ */

/**
 * All-to-all: rank r gets from every rank the part that is meant for it. Not in place.
 *
 * `type` must agree. in_counts[b] of rank a must be out_counts[a] of rank b; that is not checked.
 *
 * @param comm         a communicator
 * @param in           the parts for each rank
 * @param in_counts    their elements
 * @param in_offsets   where they begin in in, in elements, or NULL for one after the other
 * @param out          the parts from each rank
 * @param out_counts   their elements
 * @param out_offsets  where they begin in out, in elements, or NULL for one after the other
 * @param type         type of the elements
 * @return as weir_allreduce()
 *
 * Thread safety: one collective call at a time for each communicator.
 */
weir_status weir_alltoallv(weir_comm *comm, const void *in, const uint64_t *in_counts, const uint64_t *in_offsets,
                           void *out, const uint64_t *out_counts, const uint64_t *out_offsets, weir_type type);

/** Starts what weir_alltoallv() does. Counts and offsets are not needed after the return. */
weir_status weir_ialltoallv(weir_comm *comm, const void *in, const uint64_t *in_counts, const uint64_t *in_offsets,
                            void *out, const uint64_t *out_counts, const uint64_t *out_offsets, weir_type type,
                            weir_request **request);

/** A persistent weir_alltoallv(). */
weir_status weir_alltoallv_init(weir_comm *comm, const void *in, const uint64_t *in_counts, const uint64_t *in_offsets,
                                void *out, const uint64_t *out_counts, const uint64_t *out_offsets, weir_type type,
                                weir_request **request);

/** @} */

#ifdef __cplusplus
}
#endif

#endif
