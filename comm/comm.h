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
    struct wr_coll_state *coll;
    uint32_t id; /* the space in which its messages are matched; the same on all its ranks */
    int rank, size;
    uint64_t next_mem_id; /* of the next weir_mem; the same on all its ranks */
};

/* What weir_comm_world() opens; hangs off the context. */
struct wr_comms {
    struct wr_engine *engine;
    struct wr_p2p *p2p;
    struct wr_mem_state *mem;
    struct weir_comm world;
};

/* Checks a rank of a communicator. */
weir_status wr_comm_check_rank(const weir_comm *comm, const char *what, int rank, weir_error *err);

#endif
