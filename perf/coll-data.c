/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the buffers hold. Each rank's input in each call is a window of one periodic row of small numbers, so that a
 * buffer is written at the speed of memory, and so that the right result has the same period and is known without a
 * second collective. The period is prime: data that arrives at a wrong place does not look right. Small integers make
 * sums exact in every type; where they cannot be (16 bits and many ranks, averages) a rounding is allowed for.
 */
#include "perf/coll-loop.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PERIOD = 4099 };

struct coll_data {
    weir_type type;
    weir_op op;
    int rank, size;
    size_t elem;
    uint64_t ints[PERIOD];   /* the row */
    unsigned char *row;      /* the same in the type, twice in a row */
    unsigned char *expected; /* a period of a result */
    double reals[PERIOD];    /* working space */
    uint64_t whole[PERIOD];
};

static bool is_float(weir_type type)
{
    return type == WEIR_FP16 || type == WEIR_BF16 || type == WEIR_FP32 || type == WEIR_FP64;
}

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* A small integer or a quotient of such as a float of 16 bits, to nearest even: no NaN, infinity or denormal. */
static uint16_t to_half(double value, int mantissa, int exponent_bias)
{
    int e;
    double fraction = frexp(fabs(value), &e); /* 0.5 <= fraction < 1 */
    if (value == 0)
        return 0;
    double scaled = nearbyint(ldexp(fraction, mantissa + 1));
    uint64_t m = (uint64_t)scaled;
    if (m >> (mantissa + 1)) {
        m >>= 1;
        e++;
    }
    return (uint16_t)((value < 0 ? 0x8000 : 0) | ((unsigned)(e - 1 + exponent_bias) << mantissa) |
                      (unsigned)(m & ((1U << mantissa) - 1)));
}

static double from_half(uint16_t bits, int mantissa, int exponent_bias)
{
    int width = 15 - mantissa, e = bits >> mantissa & ((1 << width) - 1);
    double m = bits & ((1 << mantissa) - 1), one = 1 << mantissa, sign = bits & 0x8000 ? -1 : 1;
    if (e == (1 << width) - 1)
        return m != 0 ? NAN : sign * INFINITY;
    return e ? sign * ldexp((one + m) / one, e - exponent_bias) : sign * ldexp(m / one, 1 - exponent_bias);
}

static void store(unsigned char *at, weir_type type, double real, uint64_t whole)
{
    float f = (float)real;
    uint16_t half = type == WEIR_FP16 ? to_half(real, 10, 15) : type == WEIR_BF16 ? to_half(real, 7, 127) : 0;
    if (type == WEIR_FP64)
        memcpy(at, &real, 8);
    else if (type == WEIR_FP32)
        memcpy(at, &f, 4);
    else if (is_float(type))
        memcpy(at, &half, 2);
    else /* the low bytes, which stand first on the machines that this runs on */
        memcpy(at, &whole, coll_type_size(type));
}

static double load_float(const unsigned char *at, weir_type type)
{
    double d;
    float f;
    uint16_t half;
    if (type == WEIR_FP64)
        return memcpy(&d, at, 8), d;
    if (type == WEIR_FP32)
        return memcpy(&f, at, 4), (double)f;
    memcpy(&half, at, 2);
    return type == WEIR_FP16 ? from_half(half, 10, 15) : from_half(half, 7, 127);
}

struct coll_data *coll_data_new(const struct coll_options *o, int rank, int size)
{
    struct coll_data *d = calloc(1, sizeof *d);
    size_t elem = coll_type_size(o->type);
    if (!d)
        return NULL;
    d->type = o->type;
    d->op = o->op;
    d->rank = rank;
    d->size = size;
    d->elem = elem;
    d->row = malloc(2 * PERIOD * elem);
    d->expected = malloc(PERIOD * elem);
    if (!d->row || !d->expected) {
        coll_data_free(d);
        return NULL;
    }
    bool bits = o->op == WEIR_AND || o->op == WEIR_OR || o->op == WEIR_XOR;
    for (int i = 0; i < PERIOD; i++) {
        uint64_t h = mix((uint64_t)i);
        d->ints[i] = bits && coll_reduces(o->coll) ? h : o->op == WEIR_PROD ? 1 + (h % 16 == 0) : h % 8;
        store(d->row + (size_t)i * elem, o->type, (double)d->ints[i], d->ints[i]);
    }
    memcpy(d->row + PERIOD * elem, d->row, PERIOD * elem);
    return d;
}

