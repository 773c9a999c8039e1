/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long a plan would take: an event-driven run of its programs on the cost model of cost.h.
 *
 * What is modelled.
 * - A rank has one core. The steps of its lanes share it, one at a time, in the order in which they become ready.
 * - COPY and REDUCE take the core's time for their bytes, and move them over the memory bus of the node. The bus serves pieces
 *   (64 KiB of loads and stores, or a sixteenth of a long step) in the order in which they come, which for equal pieces is a
 *   fair share for each rank. Runs of short copies are taken as one.
 * - A PUT costs the core its overhead, then is cut into pieces (64 KiB, or a sixteenth). The messages of a rank leave one
 *   after the other; the pieces of different ranks take turns at the interface, which serves them in order of arrival. A piece
 *   passes the uplinks of the groups that it leaves, the latency, the uplinks of those that it enters and the receiving
 *   interface: each is a server with one queue, entered as soon as the head of the piece is there (cut-through). Queues in the
 *   network are unbounded. The bytes also pass the memory buses of both nodes, on which others wait for them.
 * - A SIGNAL to another node is a message without bytes; within the node it takes the flag's latency.
 * - DRAIN waits for the acknowledgement of the lane's puts, while the core serves the other lanes.
 * - One execution, all ranks entering at time 0; WAITs for earlier executions pass.
 *
 * How it is computed.
 * - WR_SIM_FULL: all ranks are run.
 * - WR_SIM_CLASSES: when the machine looks the same from every node, or from every group of the outermost level (equal nodes
 *   in block placement, equal groups), and the programs do too, then one node, or one such group, is run and stands for all:
 *   a message that leaves it for another comes into it from the one that is as far on the other side. The machine's symmetry
 *   is checked in full; that of the programs by comparing those of some ranks with those of others. Nothing else is assumed:
 *   the result is that of a full run, but for the order among events of the same nanosecond.
 * - WR_SIM_FIT: forms with more events than `max_steps`. Two smaller runs (fewer chunks of the same length, or fewer nodes) give
 *   the line time = a + b * size, which is the closed form of rings, chains and pipelines once they are full; the result says
 *   which line it is. Chunks are as many as it takes until the pipeline of all nodes is full, or as can be run: with fewer the
 *   line is too steep, by some per cent. A chunk never takes less than the busiest interface or memory bus needs for it.
 *
 * Memory: about 32 bytes a step that is run (at most max_steps of them) and 40 a message in flight; programs are built rank by
 * rank and freed. All times in nanoseconds. Thread safe; deterministic.
 */
#ifndef WR_SIMULATE_H
#define WR_SIMULATE_H

#include "comm/plan/cost.h"
#include "comm/plan/plan.h"

enum wr_sim_method { WR_SIM_FULL, WR_SIM_CLASSES, WR_SIM_FIT };

enum { WR_SIM_LEVELS = 1 + WR_COST_LEVELS + 1 };

struct wr_sim_result {
    enum wr_sim_method method;
    char how[160];        /* the method in words */
    int nodes, ranks;     /* that were run (the larger of two runs for WR_SIM_FIT) */
    uint64_t steps, events;
    double time;          /* until the last rank is done */
    double first;         /* until the first rank is done */
    double bound;         /* no plan can be faster on this machine: see wr_sim_bound() */
    /* Bytes of the whole machine: [0] loaded and stored in nodes; [1 + l] put between nodes whose innermost common group is one
     * of level l; [1 + nlevels] between the outermost groups. */
    uint64_t bytes[WR_SIM_LEVELS];
    uint64_t max_egress, max_ingress; /* of the node with most */
    double out_busy, in_busy;         /* of the busiest interface */
    double memory_busy;               /* of the busiest memory bus */
};

/* What happened, for pictures. Times as above. */
enum wr_sim_kind { WR_SIM_COPY, WR_SIM_REDUCE, WR_SIM_WAIT, WR_SIM_DRAIN, WR_SIM_MESSAGE, WR_SIM_FLAG };
struct wr_sim_event {
    enum wr_sim_kind kind;
    int rank;            /* whose step it is; the sender */
    uint32_t lane;
    int peer;            /* the receiver; who is waited for; else -1 */
    uint64_t bytes;      /* loaded and stored, or put */
    double begin, end;   /* MESSAGE: from the start of the put to its arrival; FLAG likewise */
    double left;         /* MESSAGE: when the last byte left */
};

struct wr_sim_options {
    uint64_t max_steps; /* 0: 16 million */
    int classes;        /* 0: where they apply and there are more than 512 ranks; 1: where they apply; -1: never */
    void (*event)(void *user, const struct wr_sim_event *event); /* may be NULL; asks for a full run */
    void *user;
};

/*
 * Simulates `algorithm`. WEIR_ERR_UNSUPPORTED with a sentence when there are too many events and no line to be drawn (unequal
 * counts or nodes); WEIR_ERR_INTERNAL when the plan does not end.
 */
weir_status wr_simulate(const struct wr_plan_spec *spec, const struct wr_algorithm *algorithm, const struct wr_cost *cost,
                        const struct wr_sim_options *options, struct wr_sim_result *result, weir_error *err);

/* The same with given programs of all ranks, always in full. */
weir_status wr_simulate_programs(const struct wr_plan_spec *spec, const struct wr_program *programs, const struct wr_cost *cost,
                                 const struct wr_sim_options *options, struct wr_sim_result *result, weir_error *err);

/*
 * What bounds any plan: the busiest node's bytes over its interfaces' bandwidth and one latency; the loads of inputs and
 * stores of results over the memory bus; one flag.
 */
double wr_sim_bound(const struct wr_plan_spec *spec, const struct wr_cost *cost);
/* Bytes that a node must send and receive, in the type on the wire. */
void wr_sim_node_bound(const struct wr_plan_spec *spec, int node, uint64_t *egress, uint64_t *ingress);

#endif
