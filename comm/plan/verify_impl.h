/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of the verifier: clocks, values, memory, static checks, and the run.
 *
 * By classes (verify_class.c) the machine looks the same when all ranks are shifted by `period` of them, and so do the programs.
 * Then only the first `period` ranks are run, all their images with them in lockstep: what a rank sees of an image of another is
 * what that one has, shifted. All that is kept of a rank (contents, accesses, clocks) is kept in that rank's own frame, in which
 * it is one of the first `period`. Without symmetry the period is all ranks, and there is one shift, 0.
 */
#ifndef WR_VERIFY_IMPL_H
#define WR_VERIFY_IMPL_H

#include "base/compiler.h"
#include "comm/plan/verify.h"

#define WR_VERIFY_EXECUTIONS 2
#define WR_VERIFY_PAGE       64 /* entries of a clock that are shared between clocks together */
#define WR_VERIFY_NONE       UINT32_MAX

/* ---- clocks (verify_clock.c): sparse vector clocks whose pages are shared until one of the owners changes its
 * own ---- */

/* Vectors of the compiler; ticks are below 2^31, so that the comparison of signed numbers does, which every
 * processor has. */
typedef int32_t wr_vticks __attribute__((vector_size(16)));

struct wr_vpage {
    union {
        int32_t at[WR_VERIFY_PAGE];
        wr_vticks four[WR_VERIFY_PAGE / 4];
    };
    uint32_t refs;
    struct wr_vpage *free_next;
};

struct wr_vclock {
    uint32_t refs;
    struct wr_vclock *free_next;
    struct wr_vpage *page[]; /* NULL: all zero */
};

/*
 * What has a clock entry: a lane, or the puts that a counter covers (a channel), of a rank's image. The upper half is the image's
 * shift, the lower half the number among those of the ranks that are run.
 */
typedef uint64_t wr_vdim;

static inline wr_vdim wr_vdim_of(uint32_t shift, uint32_t index)
{
    return (uint64_t)shift << 32 | index;
}

struct wr_vsparse;

struct wr_vclocks {
    bool sparse;     /* clocks are those of verify_sparse.c */
    uint32_t shifts; /* images of a rank */
    uint32_t npages;
    struct wr_vpage *free_pages;
    struct wr_vclock *free_clocks;
    void **blocks; /* what was allocated */
    uint32_t nblocks, cap_blocks;
    bool failed; /* out of memory */
};

void wr_vclocks_free(struct wr_vclocks *c);
struct wr_vclock *wr_vclock_new(struct wr_vclocks *c);
void wr_vclock_unref(struct wr_vclocks *c, struct wr_vclock *clock);
/* *mine becomes the maximum of both (copied first when it is shared); the other's entries are those of images `shift` further. */
void wr_vclock_merge(struct wr_vclocks *c, struct wr_vclock **mine, const struct wr_vclock *other, uint32_t shift);
void wr_vclock_raise(struct wr_vclocks *c, struct wr_vclock **mine, wr_vdim dim, uint32_t tick);

/*
 * verify_sparse.c: clocks for any number of ranks. A clock keeps the entries that it was told to keep and the latest few of all
 * others, and forgets the rest. What is forgotten counts as unknown, so that a plan may be refused that is right, and never the
 * other way round.
 */
struct wr_vclock *wr_vsparse_new(struct wr_vclocks *c);
void wr_vsparse_unref(struct wr_vclock *clock);
void wr_vsparse_merge(struct wr_vclocks *c, struct wr_vclock **mine, const struct wr_vclock *other, uint32_t shift);
void wr_vsparse_raise(struct wr_vclocks *c, struct wr_vclock **mine, wr_vdim dim, uint32_t tick);
uint32_t wr_vsparse_at(const struct wr_vclock *clock, wr_vdim dim);
/* Keeps the entry of `dim` from now on. */
void wr_vsparse_keep(struct wr_vclocks *c, struct wr_vclock **mine, wr_vdim dim);

