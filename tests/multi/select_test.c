/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives against a plain reference: a seeded selection of collective, type, operation, size, form, memory, place of the
 * root and of the parts, in place or not, that soon has all pairs of these. Every execution's data is different, and what a
 * collective has no business with must stay as it is. Ranks, nodes, placement and algorithms are the script's.
 *
 * usage: select_test [-r ROUNDS] [-t SECONDS] [-s SEED] [-b MAXELEMENTS] [-c COLLECTIVE]
 */
#include <getopt.h>
#include <time.h>
#include <unistd.h>

#include "tests/multi/multi.h"
#include "tests/multi/select_data.h"

enum coll {
    BCAST,
    REDUCE,
    ALLREDUCE,
    REDUCE_SCATTER,
    ALLGATHER,
    GATHER,
    SCATTER,
    ALLTOALL,
    SCAN,
    EXSCAN,
    REDUCE_SCATTERV,
    ALLGATHERV,
    GATHERV,
    SCATTERV,
    ALLTOALLV,
    COLLS
};
static const char *const names[COLLS] = {"bcast",  "reduce",          "allreduce",  "reduce_scatter", "allgather",
                                         "gather", "scatter",         "alltoall",   "scan",           "exscan",
                                         "reduce_scatterv", "allgatherv", "gatherv", "scatterv",      "alltoallv"};

/* The factors of a case, and how many values each has. */
enum { COLL, TYPE, OP, SIZE, FORM, MEMORY, ROOT, LAYOUT, PLACE, FACTORS };
static const uint8_t levels[FACTORS] = {COLLS, 12, 8, 6, 3, 2, 2, 3, 2};
enum { LEVELS_MAX = 16 };

enum { BLOCKING, STARTED, PERSISTENT };
enum { PACKED, NO_OFFSETS, GAPS };
enum { GUARD = 64, FILL = 0xa5 };

struct work {
    uint8_t factor[FACTORS];
    enum coll coll, plain; /* plain: without the v */
    weir_type type;
    weir_op op;
    uint64_t count, key; /* key: of the counts of v-forms */
    int root;
    bool in_place, vector;
    char *in, *out, *input; /* input: where this rank's is */
    weir_mem *in_mem, *out_mem;
    uint64_t in_elems, out_elems; /* extents */
    uint64_t *in_counts, *in_offsets, *out_counts, *out_offsets;
};

static uint64_t seed = 1, most = 20000, skipped;
static uint8_t covered[FACTORS][LEVELS_MAX][FACTORS][LEVELS_MAX];

/* The same sequence at all ranks. */
static uint64_t next(uint64_t bound)
{
    seed += 0x9e3779b97f4a7c15u;
    return mix(seed) % bound;
}

/* ---- choosing ---- */

static int new_pairs(const uint8_t *f, bool mark)
{
    int n = 0;
    for (int a = 0; a < FACTORS; a++)
        for (int b = a + 1; b < FACTORS; b++) {
            n += !covered[a][f[a]][b][f[b]];
            covered[a][f[a]][b][f[b]] |= mark;
        }
    return n;
}

/* Of some candidates the one with the most pairs that have not been. */
static void choose(uint8_t *best, int only)
{
    int most_new = -1;
    for (int c = 0; c < 12; c++) {
        uint8_t f[FACTORS];
        for (int i = 0; i < FACTORS; i++)
            f[i] = (uint8_t)next(levels[i]);
        if (only >= 0)
            f[COLL] = (uint8_t)only;
        if (is_real((weir_type)f[TYPE]) && f[OP] >= WEIR_AND)
            f[OP] = (uint8_t)(f[OP] - WEIR_AND);
        int n = new_pairs(f, false);
        if (n > most_new) {
            most_new = n;
            memcpy(best, f, sizeof f);
        }
    }
    new_pairs(best, true);
}

/* ---- shapes ---- */

static bool combines(enum coll plain)
{
    return plain == REDUCE || plain == ALLREDUCE || plain == REDUCE_SCATTER || plain == SCAN || plain == EXSCAN;
}

