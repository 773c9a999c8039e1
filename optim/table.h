/* SPDX-License-Identifier: BSD-3-Clause */
/* What is compiled once for each instruction set, and which of them this processor gets. */
#ifndef WR_OPTIM_TABLE_H
#define WR_OPTIM_TABLE_H

#include "base/isa.h"
#include "optim/quant.h"
#include "optim/rule.h"

/* The loops behind weir/vector.h; pointers stand at the first element. */
struct wr_vector_loops {
    void (*norm_partials)(const void *x, weir_type type, uint64_t first, uint64_t n, double *partials);
    void (*ema)(float *average, const float *w, uint64_t n, float decay, float rest);
    void (*convert)(void *dst, weir_type dst_type, const void *src, weir_type src_type, uint64_t n);
};

/* The loops of attention and of losses; no two arrays of a call overlap. */
struct wr_softmax_loops {
    float (*most)(const float *x, size_t n);                         /* the largest; -infinity of none */
    float (*exponentials)(float *x, float shift, size_t n);          /* x = exp(x - shift); returns their sum */
    float (*dot)(const float *x, const float *y, size_t n);
    void (*scale)(float *x, float factor, size_t n);                 /* x *= factor */
    void (*add)(float *sum, const float *x, size_t n);               /* sum += x */
    void (*back)(float *d, const float *shares, float mean, float factor, size_t n); /* d = factor shares (d - mean) */
};

struct wr_optim_table {
    const struct wr_rule_class *const *rules; /* by weir_rule_kind */
    const struct wr_vector_loops *vector;
    const struct wr_softmax_loops *softmax;
    const struct wr_quant_loops *quant;
};

/* The table of an instruction set that the build has. */
const struct wr_optim_table *wr_optim_table(enum wr_isa isa);

/* The table of the best one that the processor has. */
const struct wr_optim_table *wr_optim_table_best(void);

#endif