static inline uint32_t wr_vclock_at(const struct wr_vclocks *c, const struct wr_vclock *clock, wr_vdim dim)
{
    if (c->sparse)
        return wr_vsparse_at(clock, dim);
    const struct wr_vpage *page = clock->page[dim / WR_VERIFY_PAGE];
    return page ? (uint32_t)page->at[dim % WR_VERIFY_PAGE] : 0;
}

/* ---- values (verify_value.c): interned sets of contributing ranks with the order in which they were combined
 * ---- */

#define WR_VALUE_NONE  0 /* never written */
#define WR_VALUE_MOVED 1 /* collectives that only move: the place says it all */

struct wr_vset {
    uint64_t order;    /* hash of the tree of combinations */
    uint32_t first, n; /* ranges[first .. first + n) of ranks, two numbers each */
    uint32_t size;     /* ranks in it */
};

struct wr_vvalues {
    struct wr_vset *set;
    uint32_t nsets, cap_sets;
    uint32_t *ranges; /* from, to (exclusive) */
    uint32_t nranges, cap_ranges;
    /* unions made before: operands (in operands[]) -> set */
    struct wr_vunion {
        uint64_t hash;
        uint32_t first, n, set;
    } * unions;
    uint32_t nunions, cap_unions; /* the capacity is a power of two */
    uint32_t *operands;
    uint32_t noperands, cap_operands;
    uint32_t *work; /* ranges while they are merged */
    uint32_t cap_work;
    uint32_t nranks;
    struct wr_vunion *shifted; /* found before: first: the set, n: the shift, set: the result */
    uint32_t nshifted, cap_shifted;
};

/* Sets 1 + r hold rank r alone. */
bool wr_vvalues_init(struct wr_vvalues *v, int nranks);
void wr_vvalues_free(struct wr_vvalues *v);
/* The combination of `n` values from left to right: its set, 0 when two of them share a rank, WR_VERIFY_NONE
 * without memory. */
uint32_t wr_vvalues_combine(struct wr_vvalues *v, const uint32_t *ids, uint32_t n);
/* Whether the set is exactly the ranks from .. to - 1. */
bool wr_vvalues_is_range(const struct wr_vvalues *v, uint32_t id, int from, int to);
/* The set of the ranks `by` further; WR_VERIFY_NONE without memory. Its order of combination is not known. */
uint32_t wr_vvalues_shift(struct wr_vvalues *v, uint32_t id, uint32_t by);

/* ---- memory (verify_memory.c) ---- */

/* Elements from `start` to the next span's start have the same history. */
struct wr_vspan {
    uint64_t start, place; /* of the value of the first element; the next has place + 1 */
    wr_vdim writer; /* clock entry of the last write ... */
    uint32_t set;
    uint32_t written; /* ... and its tick; 0: before everything */
    uint32_t reads;   /* reads since, a list in wr_vreads */
};

struct wr_vreads {
    struct wr_vread {
        wr_vdim dim;
        uint32_t tick, next;
    } * at; /* 0 ends a list */
    uint32_t n, cap;
};

/* Accesses of others in this execution, for the check at the owner's end. A small hash table by dim. */
struct wr_vtouches {
    struct {
        wr_vdim dim;
        uint32_t tick; /* 0: free */
    } * at;
    uint32_t n, cap;
};

/* Spans are kept with a gap where the last ones were put in, since the next are likely to be put in nearby. */
struct wr_vmem {
    uint64_t len;
    struct wr_vspan *store; /* NULL for an IN that nothing can write */
    uint32_t n, cap, gap;   /* gap: spans in front of it */
    struct wr_vtouches touches;
};

static inline struct wr_vspan *wr_vspan_at(const struct wr_vmem *m, uint32_t i)
{
    return &m->store[i < m->gap ? i : i + (m->cap - m->n)];
}

struct wr_vpiece {
    uint64_t len, place;
    uint32_t set;
};

struct wr_vpieces {
    struct wr_vpiece *at;
    uint32_t n, cap;
};

