/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random numbers that are functions of their place: the n-th number of a key, without a state. So they do not depend on who asks, or
 * in which order: any division of the work over ranks draws the same.
 */
#ifndef GPT_RANDOM_H
#define GPT_RANDOM_H

#include <stdint.h>

/* A permutation of 64-bit numbers in which each bit of the input changes half of the output (Stafford's variant 13 of MurmurHash3's
 * end, as in Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014). */
static inline uint64_t gpt_mix64(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* A key made of two. */
static inline uint64_t gpt_key(uint64_t a, uint64_t b)
{
    return gpt_mix64(gpt_mix64(a) ^ b);
}

/* The n-th number of a key, in [0, 1). */
static inline double gpt_uniform(uint64_t key, uint64_t n)
{
    return (double)(gpt_key(key, n) >> 11) * 0x1p-53;
}

/* 32 bits of a key of 32 bits: two rounds of the same kind (Wellons, "Prospecting for hash functions", 2018), which vectorise. */
static inline uint32_t gpt_mix32(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

#endif
