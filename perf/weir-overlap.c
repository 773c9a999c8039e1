/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-overlap: how much of a collective hides behind a computation. The computation takes about as long as the collective alone.
 * It is measured between the start and the wait of the collective, and between those of the same collective on a communicator of
 * this rank alone, over a transport that completes at once. What the first takes longer than the second was not hidden.
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weir/weir.h>

enum { BLOCK = 512 };

struct options {
    const char *coll;
    uint64_t begin, end, factor;
    int iterations, warmup, tests;
    bool json;
};

struct bench {
    weir_ctx *ctx;
    weir_comm *world, *alone;
    const struct options *options;
    char *in, *out;
    double work[BLOCK];
    double *times;
};

static void help(FILE *out)
{
    fputs("usage: weirrun -n N weir-overlap [options] [allreduce|allgather|reduce_scatter]\n"
          "  -b, --begin=BYTES    smallest size, of one rank's vector (64K)\n"
          "  -e, --end=BYTES      largest size (4M)\n"
          "  -f, --factor=N       from one size to the next (4)\n"
          "  -i, --iterations=N   measured turns of each kind (30)\n"
          "  -t, --tests=N        calls of weir_test() during the computation (0)\n"
          "  -j, --json           one JSON object a line\n"
          "  -h, --help           this text\n",
          out);
}

static uint64_t bytes_of(const char *text)
{
    char *end;
    uint64_t n = strtoull(text, &end, 10);
    unsigned shift = *end == 'K' || *end == 'k' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    return end == text || (*end && (!shift || end[1])) || n > UINT64_MAX >> 34 ? 0 : n << shift;
}

