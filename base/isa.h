/* SPDX-License-Identifier: BSD-3-Clause */
/* Instruction sets that loops are compiled for more than once, and which of them this processor has. */
#ifndef WR_ISA_H
#define WR_ISA_H

#include <stdbool.h>

enum wr_isa {
    WR_ISA_GENERIC, /* what every processor of the architecture has */
    WR_ISA_AVX2,    /* with FMA and F16C */
    WR_ISA_AVX512,  /* F, BW, DQ, VL, and all of the above */
    WR_ISA_COUNT,
};

/*
 * The best one of this processor; `want` of "generic", "avx2", "avx512" insists on one, NULL chooses. False when the processor
 * (or the build) does not have it; *isa is set only on success. Thread safe.
 */
bool wr_isa_find(const char *want, enum wr_isa *isa);

/* The best one of this processor. Thread safe; cheap. */
enum wr_isa wr_isa_best(void);

/* "generic", "avx2" or "avx512". */
const char *wr_isa_name(enum wr_isa isa);

#endif
