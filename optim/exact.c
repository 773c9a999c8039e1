/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/exact.h"

#include <math.h>

enum { BITS = 32, LOWEST = -1074, DIGITS = 53 };

void wr_exact_add(struct wr_exact *sum, double x)
{
    int exponent;
    uint64_t digits = (uint64_t)ldexp(frexp(x, &exponent), DIGITS); /* x is digits times 2^(exponent - DIGITS) */
    int at = exponent - DIGITS - LOWEST;
    if (at < 0) { /* a denormal number: the digits below the lowest bit are zero */
        digits >>= -at;
        at = 0;
    }
    unsigned __int128 wide = (unsigned __int128)digits << at % BITS;
    for (int limb = at / BITS; wide; limb++, wide >>= BITS)
        sum->limbs[limb] += (int64_t)(uint32_t)wide;
}

double wr_exact_round(const struct wr_exact *sum)
{
    uint32_t limbs[WR_EXACT_LIMBS];
    uint64_t carry = 0;
    double x = 0;
    int top = 0;
    for (int i = 0; i < WR_EXACT_LIMBS; i++) {
        carry += (uint64_t)sum->limbs[i];
        limbs[i] = (uint32_t)carry;
        carry >>= BITS;
        top = limbs[i] ? i : top;
    }
    for (int i = top > 2 ? top - 2 : 0; i <= top; i++) /* what is below three limbs is below the last digit */
        x += ldexp(limbs[i], i * BITS + LOWEST);
    return x;
}
