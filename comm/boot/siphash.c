/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/boot/siphash.h"

static uint64_t rotl(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static uint64_t load64(const uint8_t *p)
{
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

static void store64(uint8_t *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

static void rounds(uint64_t v[4], int n)
{
    while (n--) {
        v[0] += v[1];
        v[1] = rotl(v[1], 13) ^ v[0];
        v[0] = rotl(v[0], 32);
        v[2] += v[3];
        v[3] = rotl(v[3], 16) ^ v[2];
        v[0] += v[3];
        v[3] = rotl(v[3], 21) ^ v[0];
        v[2] += v[1];
        v[1] = rotl(v[1], 17) ^ v[2];
        v[2] = rotl(v[2], 32);
    }
}

static void absorb(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    rounds(v, 2);
    v[0] ^= word;
}

void wr_siphash128(const uint8_t key[16], const void *data, size_t len, uint8_t out[WR_SIPHASH_BYTES])
{
    const uint8_t *p = data;
    uint64_t k0 = load64(key), k1 = load64(key + 8);
    /* the constants spell "somepseudorandomlygeneratedbytes"; 0xee marks the 128-bit form */
    uint64_t v[4] = {k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d ^ 0xee, k0 ^ 0x6c7967656e657261,
                     k1 ^ 0x7465646279746573};
    size_t whole = len / 8 * 8;
    for (size_t i = 0; i < whole; i += 8)
        absorb(v, load64(p + i));
    uint64_t last = (uint64_t)len << 56;
    for (size_t i = whole; i < len; i++)
        last |= (uint64_t)p[i] << 8 * (i - whole);
    absorb(v, last);
    v[2] ^= 0xee;
    rounds(v, 4);
    store64(out, v[0] ^ v[1] ^ v[2] ^ v[3]);
    v[1] ^= 0xdd;
    rounds(v, 4);
    store64(out + 8, v[0] ^ v[1] ^ v[2] ^ v[3]);
}

bool wr_equal_constant_time(const void *a, const void *b, size_t len)
{
    const volatile uint8_t *x = a, *y = b;
    uint8_t differs = 0;
    for (size_t i = 0; i < len; i++)
        differs |= (uint8_t)(x[i] ^ y[i]);
    return !differs;
}