void coll_data_free(struct coll_data *d)
{
    if (!d)
        return;
    free(d->row);
    free(d->expected);
    free(d);
}

uint64_t coll_part(enum coll_id coll, int a, int b, int size, uint64_t count)
{
    int weight = coll == COLL_ALLTOALLV ? (a + b) % size + 1 : b + 1;
    return coll_is_v(coll) ? count * 2 * (uint64_t)weight / ((uint64_t)size + 1) : count;
}

/* What rank a has for the ranks below `end`. */
static uint64_t parts_before(enum coll_id coll, int a, int end, int size, uint64_t count)
{
    uint64_t sum = 0;
    if (!coll_is_v(coll))
        return count * (uint64_t)end;
    for (int b = 0; b < end; b++)
        sum += coll_part(coll, a, b, size, count);
    return sum;
}

uint64_t coll_in_elements(enum coll_id coll, int rank, int size, uint64_t count)
{
    enum coll_id plain = coll_plain(coll);
    bool blocks = plain == COLL_REDUCE_SCATTER || plain == COLL_ALLTOALL || (plain == COLL_SCATTER && rank == 0);
    bool none = plain == COLL_BARRIER || plain == COLL_BCAST || (plain == COLL_SCATTER && rank != 0);
    return none     ? 0
           : blocks ? parts_before(coll, rank, size, size, count)
                    : coll_part(coll, rank, rank, size, count);
}

uint64_t coll_out_elements(enum coll_id coll, int rank, int size, uint64_t count)
{
    enum coll_id plain = coll_plain(coll);
    bool blocks = plain == COLL_ALLGATHER || plain == COLL_ALLTOALL || (plain == COLL_GATHER && rank == 0);
    bool none = plain == COLL_BARRIER || ((plain == COLL_GATHER || plain == COLL_REDUCE) && rank != 0);
    /* what goes from a to b in an all-to-all also goes from b to a */
    return none     ? 0
           : blocks ? parts_before(coll, rank, size, size, count)
                    : coll_part(coll, rank, rank, size, count);
}

struct coll_parts *coll_parts_new(enum coll_id coll, int rank, int size, uint64_t count)
{
    size_t n = (size_t)size;
    struct coll_parts *p = malloc(sizeof *p + n * 4 * (sizeof(uint64_t) + sizeof(int)));
    if (!p)
        return NULL;
    uint64_t *u = (uint64_t *)(p + 1);
    int *i = (int *)(u + 4 * n);
    *p = (struct coll_parts){u, u + n, u + 2 * n, u + 3 * n, i, i + n, i + 2 * n, i + 3 * n};
    for (size_t b = 0; b < n; b++) {
        p->in_counts[b] = coll_part(coll, rank, (int)b, size, count);
        p->out_counts[b] = coll_part(coll, (int)b, coll == COLL_ALLTOALLV ? rank : (int)b, size, count);
        p->in_offsets[b] = b ? p->in_offsets[b - 1] + p->in_counts[b - 1] : 0;
        p->out_offsets[b] = b ? p->out_offsets[b - 1] + p->out_counts[b - 1] : 0;
    }
    for (size_t k = 0; k < 4 * n; k++)
        i[k] = (int)u[k];
    return p;
}

/* Where in the row rank's data of a call begins. */
static unsigned begins(int rank, uint64_t number)
{
    return (unsigned)(mix(number * 65537 + (uint64_t)rank) % PERIOD);
}

void coll_fill(struct coll_data *d, const struct coll_call *call, uint64_t number)
{
    bool bcast = call->coll == COLL_BCAST;
    unsigned char *to = bcast ? call->out : (unsigned char *)(uintptr_t)call->in;
    uint64_t n = bcast && d->rank == 0 ? call->count : coll_in_elements(call->coll, d->rank, d->size, call->count);
    const unsigned char *from = d->row + begins(d->rank, number) * d->elem;
    for (; n > PERIOD; n -= PERIOD, to += PERIOD * d->elem)
        memcpy(to, from, PERIOD * d->elem);
    if (n)
        memcpy(to, from, n * d->elem);
}

static uint64_t combine_whole(weir_op op, uint64_t a, uint64_t b)
{
    switch (op) {
    case WEIR_PROD:
        return a * b;
    case WEIR_MIN:
        return a < b ? a : b;
    case WEIR_MAX:
        return a > b ? a : b;
    case WEIR_AND:
        return a & b;
    case WEIR_OR:
        return a | b;
    case WEIR_XOR:
        return a ^ b;
    default:
        return a + b;
    }
}

