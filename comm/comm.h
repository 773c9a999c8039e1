/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators inside the library, and the state that the first one brings into a context. */
#ifndef WR_COMM_H
#define WR_COMM_H

#include <weir/comm.h>

#include "comm/context.h"
#include "comm/engine/engine.h"
#include "comm/p2p/p2p.h"

struct wr_mem_state;
struct wr_coll_state;

struct weir_comm {
    weir_ctx *ctx;
    struct wr_engine *engine;
    struct wr_p2p *p2p;
    struct wr_mem_state *mem;
    struct wr_coll_state *coll; /* NULL: it was freed */
    struct wr_group group;      /* its id, and which ranks of the job its ranks are */
    int rank, size;
    /* Its ranks' nodes, numbered by lowest rank. */
    int nnodes;
    int *node_of;      /* by rank */
    int *node_leader;  /* by node: its lowest rank */
    int *mates;        /* ranks on this rank's node, ascending */
    int nmates, mate;  /* and which of them this one is */
    uint64_t next_mem_id; /* of the next weir_mem; the same on all its ranks */
    unsigned nmems;       /* memory handles that are alive */
    unsigned setups;      /* of started calls that are under way: other exchanges of all its ranks wait for them */
    weir_topo *topo; /* NULL until somebody asks for it; under the context's comms_lock */
    struct wr_shrink *shrink; /* NULL until somebody shrinks it */
    struct wr_overdue overdue; /* looks after the waits of its collective calls, and counts them; set by comm/coll */
    const char *doing;    /* the latest of them, when it is not of comm/coll: "weir_mem_alloc" */
    struct wr_list link;  /* in wr_comms.alive or .stale */
};

/* What weir_comm_world() opens; hangs off the context. */
struct wr_comms {
    struct wr_engine *engine;
    struct wr_p2p *p2p;
    struct wr_mem_state *mem;
    struct wr_list alive; /* all communicators, in the order of their making */
    struct wr_list stale; /* freed ones, the latest: late use is an error and not a crash */
    int nstale;
    struct wr_list strays; /* of exchange.h */
    struct weir_comm *world;
    uint32_t next_id; /* that this rank would give a communicator */
};

/*
 * Makes the object of a communicator of `size` members, `world` being their world ranks (NULL: all of the job); nothing is
 * told to anybody, and it takes no part in anything yet. wr_comm_free() frees it.
 */
weir_status wr_comm_new(struct wr_comms *comms, weir_ctx *ctx, uint32_t id, const int *world, int size, struct weir_comm **comm,
                        weir_error *err);
void wr_comm_free(struct weir_comm *comm);

/* A public call on a communicator has failed: as wr_ctx_fail(), naming the host of the rank that the error is about. */
weir_status wr_comm_fail(const weir_comm *comm, weir_error *err, const char *operation);

/* Makes a communicator that takes part; told to nobody. */
weir_status wr_comm_make(weir_comm *from, uint32_t id, const int *world, int size, struct weir_comm **comm, weir_error *err);

/* weir_comm_split() with the lock held. */
weir_status wr_comm_split(weir_comm *comm, int color, int key, struct weir_comm **made, weir_error *err);

/* WEIR_ERR_STALE when it was freed. */
weir_status wr_comm_check_alive(const weir_comm *comm, weir_error *err);

/* The world rank of a rank of a communicator. */
static inline int wr_comm_world_rank(const weir_comm *comm, int rank)
{
    return wr_group_world(&comm->group, rank);
}

/* The world rank of a member that was lost, -1 for none. */
static inline int wr_comm_lost(const weir_comm *comm)
{
    return comm->engine->nlost ? wr_engine_lost_member(comm->engine, &comm->group) : -1;
}

/* Counts a collective call; `doing` is its name, NULL when comm/coll knows it. With the lock held. */
static inline void wr_comm_step(weir_comm *comm, const char *doing)
{
    comm->overdue.step++;
    comm->doing = doing;
}

/* Waits in a collective call. With the lock held. */
static inline weir_status wr_comm_wait(const weir_comm *comm, bool (*ready)(void *arg), void *arg, weir_error *err)
{
    return wr_engine_wait_long(comm->engine, ready, arg, &comm->overdue, err);
}

/* Frees comm->shrink. */
void wr_shrink_free(struct weir_comm *comm);

/* Checks a rank of a communicator. */
weir_status wr_comm_check_rank(const weir_comm *comm, const char *what, int rank, weir_error *err);

#endif
