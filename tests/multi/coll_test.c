/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives through the public calls, against a plain reference: every iteration's data is different. Run by weirrun with 1..9
 * ranks. usage: coll_test [-r ROUNDS] [-s SEED] [-b MAXELEMENTS]
 */
#include <getopt.h>
#include <math.h>
#include <unistd.h>

#include "tests/multi/multi.h"

static uint64_t seed = 1;

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* The same sequence at all ranks. */
static uint64_t next(uint64_t bound)
{
    seed += 0x9e3779b97f4a7c15u;
    return mix(seed) % bound;
}

/* Element i of rank r in round k: small whole numbers, whose sums are exact in every type. */
static int value(int r, uint64_t i, uint64_t k)
{
    return (int)(mix(k * 1000003 + (uint64_t)r * 7919 + i) % 7) - 1;
}

static void set(void *buffer, uint64_t i, weir_type type, double v)
{
    switch (type) {
    case WEIR_INT8:
        ((int8_t *)buffer)[i] = (int8_t)v;
        break;
    case WEIR_INT32:
        ((int32_t *)buffer)[i] = (int32_t)v;
        break;
    case WEIR_UINT16:
        ((uint16_t *)buffer)[i] = (uint16_t)(int)v;
        break;
    case WEIR_INT64:
        ((int64_t *)buffer)[i] = (int64_t)v;
        break;
    case WEIR_BF16: {
        float f = (float)v;
        uint32_t u;
        memcpy(&u, &f, 4);
        ((uint16_t *)buffer)[i] = (uint16_t)(u >> 16);
        break;
    }
    case WEIR_FP64:
        ((double *)buffer)[i] = v;
        break;
    default:
        ((float *)buffer)[i] = (float)v;
    }
}

static double get(const void *buffer, uint64_t i, weir_type type)
{
    switch (type) {
    case WEIR_INT8:
        return ((const int8_t *)buffer)[i];
    case WEIR_INT32:
        return ((const int32_t *)buffer)[i];
    case WEIR_UINT16:
        return (int16_t)((const uint16_t *)buffer)[i];
    case WEIR_INT64:
        return (double)((const int64_t *)buffer)[i];
    case WEIR_BF16: {
        uint32_t u = (uint32_t)((const uint16_t *)buffer)[i] << 16;
        float f;
        memcpy(&f, &u, 4);
        return f;
    }
    case WEIR_FP64:
        return ((const double *)buffer)[i];
    default:
        return ((const float *)buffer)[i];
    }
}

static double combined(uint64_t i, uint64_t k, weir_op op)
{
    double acc = value(0, i, k);
    for (int r = 1; r < size; r++) {
        double v = value(r, i, k);
        acc = op == WEIR_MAX ? fmax(acc, v) : op == WEIR_MIN ? fmin(acc, v) : acc + v;
    }
    return acc;
}

enum form { BLOCKING, STARTED, PERSISTENT, FORMS };

struct buffers {
    char *in, *out;
    weir_mem *in_mem, *out_mem;
};

static void make_buffers(struct buffers *b, uint64_t in_bytes, uint64_t out_bytes, bool registered)
{
    memset(b, 0, sizeof *b);
    if (registered) {
        OK(weir_mem_alloc(comm, in_bytes + 64, 0, &b->in_mem));
        OK(weir_mem_alloc(comm, out_bytes + 64, 0, &b->out_mem));
        b->in = (char *)weir_mem_ptr(b->in_mem) + 16;
        b->out = (char *)weir_mem_ptr(b->out_mem) + 32;
    } else {
        b->in = malloc(in_bytes + 1);
        b->out = malloc(out_bytes + 1);
        CHECK(b->in && b->out, "no memory");
    }
}

static void free_buffers(struct buffers *b)
{
    if (b->in_mem) {
        OK(weir_mem_free(b->in_mem));
        OK(weir_mem_free(b->out_mem));
    } else {
        free(b->in);
        free(b->out);
    }
}

/* Runs a call in one of its forms, `times` times with data made by `prepare` and looked at by `examine`. */
struct work {
    int coll; /* 0 allreduce, 1 reduce_scatter, 2 allgather, 3 bcast */
    uint64_t count;
    weir_type type;
    weir_op op;
    int root;
    bool in_place;
};

static void prepare(const struct work *w, struct buffers *b, uint64_t k)
{
    uint64_t n = w->coll == 1 ? w->count * (uint64_t)size : w->count;
    uint64_t total = w->coll == 1 || w->coll == 2 ? w->count * (uint64_t)size : w->count;
    char *in = w->in_place ? b->out : b->in;
    uint64_t at = w->in_place && w->coll == 2 ? w->count * (uint64_t)rank : 0;
    if (!w->in_place || w->coll == 2)
        for (uint64_t i = 0; i < (w->coll == 1 && !w->in_place ? w->count : total); i++)
            set(b->out, i, w->type, -99);
    if (w->coll == 3) {
        for (uint64_t i = 0; i < n; i++)
            set(b->out, i, w->type, rank == w->root ? value(rank, i, k) : -99);
        return;
    }
    for (uint64_t i = 0; i < n; i++)
        set(in, at + i, w->type, value(rank, i, k));
}

