/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What collectives move through the interface of each host, by the kernel's counters: with S the bytes of the whole vector and
 * B those of the shares of the host's own ranks, reduce-scatter sends S - B out of it and all-gather receives S - B, and at
 * most 2 % more for the protocol. To be run on hosts of their own whose interface is eth0.
 */
#include <unistd.h>

#include "tests/multi/multi.h"

enum { HOST = 64, CALLS = 2 };

/* The counters of eth0: bytes received and sent so far. */
static void read_counters(uint64_t *received, uint64_t *sent)
{
    char line[512];
    unsigned long long rx = 0, tx = 0;
    FILE *f = fopen("/proc/net/dev", "r");
    CHECK(f, "there is no /proc/net/dev");
    while (fgets(line, sizeof line, f)) {
        char *at = strstr(line, "eth0:");
        if (at)
            CHECK(sscanf(at + 5, "%llu %*u %*u %*u %*u %*u %*u %*u %llu", &rx, &tx) == 2, "not understood: %s", line);
    }
    fclose(f);
    CHECK(rx && tx, "there is no eth0");
    *received = rx;
    *sent = tx;
}

/* How many ranks this rank's host has, and whether it is the first of them. */
static int mates(bool *first)
{
    char own[HOST] = "", *all = malloc((size_t)size * HOST);
    int n = 0;
    *first = true;
    CHECK(all && !gethostname(own, sizeof own - 1), "no name");
    OK(weir_allgather(comm, own, all, HOST, WEIR_UINT8));
    for (int r = 0; r < size; r++) {
        bool here = !strcmp(all + r * HOST, own);
        n += here;
        *first = *first && !(here && r < rank);
    }
    free(all);
    return n;
}

/* Numbers that add up exactly in every order. */
static void fill_numbers(float *p, uint64_t n, int by)
{
    for (uint64_t i = 0; i < n; i++)
        p[i] = (float)((i + (uint64_t)by * 7) % 64);
}

static void check_sums(const float *out, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        float sum = 0;
        for (int r = 0; r < size; r++)
            sum += (float)(((uint64_t)rank * count + i + (uint64_t)r * 7) % 64);
        CHECK(out[i] == sum, "element %llu is %g and not %g", (unsigned long long)i, out[i], sum);
    }
}

static void check_gathered(const float *out, uint64_t count)
{
    for (uint64_t i = 0; i < count * (uint64_t)size; i++)
        CHECK(out[i] == (float)((i % count + i / count * 7) % 64), "element %llu is wrong", (unsigned long long)i);
}

struct job {
    bool scatters;
    uint64_t count;
    float *whole, *share;
    weir_request *request; /* NULL: blocking calls */
};

static void call(struct job *j)
{
    weir_request *request = j->request;
    if (j->scatters)
        fill_numbers(j->whole, j->count * (uint64_t)size, rank);
    else
        fill_numbers(j->share, j->count, rank);
    if (request) {
        OK(weir_start(request));
        OK(weir_wait(&request));
    } else if (j->scatters) {
        OK(weir_reduce_scatter(comm, j->whole, j->share, j->count, WEIR_FP32, WEIR_SUM));
    } else {
        OK(weir_allgather(comm, j->share, j->whole, j->count, WEIR_FP32));
    }
    if (j->scatters)
        check_sums(j->share, j->count);
    else
        check_gathered(j->whole, j->count);
}

static void measure(struct job *j, int here, bool first, const char *what)
{
    uint64_t before[2], after[2];
    call(j); /* makes the plan */
    OK(weir_barrier(comm));
    read_counters(&before[0], &before[1]);
    OK(weir_barrier(comm)); /* nobody begins before all have looked */
    for (int i = 0; i < CALLS; i++)
        call(j);
    OK(weir_barrier(comm));
    usleep(20000); /* acknowledgements */
    read_counters(&after[0], &after[1]);
    OK(weir_barrier(comm));
    int way = j->scatters; /* 0: received, 1: sent */
    double bound = (double)(j->count * sizeof(float)) * (size - here), moved = (double)(after[way] - before[way]) / CALLS;
    if (first)
        printf("%s: %d of %d ranks here: %.0f bytes, bound %.0f, %.3f\n", what, here, size, moved, bound, moved / bound);
    CHECK(moved >= bound && moved <= 1.02 * bound, "%s, %d ranks on this host: %.0f bytes and not %.0f", what, here, moved, bound);
}

int main(int argc, char **argv)
{
    uint64_t bytes = argc > 1 ? strtoull(argv[1], NULL, 10) : 6 << 20; /* of the whole vector */
    bool first;
    weir_mem *whole, *share;
    start();
    int here = mates(&first);
    struct job j = {.count = bytes / sizeof(float) / (unsigned)size};
    bytes = j.count * sizeof(float) * (unsigned)size;
    j.whole = malloc(bytes);
    j.share = malloc(bytes);
    CHECK(j.whole && j.share, "out of memory");
    measure(&j, here, first, "all-gather");
    j.scatters = true;
    measure(&j, here, first, "reduce-scatter");
    free(j.whole);
    free(j.share);
    OK(weir_mem_alloc(comm, bytes, 0, &whole));
    OK(weir_mem_alloc(comm, bytes, 0, &share));
    j.whole = weir_mem_ptr(whole);
    j.share = weir_mem_ptr(share);
    OK(weir_reduce_scatter_init(comm, j.whole, j.share, j.count, WEIR_FP32, WEIR_SUM, &j.request));
    measure(&j, here, first, "reduce-scatter of registered memory");
    OK(weir_request_free(&j.request));
    j.scatters = false;
    OK(weir_allgather_init(comm, j.share, j.whole, j.count, WEIR_FP32, &j.request));
    measure(&j, here, first, "all-gather of registered memory");
    OK(weir_request_free(&j.request));
    OK(weir_mem_free(whole));
    OK(weir_mem_free(share));
    finish("bytes");
    return 0;
}
