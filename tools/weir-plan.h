/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of weir-plan. */
#ifndef WR_TOOLS_WEIR_PLAN_H
#define WR_TOOLS_WEIR_PLAN_H

#include <stdbool.h>
#include <stdio.h>

#include <weir/weir.h>

#include "comm/plan/simulate.h"
#include "comm/plan/verify.h"

enum { PLAN_ALGORITHMS = 32, PLAN_VERIFY_RANKS = 4096, PLAN_SMALL_RANKS = 1024, PLAN_DRAW_RANKS = 256, PLAN_SCAN_STEPS = 100000000 };

struct plan_options {
    enum wr_collective coll;
    int64_t nodes, root, rails;
    const char *ppn, *levels, *placement, *algo, *svg, *trace;
    uint64_t bytes, chunk;
    weir_type type;
    bool verify, simulate, in_place, mapped, json, list;
};

/* An imagined machine with ranks placed on it. */
struct plan_machine {
    struct wr_plan_topo topo;
    int *node_of, *local_rank, *node_size, *ranks, **node_ranks, **group_of;
    const char *level_name[WR_COST_LEVELS];
};

/* weir-plan-machine.c: WEIR_ERR_INVALID with a sentence when the words do not make a machine. */
weir_status plan_machine_make(struct plan_machine *machine, const struct plan_options *options, weir_error *err);
void plan_machine_free(struct plan_machine *machine);

/* What became of one algorithm. */
struct plan_outcome {
    const struct wr_algorithm *algorithm;
    bool verified, scanned, simulated; /* scanned: see wr_verify_scan() */
    int small_nodes, small_ranks;      /* of the smaller machine for which it was proven instead */
    struct wr_verify_result proof;
    struct wr_verify_how how; /* classes 0: in full, without a word about it */
    char unproven[300];       /* why the machine itself is not */
    double egress, ingress; /* most bytes of a node over what it must send and receive; 0: it must not */
    struct wr_sim_result result;
    weir_error error;       /* of the simulation, when there is none */
};

struct plan_report {
    const struct plan_options *options;
    const struct plan_machine *machine;
    struct wr_plan_spec spec;
    struct wr_cost cost;
    struct plan_outcome outcome[PLAN_ALGORITHMS];
    int n;
};

/* weir-plan-proof.c: of all ranks or, where these are too many, what can be. */
weir_status plan_prove(const struct plan_report *report, struct plan_outcome *outcome, weir_error *err);

/* weir-plan-report.c */
void plan_print_machine(const struct plan_report *report, FILE *out);
void plan_print_proofs(const struct plan_report *report, FILE *out);
bool plan_print_times(const struct plan_report *report, FILE *out);
void plan_print_json(const struct plan_report *report, FILE *out);
void plan_print_list(FILE *out);

/* weir-plan-draw.c: the picture and the trace (either may be NULL) of one algorithm. */
weir_status plan_draw(const struct plan_report *report, const struct wr_algorithm *algorithm, const char *svg, const char *trace,
                      weir_error *err);

#endif
