/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop that measures collectives, the same for weir and for every MPI: weir-perf and mpi-perf are this loop with a
 * table of calls each. Only types and operations come from a header of weir, so that it compiles without the library.
 */
#ifndef WEIR_PERF_COLL_LOOP_H
#define WEIR_PERF_COLL_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/type.h>

enum { SLOTS_MAX = 32, SIZES_MAX = 64 };

enum coll_id {
    COLL_BARRIER,
    COLL_BCAST,
    COLL_REDUCE,
    COLL_ALLREDUCE,
    COLL_REDUCE_SCATTER,
    COLL_ALLGATHER,
    COLL_GATHER,
    COLL_SCATTER,
    COLL_ALLTOALL,
    COLL_SCAN,
    COLL_EXSCAN,
    COLL_REDUCE_SCATTERV, /* v-forms: unequal counts, see coll_part() */
    COLL_ALLGATHERV,
    COLL_GATHERV,
    COLL_SCATTERV,
    COLL_ALLTOALLV,
    COLLS
};

/* Where buffers come from. */
enum coll_memory {
    MEMORY_HEAP,
    MEMORY_REGISTERED, /* weir_mem_alloc(), MPI_Alloc_mem() */
    MEMORY_NODE_SHARED /* the output is one window a node */
};

enum coll_method {
    METHOD_AUTO,
    METHOD_STREAM, /* a batch of calls, one after the other, on buffers of their own */
    METHOD_SYNC    /* each call alone, after all ranks have met */
};

struct coll_options {
    enum coll_id coll;
    uint64_t min, max, factor;
    uint64_t sizes[SIZES_MAX];
    int nsizes; /* 0: min, max and factor tell */
    weir_type type;
    weir_op op;
    enum coll_memory memory;
    enum coll_method method;
    bool persistent, json;
    bool reference;         /* what the machine could do, instead */
    int check;              /* 1 all, 0 none, -1 what costs little */
    int iterations, warmup; /* iterations 0: as many as fit into the time */
    double seconds;         /* for one size */
    double budget;          /* most seconds for one size, with its warm-up; 0: no limit */
};

/* Counts and offsets of a rank's input and output by rank, in both widths. */
struct coll_parts {
    uint64_t *in_counts, *in_offsets, *out_counts, *out_offsets;
    int *int_in_counts, *int_in_offsets, *int_out_counts, *int_out_offsets;
};

/* One call, ready to be made. Buffers and count are as in <weir/coll.h>; the root is rank 0. */
struct coll_call {
    enum coll_id coll;
    const void *in;
    void *out;
    uint64_t count;
    weir_type type;
    weir_op op;
    const struct coll_parts *parts; /* of a v-form */
    uint64_t mine;                  /* v-forms: elements of this rank's own part */
    void *handle;                   /* of a persistent call; the back end's */
};

/* What a back end does. Whoever returns false has told why on stderr; self is the back end's own. */
struct coll_backend {
    const char *program, *version;
    void *self;
    int rank, size, nodes;
    char transport[128];
    /* NULL, or the sentence why it cannot be */
    const char *(*refuse)(void *self, const struct coll_options *o);
    bool (*run)(void *self, struct coll_call *call); /* blocking, or start and wait of a persistent one */
    bool (*make_persistent)(void *self, struct coll_call *call);
    bool (*free_persistent)(void *self, struct coll_call *call);
    void *(*alloc)(void *self, size_t bytes, enum coll_memory memory, void **handle); /* NULL on failure */
    bool (*free)(void *self, void *address, enum coll_memory memory, void *handle);
    bool (*barrier)(void *self);
    bool (*from_root)(void *self, double *value);
    /* element by element over the ranks, result at rank 0 */
    bool (*combine)(void *self, double *values, int n, bool sum);
};

/* Results of one size. */
struct coll_row {
    uint64_t bytes, count;
    int iterations;
    bool stream, checked;
    double median_us, min_us, p99_us, algbw, busbw; /* GB/s */
    double wrong;
};

/* ---- coll-loop.c ---- */

/* The exit code, or -1 to go on. Help and complaints are printed by who may speak. */
int coll_parse(struct coll_options *o, int argc, char **argv, const char *program, bool speak);
/* Measures and prints; the exit code: 0, 1 after a failure or wrong results, 2 when it cannot be. */
int coll_measure(const struct coll_backend *be, const struct coll_options *o);

/* ---- coll-options.c ---- */

const char *coll_name(enum coll_id coll);
bool coll_reduces(enum coll_id coll);
bool coll_is_v(enum coll_id coll);
enum coll_id coll_plain(enum coll_id coll); /* without the v */
size_t coll_type_size(weir_type type);
const char *coll_type_name(weir_type type);
const char *coll_op_name(weir_op op);

/* ---- coll-data.c ---- */

/* Contents of the buffers: whose, in which call. */
struct coll_data;

struct coll_data *coll_data_new(const struct coll_options *o, int rank, int size);
void coll_data_free(struct coll_data *d);
/* Elements that rank a has for rank b, or that are the share of b; in v-forms they grow with the rank, and `count` is the mean. */
uint64_t coll_part(enum coll_id coll, int a, int b, int size, uint64_t count);
/* Counts and offsets; NULL when memory is exhausted. Freed by free(). */
struct coll_parts *coll_parts_new(enum coll_id coll, int rank, int size, uint64_t count);
/* Elements of this rank's buffers. For a broadcast there is the output only. */
uint64_t coll_in_elements(enum coll_id coll, int rank, int size, uint64_t count);
uint64_t coll_out_elements(enum coll_id coll, int rank, int size, uint64_t count);
/* Writes what this rank contributes to the number-th call. */
void coll_fill(struct coll_data *d, const struct coll_call *call, uint64_t number);
/* Elements of the output of the number-th call that are not what they should be. */
uint64_t coll_wrong(struct coll_data *d, const struct coll_call *call, uint64_t number);

/* ---- coll-print.c ---- */

/* Collective; rank 0 prints. */
bool coll_print_head(const struct coll_backend *be, const struct coll_options *o, bool by_clock);
void coll_print_row(const struct coll_backend *be, const struct coll_options *o, const struct coll_row *row);

#endif
