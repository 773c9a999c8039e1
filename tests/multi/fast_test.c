/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small collectives of ranks that share a node. usage: fast_test data|root|order|lost
 * data: results, at the edges of what fits a line and a slot; ranks that run ahead; many started at once. It prints a hash of all
 * results, which must not depend on how they come about. The others: ranks that do not agree, though nobody waits for the one that
 * differs, or one is lost.
 */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "tests/multi/multi.h"

static uint64_t state = 7, hash = 14695981039346656037u;

static uint64_t next(void) /* the same at all ranks */
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33;
}

/* Element i of rank r in round k: its sums depend on their order. */
static float value(int r, uint64_t i, uint64_t k)
{
    uint64_t x = (k * 1000003 + (uint64_t)r * 7919 + i) * 0x9e3779b97f4a7c15u;
    return (float)(x >> 40) * 1.37e-3f - 9000.0f;
}

static void take(const float *p, uint64_t n)
{
    const unsigned char *bytes = (const unsigned char *)p;
    for (uint64_t i = 0; i < n * sizeof *p; i++)
        hash = (hash ^ bytes[i]) * 1099511628211u;
}

enum { MOST = 6000 };
static float *in, *out;

static void fill_in(uint64_t n, uint64_t k)
{
    for (uint64_t i = 0; i < n; i++)
        in[i] = value(rank, i, k);
    for (uint64_t i = 0; i < n + 1; i++)
        out[i] = -1;
}

static void sums(uint64_t n, uint64_t k)
{
    fill_in(n, k);
    OK(weir_allreduce(comm, in, out, n, WEIR_FP32, WEIR_SUM));
    for (uint64_t i = 0; i < n; i++) {
        double want = 0;
        for (int r = 0; r < size; r++)
            want += (double)value(r, i, k);
        CHECK(out[i] - want < 0.1 && want - out[i] < 0.1, "sum %llu of %llu: %g, not %g", (unsigned long long)i,
              (unsigned long long)n, (double)out[i], want);
    }
    CHECK(out[n] == -1, "something was written behind %llu", (unsigned long long)n);
    take(out, n);
    memcpy(out, in, n * sizeof *in);
    OK(weir_allreduce(comm, WEIR_IN_PLACE, out, n, WEIR_FP32, WEIR_AVG));
    take(out, n);
}

static void shares(uint64_t n, uint64_t k)
{
    uint64_t share = n / (uint64_t)size;
    fill_in(share * (uint64_t)size, k);
    OK(weir_reduce_scatter(comm, in, out, share, WEIR_FP32, WEIR_SUM));
    take(out, share);
    memcpy(out, in, share * (uint64_t)size * sizeof *in);
    OK(weir_reduce_scatter(comm, WEIR_IN_PLACE, out, share, WEIR_FP32, WEIR_MAX));
    take(out, share);
    fill_in(share * (uint64_t)size, k);
    OK(weir_alltoall(comm, in, out, share, WEIR_FP32));
    for (uint64_t i = 0; i < share * (uint64_t)size; i++)
        CHECK(out[i] == value((int)(i / share), (uint64_t)rank * share + i % share, k), "element %llu of all-to-all",
              (unsigned long long)i);
    take(out, share * (uint64_t)size);
    OK(weir_allgather(comm, in, out, share, WEIR_FP32));
    for (uint64_t i = 0; i < share * (uint64_t)size; i++)
        CHECK(out[i] == value((int)(i / share), i % share, k), "element %llu of all-gather", (unsigned long long)i);
    take(out, share * (uint64_t)size);
}

/* Roots do not wait: they run ahead as far as they can, and nothing that others still read is overwritten. */
static void run_ahead(uint64_t rounds)
{
    for (uint64_t k = 0; k < rounds; k++) {
        int root = next() % 4 ? 0 : (int)(next() % (uint64_t)size);
        uint64_t n = next() % 16 ? 1 + next() % 40 : 8000;
        if (n > 4000 && n > MOST)
            n = MOST;
        if ((int)(next() % 8) == rank)
            usleep(200);
        for (uint64_t i = 0; i < n; i++)
            out[i] = rank == root ? value(root, i, k) : -1;
        OK(weir_bcast(comm, out, n, WEIR_FP32, root));
        for (uint64_t i = 0; i < n; i++)
            CHECK(out[i] == value(root, i, k), "broadcast %llu from %d", (unsigned long long)k, root);
        if (next() % 32 == 0)
            OK(weir_barrier(comm));
    }
}

/* More at once than there are slots, completed backwards; messages go on meanwhile. */
static void many(void)
{
    enum { N = 30 };
    weir_request *r[N];
    float x[N][4], y[N][4];
    for (int i = 0; i < N; i++) {
        for (int e = 0; e < 4; e++) {
            x[i][e] = (float)(rank + 10 * i + e);
            y[i][e] = rank == i % size ? x[i][e] : -1;
        }
        if (i % 3 == 0)
            OK(weir_iallreduce(comm, x[i], y[i], 4, WEIR_FP32, WEIR_MAX, &r[i]));
        else if (i % 3 == 1)
            OK(weir_ibcast(comm, y[i], 4, WEIR_FP32, i % size, &r[i]));
        else
            OK(weir_ibarrier(comm, &r[i]));
    }
    barrier();
    for (int i = N - 1; i >= 0; i--) {
        OK(weir_wait(&r[i]));
        for (int e = 0; e < 4 && i % 3 < 2; e++)
            CHECK(y[i][e] == (float)(i % 3 == 0 ? size - 1 + 10 * i + e : i % size + 10 * i + e), "started %d: %g", i,
                  (double)y[i][e]);
    }
}