bool wr_vmem_init(struct wr_vmem *m, uint64_t len);
void wr_vmem_free(struct wr_vmem *m);
/* Makes `off` the start of a span; its index, WR_VERIFY_NONE without memory. off <= len. */
uint32_t wr_vmem_split(struct wr_vmem *m, uint64_t off);
/* Index of the span that holds `off`. */
uint32_t wr_vmem_find(const struct wr_vmem *m, uint64_t off);
/* Replaces the spans from `i` up to `j` by `pieces` (joined where they continue) that begin at `off`. */
bool wr_vmem_write(struct wr_vmem *m, uint32_t i, uint32_t j, uint64_t off, const struct wr_vpieces *pieces,
                   wr_vdim dim, uint32_t tick);
bool wr_vread_add(struct wr_vreads *r, uint32_t *list, wr_vdim dim, uint32_t tick);
bool wr_vtouch(struct wr_vtouches *t, wr_vdim dim, uint32_t tick);
bool wr_vtouched(const struct wr_vtouches *t, wr_vdim dim);
bool wr_vpieces_add(struct wr_vpieces *p, uint64_t len, uint64_t place, uint32_t set);

/* ---- the run ---- */

struct wr_vlane {
    int rank;
    uint32_t index;        /* among the lanes of its rank */
    uint32_t first, steps; /* of the program */
    uint32_t pc, tick;
    struct wr_vclock *clock;
    bool done, queued;
};

struct wr_vrank {
    const struct wr_program *program;
    uint32_t first_lane, running;
    uint32_t execution;
    bool ended;   /* all executions */
    uint64_t aux; /* where its steps begin in aux */
};

/* Facts of a step that are found before the run. */
struct wr_vaux {
    uint32_t counter; /* SIGNAL, WAIT, PUT: the one that covers it */
    uint32_t until;   /* PUT: the step of the lane whose signal covers it */
    uint32_t drain;   /* PUT: the step of the lane that drains it, or the lane's end */
};

struct wr_vsnap {
    struct wr_vclock *clock;
    uint32_t tick;
};

struct wr_vcounter {
    int from, to; /* in the frame of `to`, which is run */
    uint32_t slot, shift; /* shift: of `from` */
    uint32_t sent, waited; /* in one execution: signals, largest value waited for */
    uint32_t from_lane, to_lane;
    uint32_t channel;       /* clock entry of the puts that it covers (of the sender's image), or NONE */
    uint64_t arrived, gone; /* over all executions: signals, and those that are no longer in the queue */
    struct wr_vsnap *queue;
    uint32_t head, cap;
};

struct wr_verifier {
    const struct wr_plan_spec *spec;
    const struct wr_plan_topo *topo;
    weir_error *err;
    int period;      /* ranks that are run */
    uint64_t total;  /* elements of the vector that is shifted with the ranks, 0 without symmetry ... */
    uint64_t unit;   /* ... and how many of them are one period's */
    struct wr_vtouches *users; /* sparse clocks: whose entries say what is done to each of mem[] */
    struct wr_verify_result result;
    struct wr_vrank *rank;
    struct wr_vlane *lane;
    uint32_t nlanes, ndims;
    uint32_t *dim_lane; /* channels: the lane that puts */
    struct wr_vaux *aux;
    struct wr_vcounter *counter;
    uint32_t ncounters, cap_counters;
    uint32_t *counter_hash;
    uint32_t cap_hash;
    struct wr_vmem *mem; /* [rank * 3 + buffer], of the ranks that are run */
    uint64_t *place;     /* moves: where a rank's IN begins among all inputs */
    struct wr_vclocks clocks;
    struct wr_vvalues values;
    struct wr_vreads reads;
    struct wr_vpieces *operand; /* one for each source of a step */
    uint32_t noperands;
    struct wr_vpieces outcome, parts;
    uint32_t *ids, *cursor; /* work of REDUCE */
    uint64_t *within;
    uint32_t *queue; /* lanes that can run: a ring of nlanes */
    uint32_t queue_head, queue_len;
    bool some_ended;
    uint64_t first_order; /* of the first rank that ended */
};

/* ---- frames ---- */

/* The one that is run whose image a rank is, and the image's shift. */
static inline int wr_vmodel(const struct wr_verifier *v, int rank)
{
    return rank % v->period;
}

static inline uint32_t wr_vshift_of(const struct wr_verifier *v, int rank)
{
    return (uint32_t)(rank / v->period);
}

