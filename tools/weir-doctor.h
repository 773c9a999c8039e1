/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of weir-doctor. Each check looks at one thing and says what it found, with the fix. Checks of a host are made
 * by the first rank of each node, checks of a process by all ranks, checks of the whole job by rank 0.
 */
#ifndef WR_TOOLS_WEIR_DOCTOR_H
#define WR_TOOLS_WEIR_DOCTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <weir/weir.h>

#include "base/compiler.h"
#include "base/config.h"

enum level { LEVEL_OK, LEVEL_NOTE, LEVEL_WARNING, LEVEL_PROBLEM };
enum scope { SCOPE_JOB, SCOPE_NODE, SCOPE_RANK };

struct finding {
    enum level level;
    enum scope scope;
    char subject[24];
    char text[400];
    char fix[320];   /* "" when there is nothing to do */
    char where[160]; /* filled in by the merge; "" means everywhere */
};

struct doctor {
    weir_ctx *ctx;         /* NULL when weir_init() failed */
    const weir_topo *topo; /* NULL when it could not be had */
    weir_error error;      /* why ctx or topo is missing */
    int rank, size;
    struct wr_config config;
    bool config_ok;
    struct finding *list;
    size_t n;
    bool failed; /* out of memory: findings were lost */
};

/* Adds a finding; `fix` may be NULL. */
void doctor_say(struct doctor *doctor, enum level level, enum scope scope, const char *subject, const char *fix,
                const char *fmt, ...) WR_PRINTF(6, 7);

/* The checks, by subject. */
void doctor_check_memory_host(struct doctor *doctor);
void doctor_check_memory_process(struct doctor *doctor);
void doctor_check_kernel(struct doctor *doctor);
void doctor_check_limits(struct doctor *doctor);
void doctor_check_cpus(struct doctor *doctor);
void doctor_check_binding(struct doctor *doctor); /* rank 0; needs the topology */
void doctor_check_nics(struct doctor *doctor);    /* needs the topology */
void doctor_check_fabrics(struct doctor *doctor);
void doctor_check_launcher(struct doctor *doctor); /* rank 0 */
void doctor_check_pmi(struct doctor *doctor);
void doctor_check_config(struct doctor *doctor);
/* Collective over all ranks; rank 0 says what was found. */
weir_status doctor_check_clocks(struct doctor *doctor);

/* The probes' side: exit code, or -1 when `name` is none of these. */
int doctor_probe_kernel(const char *name);
int doctor_probe_pmi(const char *name);

/* Collective: brings all findings to rank 0 and merges equal ones there. */
weir_status doctor_gather(struct doctor *doctor);

/* Print; the JSON one gives WEIR_ERR_UNSUPPORTED without jansson. */
void doctor_print(const struct doctor *doctor, FILE *out);
weir_status doctor_print_json(const struct doctor *doctor, FILE *out, weir_error *err);
size_t doctor_count(const struct doctor *doctor, enum level level);

#endif
