/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The proof that a plan is right: a symbolic run of all ranks, two executions in a row.
 *
 * Contents. Every element of every buffer has a symbolic value: the place in the inputs that it comes from and
 * the ranks whose contributions are in it. Runs of elements are kept as one interval. At a rank's end its OUT
 * must hold exactly what the collective promises.
 *
 * Order. Lanes and puts carry vector clocks. Counters only grow and every wait names an exact value, so the
 * relation "happens before" is the same in all schedules, and one run proves all of them: any two accesses to
 * overlapping memory of which one writes must be ordered by it. A put writes at any time between its issue and
 * the moment its receiver has waited for the signal that covers it, and reads its source until its lane's next
 * drain or end.
 *
 * Besides the rules in plan.h this asks for: one lane that signals and one that waits for each counter; the
 * largest value waited for equal to the number of signals sent; loads and stores only of memory that is mapped;
 * puts only to other nodes; partial results not rounded on their way (when the partial type is wider, REDUCE
 * never takes a combined value from OUT).
 */
#ifndef WR_VERIFY_H
#define WR_VERIFY_H

#include "comm/plan/plan.h"

struct wr_verify_result {
    uint64_t steps, refs, signals; /* of all programs, in one execution */
    uint32_t max_lanes;            /* most lanes of a rank */
    uint64_t max_scratch;          /* elements; of the rank with the most */
    uint64_t local_bytes;          /* loaded and stored by COPY and REDUCE */
    uint64_t network_bytes;        /* put between nodes */
    /*
     * A hash of how every result element was combined (which partial results, in which order). Equal hashes: the same
     * numbers come out, bit for bit, whatever the placement. 0 when nothing is combined.
     */
    uint64_t order;
    bool same_at_all; /* collectives whose result all ranks have: it is combined alike everywhere */
    int nnodes;
    uint64_t *egress, *ingress; /* bytes put out of and into each node */
};

/*
 * Verifies the programs of all ranks (spec->topo->nranks of them, in rank order). WEIR_ERR_INTERNAL with a
 * sentence that names rank, lane and step when a rule is broken; `result` (may be NULL) is set on success only,
 * and is freed by wr_verify_result_free(). Memory: of the order of (lanes + put streams)^2 words at worst, and
 * the intervals. Thread safe.
 */
weir_status wr_verify_programs(const struct wr_plan_spec *spec, const struct wr_program *programs,
                               struct wr_verify_result *result, weir_error *err);

/* The same with the programs of all ranks built by `algorithm`. */
weir_status wr_verify(const struct wr_plan_spec *spec, const struct wr_algorithm *algorithm,
                      struct wr_verify_result *result, weir_error *err);

/* How a proof was made: of how many classes, with how many images each, and how many of all programs were compared with others. */
struct wr_verify_how {
    int classes, shifts;
    uint64_t compared;
};

enum { WR_VERIFY_DENSE = 4096 }; /* ranks up to which clocks hold everything */

/*
 * The same for any number of ranks, by the symmetry of the machine and of the programs where there is any: see verify_class.c. All
 * programs are compared where that takes less than about a minute, else as many, evenly spread: how->compared tells. Clocks forget what is rarely
 * asked for, so that a right plan may be refused, but no wrong one is passed. The result's `order` is 0 and `same_at_all` says
 * nothing. WEIR_ERR_UNSUPPORTED with a sentence when the programs that would have to be run have too many steps. Memory: about 100
 * bytes for each of these steps.
 */
weir_status wr_verify_classes(const struct wr_plan_spec *spec, const struct wr_algorithm *algorithm, struct wr_verify_how *how,
                              struct wr_verify_result *result, weir_error *err);

/*
 * What needs no symbolic run, for any number of ranks in memory that grows with their number only: all programs are built, one at
 * a time; every step stays inside the memory that exists and is mapped, every put is covered by a signal, and as many signals are
 * sent as are waited for, in every counter (by a fingerprint: a mistake passes with a chance of 2^-64). It says nothing about
 * contents, order and deadlock; `order` and `same_at_all` of the result are not set.
 */
weir_status wr_verify_scan(const struct wr_plan_spec *spec, const struct wr_algorithm *algorithm, struct wr_verify_result *result,
                           weir_error *err);

/* Builds the programs of all ranks; *programs is freed by wr_programs_free(). */
weir_status wr_programs_build(const struct wr_plan_spec *spec, const struct wr_algorithm *algorithm,
                              struct wr_program **programs, weir_error *err);
void wr_programs_free(struct wr_program *programs, int n);

void wr_verify_result_free(struct wr_verify_result *result);

#endif
