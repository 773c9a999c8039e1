/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers as blocks of int8. A block of elements has a scale, its largest magnitude / 127, and each element is a code times that: it is
 * at most half a scale away from what it was (and a rounding of fp32). A block with an element that is not finite becomes NaN as a
 * whole, so nothing that is not finite is lost; a block of which nothing reaches WR_QUANT_LEAST becomes 0. All instruction sets give the
 * same bits.
 *
 * Packed, n elements are the scales of their blocks in fp32, then the codes. The last block may be short.
 */
#ifndef WR_OPTIM_QUANT_H
#define WR_OPTIM_QUANT_H

#include <stdint.h>

#include <weir/type.h>

/* Blocks have a multiple of so many elements, and so many at most. */
enum { WR_QUANT_GRAIN = 32, WR_QUANT_MOST = 4096 };

#define WR_QUANT_CODES 127.0f
#define WR_QUANT_LEAST 0x1p-100f

struct wr_quant_loops {
    float (*encode)(int8_t *codes, const float *x, size_t n); /* returns the scale */
    void (*decode)(float *x, const int8_t *codes, float scale, size_t n);
    void (*add)(float *sum, const int8_t *codes, float scale, size_t n); /* sum += what it was */
};

static inline uint64_t wr_quant_blocks(uint64_t n, uint64_t block)
{
    return (n + block - 1) / block;
}

/* Bytes of n elements. */
static inline uint64_t wr_quant_bytes(uint64_t n, uint64_t block)
{
    return n + wr_quant_blocks(n, block) * sizeof(float);
}

/*
 * Bytes in front of element `at`, when up to `parts` packed ranges stand before it: no less than they take, whatever their lengths.
 * So where a range is follows from where its elements are.
 */
static inline uint64_t wr_quant_before(uint64_t at, uint64_t parts, uint64_t block)
{
    return at + (at / block + parts) * sizeof(float);
}

/* Packs n elements of fp32, bf16 or fp16. `to` is aligned to 4 bytes; nothing overlaps. */
void wr_quant_pack(void *to, const void *from, weir_type type, uint64_t n, uint64_t block);
void wr_quant_unpack(void *to, weir_type type, const void *from, uint64_t n, uint64_t block);

/* Elements first .. first + m - 1 of n that are packed, which are in one block: adds them. */
void wr_quant_add(float *sum, const void *from, uint64_t n, uint64_t block, uint64_t first, uint64_t m);

/* Packs elements first .. first + m - 1 of n, which are one block. */
void wr_quant_put(void *to, const float *x, uint64_t n, uint64_t block, uint64_t first, uint64_t m);

#endif
