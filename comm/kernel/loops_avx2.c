/* SPDX-License-Identifier: BSD-3-Clause */
/* The loops for processors with AVX2 (the compiler's options are in Makefile.inc). */
#define LOOPS_TABLE wr_loops_avx2
#include "comm/kernel/loops.h"
