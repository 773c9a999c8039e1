/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a collective is measured.
 *
 * stream: every slot (an input and an output buffer) gets new data, all ranks meet, then one call for each slot is
 * made, back to back; the sample is the time of all of them divided by their number. It is for small sizes, where the
 * skew of a meeting and the clock would be most of what is seen. sync: one slot gets new data, all ranks meet, one call
 * is made. A sample is the largest of all ranks' times; each rank keeps its own until the end.
 *
 * To meet is a barrier; where all ranks have the same clock (one node) and a core each, they agree in it on a moment a
 * few microseconds later and begin then together, so that no library gains or loses by how its barrier lets go.
 */
#include "perf/coll-loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    STREAM_MAX = 16 << 10,    /* bytes, with METHOD_AUTO */
    STREAM_BYTES = 512 << 10, /* of all slots: they stay in the core's own cache */
    ROTATED_BYTES = 64 << 20, /* of all slots: they do not */
    CHECKED_MAX = 1 << 20,    /* bytes, up to which checking all costs little */
    SAMPLES_MIN = 20,
    SAMPLES_LEAST = 3, /* where the budget allows no more */
    WARM_UP_SHARE = 3, /* of the budget: one third */
    SAMPLES_MAX = 2000,
    ALIGN = 4096
};

struct bench {
    const struct coll_backend *be;
    const struct coll_options *o;
    struct coll_data *data;
    bool by_clock, stream;
    int slots, batch; /* batch: of these, in a sample of a stream */
    uint64_t bytes, count, number; /* number: of the next call */
    struct coll_call calls[SLOTS_MAX];
    unsigned char *in, *out;
    void *in_handle, *out_handle;
    struct coll_parts *parts; /* of a v-form */
};

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(const double *sorted, int n, double q)
{
    return sorted[(int)(q * (n - 1) + 0.5)];
}

/* All ranks begin together. */
static bool meet(struct bench *b)
{
    double moment = 0;
    if (!b->be->barrier(b->be->self))
        return false;
    if (!b->by_clock)
        return true;
    if (b->be->rank == 0)
        moment = now_us() + 5 + 0.2 * b->be->size;
    if (!b->be->from_root(b->be->self, &moment))
        return false;
    while (now_us() < moment)
        ;
    return true;
}

static bool take_sample(struct bench *b, bool check, double *us, uint64_t *wrong)
{
    int n = b->stream ? b->batch : 1;
    struct coll_call *first = b->stream ? b->calls : &b->calls[b->number % (unsigned)b->slots];
    for (int i = 0; i < n; i++)
        coll_fill(b->data, first + i, b->number + (unsigned)i);
    if (!meet(b))
        return false;
    double start = now_us();
    for (int i = 0; i < n; i++)
        if (!b->be->run(b->be->self, first + i))
            return false;
    *us = (now_us() - start) / n;
    /* its loops end without asking whether others still read here */
    if (b->o->reference && !b->be->barrier(b->be->self))
        return false;
    for (int i = 0; i < n && check; i++)
        *wrong += coll_wrong(b->data, first + i, b->number + (unsigned)i);
    b->number += (unsigned)n;
    return true;
}

static uint64_t aligned(uint64_t bytes)
{
    uint64_t to = bytes < ALIGN ? 128 : ALIGN;
    return (bytes + to - 1) / to * to;
}

