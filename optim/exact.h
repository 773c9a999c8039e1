/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums of doubles without rounding: each number is added to a whole number of thousands of bits, so the sum is the same whoever adds
 * what in which order, and sums of several ranks add up to that of all numbers (Kulisch's long accumulator). Rounded once, in the end.
 */
#ifndef WR_OPTIM_EXACT_H
#define WR_OPTIM_EXACT_H

#include <stdint.h>

/* Limbs of 32 bits, in 64 so that 2^31 numbers can be added before anything is carried; the lowest bit is 2^-1074. */
enum { WR_EXACT_LIMBS = 68 };

struct wr_exact {
    int64_t limbs[WR_EXACT_LIMBS];
};

/* Adds a finite number that is not negative. */
void wr_exact_add(struct wr_exact *sum, double x);

/* The sum, to within one unit in the last place. A function of the sum alone. */
double wr_exact_round(const struct wr_exact *sum);

#endif