static void examine(const struct work *w, const struct buffers *b, uint64_t k, const char *what)
{
    uint64_t n = w->coll == 2 ? w->count * (uint64_t)size : w->count;
    for (uint64_t i = 0; i < n; i++) {
        double want = w->coll == 0   ? combined(i, k, w->op)
                      : w->coll == 1 ? combined(w->count * (uint64_t)rank + i, k, w->op)
                      : w->coll == 2 ? value((int)(i / w->count), i % w->count, k)
                                     : value(w->root, i, k);
        double got = get(b->out, i, w->type);
        CHECK(got == want, "%s: %d, count %llu, %s %s%s: element %llu is %g, not %g", what, w->coll,
              (unsigned long long)w->count, weir_type_name(w->type), weir_op_name(w->op),
              w->in_place ? " in place" : "", (unsigned long long)i, got, want);
    }
    if (w->coll < 3 && !w->in_place) /* the input is untouched */
        for (uint64_t i = 0; i < w->count; i++)
            CHECK(get(b->in, i, w->type) == value(rank, i, k), "%s: input element %llu has changed", what,
                  (unsigned long long)i);
}

static weir_status call(const struct work *w, struct buffers *b, enum form form, weir_request **r)
{
    const void *in = w->in_place ? WEIR_IN_PLACE : b->in;
    switch (w->coll * FORMS + (int)form) {
    case 0:
        return weir_allreduce(comm, in, b->out, w->count, w->type, w->op);
    case 1:
        return weir_iallreduce(comm, in, b->out, w->count, w->type, w->op, r);
    case 2:
        return weir_allreduce_init(comm, in, b->out, w->count, w->type, w->op, r);
    case 3:
        return weir_reduce_scatter(comm, in, b->out, w->count, w->type, w->op);
    case 4:
        return weir_ireduce_scatter(comm, in, b->out, w->count, w->type, w->op, r);
    case 5:
        return weir_reduce_scatter_init(comm, in, b->out, w->count, w->type, w->op, r);
    case 6:
        return weir_allgather(comm, in, b->out, w->count, w->type);
    case 7:
        return weir_iallgather(comm, in, b->out, w->count, w->type, r);
    case 8:
        return weir_allgather_init(comm, in, b->out, w->count, w->type, r);
    case 9:
        return weir_bcast(comm, b->out, w->count, w->type, w->root);
    case 10:
        return weir_ibcast(comm, b->out, w->count, w->type, w->root, r);
    default:
        return weir_bcast_init(comm, b->out, w->count, w->type, w->root, r);
    }
}

static void one(uint64_t round, uint64_t most)
{
    static const weir_type types[] = {WEIR_FP32,  WEIR_FP32,   WEIR_BF16,  WEIR_INT8,
                                      WEIR_INT32, WEIR_UINT16, WEIR_INT64, WEIR_FP64};
    static const weir_op ops[] = {WEIR_SUM, WEIR_SUM, WEIR_MAX, WEIR_MIN};
    static const uint64_t counts[] = {0, 1, 3, 17, 64, 1000, 4096, 33333, 300000};
    struct work w = {.coll = (int)next(4),
                     .type = types[next(8)],
                     .op = ops[next(4)],
                     .root = (int)next((uint64_t)size)};
    enum form form = (enum form)next(FORMS);
    bool registered = next(2);
    do
        w.count = counts[next(sizeof counts / sizeof counts[0])];
    while (w.count > most);
    w.in_place = next(3) == 0;
    if (w.type == WEIR_UINT16 && w.op != WEIR_SUM) /* negative numbers have no order there */
        w.op = WEIR_SUM;
    if (w.coll == 3)
        w.in_place = true;
    struct buffers b;
    uint64_t bytes = w.count * weir_type_size(w.type) * (uint64_t)size;
    make_buffers(&b, bytes, bytes, registered);
    weir_request *r = NULL;
    if (form == PERSISTENT)
        OK(call(&w, &b, form, &r));
    for (uint64_t k = 0; k < 3; k++) {
        prepare(&w, &b, round * 16 + k);
        if (form == PERSISTENT)
            OK(weir_start(r));
        else
            OK(call(&w, &b, form, &r));
        if (form != BLOCKING) {
            if (k == 1)
                while (weir_test(&r) == WEIR_IN_PROGRESS)
                    ;
            else
                OK(weir_wait(&r));
        }
        examine(&w, &b, round * 16 + k, form == BLOCKING ? "blocking" : form == STARTED ? "started" : "persistent");
        CHECK(!r == (form != PERSISTENT), "the request is %s", r ? "kept" : "gone");
    }
    if (form == PERSISTENT)
        OK(weir_request_free(&r));
    free_buffers(&b);
}

