/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The geometry of the hierarchical algorithms, for any placement and unequal ranks a node.
 *
 * Every share has one agent on each node: on the owner's node the owner itself, on another node one of its
 * first Q ranks (Q rails). The shares of a node are dealt to the agents in contiguous ranges of their index j
 * among the shares of that node, so that with equal nodes and all rails the agent of rank l of any node is rank
 * l, and with few rails an agent moves few, long pieces. A share travels along the chain of nodes of its
 * owner's node (wr_chain_hop()), from agent to agent, so that each node sends each share of others once: S -
 * B_n elements leave node n.
 *
 * SCRATCH of a rank: for each lane the staged inputs of a round (when they are not mapped), then for each lane
 * one slot for each owner node, from the next node on: the chunks of the shares that the rank is the agent of, one
 * after the other. Nodes are gone through from the own one on everywhere, so that equal nodes have equal programs. A message fills a contiguous part of the next agent's slot. Round c moves chunk c of all
 * shares; lane L has rounds L, L + nlanes, .. and slots of its own, so that one lane's loads overlap the
 * other's network phase.
 */
#ifndef WR_ALGO_HIER_H
#define WR_ALGO_HIER_H

#include "comm/plan/algo.h"

enum { WR_HIER_LANES = 2 };

/* Slots of signals: those of lane L are base + L. */
enum {
    WR_HIER_START = 0,
    WR_HIER_DONE = 1,
    WR_HIER_DATA = 2,                               /* a message has come */
    WR_HIER_CREDIT = WR_HIER_DATA + WR_HIER_LANES,  /* a round's slots may be written again */
    WR_HIER_READY = WR_HIER_CREDIT + WR_HIER_LANES, /* mates may load */
    WR_HIER_TAKEN = WR_HIER_READY + WR_HIER_LANES,  /* mates have loaded */
    WR_HIER_FORK = WR_HIER_TAKEN + WR_HIER_LANES,   /* to oneself: lane 0 lets the others begin */
    WR_HIER_JOIN = WR_HIER_FORK + WR_HIER_LANES,    /* to oneself: the others let lane 0 end */
    WR_HIER_SLOTS = WR_HIER_JOIN + WR_HIER_LANES
};

/* What a rank does with the shares of one node. */
struct wr_hier_item {
    int owner;      /* node */
    int hop;        /* how many nodes have had it before */
    int prev, next; /* nodes it comes from and goes to, -1: none */
    int from, to;   /* the shares j of which this rank is the agent */
};

struct wr_hier {
    const struct wr_plan_spec *spec;
    const struct wr_plan_topo *topo;
    int rank, node, local;
    struct wr_mates mates;
    bool own_slot;         /* the shares of the own node have slots too */
    bool stages;           /* whole inputs are staged (reduce-scatter) */
    uint64_t chunk, stage; /* elements; of a lane's stage */
    uint32_t rounds, nlanes;
    struct wr_hier_item *item; /* nnodes of them, in the order in which they are processed */
    uint32_t *received;        /* by rank: messages that the lane has waited for */
    uint32_t *credit, *grant;  /* by rank: round + 1 in which it last gave or got a credit */
    struct wr_hier_table {     /* slots of a rank: where each owner node's begins, and the sum */
        int rank;
        uint64_t *at;
    } * table;
    int ntables, cap_tables;
    bool failed;
};

/* forward: shares travel to their owner (reduce-scatter), else from it. */
weir_status wr_hier_init(struct wr_hier *h, const struct wr_plan_spec *spec, int rank, bool forward, weir_error *err);
void wr_hier_free(struct wr_hier *h);

uint64_t wr_hier_scratch_rs(const struct wr_plan_spec *spec, int rank);
uint64_t wr_hier_scratch_ag(const struct wr_plan_spec *spec, int rank);
bool wr_hier_applies(const struct wr_plan_spec *spec);

/* Shares of `owner` whose agent is rank number `local` of `node`: *from .. *to - 1. */
void wr_hier_range(const struct wr_plan_spec *spec, int node, int local, int owner, int *from, int *to);

/* Shares of an item, from .. to - 1, that have one agent on a node. Begins as {.to = item->from}. */
struct wr_hier_part {
    int from, to, agent;
};
/* Goes on to the next part on `node`; false when there is none, as when node is -1. */
bool wr_hier_next_part(const struct wr_hier *h, const struct wr_hier_item *item, int node, struct wr_hier_part *part);

/*
 * The elements of chunk c of a node's shares from *j on (below `to`) that are contiguous in the vector: their number, 0 when there
 * are none left, and in *at where they begin. *j goes behind them.
 */
uint64_t wr_hier_contiguous(const struct wr_hier *h, int owner, int *j, int to, uint64_t c, uint64_t *at);

/* Rounds of a lane. */
static inline uint32_t wr_hier_iterations(const struct wr_hier *h, uint32_t lane)
{
    return h->rounds > lane ? (h->rounds - lane - 1) / h->nlanes + 1 : 0;
}

static inline int wr_hier_share(const struct wr_hier *h, int owner, int j)
{
    return h->topo->node_ranks[owner][j];
}

/* Length of chunk c of share j of a node; of all from `from` up to `to`. */
uint64_t wr_hier_len(const struct wr_hier *h, int owner, int j, uint64_t c);
uint64_t wr_hier_sum(const struct wr_hier *h, int owner, int from, int to, uint64_t c);

/* Where share j's chunk c lies in the slot of the agent `peer`. */
struct wr_ref wr_hier_slot(struct wr_hier *h, int peer, int owner, int j, uint32_t lane, uint64_t c);

/* First and last steps of a round that all network phases share: waits for the messages of an item; sends them
 * on; and, when the slots are free, drains and gives credit to those who fill them. */
void wr_hier_receive(struct wr_hier *h, struct wr_program *p, const struct wr_hier_item *item, uint32_t lane);
void wr_hier_send(struct wr_hier *h, struct wr_program *p, const struct wr_hier_item *item, uint32_t lane, uint64_t c);
void wr_hier_end_round(struct wr_hier *h, struct wr_program *p, uint32_t lane, uint64_t c);

/* The beginning of a lane; `fork`: when mates must have started, and none may end early: then it ends with a join. */
void wr_hier_lane(struct wr_hier *h, struct wr_program *p, uint32_t lane, bool fork);
void wr_hier_join(const struct wr_hier *h, struct wr_program *p, uint32_t lane);

weir_status wr_hier_finish(struct wr_hier *h, struct wr_program *p, weir_error *err);

#endif
