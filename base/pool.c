/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/pool.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/error.h"

/* Under AddressSanitizer free objects are poisoned, so that a use after wr_pool_put() is found. */
#if defined(__SANITIZE_ADDRESS__)
#define POOL_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POOL_ASAN 1
#endif
#endif
#ifdef POOL_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n)   ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

static size_t round_up(size_t n, size_t align)
{
    return (n + align - 1) & ~(align - 1);
}

void wr_pool_init(struct wr_pool *pool, size_t size, size_t align, size_t per_block, size_t max)
{
    memset(pool, 0, sizeof *pool);
    pool->align = align ? align : alignof(max_align_t);
    if (pool->align < sizeof(void *))
        pool->align = sizeof(void *);
    pool->size = round_up(size < sizeof(void *) ? sizeof(void *) : size, pool->align);
    pool->per_block = per_block ? per_block : 64;
    pool->max = max;
}

static bool pool_grow(struct wr_pool *pool, size_t n)
{
    size_t header = round_up(sizeof(void *), pool->align);
    if (pool->max && n > pool->max - pool->total)
        n = pool->max - pool->total;
    if (!n || n > (SIZE_MAX - header) / pool->size)
        return false;
    char *block = aligned_alloc(pool->align, header + n * pool->size);
    if (!block)
        return false;
    memcpy(block, &pool->blocks, sizeof(void *));
    pool->blocks = block;
    for (size_t i = n; i-- > 0;) {
        void *object = block + header + i * pool->size;
        memcpy(object, &pool->free, sizeof(void *));
        pool->free = object;
        ASAN_POISON_MEMORY_REGION(object, pool->size);
    }
    pool->total += n;
    return true;
}

weir_status wr_pool_reserve(struct wr_pool *pool, size_t n, weir_error *err)
{
    size_t spare = pool->total - pool->in_use;
    if (spare < n && (!pool_grow(pool, n - spare) || pool->total - pool->in_use < n))
        return wr_error_memory(err, n * pool->size, "a pool of objects");
    return WEIR_OK;
}

void *wr_pool_get(struct wr_pool *pool)
{
    if (WR_UNLIKELY(!pool->free) && !pool_grow(pool, pool->per_block))
        return NULL;
    void *object = pool->free;
    ASAN_UNPOISON_MEMORY_REGION(object, pool->size);
    memcpy(&pool->free, object, sizeof(void *));
    pool->in_use++;
    return object;
}

void wr_pool_put(struct wr_pool *pool, void *object)
{
    memcpy(object, &pool->free, sizeof(void *));
    pool->free = object;
    pool->in_use--;
    ASAN_POISON_MEMORY_REGION(object, pool->size);
}

void wr_pool_destroy(struct wr_pool *pool)
{
    for (char *block = pool->blocks, *next; block; block = next) {
        memcpy(&next, block, sizeof(void *));
        free(block);
    }
    memset(pool, 0, sizeof *pool);
}