/* The shift back. */
static inline uint32_t wr_vback(const struct wr_verifier *v, uint32_t shift)
{
    return shift ? v->clocks.shifts - shift : 0;
}

static inline wr_vdim wr_vdim_shift(const struct wr_vclocks *c, wr_vdim dim, uint32_t shift)
{
    uint32_t sum = (uint32_t)(dim >> 32) + shift;
    return shift ? wr_vdim_of(sum < c->shifts ? sum : sum - c->shifts, (uint32_t)dim) : dim;
}

/* Whether this buffer holds the vector that is shifted with the ranks. */
static inline bool wr_vrotates(const struct wr_plan_spec *spec, uint32_t buffer)
{
    if (spec->coll == WR_COLL_ALLREDUCE || spec->coll == WR_COLL_ALLTOALL)
        return buffer != WR_BUF_SCRATCH;
    return buffer == (spec->coll == WR_COLL_REDUCE_SCATTER ? WR_BUF_IN : WR_BUF_OUT) && spec->coll <= WR_COLL_ALLGATHER &&
           spec->coll >= WR_COLL_REDUCE_SCATTER;
}

/* Where a place of a rank's buffer is in the frame in which that rank has shift 0. */
static inline uint64_t wr_vframe(const struct wr_verifier *v, uint32_t buffer, uint64_t offset, uint32_t shift)
{
    if (!shift || !wr_vrotates(v->spec, buffer))
        return offset;
    uint64_t by = (uint64_t)wr_vback(v, shift) * v->unit, sum = offset + by;
    return sum >= v->total ? sum - v->total : sum;
}

/* ---- classes (verify_class.c) ---- */

struct wr_verify_shape {
    int period;     /* ranks */
    uint32_t shifts;
};

/* Elements of a share of the vector that is shifted with the ranks. */
uint64_t wr_verify_share(const struct wr_plan_spec *spec);

/* Verifies the programs of the first `period` ranks, whose images the others are. */
weir_status wr_verify_run(const struct wr_plan_spec *spec, const struct wr_program *programs, const struct wr_verify_shape *shape,
                          bool sparse, struct wr_verify_result *result, weir_error *err);

/* Tells sparse clocks what to keep (verify_keep.c): who else touches what a rank touches. */
weir_status wr_verify_keep(struct wr_verifier *v, int rank, struct wr_vclock **clock);
weir_status wr_verify_find_users(struct wr_verifier *v);

/* ---- static checks (verify_prepare.c) ---- */
weir_status wr_verify_prepare(struct wr_verifier *v);
/* The steps of one lane; counts the signals of its counters. */
weir_status wr_verify_check_lane(struct wr_verifier *v, struct wr_vlane *lane);
/* IN of this rank is a part of its OUT. */
bool wr_verify_in_place(const struct wr_plan_spec *spec, int rank);

/* ---- accesses (verify_access.c) ---- */
weir_status wr_verify_step(struct wr_verifier *v, struct wr_vlane *lane, const struct wr_step *step);
weir_status wr_verify_start(struct wr_verifier *v, int rank);
weir_status wr_verify_end(struct wr_verifier *v, int rank, const struct wr_vclock *end);

/* The tick of a step of a lane, of its start (before step 0) and its end (step = steps), in an execution. */
static inline uint32_t wr_vtick(const struct wr_vlane *lane, uint32_t execution, uint32_t step)
{
    return execution * (lane->steps + 2) + 2 + step;
}

static inline uint32_t wr_vtick_start(const struct wr_vlane *lane, uint32_t execution)
{
    return execution * (lane->steps + 2) + 1;
}

/* Writes an error about the step that `lane` is at. */
weir_status wr_verify_fail(struct wr_verifier *v, const struct wr_vlane *lane, const char *fmt, ...) WR_PRINTF(3, 4);
/* "step 3 (PUT) of lane 0 of rank 7", for the entry and tick of a clock. */
const char *wr_verify_who(const struct wr_verifier *v, wr_vdim dim, uint32_t tick, char buf[96]);
const char *wr_step_name(const struct wr_step *step);

#endif
