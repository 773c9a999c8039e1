/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables of primitive loops, one an instruction set. */
#ifndef WR_KERNEL_LOOPS_TABLE_H
#define WR_KERNEL_LOOPS_TABLE_H

#include "comm/kernel/kernel.h"

enum { WR_KERNEL_TYPES = WEIR_FP64 + 1, WR_KERNEL_OPS = WEIR_XOR + 1 };

extern const struct wr_kernel_loops wr_loops_generic[WR_KERNEL_TYPES][WR_KERNEL_OPS];
#if defined(__x86_64__)
extern const struct wr_kernel_loops wr_loops_avx2[WR_KERNEL_TYPES][WR_KERNEL_OPS];
extern const struct wr_kernel_loops wr_loops_avx512[WR_KERNEL_TYPES][WR_KERNEL_OPS];
#endif

#endif
