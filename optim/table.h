/* SPDX-License-Identifier: BSD-3-Clause */
/* What is compiled once for each instruction set, and which of them this processor gets. */
#ifndef WR_OPTIM_TABLE_H
#define WR_OPTIM_TABLE_H

#include "base/isa.h"
#include "optim/rule.h"

/* The loops behind weir/vector.h; pointers stand at the first element. */
struct wr_vector_loops {
    void (*norm_partials)(const void *x, weir_type type, uint64_t first, uint64_t n, double *partials);
    void (*ema)(float *average, const float *w, uint64_t n, float decay, float rest);
    void (*convert)(void *dst, weir_type dst_type, const void *src, weir_type src_type, uint64_t n);
};

struct wr_optim_table {
    const struct wr_rule_class *const *rules; /* by weir_rule_kind */
    const struct wr_vector_loops *vector;
};

/* The table of an instruction set that the build has. */
const struct wr_optim_table *wr_optim_table(enum wr_isa isa);

/* The table of the best one that the processor has. */
const struct wr_optim_table *wr_optim_table_best(void);

#endif
