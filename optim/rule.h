/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a rule is inside: a class (a table of functions) and its options. The file of a rule is compiled once for each instruction
 * set, so there are as many classes of it; rule.c knows them through the table of each set.
 */
#ifndef WR_OPTIM_RULE_H
#define WR_OPTIM_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/rule.h>

#include "base/isa.h"

struct wr_blas;

/* A state as its rule declares it; initial comes from the options. */
struct wr_rule_state {
    const char *name;
    weir_type type;
    unsigned span; /* elements for each entry, 0: by the tensor's shape */
    double initial;
};

/* A range of a shard whose arguments were checked: all pointers stand at its first element. */
struct wr_rule_range {
    float *w;
    const void *g;
    weir_type grad_type;
    void *out; /* may be NULL */
    weir_type out_type;
    void *s[WEIR_RULE_STATES_MAX];
    unsigned span[WEIR_RULE_STATES_MAX],
        bytes[WEIR_RULE_STATES_MAX]; /* of states: elements for each entry, bytes of one */
    uint64_t n;
};

struct wr_rule_class {
    weir_access access;
    unsigned granule;
    uint64_t flags; /* that it knows */

    /* Writes the usual settings into options that are zero but for size and kind. */
    void (*defaults)(weir_rule_options *o);

    /* The setting that is out of its range, as "name must be ..."; NULL when all are good. */
    const char *(*wrong)(const weir_rule_options *o);

    /* The states that the options need; returns how many. */
    unsigned (*states)(const weir_rule_options *o, struct wr_rule_state *states);

    /* Updates a range; with access tensor by step->ratio, after prepare. NULL with access matrix. */
    void (*update)(const weir_rule_options *o, const weir_rule_step *step, const struct wr_rule_range *r);

    /* Access tensor: the first half of an update, and the two sums over the range, which begins at element `first` of its shard. */
    void (*prepare)(const weir_rule_options *o, const weir_rule_step *step, const struct wr_rule_range *r,
                    uint64_t first, double *sums);

    /* Access tensor: the ratio from the two sums over the whole tensor. */
    double (*ratio)(const weir_rule_options *o, const weir_rule_step *step, double sum0, double sum1);

    /* Access matrix: updates a whole tensor; r->n = rows * cols. `work` has the bytes that work() says, aligned to 64. */
    void (*update_matrix)(const weir_rule *rule, const weir_rule_step *step, const struct wr_rule_range *r,
                          uint64_t rows, uint64_t cols, void *work);
    uint64_t (*work)(uint64_t rows, uint64_t cols);

    /* Entries of state `index` with span 0. */
    uint64_t (*state_count)(unsigned index, uint64_t rows, uint64_t cols);

    bool needs_blas; /* weir_rule::blas is set */
};

struct weir_rule {
    const struct wr_rule_class *class;
    weir_rule_options options;
    enum wr_isa isa;
    const struct wr_blas *blas; /* where the class needs it */
    unsigned nstates;
    struct wr_rule_state states[WEIR_RULE_STATES_MAX];
};

#endif