static void kept(void)
{
    weir_request *a = NULL, *b = NULL;
    float x[2] = {0, 0}, y[2], z[20];
    OK(weir_allreduce_init(comm, x, y, 2, WEIR_FP32, WEIR_SUM, &a));
    OK(weir_bcast_init(comm, z, 20, WEIR_FP32, size - 1, &b));
    for (int k = 0; k < 40; k++) {
        x[0] = (float)(rank + k);
        for (int i = 0; i < 20; i++)
            z[i] = rank == size - 1 ? (float)(k + i) : -1;
        OK(weir_start(a));
        OK(weir_start(b));
        if (k % 2)
            OK(weir_wait(&b));
        OK(weir_wait(&a));
        OK(weir_wait(&b));
        CHECK(y[0] == (float)(size * (size - 1) / 2 + size * k), "persistent sum: %g", (double)y[0]);
        CHECK(z[19] == (float)(k + 19), "persistent broadcast: %g", (double)z[19]);
    }
    OK(weir_request_free(&a));
    OK(weir_request_free(&b));
}

static int data(void)
{
    static const uint64_t counts[] = {0, 1, 2, 7, 13, 14, 15, 16, 28, 29, 100, 1000, 4095, 4096, 4097, MOST};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        sums(counts[i], i);
        shares(counts[i], 100 + i);
    }
    run_ahead(150);
    many();
    kept();
    uint64_t all[64] = {0};
    OK(weir_allgather(comm, &hash, all, 1, WEIR_UINT64));
    for (int r = 1; r < size; r++)
        all[0] = all[0] * 31 + all[r];
    if (rank == 0)
        printf("HASH %016llx\nPASS: small collectives, %d ranks\n", (unsigned long long)all[0], size);
    weir_finalize(ctx);
    return 0;
}

/* Nobody waits for a root, so the broadcasts themselves may well end; what follows does not. */
static int other_root(void)
{
    float x = 1;
    weir_status s = weir_bcast(comm, &x, 1, WEIR_FP32, rank == size - 1 ? size - 1 : 0);
    for (int i = 0; i < 3 && !s; i++)
        s = weir_barrier(comm);
    const char *text = weir_last_error(ctx)->message;
    CHECK(s == WEIR_ERR_MISMATCH, "roots that differ gave %s", weir_status_name(s));
    CHECK(strstr(text, "called bcast of 1 fp32 (root 0)") || strstr(text, "called bcast of 4"), "it is described as: %s", text);
    CHECK(weir_barrier(comm) == WEIR_ERR_MISMATCH, "a collective after a mismatch");
    if (rank == 0)
        printf("PASS: %s\n", text);
    weir_finalize(ctx);
    return 0;
}

static int other_order(void)
{
    weir_request *r[2];
    float x[2] = {1, 2}, y[2][2];
    OK(weir_allreduce_init(comm, x, y[0], 1, WEIR_FP32, WEIR_SUM, &r[0]));
    OK(weir_allreduce_init(comm, x, y[1], 2, WEIR_FP32, WEIR_SUM, &r[1]));
    OK(weir_start(r[rank == size - 1]));
    OK(weir_start(r[rank != size - 1]));
    weir_status s = weir_wait(&r[0]);
    CHECK(s == WEIR_ERR_MISMATCH, "starts in another order gave %s", weir_status_name(s));
    CHECK(weir_wait(&r[1]) == WEIR_ERR_MISMATCH, "the second");
    if (rank == 0)
        printf("PASS: %s\n", weir_last_error(ctx)->message);
    weir_finalize(ctx);
    return 0;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int lost(bool started)
{
    float x = 1, y;
    weir_request *r = NULL;
    for (int i = 0; i < 10; i++)
        OK(weir_barrier(comm));
    if (rank == size - 1) {
        usleep(300000);
        raise(SIGKILL);
    }
    double start_time = now();
    weir_status s = started ? weir_iallreduce(comm, &x, &y, 1, WEIR_FP32, WEIR_SUM, &r)
                            : weir_allreduce(comm, &x, &y, 1, WEIR_FP32, WEIR_SUM);
    if (r)
        s = weir_wait(&r);
    CHECK(s == WEIR_ERR_PEER_LOST, "a lost rank gave %s", weir_status_name(s));
    CHECK(weir_last_error(ctx)->rank == size - 1, "rank %d is named", weir_last_error(ctx)->rank);
    CHECK(now() - start_time < 10, "it took %g s", now() - start_time);
    CHECK(weir_barrier(comm) == WEIR_ERR_PEER_LOST, "a call afterwards");
    usleep(1000000); /* so that nobody takes this rank for the first one that ended */
    printf("PASS: rank %d knows\n", rank);
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "data";
    start();
    in = calloc(MOST + 64, sizeof *in);
    out = calloc(MOST + 64, sizeof *out);
    CHECK(in && out, "no memory");
    int code;
    if (!strcmp(what, "root"))
        code = other_root();
    else if (!strcmp(what, "order"))
        code = other_order();
    else if (!strcmp(what, "lost"))
        code = lost(argc > 2);
    else
        code = data();
    free(in);
    free(out);
    return code;
}