/* Elements that rank a's input has for rank b, or that are rank b's share. */
static uint64_t part(const struct work *w, int a, int b)
{
    uint64_t h = mix(w->key + (uint64_t)b * 77 + (w->plain == ALLTOALL ? (uint64_t)a * 1013 : 0)) % 4;
    return !w->vector ? w->count : h == 0 ? 0 : h == 1 ? 1 : h == 2 ? w->count / 2 : w->count;
}

static uint64_t sum_before(const struct work *w, int b)
{
    uint64_t sum = 0;
    for (int q = 0; q < b; q++)
        sum += part(w, 0, q);
    return sum;
}

/* Counts and offsets of a buffer whose parts have these counts; the extent. */
static uint64_t lay_out(const struct work *w, const uint64_t *counts, uint64_t *offsets)
{
    uint64_t at = 0;
    bool gaps = w->vector && w->factor[LAYOUT] == GAPS && w->plain != REDUCE_SCATTER;
    for (int i = 0; i < size; i++) {
        int p = gaps ? size - 1 - i : i;
        offsets[p] = at;
        at += counts[p] + (gaps ? 3 : 0);
    }
    return at;
}

static void shape(struct work *w)
{
    bool at_root = rank == w->root, whole_in, whole_out, one_in, one_out;
    for (int p = 0; p < size; p++) {
        w->in_counts[p] = part(w, rank, p);
        w->out_counts[p] = part(w, p, w->plain == ALLTOALL ? rank : p);
    }
    uint64_t in = lay_out(w, w->in_counts, w->in_offsets), out = lay_out(w, w->out_counts, w->out_offsets);
    whole_in = w->plain == REDUCE_SCATTER || w->plain == ALLTOALL || (w->plain == SCATTER && at_root);
    whole_out = w->plain == ALLGATHER || w->plain == ALLTOALL || (w->plain == GATHER && at_root);
    one_in = w->plain != SCATTER && (w->plain != BCAST || at_root);
    one_out = (w->plain != GATHER && w->plain != REDUCE) || at_root;
    w->in_elems = whole_in ? in : one_in ? part(w, rank, rank) : 0;
    w->out_elems = whole_out ? out : one_out ? part(w, rank, rank) : 0;
    if (w->in_place && w->out_elems < w->in_elems)
        w->out_elems = w->in_elems;
}

static char *place(weir_mem **mem, uint64_t bytes, bool registered)
{
    if (registered) {
        OK(weir_mem_alloc(comm, bytes + 2 * GUARD, 0, mem));
        return (char *)weir_mem_ptr(*mem) + GUARD;
    }
    *mem = NULL;
    char *p = malloc(bytes + 2 * GUARD);
    CHECK(p, "no memory");
    return p + GUARD;
}

static void make_buffers(struct work *w)
{
    size_t elem = weir_type_size(w->type);
    w->in = place(&w->in_mem, w->in_elems * elem, w->factor[MEMORY]);
    w->out = place(&w->out_mem, w->out_elems * elem, w->factor[MEMORY]);
    w->input = w->in;
    if (w->in_place)
        w->input = w->out + (w->plain == ALLGATHER || w->plain == GATHER ? w->out_offsets[rank] * elem : 0);
    if (w->plain == BCAST)
        w->input = w->out;
}

static void free_buffers(struct work *w)
{
    if (w->in_mem) {
        OK(weir_mem_free(w->in_mem));
        OK(weir_mem_free(w->out_mem));
        return;
    }
    free(w->in - GUARD);
    free(w->out - GUARD);
}

/* ---- data ---- */

static struct number input(const struct work *w, int r, uint64_t i, uint64_t k)
{
    return number_of(w->type, combines(w->plain) ? w->op : WEIR_SUM, r, i, k);
}

/* Numbers parts of an all-to-all and a scatter apart. */
static uint64_t index_in_part(int p, uint64_t i)
{
    return (uint64_t)p * 1000000 + i;
}

static void store(const struct work *w, char *buffer, uint64_t at, struct number n)
{
    number_store(buffer + at * weir_type_size(w->type), w->type, n);
}

