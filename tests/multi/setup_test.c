/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Started calls whose plans do not exist yet. usage: setup_test order|busy|many|loss|mismatch|forms|error.
 * order: two ranks start calls of two communicators the other way round. busy: what a rank that computes holds back is the
 * completion of others' calls, not the calls themselves. many: more calls at once than a plan has instances, v-forms with
 * counts that change afterwards, small ones between, blocking ones behind; more kinds than are kept. loss,
 * mismatch, error: the request tells it. forms: a blocking call does not match a started one.
 */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "tests/multi/multi.h"

enum { COUNT = 50000, CALLS = 12 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fill_ints(int32_t *v, size_t n, int seed)
{
    for (size_t i = 0; i < n; i++)
        v[i] = (int32_t)(i % 1000) * (rank + 1) + seed;
}

static void check_sum(const int32_t *v, size_t n, int seed)
{
    for (size_t i = 0; i < n; i++) {
        int32_t want = (int32_t)(i % 1000) * size * (size + 1) / 2 + seed * size;
        CHECK(v[i] == want, "element %zu of sum %d is %d, not %d", i, seed, v[i], want);
    }
}

static void test_order(void)
{
    weir_comm *a, *b;
    weir_request *r[4] = {NULL};
    int32_t *in = malloc(4 * COUNT * sizeof *in), *out = malloc(4 * COUNT * sizeof *out);
    bool odd = rank % 2;
    OK(weir_comm_dup(comm, &a));
    OK(weir_comm_dup(comm, &b));
    for (int i = 0; i < 4; i++)
        fill_ints(in + i * COUNT, COUNT, i);
    /* the first calls on both, of kinds that need a plan; then of another kind */
    for (int turn = 0; turn < 2; turn++)
        for (int which = 0; which < 2; which++) {
            int i = odd ? 1 - which : which, k = 2 * turn + i;
            OK(weir_iallreduce(i ? b : a, in + k * COUNT, out + k * COUNT, (uint64_t)(COUNT - turn), WEIR_INT32, WEIR_SUM, &r[k]));
        }
    for (int which = 0; which < 4; which++)
        OK(weir_wait(&r[odd ? 3 - which : which]));
    for (int i = 0; i < 4; i++)
        check_sum(out + i * COUNT, (size_t)(COUNT - i / 2), i);
    OK(weir_comm_free(a));
    OK(weir_comm_free(b));
    free(in);
    free(out);
}

static void test_busy(void)
{
    weir_request *r[2];
    int32_t *in = malloc(2 * COUNT * sizeof *in), *out = malloc(2 * COUNT * sizeof *out);
    int late = size - 1;
    OK(weir_send(comm, NULL, 0, (rank + 1) % size, 3)); /* all are connected and awake */
    OK(weir_recv(comm, NULL, 0, (rank + size - 1) % size, 3, NULL));
    fill_ints(in, COUNT, 0);
    fill_ints(in + COUNT, COUNT, 1);
    for (int turn = 0; turn < 2; turn++) { /* the first calls at all; then of kinds whose plans are missing */
        uint64_t n = (uint64_t)(COUNT - turn);
        barrier();
        double begin = now();
        if (rank == late && turn)
            usleep(1000000);
        OK(weir_iallreduce(comm, in, out, n, WEIR_INT32, WEIR_SUM, &r[0]));
        OK(weir_iallreduce(comm, in + COUNT, out + COUNT, n - 10, WEIR_INT32, WEIR_SUM, &r[1]));
        double took = now() - begin;
        CHECK(rank == late || took < 0.7, "the calls took %.2f s", took);
        if (rank == late && !turn)
            usleep(1000000);
        OK(weir_waitall(2, r));
        took = now() - begin;
        CHECK(took > 0.8 || (!turn && getenv("WEIR_PROGRESS")), "they were complete after %.2f s", took);
        check_sum(out, n, 0);
        check_sum(out + COUNT, n - 10, 1);
    }
    free(in);
    free(out);
}

/* A v-form whose counts the caller changes as soon as the call has returned. */
static void start_gather(int32_t *in, int32_t *out, weir_request **request)
{
    uint64_t *counts = malloc((size_t)size * sizeof *counts);
    for (int r = 0; r < size; r++)
        counts[r] = (uint64_t)(r + 1) * 1000;
    OK(weir_iallgatherv(comm, in, out, counts, NULL, WEIR_INT32, request));
    memset(counts, 0xff, (size_t)size * sizeof *counts);
    free(counts);
}

static void test_many(void)
{
    weir_request *r[CALLS + 3];
    int32_t *in = malloc((CALLS + 1) * COUNT * sizeof *in), *out = malloc((CALLS + 1) * COUNT * sizeof *out);
    int32_t *all = malloc((size_t)size * (size_t)(size + 1) / 2 * 1000 * sizeof *all), one = 1, small[2] = {0};
    for (int i = 0; i <= CALLS; i++)
        fill_ints(in + i * COUNT, COUNT, i);
    for (int i = 0; i < CALLS; i++) /* the first may be small, which needs no plan */
        OK(weir_iallreduce(comm, i ? in + i * COUNT : &one, i ? out + i * COUNT : small, i ? COUNT : 1, WEIR_INT32, WEIR_SUM, &r[i]));
    start_gather(in, all, &r[CALLS]);
    OK(weir_iallreduce(comm, &one, small + 1, 1, WEIR_INT32, WEIR_SUM, &r[CALLS + 1]));
    OK(weir_ibarrier(comm, &r[CALLS + 2]));
    OK(weir_allreduce(comm, in + CALLS * COUNT, out + CALLS * COUNT, COUNT - 1, WEIR_INT32, WEIR_SUM));
    OK(weir_waitall(CALLS + 3, r));
    check_sum(out + CALLS * COUNT, COUNT - 1, CALLS);
    for (int i = 1; i < CALLS; i++)
        check_sum(out + i * COUNT, COUNT, i);
    CHECK(small[0] == size && small[1] == size, "small ones give %d and %d", small[0], small[1]);
    for (int p = 0, at = 0; p < size; at += (p + 1) * 1000, p++)
        for (int i = 0; i < (p + 1) * 1000; i++)
            CHECK(all[at + i] == i % 1000 * (p + 1), "element %d of rank %d is %d", i, p, all[at + i]);
    for (int i = 0; i < 150; i++) { /* more kinds than are kept */
        OK(weir_iallreduce(comm, in, out, (uint64_t)(20000 + i % 75), WEIR_INT32, WEIR_SUM, &r[i % CALLS]));
        OK(weir_wait(&r[i % CALLS]));
        if (i % 25 == 0)
            check_sum(out, (size_t)(20000 + i % 75), 0);
    }
    free(in);
    free(out);
    free(all);
}

static void test_mismatch(bool forms)
{
    weir_request *r = NULL;
    int32_t *in = calloc(COUNT, sizeof *in), *out = malloc(COUNT * sizeof *out);
    weir_status status;
    bool other = rank == size - 1;
    if (forms && other) {
        status = weir_allreduce(comm, in, out, COUNT, WEIR_INT32, WEIR_SUM);
    } else {
        OK(weir_iallreduce(comm, in, out, (uint64_t)(other ? COUNT - 1 : COUNT), WEIR_INT32, WEIR_SUM, &r));
        status = weir_wait(&r);
    }
    const char *message = weir_last_error(ctx)->message, *words = forms ? "int32, sum (root 0) (started)" : "allreduce of 49999 int32";
    CHECK(status == WEIR_ERR_MISMATCH, "it gave %s", weir_status_name(status));
    CHECK(strstr(message, words) && strstr(message, "rank 0 called"), "the error says");
    CHECK(weir_iallreduce(comm, in, out, COUNT, WEIR_INT32, WEIR_SUM, &r) == WEIR_ERR_MISMATCH, "a call after it");
    if (rank == 0)
        printf("PASS: %s\n", message);
    usleep(300000); /* the others have learnt of it, too */
    free(in);
    free(out);
}

/* The last rank dies, while the others' calls wait for it: all of them end, and those that are left go on. */
static void test_loss(void)
{
    weir_request *r[3];
    weir_comm *left;
    int32_t *in = malloc(COUNT * sizeof *in), *out = malloc(2 * COUNT * sizeof *out), one = 1, sum = 0;
    fill_ints(in, COUNT, 0);
    if (rank == size - 1) {
        usleep(200000);
        kill(getpid(), SIGKILL);
    }
    OK(weir_iallreduce(comm, in, out, COUNT, WEIR_INT32, WEIR_SUM, &r[0]));
    OK(weir_iallreduce(comm, in, out + COUNT, COUNT - 1, WEIR_INT32, WEIR_SUM, &r[1]));
    OK(weir_ibarrier(comm, &r[2]));
    for (int i = 0; i < 3; i++) {
        weir_status status = weir_wait(&r[i]);
        CHECK(status == WEIR_ERR_PEER_LOST && weir_last_error(ctx)->rank == size - 1, "request %d gave %s", i, weir_status_name(status));
    }
    OK(weir_comm_shrink(comm, &left));
    OK(weir_iallreduce(left, &one, &sum, 1, WEIR_INT32, WEIR_SUM, &r[0]));
    OK(weir_wait(&r[0]));
    CHECK(sum == size - 1, "%d are left", sum);
    if (rank == 0)
        printf("PASS: loss\n");
    free(in);
    free(out);
}

/* WEIR_ALGO names what does not serve this; the script sets it. */
static void test_error(void)
{
    weir_request *r;
    int32_t *in = calloc(COUNT, sizeof *in), *out = malloc(COUNT * sizeof *out);
    OK(weir_iallreduce(comm, in, out, COUNT, WEIR_INT32, WEIR_SUM, &r));
    weir_status status = weir_wait(&r);
    CHECK(status == WEIR_ERR_CONFIG && strstr(weir_last_error(ctx)->message, "WEIR_ALGO"), "it gave %s", weir_status_name(status));
    free(in);
    free(out);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "order";
    start();
    if (!strcmp(what, "order"))
        test_order();
    else if (!strcmp(what, "busy"))
        test_busy();
    else if (!strcmp(what, "many"))
        test_many();
    else if (!strcmp(what, "error"))
        test_error();
    else if (!strcmp(what, "loss"))
        test_loss();
    else
        test_mismatch(!strcmp(what, "forms"));
    if (strcmp(what, "mismatch") && strcmp(what, "forms") && strcmp(what, "loss"))
        finish(what);
    else
        weir_finalize(ctx); /* the ranks do not leave together */
    return 0;
}