static double combine_real(weir_op op, double a, double b)
{
    switch (op) {
    case WEIR_PROD:
        return a * b;
    case WEIR_MIN:
        return a < b ? a : b;
    case WEIR_MAX:
        return a > b ? a : b;
    default:
        return a + b;
    }
}

/* The first n (at most PERIOD) elements of what ranks first..last give together from their element `start` on. */
static void expect(struct coll_data *d, int first, int last, uint64_t start, uint64_t number, unsigned n)
{
    for (int r = first; r <= last; r++) {
        unsigned at = (unsigned)((start + begins(r, number)) % PERIOD);
        for (unsigned i = 0; i < n; i++, at = at + 1 == PERIOD ? 0 : at + 1) {
            uint64_t v = d->ints[at];
            d->whole[i] = r == first ? v : combine_whole(d->op, d->whole[i], v);
            d->reals[i] = r == first ? (double)v : combine_real(d->op, d->reals[i], (double)v);
        }
    }
    int ranks = last - first + 1;
    bool average = d->op == WEIR_AVG && ranks > 1;
    for (unsigned i = 0; i < n; i++)
        store(d->expected + i * d->elem, d->type, average ? d->reals[i] / ranks : d->reals[i],
              average ? d->whole[i] / (unsigned)ranks : d->whole[i]);
}

/* A result that is one rounding away, where the order of additions may show. */
static bool near(const struct coll_data *d, const unsigned char *got, const unsigned char *want)
{
    double g, w,
        step = d->type == WEIR_BF16   ? 0x1p-7
               : d->type == WEIR_FP16 ? 0x1p-10
               : d->type == WEIR_FP32 ? 0x1p-22
                                      : 0x1p-51;
    if (!memcmp(got, want, d->elem))
        return true;
    if (!is_float(d->type) || (d->op != WEIR_AVG && d->op != WEIR_SUM))
        return false;
    g = load_float(got, d->type);
    w = load_float(want, d->type);
    return fabs(g - w) <= step * fabs(w);
}

/* Compares n elements with what ranks first..last give together from their element `start` on. */
static uint64_t differ(struct coll_data *d, const unsigned char *got, uint64_t n, int first, int last, uint64_t start,
                       uint64_t number)
{
    uint64_t wrong = 0;
    expect(d, first, last, start, number, (unsigned)(n < PERIOD ? n : PERIOD));
    while (n) {
        unsigned piece = (unsigned)(n < PERIOD ? n : PERIOD);
        if (memcmp(got, d->expected, piece * d->elem))
            for (unsigned i = 0; i < piece; i++)
                wrong += !near(d, got + i * d->elem, d->expected + i * d->elem);
        got += piece * d->elem;
        n -= piece;
    }
    return wrong;
}

uint64_t coll_wrong(struct coll_data *d, const struct coll_call *call, uint64_t number)
{
    const unsigned char *out = call->out;
    enum coll_id coll = call->coll, plain = coll_plain(coll);
    uint64_t count = coll_part(coll, d->rank, d->rank, d->size, call->count), wrong = 0;
    uint64_t mine = parts_before(coll, 0, d->rank, d->size, call->count);
    int last = d->size - 1;
    switch (plain) {
    case COLL_BCAST:
        return differ(d, out, count, 0, 0, 0, number);
    case COLL_SCATTER:
        return differ(d, out, count, 0, 0, mine, number);
    case COLL_REDUCE:
        return d->rank ? 0 : differ(d, out, count, 0, last, 0, number);
    case COLL_ALLREDUCE:
        return differ(d, out, count, 0, last, 0, number);
    case COLL_REDUCE_SCATTER:
        return differ(d, out, count, 0, last, mine, number);
    case COLL_SCAN:
        return differ(d, out, count, 0, d->rank, 0, number);
    case COLL_EXSCAN: /* undefined at rank 0 */
        return d->rank ? differ(d, out, count, 0, d->rank - 1, 0, number) : 0;
    case COLL_GATHER:
    case COLL_ALLGATHER:
    case COLL_ALLTOALL:
        for (int r = 0; r <= last && coll_out_elements(coll, d->rank, d->size, call->count); r++) {
            bool all = plain == COLL_ALLTOALL;
            count = coll_part(coll, r, all ? d->rank : r, d->size, call->count);
            mine = all ? parts_before(coll, r, d->rank, d->size, call->count) : 0;
            wrong += differ(d, out, count, r, r, mine, number);
            out += count * d->elem;
        }
        return wrong;
    default:
        return 0;
    }
}