static void prepare(const struct work *w, uint64_t k)
{
    size_t elem = weir_type_size(w->type);
    memset(w->in - GUARD, FILL, w->in_elems * elem + 2 * GUARD);
    memset(w->out - GUARD, FILL, w->out_elems * elem + 2 * GUARD);
    bool parts = w->plain == ALLTOALL || w->plain == SCATTER;
    if ((w->plain == SCATTER || w->plain == BCAST) && rank != w->root)
        return;
    for (int p = 0; parts && p < size; p++)
        for (uint64_t i = 0; i < w->in_counts[p]; i++)
            store(w, w->input, w->in_offsets[p] + i, input(w, rank, index_in_part(p, i), k));
    for (uint64_t i = 0; !parts && i < (w->plain == BCAST ? w->count : w->in_elems); i++)
        store(w, w->input, i, input(w, rank, i, k));
}

/* What ranks first .. last give together at index i. */
static struct number together(const struct work *w, int first, int last, uint64_t i, uint64_t k)
{
    struct number n = input(w, first, i, k);
    for (int r = first + 1; r <= last; r++)
        n = number_combine(w->op, n, input(w, r, i, k), w->type);
    return number_end(w->op, n, last - first + 1, w->type);
}

/* What output element i of part p must be. */
static struct number expected(const struct work *w, int p, uint64_t i, uint64_t k)
{
    switch (w->plain) {
    case BCAST:
        return input(w, w->root, i, k);
    case SCATTER:
        return input(w, w->root, index_in_part(rank, i), k);
    case ALLTOALL:
        return input(w, p, index_in_part(rank, i), k);
    case GATHER:
    case ALLGATHER:
        return input(w, p, i, k);
    case REDUCE_SCATTER:
        return together(w, 0, size - 1, sum_before(w, rank) + i, k);
    case SCAN:
        return together(w, 0, rank, i, k);
    case EXSCAN:
        return together(w, 0, rank - 1, i, k);
    default:
        return together(w, 0, size - 1, i, k);
    }
}

static const char *words(const struct work *w)
{
    static char text[200];
    snprintf(text, sizeof text, "%s of %llu %s %s, root %d%s%s%s%s", names[w->coll], (unsigned long long)w->count,
             weir_type_name(w->type), combines(w->plain) ? weir_op_name(w->op) : "", w->root,
             w->in_place ? ", in place" : "", w->factor[MEMORY] ? ", registered" : "",
             w->factor[LAYOUT] == GAPS ? ", gaps" : "",
             w->factor[FORM] == BLOCKING ? "" : w->factor[FORM] == STARTED ? ", started" : ", persistent");
    return text;
}

/* Compares elements of OUT, and marks them as seen by making them FILL. */
static void take(const struct work *w, uint64_t at, int p, uint64_t n, uint64_t k)
{
    size_t elem = weir_type_size(w->type);
    for (uint64_t i = 0; i < n; i++) {
        char *got = w->out + (at + i) * elem, want[8];
        number_store(want, w->type, expected(w, p, i, k));
        CHECK(!memcmp(got, want, elem), "%s: element %llu of part %d is %02x%02x.., not %02x%02x..", words(w),
              (unsigned long long)i, p, (unsigned char)got[elem - 1], (unsigned char)got[0],
              (unsigned char)want[elem - 1], (unsigned char)want[0]);
        memset(got, FILL, elem);
    }
}

static void unchanged(const struct work *w, const char *buffer, uint64_t from, uint64_t to, const char *what)
{
    size_t elem = weir_type_size(w->type);
    for (const char *p = buffer + from * elem - (from ? 0 : GUARD); p < buffer + to * elem + GUARD; p++)
        CHECK(*(const unsigned char *)p == FILL, "%s: byte %ld of the %s was written to", words(w), (long)(p - buffer),
              what);
}

