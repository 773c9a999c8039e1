/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by exec.c (running) and exec_create.c (making). */
#ifndef WR_EXEC_IMPL_H
#define WR_EXEC_IMPL_H

#include "comm/plan/exec.h"

/* A place with its address; IN and OUT of this rank are relative to the buffers of the execution. */
struct exec_place {
    char *base;     /* NULL: relative to x->in or x->out */
    uint64_t at;    /* bytes */
    uint8_t buffer; /* enum wr_plan_buffer */
    bool partial;   /* elements are of the partial type */
};

/* A step, ready to run. */
struct exec_step {
    uint8_t op, flags;
    uint16_t nplaces;
    uint32_t place; /* first of its places */
    uint64_t len;   /* elements */
    int peer, world; /* the peer in the communicator, and in the job */
    bool streams;                 /* COPY: past the caches */
    bool remote;                  /* SIGNAL, WAIT: the peer is on another node */
    uint32_t *flag;               /* SIGNAL, WAIT on the node: where the counter is */
    uint32_t *sent;               /* SIGNAL on the node: how many were sent */
    uint32_t slot;                /* WAIT, remote: of the transport */
    struct exec_remote *signal;   /* PUT and SIGNAL, remote: where the peer counts it */
    uint64_t divide_by;           /* COPY, REDUCE: of what is stored, 1 for none */
    struct weir_mem *target;      /* PUT: whose part at `member`, its rank there, is put to, `offset` bytes behind its beginning */
    int member;
    uint64_t offset;
    struct exec_counter *counter; /* WAIT: what was consumed before this execution */
    uint32_t value;
};

/*
 * Signals between nodes. A program counts those of a (peer, slot) in the order in which they are sent. Where the network keeps
 * that order one slot of the transport counts them. Elsewhere `width` slots take turns: number n goes to slot n % width, and
 * numbers 0, width, 2 * width ... wait for all puts before them (a fence). So the data of a signal is there when a later one
 * in its slot is, the first n have come when each slot has its share of them, and `width` puts are on their way at a time.
 */
enum { EXEC_WIDTH = 16 }; /* at most; programs that send fewer need no more slots than that */

/* Signals that slot number `i` of `width` has when the first `n` have come. */
static inline uint64_t exec_share(uint64_t n, uint32_t width, uint32_t i)
{
    return (n + width - 1 - i) / width;
}

/* Where a peer of another node counts the signals of this rank for one slot of the program. */
struct exec_remote {
    int peer;
    uint32_t slot;
    uint32_t transport_slot, width; /* the first of `width` of them */
    uint64_t sent;
};

/* What has been waited for from one (peer, slot) in all executions before. */
struct exec_counter {
    int peer;
    uint32_t slot, most; /* largest value that this program waits for */
    uint64_t base;
    uint32_t *flag;          /* on the node */
    uint32_t transport_slot, width; /* between nodes: the first of `width` of them */
};

struct exec_lane {
    uint32_t next, end; /* steps */
    uint32_t puts;      /* that have not completed here */
};

/* The completion of a put. */
struct exec_put {
    struct wr_op op;
    struct wr_exec *x;
    uint32_t lane;
    struct exec_put *next_free;
};

struct wr_exec {
    struct wr_exec_params params;
    struct wr_plan_spec spec;
    struct wr_kernel kernel;
    struct wr_program program;
    struct wr_engine *engine;
    struct weir_mem *mem;
    uint64_t control_bytes;
    uint32_t slots; /* flags of each rank of the node */
    struct exec_step *steps;
    struct exec_place *places;
    struct exec_lane *lanes;
    struct exec_counter *counters;
    uint32_t ncounters, found; /* found: the one that was asked for last */
    uint32_t *sent; /* by node rank and slot: signals sent on the node */
    struct exec_remote *remote; /* what other nodes' ranks told */
    uint32_t nremote;
    uint64_t *out_at; /* by rank: where OUT begins in out_mem, with spec.out_remote */
    uint32_t first_signal, nsignals; /* of the engine's, for counters between nodes */
    struct exec_put *puts, *free_put;
    uint32_t nputs, puts_running;
    bool divides; /* averages are divided where they are stored, and not at the end */
    const char *in;
    char *out;
    uint32_t lanes_left;
    bool running, broken;
    weir_status status;
    struct wr_region *user_region[2]; /* of IN and OUT in this execution, where the transport insists on one for puts */
    struct wr_transport *user_region_of;
};

/* The completion of a put or of a signal between nodes. */
void wr_exec_put_done(struct wr_op *op, weir_status status);

/* exec_create.c: makes steps and places from the program; without `cards` places in buffers of peers are still to be bound. */
struct wr_exec_card {
    uint64_t in_offset, out_offset;
    uint32_t slots;
};
weir_status wr_exec_resolve_steps(struct wr_exec *x, const struct wr_exec_card *cards, weir_error *err);

/*
 * exec_region.c: the registration of a put's source, when the transport insists on one; IN and OUT are registered as a whole
 * when the first put needs it, and until the execution ends.
 */
weir_status wr_exec_source_region(struct wr_exec *x, struct wr_transport *t, const struct exec_place *place, void *source,
                                  uint64_t bytes, struct wr_region **region, weir_error *err);
void wr_exec_drop_regions(struct wr_exec *x);

#endif