/* Several collectives in flight at once, completed in another order. */
static void overlapping(void)
{
    enum { N = 6, LEN = 5000 };
    float *in[N], *out[N];
    weir_request *r[N];
    for (int i = 0; i < N; i++) {
        in[i] = malloc(LEN * sizeof(float));
        out[i] = malloc(LEN * sizeof(float));
        for (int k = 0; k < LEN; k++)
            in[i][k] = (float)value(rank, (uint64_t)k, 900 + (uint64_t)i);
        OK(weir_iallreduce(comm, in[i], out[i], LEN, WEIR_FP32, WEIR_SUM, &r[i]));
    }
    for (int i = N - 1; i >= 0; i--) {
        OK(weir_wait(&r[i]));
        for (int k = 0; k < LEN; k++)
            CHECK(out[i][k] == (float)combined((uint64_t)k, 900 + (uint64_t)i, WEIR_SUM), "overlapping all-reduce %d",
                  i);
        free(in[i]);
        free(out[i]);
    }
}

static void average(void)
{
    float in[10], out[10];
    for (int i = 0; i < 10; i++)
        in[i] = (float)(rank + i);
    OK(weir_allreduce(comm, in, out, 10, WEIR_FP32, WEIR_AVG));
    for (int i = 0; i < 10; i++)
        CHECK(fabsf(out[i] - ((float)(size - 1) / 2 + (float)i)) < 1e-5f, "the average of %d is %g", i, out[i]);
}

static void refusals(void)
{
    float f[4] = {0};
    weir_request *r = NULL;
    CHECK(weir_allreduce(comm, f, f + 2, 2, WEIR_FP32, WEIR_XOR) == WEIR_ERR_INVALID, "xor of fp32");
    CHECK(weir_allreduce(comm, f, f + 2, 2, (weir_type)77, WEIR_SUM) == WEIR_ERR_INVALID, "an unknown type");
    CHECK(weir_bcast(comm, f, 2, WEIR_FP32, size) == WEIR_ERR_INVALID, "a root out of range");
    CHECK(weir_allgather(comm, f, NULL, 2, WEIR_FP32) == WEIR_ERR_INVALID, "no output");
    CHECK(weir_start(r) == WEIR_ERR_INVALID, "starting nothing");
}

/* Calls that differ, made for the first time: all ranks are told who called what. */
static void early_mismatch(void)
{
    float f[4] = {0};
    weir_status s = rank == 1 ? weir_allreduce(comm, f, f + 2, 2, WEIR_FP32, WEIR_MAX)
                              : weir_allreduce(comm, f, f + 1, 1, WEIR_FP32, WEIR_PROD);
    const char *text = weir_last_error(ctx)->message;
    CHECK(s == WEIR_ERR_MISMATCH, "a mismatch gave %s", weir_status_name(s));
    CHECK(strstr(text, "rank 0 called allreduce") && strstr(text, "rank 1 called allreduce") && strstr(text, "max"),
          "the mismatch is not described: %s", text);
    CHECK(weir_barrier(comm) == WEIR_ERR_MISMATCH, "a collective after a mismatch");
}

/* Two calls that both have been made before, so that nothing is compared in advance: all ranks still learn of it, and stop. */
static void late_mismatch(void)
{
    float f[4] = {0};
    OK(weir_allreduce(comm, f, f + 2, 2, WEIR_FP32, WEIR_SUM));
    OK(weir_barrier(comm));
    usleep(300000);
    weir_status s = rank == size - 1 ? weir_allreduce(comm, f, f + 2, 2, WEIR_FP32, WEIR_SUM) : weir_barrier(comm);
    const char *text = weir_last_error(ctx)->message;
    CHECK(s == WEIR_ERR_MISMATCH, "a late mismatch gave %s", weir_status_name(s));
    CHECK(strstr(text, "rank 0 called barrier") && strstr(text, "called allreduce of 2 fp32"), "it is described as: %s",
          text);
    CHECK(weir_barrier(comm) == WEIR_ERR_MISMATCH, "a collective after a mismatch");
}

int main(int argc, char **argv)
{
    uint64_t argument_seed = 1, rounds = 60, most = 300000;
    int c;
    while ((c = getopt(argc, argv, "r:s:b:")) != -1) {
        if (c == 'r')
            rounds = strtoull(optarg, NULL, 0);
        else if (c == 's')
            argument_seed = seed = strtoull(optarg, NULL, 0);
        else if (c == 'b')
            most = strtoull(optarg, NULL, 0);
        else
            return 2;
    }
    start();
    for (int i = 0; i < 20; i++)
        OK(weir_barrier(comm));
    for (uint64_t i = 0; i < rounds; i++)
        one(i, most);
    overlapping();
    average();
    refusals();
    OK(weir_barrier(comm));
    usleep(300000); /* the verdict on what follows must not find anyone in this barrier still */
    if (rank == 0)
        printf("PASS: collectives, %d ranks over %s\n", size, weir_comm_transport(comm, size - 1));
    if (size > 1 && argument_seed % 2)
        early_mismatch();
    else if (size > 1)
        late_mismatch();
    weir_finalize(ctx); /* may say that the farewell was not heard: the ranks have fallen out */
    return 0;
}