static void examine(struct work *w, uint64_t k)
{
    bool parts = w->plain == ALLTOALL || w->plain == ALLGATHER || w->plain == GATHER;
    bool none = (w->plain == GATHER || w->plain == REDUCE) && rank != w->root;
    bool own_stays = w->in_place && w->plain == SCATTER; /* at the root, among what it sends */
    for (int p = 0; parts && !none && p < size; p++)
        take(w, w->out_offsets[p], p, w->out_counts[p], k);
    if (own_stays) {
        take(w, w->in_offsets[rank], rank, w->in_counts[rank], k);
    } else if (!parts && !none && !(w->plain == EXSCAN && rank == 0)) {
        take(w, 0, rank, w->plain == BCAST ? w->count : part(w, rank, rank), k);
    }
    bool rest_is_input = w->in_place && (w->plain == REDUCE_SCATTER || none || own_stays || w->plain == EXSCAN);
    unchanged(w, w->out, rest_is_input ? w->out_elems : 0, w->out_elems, "output");
    if (w->in_place || w->plain == BCAST)
        return;
    /* the input is as it was */
    parts = w->plain == ALLTOALL || w->plain == SCATTER;
    for (uint64_t i = 0; !parts && i < w->in_elems; i++) {
        char want[8];
        size_t elem = weir_type_size(w->type);
        number_store(want, w->type, input(w, rank, i, k));
        CHECK(!memcmp(w->in + i * elem, want, elem), "%s: input element %llu has changed", words(w),
              (unsigned long long)i);
    }
}

/* ---- calls ---- */

