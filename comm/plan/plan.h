/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A collective as data: one small program a rank, which is executed on memory, verified, simulated and drawn.
 *
 * A builder is a pure function of (spec, rank): every rank builds its own program only, and the verifier builds all of them.
 *
 * Memory. Offsets and lengths are in elements. A rank has three buffers: IN and OUT (the user's; elements of the data type)
 * and SCRATCH (the plan's own; elements of the type that partial results have: fp32 for fp16 and bf16, else the data type).
 * In an in-place call IN is a part of OUT, see wr_plan_in_offset(). Ranks of a node may load and store each other's SCRATCH
 * always, and each other's IN and OUT when the spec says that these are mapped.
 *
 * Time. A program has lanes; a lane is a sequence of steps, and lanes advance independently, which is how the levels of a
 * hierarchy overlap chunk by chunk. Between lanes and between ranks order comes from signals only:
 *   - a counter for each (from rank, to rank, slot), starting at 0 in each execution; SIGNAL adds 1, WAIT waits for a value;
 *   - what the lane did before SIGNAL is visible to whoever has waited for it. For a peer on another node this covers the puts
 *     of this lane to that peer;
 *   - a PUT may carry a signal of its own, which covers that put alone;
 *   - the source of a PUT may be overwritten after a DRAIN of its lane, or after the end;
 *   - one lane signals and one lane waits in each counter, and its signals count in the order in which they were sent (a
 *     network that does not keep this order needs numbers in them).
 * A rank may signal itself to order its lanes. In execution e (from 0) of a plan whose counter gets n signals in each, WAIT
 * for `value` waits for e * n + value signals in all, and with WR_STEP_EARLIER for e * n: an acknowledgement that only has to
 * be there before the next execution overwrites something costs no time at the end of this one.
 *
 * What a valid plan keeps (the verifier proves it, over two executions in a row, because scratch is used again):
 *   1. every element of OUT that the collective defines holds exactly the contributions that it should, each once;
 *   2. nothing is read before it is written, overwritten while it may still be read, or written twice without order;
 *   3. no rank touches IN or OUT of another before that one has started or after it has ended this execution;
 *   4. it ends whatever the timing, and every counter ends at a value that all know.
 */
#ifndef WR_PLAN_H
#define WR_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/status.h>

enum wr_collective {
    WR_COLL_BARRIER,
    WR_COLL_BCAST,
    WR_COLL_REDUCE,
    WR_COLL_ALLREDUCE,
    WR_COLL_REDUCE_SCATTER,
    WR_COLL_ALLGATHER,
    WR_COLL_GATHER,
    WR_COLL_SCATTER,
    WR_COLL_ALLTOALL,
    WR_COLL_SCAN,
    WR_COLL_EXSCAN,
    WR_COLL_COUNT
};

enum wr_plan_buffer { WR_BUF_IN, WR_BUF_OUT, WR_BUF_SCRATCH };

/* A place: an offset in a buffer of a rank (of the communicator). */
struct wr_ref {
    int32_t rank;
    uint32_t buffer; /* enum wr_plan_buffer */
    uint64_t offset; /* elements of that buffer */
};

enum wr_step_op {
    WR_STEP_COPY,   /* refs[0] <- refs[1]; converts when the buffers' types differ */
    WR_STEP_REDUCE, /* refs[0] <- refs[1] op refs[2] op ...: from left to right, in the partial type, rounded once at the store */
    WR_STEP_PUT,    /* refs[0] (of a rank on another node) <- refs[1] (own); with WR_STEP_SIGNALS also signals (peer, slot) */
    WR_STEP_SIGNAL, /* (peer, slot) */
    WR_STEP_WAIT,   /* until the signals from `peer` in `slot` have reached `value` in this execution */
    WR_STEP_DRAIN   /* until the sources of all earlier puts of this lane may be reused */
};

enum wr_step_flags {
    WR_STEP_SIGNALS = 1, /* PUT: also signals */
    WR_STEP_RESULT = 4,  /* COPY: what is copied is a result already (of an average: divided) */
    WR_STEP_EARLIER = 2  /* WAIT: only for the signals of earlier executions, of which each had `value` */
};

struct wr_step {
    uint8_t op, flags;
    uint16_t nrefs;
    uint32_t first_ref; /* index into the program's refs */
    uint64_t len;       /* elements; COPY, REDUCE, PUT; never 0 */
    int32_t peer;       /* SIGNAL, WAIT; equals refs[0].rank for PUT */
    uint32_t slot;
    uint32_t value;     /* WAIT */
};

/* The program of one rank. Built with the calls below; freed by wr_program_free(). */
struct wr_program {
    int rank;
    struct wr_step *steps;
    uint32_t nsteps, cap_steps;
    struct wr_ref *refs;
    uint32_t nrefs, cap_refs;
    uint32_t *lane; /* lane i is steps[lane[i] .. lane[i + 1]) */
    uint32_t nlanes, cap_lanes;
    uint64_t scratch; /* elements of SCRATCH that this rank must have: the same number at all ranks is not needed */
    uint32_t nslots;  /* slots that this rank is signalled in are below this */
    bool failed;      /* out of memory while building */
};

/* Where ranks sit, for builders: plain arrays, so that tests make any machine. Numbers are those of the communicator. */
struct wr_plan_topo {
    int nranks, nnodes;
    const int *node_of;          /* by rank; nodes numbered by lowest rank */
    const int *const *node_ranks; /* by node: its ranks, ascending */
    const int *node_size;        /* by node */
    const int *local_rank;       /* by rank: index among the ranks of its node */
    /* Levels above the node, innermost first (switches, groups): group_of[level][node]. */
    int nlevels;
    const int *const *group_of;
};

/* What one rank knows of an all-to-all with unequal counts: elements to and from each rank, and where they are. */
struct wr_plan_pairs {
    const uint64_t *to, *to_at;     /* in IN */
    const uint64_t *from, *from_at; /* in OUT */
};

/* What is asked for. */
struct wr_plan_spec {
    enum wr_collective coll;
    const struct wr_plan_topo *topo;
    int root;               /* rooted collectives; else 0 */
    uint64_t count;         /* elements, as the call has them: see wr_plan_share() */
    const uint64_t *counts; /* v-forms: by rank; NULL otherwise. alltoallv: by (sender * nranks + receiver) */
    const uint64_t *offsets; /* with counts (but alltoallv's): nranks + 1 sums, offsets[r] = counts[0] + .. + counts[r - 1] */
    const struct wr_plan_pairs *pairs; /* alltoallv: instead of counts, for the rank whose program is built */
    bool local; /* gatherv, scatterv, alltoallv: the counts may be right only as far as they concern the rank whose program is
                   built (offsets may be any, then), so that memory must not depend on them */
    bool reduces;           /* elements are combined (else they are moved) */
    bool in_place;
    bool in_mapped, out_mapped; /* peers on the node may load IN / store and load OUT */
    bool out_shared;        /* OUT is one window a node: the same memory for all its ranks */
    bool out_remote;        /* ranks on other nodes may put into OUT (it is registered and its key is known to them) */
    bool reproducible;      /* the order of combination must not depend on topo */
    uint32_t elem_size;     /* bytes of an element, of a partial result */
    uint32_t partial_size;
    /* parameters, chosen by the selector; 0: the builder's default */
    uint64_t chunk;         /* elements that move through the levels at a time */
    int rails;              /* ranks a node that use the network at once */
};

/*
 * Shares. The vector of reduce-scatter and all-gather is cut into one share a rank: `count` elements each, or counts[rank].
 * For all-reduce the builders cut it into nearly equal shares themselves.
 */
uint64_t wr_plan_share(const struct wr_plan_spec *spec, int rank);        /* elements of rank's share */
uint64_t wr_plan_share_offset(const struct wr_plan_spec *spec, int rank); /* where it begins in the whole vector */
uint64_t wr_plan_total(const struct wr_plan_spec *spec);                  /* elements of the whole vector */

/* Elements of a rank's IN and OUT in this collective, and where IN begins in OUT for an in-place call (UINT64_MAX: the whole IN
 * is OUT's beginning, i.e. offset 0 of a buffer that is larger). */
uint64_t wr_plan_in_len(const struct wr_plan_spec *spec, int rank);
uint64_t wr_plan_out_len(const struct wr_plan_spec *spec, int rank);
uint64_t wr_plan_in_offset(const struct wr_plan_spec *spec, int rank);

/* One algorithm. */
struct wr_algorithm {
    const char *name; /* "direct", "ring", "hier", ... as WEIR_ALGO has it */
    enum wr_collective coll;
    /* Whether it can serve this spec; the same answer at all ranks. */
    bool (*applies)(const struct wr_plan_spec *spec);
    /* Builds the program of one rank. */
    weir_status (*build)(const struct wr_plan_spec *spec, int rank, struct wr_program *program, weir_error *err);
    /* For algorithms that others are composed of: the scratch of any rank, and a number that no slot reaches; else NULL, 0. */
    uint64_t (*scratch)(const struct wr_plan_spec *spec, int rank);
    uint32_t slots;
};

/* All algorithms, ended by NULL. */
extern const struct wr_algorithm *const wr_algorithms[];
const struct wr_algorithm *wr_algorithm_find(enum wr_collective coll, const char *name);

const char *wr_collective_name(enum wr_collective coll); /* "reduce_scatter", as on all command lines */

/* ---- building ---- */

void wr_program_init(struct wr_program *p, int rank);
void wr_program_free(struct wr_program *p);

/* Starts the next lane; steps go to the latest one. */
void wr_program_lane(struct wr_program *p);

static inline struct wr_ref wr_ref(int rank, enum wr_plan_buffer buffer, uint64_t offset)
{
    return (struct wr_ref){rank, (uint32_t)buffer, offset};
}

/* Steps of length 0 are left out (a put that signals becomes a signal). */
void wr_program_copy(struct wr_program *p, struct wr_ref dst, struct wr_ref src, uint64_t len);
void wr_program_reduce(struct wr_program *p, struct wr_ref dst, const struct wr_ref *src, unsigned nsrc, uint64_t len);
void wr_program_put(struct wr_program *p, struct wr_ref dst, struct wr_ref src, uint64_t len);
void wr_program_put_signal(struct wr_program *p, struct wr_ref dst, struct wr_ref src, uint64_t len, uint32_t slot);
void wr_program_signal(struct wr_program *p, int peer, uint32_t slot);
void wr_program_wait(struct wr_program *p, int peer, uint32_t slot, uint32_t value);
/* Waits until all signals of earlier executions, `per_execution` in each, have come. */
void wr_program_wait_earlier(struct wr_program *p, int peer, uint32_t slot, uint32_t per_execution);
void wr_program_drain(struct wr_program *p);

/* A step as it is, with its refs. */
void wr_program_step(struct wr_program *p, const struct wr_step *step, const struct wr_ref *refs);

/* Ends building: WEIR_ERR_NO_MEMORY when something was lost. */
weir_status wr_program_finish(struct wr_program *p, weir_error *err);

#endif
