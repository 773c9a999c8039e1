/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport on the node: messages through rings in shared memory, one-sided operations by plain copies on segments
 * and by cross-memory attach (or, where that is forbidden, staged through the rings) on all other memory. Beside its ops
 * table it offers *segments*: memory of several ranks in one mapping, on which peers use plain loads and stores.
 */
#ifndef WR_SHM_H
#define WR_SHM_H

#include "comm/transport/transport.h"

extern const struct wr_transport_ops wr_shm_ops;

struct wr_shm_segment;

enum {
    WR_SHM_SEGMENT_SHARED = 1,     /* one part, of bytes[0], that all ranks of the group use */
    WR_SHM_SEGMENT_SMALL_PAGES = 2 /* no huge pages */
};

/*
 * Makes a segment with a part for each of the `n` ranks of this node (world ranks, the same list and order at all of
 * them): part i has bytes[i] bytes (0: none), is zero, lies in memory near rank ranks[i] and starts at a page. Collective
 * over these ranks, which must have called start(); returns when this rank's own part is usable, that of another rank
 * when that rank has returned. Groups may overlap, but ranks that share two groups must create their segments in the
 * same order, unless their labels differ; label is the same at all of them. WEIR_ERR_NO_MEMORY at a rank whose part cannot be had: the caller lets the ranks agree on that and frees.
 * `t` is the shm transport itself, not a layer over it.
 */
weir_status wr_shm_segment_create(struct wr_transport *t, const int *ranks, int n, const uint64_t *bytes, unsigned flags,
                                  uint64_t label, struct wr_shm_segment **segment, weir_error *err);

/*
 * The same in two calls, of which none waits: when wr_shm_segment_end() is called, wr_shm_segment_begin() must have returned
 * WEIR_OK at the first of the ranks. Between the two, and after the second, wr_shm_segment_free() frees it; the one that fails
 * has freed it.
 */
weir_status wr_shm_segment_begin(struct wr_transport *t, const int *ranks, int n, const uint64_t *bytes, unsigned flags,
                                 uint64_t label, struct wr_shm_segment **segment, weir_error *err);
weir_status wr_shm_segment_end(struct wr_transport *t, struct wr_shm_segment *segment, weir_error *err);

/* Wakes a rank of this node (a world rank) that sleeps, after something was written for it to shared memory. Cheap when it does
 * not sleep. */
void wr_shm_wake_rank(struct wr_transport *t, int rank);

/*
 * The word that tells whether a rank of this node (a world rank, connected or this one) sleeps: not 0, and wr_shm_wake_rank() is
 * due after something was written for it to shared memory. `*fence`: only a look after a full fence counts. NULL when the rank
 * is not of this node.
 */
const uint32_t *wr_shm_sleeper(const struct wr_transport *t, int rank, bool *fence);

/* Before this rank sleeps, pending(arg) is asked whether something has come by plain stores; true keeps it awake. */
void wr_shm_set_pending(struct wr_transport *t, bool (*pending)(void *arg), void *arg);

/* The address and size of part `index` in this process; with WR_SHM_SEGMENT_SHARED every index gives the one part. */
void *wr_shm_segment_base(const struct wr_shm_segment *segment, int index);
uint64_t wr_shm_segment_bytes(const struct wr_shm_segment *segment, int index);

/* The size of its pages: 4096, or that of the huge pages that it got. */
uint64_t wr_shm_segment_page(const struct wr_shm_segment *segment);

/* To be called before the first plain load or store of a range of another rank's part: makes its page table entries at
 * once, which costs a hundredth of a fault on every page. Cheap when it was done already. */
void wr_shm_segment_touch(struct wr_shm_segment *segment, int index, uint64_t offset, uint64_t len);

/* Frees this rank's hold. The memory is gone when the last rank did; regions in it must have been deregistered, and its
 * keys count as stale from now on. NULL is allowed. */
void wr_shm_segment_free(struct wr_transport *t, struct wr_shm_segment *segment);

#endif
