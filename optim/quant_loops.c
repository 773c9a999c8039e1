/* SPDX-License-Identifier: BSD-3-Clause */
/* One block of int8, for one instruction set; quant.h says what it means. */
#include <float.h>

#include "optim/loops.h"
#include "optim/quant.h"
#include "optim/table.h"

/* Adding 1.5 * 2^23 rounds to the nearest whole number, even ones first, and leaves it in the low bits. */
static float encode(int8_t *restrict codes, const float *restrict x, size_t n)
{
    float most = wr_largest(x, n);
    if (!(most <= FLT_MAX) || most < WR_QUANT_LEAST) {
        memset(codes, 0, n);
        return most <= FLT_MAX ? 0 : NAN;
    }
    float inverse = WR_QUANT_CODES / most;
    WR_LOOP(n)
        codes[i] = (int8_t)half_bits(x[i] * inverse + 0x1.8p23f);
    return most / WR_QUANT_CODES;
}

static void decode(float *restrict x, const int8_t *restrict codes, float scale, size_t n)
{
    WR_LOOP(n)
        x[i] = (float)codes[i] * scale;
}

static void add(float *restrict sum, const int8_t *restrict codes, float scale, size_t n)
{
    WR_LOOP(n)
        sum[i] += (float)codes[i] * scale;
}

const struct wr_quant_loops WR_ISA_NAME(wr_quant_loops) = {encode, decode, add};