/* Buffers of all slots, written once, and the calls on them. */
static bool make_slots(struct bench *b)
{
    const struct coll_backend *be = b->be;
    enum coll_memory in_memory = b->o->memory == MEMORY_NODE_SHARED ? MEMORY_REGISTERED : b->o->memory;
    size_t elem = coll_type_size(b->o->type);
    uint64_t in = aligned(coll_in_elements(b->o->coll, be->rank, be->size, b->count) * elem);
    uint64_t out = aligned(coll_out_elements(b->o->coll, be->rank, be->size, b->count) * elem);
    /* the same number of slots at all ranks: as for one with the most to hold */
    int largest = coll_is_v(b->o->coll) && b->o->coll != COLL_GATHERV && b->o->coll != COLL_SCATTERV ? be->size - 1 : 0;
    uint64_t most = aligned(coll_in_elements(b->o->coll, largest, be->size, b->count) * elem) +
                    aligned(coll_out_elements(b->o->coll, largest, be->size, b->count) * elem) + 1;
    uint64_t fit = (b->stream ? STREAM_BYTES : ROTATED_BYTES) / most;
    int least = b->stream ? 8 : 2, limit = b->stream ? SLOTS_MAX : SLOTS_MAX / 2;
    b->slots = fit < (unsigned)least ? least : fit > (unsigned)limit ? limit : (int)fit;
    b->batch = b->slots;
    b->in = be->alloc(be->self, in * (unsigned)b->slots + ALIGN, in_memory, &b->in_handle);
    b->out = be->alloc(be->self, out * (unsigned)b->slots + ALIGN, b->o->memory, &b->out_handle);
    b->parts = coll_is_v(b->o->coll) ? coll_parts_new(b->o->coll, be->rank, be->size, b->count) : NULL;
    if (!b->in || !b->out || (coll_is_v(b->o->coll) && !b->parts))
        return false;
    memset(b->in, 0, in * (unsigned)b->slots);
    memset(b->out, 0, out * (unsigned)b->slots);
    for (int i = 0; i < b->slots; i++) {
        b->calls[i] = (struct coll_call){.coll = b->o->coll,
                                         .in = b->in + in * (unsigned)i,
                                         .out = b->out + out * (unsigned)i,
                                         .count = b->count,
                                         .parts = b->parts,
                                         .mine = coll_part(b->o->coll, be->rank, be->rank, be->size, b->count),
                                         .type = b->o->type,
                                         .op = b->o->op};
        if (b->o->persistent && !be->make_persistent(be->self, &b->calls[i]))
            return false;
    }
    return be->barrier(be->self);
}

static bool free_slots(struct bench *b)
{
    const struct coll_backend *be = b->be;
    enum coll_memory in_memory = b->o->memory == MEMORY_NODE_SHARED ? MEMORY_REGISTERED : b->o->memory;
    for (int i = 0; i < b->slots && b->o->persistent; i++)
        if (!be->free_persistent(be->self, &b->calls[i]))
            return false;
    free(b->parts);
    return be->free(be->self, b->out, b->o->memory, b->out_handle) &&
           be->free(be->self, b->in, in_memory, b->in_handle);
}

/* `most` samples, or as many as fit into `left` microseconds: rank 0 decides, which is told to all. */
static bool fit(struct bench *b, double most, double each, double left, int least, int *n)
{
    double fits = left / each;
    if (b->o->budget > 0 && most > fits)
        most = fits > least ? fits : least;
    bool told = b->be->from_root(b->be->self, &most);
    *n = (int)most;
    return told;
}

/* Until every slot was used and the warm-up is over; how many samples the time allows. */
static bool warm_up(struct bench *b, bool check, int *samples, uint64_t *wrong)
{
    double us, start = now_us(), last = start, end = start + b->o->budget * 1e6, n = b->o->iterations;
    int touch = b->stream ? 1 : b->slots, warm;
    for (int i = 0; i < touch; i++) {
        last = now_us();
        if (!take_sample(b, check, &us, wrong))
            return false;
    }
    double each = now_us() - last;
    /* where even one sample takes long, it has fewer calls */
    if (b->stream && !fit(b, b->slots, each / b->slots, b->o->budget * 1e6 / (SAMPLES_LEAST + 2), 1, &b->batch))
        return false;
    each = b->stream ? each * b->batch / b->slots : each;
    if (!fit(b, b->o->warmup, each, (end - now_us()) / WARM_UP_SHARE, b->o->warmup > 0, &warm))
        return false;
    for (int i = 0; i < warm; i++) {
        if (i == warm / 2)
            start = now_us();
        if (!take_sample(b, check, &us, wrong))
            return false;
    }
    if (warm)
        each = (now_us() - start) / (warm - warm / 2);
    if (!b->o->iterations) {
        n = b->o->seconds * 1e6 / each;
        n = n < SAMPLES_MIN ? SAMPLES_MIN : n > SAMPLES_MAX ? SAMPLES_MAX : n;
    }
    return fit(b, n, each, end - now_us(), SAMPLES_LEAST, samples);
}

