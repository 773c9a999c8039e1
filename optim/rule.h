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
    unsigned span[WEIR_RULE_STATES_MAX], bytes[WEIR_RULE_STATES_MAX]; /* of states: elements for each entry, bytes of one */
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

    /* Updates a range. */
    void (*update)(const weir_rule_options *o, const weir_rule_step *step, const struct wr_rule_range *r);
};

struct weir_rule {
    const struct wr_rule_class *class;
    weir_rule_options options;
    enum wr_isa isa;
    unsigned nstates;
    struct wr_rule_state states[WEIR_RULE_STATES_MAX];
};

/* What is compiled for each instruction set. */
struct wr_optim_table {
    const struct wr_rule_class *const *rules; /* by weir_rule_kind */
};

extern const struct wr_optim_table wr_optim_generic;
#if defined(__x86_64__)
extern const struct wr_optim_table wr_optim_avx2;
extern const struct wr_optim_table wr_optim_avx512;
#endif

#endif
