/* SPDX-License-Identifier: BSD-3-Clause */
/* The loops for any processor of this architecture (the compiler's options are in Makefile.inc). */
#define LOOPS_TABLE wr_loops_generic
#include "comm/kernel/loops.h"
