/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums of squares in the order that weir_norm_partials() promises, for files that are compiled once for each instruction set: element
 * k of a block is added to lane k % 16, in fp64 (where the square of a float is exact); the lanes are folded by halves.
 */
#ifndef WR_OPTIM_LANES_H
#define WR_OPTIM_LANES_H

#include <weir/vector.h>

#include "optim/loops.h"

enum { WR_LANES = 16 };

struct wr_lanes {
    double sum[WR_LANES];
};

/* Registers as the compiler has them: of any width. */
typedef float wr_float8 __attribute__((vector_size(32)));
typedef double wr_double8 __attribute__((vector_size(64)));

static inline double wr_square(float x)
{
    return (double)x * (double)x;
}

/* Adds n elements, of which the first is element `at` of the vector. */
static inline void wr_lanes_add(struct wr_lanes *lanes, const float *x, uint64_t at, size_t n)
{
    size_t i = 0;
    for (; i < n && (at + i) % WR_LANES; i++)
        lanes->sum[(at + i) % WR_LANES] += wr_square(x[i]);
    wr_double8 low, high;
    memcpy(&low, lanes->sum, sizeof low);
    memcpy(&high, lanes->sum + 8, sizeof high);
    for (; i + WR_LANES <= n; i += WR_LANES) {
        wr_float8 a, b;
        memcpy(&a, x + i, sizeof a);
        memcpy(&b, x + i + 8, sizeof b);
        wr_double8 wide_a = __builtin_convertvector(a, wr_double8), wide_b = __builtin_convertvector(b, wr_double8);
        low += wide_a * wide_a;
        high += wide_b * wide_b;
    }
    memcpy(lanes->sum, &low, sizeof low);
    memcpy(lanes->sum + 8, &high, sizeof high);
    for (; i < n; i++)
        lanes->sum[(at + i) % WR_LANES] += wr_square(x[i]);
}

/* The sum of all lanes; they are empty afterwards. */
static inline double wr_lanes_take(struct wr_lanes *lanes)
{
    double *s = lanes->sum;
    for (int half = WR_LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            s[i] += s[i + half];
    double sum = s[0];
    memset(lanes, 0, sizeof *lanes);
    return sum;
}

/* A piece that begins at element `at` and has at most n elements ends with a chunk, so that none crosses the border of a block. */
static inline uint64_t wr_chunk_length(uint64_t at, uint64_t n)
{
    uint64_t to_border = WR_CHUNK - at % WR_CHUNK;
    return WR_MIN(n, to_border);
}

/*
 * Gives two arrays of p->n elements whose squares are to be summed up; g is the gradient in fp32, u is room for results.
 */
typedef void (*wr_pair_fn)(const struct wr_rule_range *p, const float *g, float *u, const float *of[2],
                           const void *arg);

/* Walks over a range that begins at element `first` of its shard; sums has two arrays of weir_norm_blocks(first, n). */
static inline void wr_range_sums(const struct wr_rule_range *r, uint64_t first, double *sums, wr_pair_fn fn,
                                 const void *arg)
{
    WR_ALIGNED(64) float wide[WR_CHUNK], u[WR_CHUNK];
    struct wr_lanes lanes[2] = {{{0}}, {{0}}};
    uint64_t blocks = weir_norm_blocks(first, r->n);
    for (uint64_t at = 0; at < r->n;) {
        struct wr_rule_range p = wr_range_part(r, at, wr_chunk_length(first + at, r->n - at));
        const float *of[2];
        fn(&p, wr_range_grad(&p, wide), u, of, arg);
        for (int k = 0; k < 2; k++)
            wr_lanes_add(&lanes[k], of[k], first + at, p.n);
        at += p.n;
        if (at == r->n || (first + at) % WEIR_NORM_BLOCK == 0) {
            sums[0] = wr_lanes_take(&lanes[0]);
            sums[blocks] = wr_lanes_take(&lanes[1]);
            sums++;
        }
    }
}

#endif