/* B: blocking, S: started, P: persistent. */
#define FORMS(name, ...)                                                                                     \
    (form == BLOCKING  ? weir_##name(comm, __VA_ARGS__)                                                      \
     : form == STARTED ? weir_i##name(comm, __VA_ARGS__, r)                                                  \
                       : weir_##name##_init(comm, __VA_ARGS__, r))

static weir_status call(const struct work *w, int form, weir_request **r)
{
    const void *in = w->in_place ? WEIR_IN_PLACE : w->in;
    void *out = w->out;
    uint64_t n = w->count, mine = part(w, rank, rank);
    const uint64_t *ic = w->in_counts, *oc = w->out_counts;
    const uint64_t *io = w->factor[LAYOUT] == NO_OFFSETS ? NULL : w->in_offsets;
    const uint64_t *oo = w->factor[LAYOUT] == NO_OFFSETS ? NULL : w->out_offsets;
    weir_type t = w->type;
    switch (w->coll) {
    case BCAST:
        return FORMS(bcast, out, n, t, w->root);
    case REDUCE:
        return FORMS(reduce, in, out, n, t, w->op, w->root);
    case ALLREDUCE:
        return FORMS(allreduce, in, out, n, t, w->op);
    case REDUCE_SCATTER:
        return FORMS(reduce_scatter, in, out, n, t, w->op);
    case ALLGATHER:
        return FORMS(allgather, in, out, n, t);
    case GATHER:
        return FORMS(gather, in, out, n, t, w->root);
    case SCATTER:
        return FORMS(scatter, in, out, n, t, w->root);
    case ALLTOALL:
        return FORMS(alltoall, in, out, n, t);
    case SCAN:
        return FORMS(scan, in, out, n, t, w->op);
    case EXSCAN:
        return FORMS(exscan, in, out, n, t, w->op);
    case REDUCE_SCATTERV:
        return FORMS(reduce_scatterv, in, out, oc, t, w->op);
    case ALLGATHERV:
        return FORMS(allgatherv, in, out, oc, oo, t);
    case GATHERV:
        return FORMS(gatherv, in, mine, out, oc, oo, t, w->root);
    case SCATTERV:
        return FORMS(scatterv, in, ic, io, out, mine, t, w->root);
    default:
        return FORMS(alltoallv, in, ic, io, out, oc, oo, t);
    }
}

static void complete(weir_request **r, bool by_test)
{
    if (!by_test) {
        OK(weir_wait(r));
        return;
    }
    weir_status status;
    while ((status = weir_test(r)) == WEIR_IN_PROGRESS)
        ;
    OK(status);
}

static void set_up(struct work *w)
{
    static const uint64_t sizes[] = {0, 1, 7, 333, 4097, 20000};
    w->coll = (enum coll)w->factor[COLL];
    w->vector = w->coll >= REDUCE_SCATTERV;
    w->plain = w->vector ? (enum coll)(w->coll - REDUCE_SCATTERV + REDUCE_SCATTER) : w->coll;
    w->type = (weir_type)w->factor[TYPE];
    w->op = (weir_op)w->factor[OP];
    w->count = sizes[w->factor[SIZE]] < most ? sizes[w->factor[SIZE]] : most;
    w->root = w->factor[ROOT] ? size - 1 : 0;
    w->key = next(1u << 20);
    bool root_only = w->plain == GATHER || w->plain == SCATTER || w->plain == REDUCE;
    w->in_place = w->factor[PLACE] && w->plain != ALLTOALL && w->plain != BCAST && (!root_only || rank == w->root);
}

/* One case, in several executions. */
static void one(uint64_t round, int only)
{
    struct work w = {.root = 0};
    weir_request *r = NULL;
    choose(w.factor, only);
    uint64_t *numbers = calloc(4 * (size_t)size, sizeof *numbers);
    CHECK(numbers, "no memory");
    w.in_counts = numbers;
    w.in_offsets = numbers + size;
    w.out_counts = numbers + 2 * size;
    w.out_offsets = numbers + 3 * size;
    set_up(&w);
    shape(&w);
    make_buffers(&w);
    int form = w.factor[FORM];
    weir_status status = form == PERSISTENT ? call(&w, form, &r) : WEIR_OK;
    for (uint64_t k = 0; k < 3 && !status; k++) {
        prepare(&w, round * 16 + k);
        status = form == PERSISTENT ? weir_start(r) : call(&w, form, &r);
        if (!status && form != BLOCKING)
            complete(&r, k == 1);
        if (!status)
            examine(&w, round * 16 + k);
    }
    /* an algorithm that was asked for and does not serve this call is refused at all ranks */
    CHECK(!status || status == WEIR_ERR_CONFIG, "%s: %s", words(&w), weir_status_name(status));
    skipped += status != WEIR_OK;
    if (form == PERSISTENT && !status)
        OK(weir_request_free(&r));
    free_buffers(&w);
    free(numbers);
}

static int collective_of(const char *name)
{
    for (int i = 0; i < COLLS; i++)
        if (!strcmp(name, names[i]))
            return i;
    return -1;
}

/* Rank 0's clock tells all when to end. */
static bool goes_on(double deadline)
{
    struct timespec t;
    int32_t more = 0;
    clock_gettime(CLOCK_MONOTONIC, &t);
    more = (double)t.tv_sec + (double)t.tv_nsec * 1e-9 < deadline;
    OK(weir_bcast(comm, &more, 1, WEIR_INT32, 0));
    return more;
}

int main(int argc, char **argv)
{
    uint64_t rounds = 150;
    double seconds = 0;
    int c, only = -1;
    struct timespec t;
    while ((c = getopt(argc, argv, "r:s:b:t:c:")) != -1) {
        if (c == 'r')
            rounds = strtoull(optarg, NULL, 0);
        else if (c == 's')
            seed = strtoull(optarg, NULL, 0);
        else if (c == 'b')
            most = strtoull(optarg, NULL, 0);
        else if (c == 't')
            seconds = atof(optarg);
        else if (c != 'c' || (only = collective_of(optarg)) < 0)
            return 2;
    }
    start();
    clock_gettime(CLOCK_MONOTONIC, &t);
    uint64_t done = 0;
    for (; seconds > 0 ? goes_on((double)t.tv_sec + seconds) : done < rounds; done++)
        one(done, only);
    OK(weir_barrier(comm));
    CHECK(skipped < done || !done, "no algorithm served any call");
    if (rank == 0)
        printf("%llu cases, %llu not served by the algorithm\n", (unsigned long long)done, (unsigned long long)skipped);
    finish("selected collectives");
    return 0;
}
