/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pool of objects of one size, grown in blocks that are freed only with the pool: taking and giving back cost a few
 * instructions and never call malloc once the pool has reached its working size. Not thread safe.
 */
#ifndef WR_POOL_H
#define WR_POOL_H

#include <stddef.h>

#include <weir/status.h>

struct wr_pool {
    void *free;      /* first free object; each holds the next */
    void *blocks;    /* first block; each holds the next */
    size_t size;     /* bytes an object, rounded up to the alignment */
    size_t align;    /* a power of two */
    size_t per_block;
    size_t max;      /* most objects ever, 0 for no bound */
    size_t total;    /* objects that exist */
    size_t in_use;   /* objects that are taken */
};

/*
 * Prepares a pool of objects of `size` bytes aligned to `align` (a power of two, 0 for the usual), growing by
 * `per_block` and never past `max` objects (0: unbounded). Allocates nothing yet.
 */
void wr_pool_init(struct wr_pool *pool, size_t size, size_t align, size_t per_block, size_t max);

/* Makes sure that `n` objects exist, so that the next n calls of wr_pool_get() do not allocate. */
weir_status wr_pool_reserve(struct wr_pool *pool, size_t n, weir_error *err);

/* Takes an object, uninitialised; NULL when memory or the bound is exhausted. */
void *wr_pool_get(struct wr_pool *pool);

/* Gives an object back. */
void wr_pool_put(struct wr_pool *pool, void *object);

/* Frees everything, taken objects included. */
void wr_pool_destroy(struct wr_pool *pool);

#endif