static double bus_factor(enum coll_id coll, int size)
{
    double part = (double)(size - 1) / size;
    coll = coll_plain(coll);
    return coll == COLL_ALLREDUCE                                                                  ? 2 * part
           : coll == COLL_BCAST || coll == COLL_REDUCE || coll == COLL_SCAN || coll == COLL_EXSCAN ? 1
                                                                                                   : part;
}

/* Rank 0 knows the slowest rank's times. */
static void make_row(struct bench *b, double *samples, int n, struct coll_row *row)
{
    enum coll_id coll = coll_plain(b->o->coll);
    bool gathers = coll == COLL_ALLGATHER || coll == COLL_GATHER;
    qsort(samples, (size_t)n, sizeof *samples, by_value);
    row->median_us = quantile(samples, n, 0.5);
    row->min_us = samples[0];
    row->p99_us = quantile(samples, n, 0.99);
    row->algbw = (double)b->bytes * (gathers ? b->be->size : 1) / (row->median_us * 1e3);
    row->busbw = row->algbw * bus_factor(coll, b->be->size);
}

/* The elements of a call that moves `bytes` bytes, at least one; what it really moves. */
static void set_size(struct bench *b, uint64_t bytes)
{
    enum coll_id coll = coll_plain(b->o->coll);
    bool blocks = coll == COLL_REDUCE_SCATTER || coll == COLL_ALLTOALL || coll == COLL_SCATTER;
    uint64_t unit = coll_type_size(b->o->type) * (blocks ? (unsigned)b->be->size : 1);
    b->count = coll == COLL_BARRIER ? 0 : bytes < unit ? 1 : bytes / unit;
    b->bytes = b->count * unit;
    b->stream = b->o->method == METHOD_STREAM || (b->o->method == METHOD_AUTO && b->bytes <= STREAM_MAX);
}

static bool measure_size(struct bench *b, uint64_t bytes, bool *good)
{
    uint64_t wrong = 0;
    int n = 0;
    bool ok;
    set_size(b, bytes);
    bool always = b->o->check == 1 || (b->o->check == -1 && b->bytes <= CHECKED_MAX);
    if (!make_slots(b) || !warm_up(b, b->o->check != 0, &n, &wrong))
        return false;
    double *samples = calloc((size_t)n, sizeof *samples);
    ok = samples != NULL;
    for (int i = 0; i < n && ok; i++)
        ok = take_sample(b, always, &samples[i], &wrong);
    double total = (double)wrong;
    ok = ok && b->be->combine(b->be->self, samples, n, false) && b->be->combine(b->be->self, &total, 1, true) &&
         b->be->from_root(b->be->self, &total) && free_slots(b);
    if (ok && b->be->rank == 0) {
        struct coll_row row = {.bytes = b->bytes,
                               .count = b->count,
                               .iterations = n,
                               .stream = b->stream,
                               .checked = b->o->check != 0,
                               .wrong = total};
        make_row(b, samples, n, &row);
        coll_print_row(b->be, b->o, &row);
    }
    *good &= total == 0;
    free(samples);
    return ok;
}

int coll_measure(const struct coll_backend *be, const struct coll_options *o)
{
    struct bench b = {.be = be, .o = o};
    bool good = true, ok = true;
    const char *why = be->refuse(be->self, o);
    if (why) {
        if (be->rank == 0)
            fprintf(stderr, "%s: %s\n", be->program, why);
        return 2;
    }
    b.by_clock = be->nodes == 1 && be->size <= sysconf(_SC_NPROCESSORS_ONLN);
    b.data = coll_data_new(o, be->rank, be->size);
    if (!b.data) {
        fprintf(stderr, "%s: out of memory\n", be->program);
        return 1;
    }
    ok = coll_print_head(be, o, b.by_clock);
    if (o->coll == COLL_BARRIER) {
        ok = ok && measure_size(&b, 0, &good);
    } else if (o->nsizes) {
        for (int i = 0; i < o->nsizes && ok; i++)
            ok = measure_size(&b, o->sizes[i], &good);
    } else {
        for (uint64_t bytes = o->min; bytes <= o->max && ok; bytes *= o->factor)
            ok = measure_size(&b, bytes, &good);
    }
    coll_data_free(b.data);
    return ok && good ? 0 : 1;
}
