/* SPDX-License-Identifier: BSD-3-Clause */
/* The insides of one simulation run. */
#ifndef WR_SIMULATE_IMPL_H
#define WR_SIMULATE_IMPL_H

#include "base/compiler.h"
#include "comm/plan/simulate.h"

#define WR_SIM_NONE UINT32_MAX

enum { WR_SIM_PIECE = 65536, WR_SIM_PIECES = 16 }; /* bytes of a piece at least; pieces of a long step at most */

enum wr_sim_flags { WR_SIM_REMOTE = 1, WR_SIM_SELF = 2, WR_SIM_SIGNALS = 4 };

/* A step as it is run. */
struct wr_sim_op {
    uint8_t op, flags; /* enum wr_step_op */
    uint32_t counter;  /* that it waits for or raises */
    uint32_t arg;      /* WAIT: the value; else the peer's node */
    int32_t peer;
    uint64_t bytes;    /* loaded and stored; put */
    double core;       /* ns of the core: COPY, REDUCE */
};

struct wr_sim_lane {
    uint32_t rank, index;
    uint64_t first, pc, end; /* in op[] */
    double ready;            /* while it waits: not before */
    double begin;            /* of the step that it is in */
    double drained;          /* acknowledgement of the puts that have left */
    uint64_t left;           /* bytes of a copy that is under way; 0: none */
    uint32_t outstanding;    /* puts that have not left */
    bool draining, done;
};

struct wr_sim_rank {
    double core; /* free from then on */
    double done;
    uint32_t head, tail; /* messages that wait to leave */
    uint32_t running;    /* lanes */
    bool sending;
};

struct wr_sim_counter {
    uint32_t arrived, want, lane; /* lane: that sleeps until `want` */
};

struct wr_sim_message {
    uint64_t bytes, left, coming; /* in all; not yet sent; not yet received */
    uint32_t counter, lane, rank, next;
    uint32_t node; /* of the receiver, in the whole machine */
    int32_t peer;
    double begin, gone;
    bool head; /* its first piece has been received */
};

enum wr_sim_event_kind { WR_SIM_RUN, WR_SIM_SEND, WR_SIM_HEAD, WR_SIM_COUNT };
struct wr_sim_item {
    double time;
    uint64_t seq; /* ties are served in the order in which they arose */
    uint32_t kind, id;
    uint64_t bytes;
    double tail;
};

/* A server with one queue: free from `free` on. */
struct wr_sim_server {
    double free, busy;
};

struct wr_sim {
    const struct wr_plan_spec *spec;
    const struct wr_plan_topo *topo;
    const struct wr_cost *cost;
    const struct wr_sim_options *options;
    weir_error *err;
    int nodes, ranks;  /* that are run: 0 .. nodes - 1; all of the machine, or a period of it */
    int rails, levels;
    bool failed;       /* out of memory */
    struct wr_sim_op *op;
    uint64_t nops, cap_ops;
    struct wr_sim_lane *lane;
    uint32_t nlanes, cap_lanes;
    struct wr_sim_rank *rank;
    struct wr_sim_counter *counter;
    uint32_t ncounters, cap_counters;
    uint64_t *key; /* hash of counters: key + 1, and which */
    uint32_t *index;
    uint64_t buckets;
    struct wr_sim_message *message;
    uint32_t nmessages, cap_messages, spare;
    struct wr_sim_item *heap;
    uint64_t nheap, cap_heap, seq, events;
    struct wr_sim_server *bus, *out, *in, *up, *down; /* by node; by node and rail; by level and group */
    uint64_t *egress, *ingress;
    uint64_t bytes[WR_SIM_LEVELS];
};

/* simulate_program.c: turns a program into ops; it may be freed afterwards. */
weir_status wr_sim_load(struct wr_sim *sim, const struct wr_program *program);

/* simulate_network.c */
void wr_sim_push(struct wr_sim *sim, double time, enum wr_sim_event_kind kind, uint32_t id, uint64_t bytes, double tail);
bool wr_sim_pop(struct wr_sim *sim, struct wr_sim_item *item);
/* A lane puts (or signals to another node) at `time`. */
void wr_sim_post(struct wr_sim *sim, uint32_t lane, const struct wr_sim_op *op, double time);
void wr_sim_send(struct wr_sim *sim, uint32_t rank, double now);
void wr_sim_head(struct wr_sim *sim, const struct wr_sim_item *item);
void wr_sim_tell(const struct wr_sim *sim, const struct wr_sim_event *event);

/* simulate_run.c: runs nodes 0 .. nodes - 1 (all, or a period); programs NULL: built. */
weir_status wr_sim_run(const struct wr_plan_spec *spec, const struct wr_algorithm *algorithm, const struct wr_program *programs,
                       int nodes, const struct wr_cost *cost, const struct wr_sim_options *options,
                       struct wr_sim_result *result, weir_error *err);

/* simulate_symmetry.c: nodes by which the machine and the plan can be shifted without a change; nnodes when there are none. */
weir_status wr_sim_period(const struct wr_plan_spec *spec, const struct wr_algorithm *algorithm, int *period, weir_error *err);

/* Whether all nodes are equal, in block placement, and the groups of each level are equal blocks; *period: nodes of an outermost
 * group, 1 without levels. */
bool wr_sim_regular(const struct wr_plan_topo *topo, int *period);

static inline uint64_t wr_sim_piece(uint64_t bytes)
{
    return WR_MAX((bytes + WR_SIM_PIECES - 1) / WR_SIM_PIECES, (uint64_t)WR_SIM_PIECE);
}

#endif