static bool parse(int argc, char **argv, struct options *o, int *status)
{
    static const struct option longs[] = {{"begin", required_argument, NULL, 'b'}, {"end", required_argument, NULL, 'e'},
                                          {"factor", required_argument, NULL, 'f'}, {"iterations", required_argument, NULL, 'i'},
                                          {"tests", required_argument, NULL, 't'}, {"json", no_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},        {NULL, 0, NULL, 0}};
    int c;
    *o = (struct options){.coll = "allreduce", .begin = 64 << 10, .end = 4 << 20, .factor = 4, .iterations = 30, .warmup = 5};
    *status = 2;
    while ((c = getopt_long(argc, argv, "b:e:f:i:t:jh", longs, NULL)) != -1) {
        if (c == 'b')
            o->begin = bytes_of(optarg);
        else if (c == 'e')
            o->end = bytes_of(optarg);
        else if (c == 'f')
            o->factor = bytes_of(optarg);
        else if (c == 'i')
            o->iterations = atoi(optarg);
        else if (c == 't')
            o->tests = atoi(optarg);
        else if (c == 'j')
            o->json = true;
        else {
            *status = c == 'h' ? 0 : 2;
            help(c == 'h' ? stdout : stderr);
            return false;
        }
    }
    if (optind < argc)
        o->coll = argv[optind++];
    bool known = !strcmp(o->coll, "allreduce") || !strcmp(o->coll, "allgather") || !strcmp(o->coll, "reduce_scatter");
    if (optind < argc || !known || !o->begin || o->end < o->begin || o->factor < 2 || o->iterations < 1 || o->tests < 0) {
        fputs("weir-overlap: an argument is not understood\n", stderr);
        help(stderr);
        return false;
    }
    return true;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void check(const struct bench *b, weir_status status, const char *what)
{
    if (status >= 0)
        return;
    fprintf(stderr, "weir-overlap: %s: %s\n", what, weir_last_error(b->ctx)->message);
    weir_abort(b->ctx, 1, what);
}

/* Elements of the smaller of the two buffers: a rank's share, or the vector. */
static uint64_t count_of(const struct bench *b, uint64_t bytes)
{
    uint64_t n = bytes / sizeof(float), ranks = (uint64_t)weir_comm_size(b->world);
    return !strcmp(b->options->coll, "allreduce") ? n : n / ranks + !!(n % ranks);
}

static weir_request *begin(const struct bench *b, weir_comm *comm, uint64_t count)
{
    weir_request *r = NULL;
    weir_status status;
    if (!strcmp(b->options->coll, "allreduce"))
        status = weir_iallreduce(comm, b->in, b->out, count, WEIR_FP32, WEIR_SUM, &r);
    else if (!strcmp(b->options->coll, "allgather"))
        status = weir_iallgather(comm, b->in, b->out, count, WEIR_FP32, &r);
    else
        status = weir_ireduce_scatter(comm, b->in, b->out, count, WEIR_FP32, WEIR_SUM, &r);
    check(b, status, b->options->coll);
    return r;
}

/* A block of arithmetic in the innermost cache. */
static void compute_block(struct bench *b)
{
    for (int i = 0; i < BLOCK; i++)
        b->work[i] = b->work[i] * 0.999 + 0.5;
    __asm__ __volatile__("" ::"r"(b->work) : "memory");
}

/* Computes for that many blocks; asks for the request in between. */
static void compute(struct bench *b, uint64_t blocks, weir_request **r)
{
    uint64_t every = b->options->tests ? blocks / (uint64_t)b->options->tests + 1 : UINT64_MAX;
    for (uint64_t i = 1; i <= blocks; i++) {
        compute_block(b);
        if (*r && i % every == 0)
            check(b, weir_test(r), "weir_test");
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median time of a turn, in microseconds; of the slowest rank. */
static double measure(struct bench *b, weir_comm *comm, uint64_t count, uint64_t blocks)
{
    int turns = b->options->iterations, warmup = b->options->warmup;
    double median, slowest = 0;
    for (int i = -warmup; i < turns; i++) {
        check(b, weir_barrier(b->world), "weir_barrier");
        double start = now();
        weir_request *r = begin(b, comm, count);
        compute(b, blocks, &r);
        check(b, weir_wait(&r), "weir_wait");
        if (i >= 0)
            b->times[i] = now() - start;
    }
    qsort(b->times, (size_t)turns, sizeof *b->times, by_value);
    median = b->times[turns / 2];
    check(b, weir_allreduce(b->world, &median, &slowest, 1, WEIR_FP64, WEIR_MAX), "weir_allreduce");
    return slowest;
}

/* Blocks that take about `us`; the same at all ranks. */
static uint64_t calibrate(struct bench *b, double us)
{
    enum { TRY = 20000 };
    weir_request *none = NULL;
    double start = now();
    compute(b, TRY, &none);
    double blocks = us / ((now() - start) / TRY), most = 0;
    check(b, weir_allreduce(b->world, &blocks, &most, 1, WEIR_FP64, WEIR_MAX), "weir_allreduce");
    return (uint64_t)most + 1;
}

static void one_size(struct bench *b, uint64_t bytes)
{
    const struct options *o = b->options;
    uint64_t count = count_of(b, bytes);
    int n = weir_comm_size(b->world);
    double alone = measure(b, b->world, count, 0);
    uint64_t blocks = calibrate(b, alone);
    double computation = measure(b, b->alone, count, blocks), both = measure(b, b->world, count, blocks);
    double hidden = 1 - (both - computation) / alone;
    hidden = hidden < 0 ? 0 : hidden > 1 ? 1 : hidden;
    if (weir_comm_rank(b->world))
        return;
    if (o->json)
        printf("{\"coll\": \"%s\", \"bytes\": %llu, \"ranks\": %d, \"tests\": %d, \"coll_us\": %.2f, \"compute_us\": %.2f, "
               "\"both_us\": %.2f, \"hidden\": %.3f}\n",
               o->coll, (unsigned long long)bytes, n, o->tests, alone, computation, both, hidden);
    else
        printf("%12llu %12.1f %12.1f %12.1f %8.1f%%\n", (unsigned long long)bytes, alone, computation, both, 100 * hidden);
    fflush(stdout);
}

static bool open_bench(struct bench *b, const struct options *o)
{
    weir_error err;
    weir_init_options options = WEIR_INIT_OPTIONS_INIT;
    options.error = &err;
    if (weir_init(&options, &b->ctx)) {
        fprintf(stderr, "weir-overlap: %s\n", err.message);
        return false;
    }
    b->options = o;
    check(b, weir_comm_world(b->ctx, &b->world), "weir_comm_world");
    check(b, weir_comm_split(b->world, weir_comm_rank(b->world), 0, &b->alone), "weir_comm_split");
    size_t bytes = (size_t)o->end + (size_t)weir_comm_size(b->world) * sizeof(float);
    b->in = calloc(1, bytes);
    b->out = calloc(1, bytes);
    b->times = calloc((size_t)o->iterations, sizeof *b->times);
    if (!b->in || !b->out || !b->times)
        weir_abort(b->ctx, 1, "weir-overlap: no memory for the buffers");
    memset(b->in, 0, bytes); /* pages are there */
    memset(b->out, 0, bytes);
    return true;
}

int main(int argc, char **argv)
{
    struct options o;
    static struct bench b;
    int status;
    if (!parse(argc, argv, &o, &status))
        return status;
    if (!open_bench(&b, &o))
        return 1;
    if (!weir_comm_rank(b.world) && !o.json)
        printf("# %s, %d ranks over %s, WEIR_PROGRESS as set, %d tests; medians in us\n#%11s %12s %12s %12s %9s\n", o.coll,
               weir_comm_size(b.world), weir_comm_transport(b.world, weir_comm_size(b.world) - 1), o.tests, "bytes", "alone",
               "computation", "together", "hidden");
    for (uint64_t bytes = o.begin; bytes <= o.end; bytes *= o.factor)
        one_size(&b, bytes);
    free(b.in);
    free(b.out);
    free(b.times);
    return weir_finalize(b.ctx) ? 1 : 0;
}
