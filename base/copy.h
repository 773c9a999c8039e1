/* SPDX-License-Identifier: BSD-3-Clause */
/* Copying large blocks: streaming stores, which do not read the destination first, where the processor has them. */
#ifndef WR_COPY_H
#define WR_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* From here on streaming stores win: the block no longer fits the caches that a core has to itself. */
#define WR_COPY_STREAMING_MIN ((size_t)1 << 20)

/*
 * Copies `n` bytes between blocks that do not overlap, past the caches. All stores are ordered before later ones when it
 * returns (it ends with a store fence). Processors without such stores get memcpy().
 */
void wr_copy_streaming(void *dst, const void *src, size_t n);

/* Copies `n` bytes between blocks that do not overlap, in the way that is fastest for the size. */
static inline void wr_copy(void *dst, const void *src, size_t n)
{
    if (n >= WR_COPY_STREAMING_MIN)
        wr_copy_streaming(dst, src, n);
    else
        memcpy(dst, src, n);
}

#endif
