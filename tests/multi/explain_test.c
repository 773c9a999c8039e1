/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir_explain() on requests of all kinds; and that a collective is not slower than what it could be made of. Run by weirrun with
 * any number of ranks. usage: explain_test [ALGORITHM that WEIR_ALGO asks for], explain_test --time: only measures
 */
#include <time.h>

#include <weir/plan.h>

#include "tests/multi/multi.h"

enum { COUNT = 1 << 20, REPEATS = 9 };

static const char *explained(weir_request *request)
{
    static char text[600];
    char cut[12];
    memset(cut, 'x', sizeof cut);
    OK(weir_explain(request, text, sizeof text));
    OK(weir_explain(request, cut, 10));
    CHECK(strlen(cut) == 9 && !strncmp(cut, text, 9) && cut[10] == 'x', "a short buffer holds '%s'", cut);
    return text;
}

static void describes_what_runs(const char *asked)
{
    weir_mem *mem;
    weir_request *request;
    OK(weir_mem_alloc(comm, 2 * COUNT * sizeof(float), 0, &mem));
    float *in = weir_mem_ptr(mem), *out = in + COUNT;
    OK(weir_allreduce_init(comm, in, out, COUNT, WEIR_FP32, WEIR_SUM, &request));
    const char *text = explained(request);
    CHECK(strstr(text, "allreduce of 1048576 fp32, sum") && strstr(text, "limit") && !strstr(text, "took"), "at first: %s", text);
    for (int i = 0; i < 3; i++) {
        OK(weir_start(request));
        OK(weir_wait(&request));
    }
    text = explained(request);
    CHECK(strstr(text, "predicted") && strstr(text, "of 3") && strstr(text, "% of the limit"), "after three: %s", text);
    if (asked)
        CHECK(strstr(text, asked) && strstr(text, "(by WEIR_ALGO)"), "not by WEIR_ALGO: %s", text);
    if (rank == 0)
        printf("%s\n", text);
    OK(weir_request_free(&request));
    OK(weir_iallreduce(comm, in, out, COUNT, WEIR_FP32, WEIR_SUM, &request));
    text = explained(request);
    CHECK(strstr(text, "allreduce of 1048576 fp32, sum"), "a started one: %s", text);
    OK(weir_wait(&request));
    OK(weir_allreduce_init(comm, in, out, 2, WEIR_FP32, WEIR_SUM, &request));
    text = explained(request);
    CHECK(strstr(text, "allreduce of 2 fp32, sum"), "a small one: %s", text);
    OK(weir_request_free(&request));
    char message = 0, text_of_message[8];
    weir_request *receive;
    OK(weir_irecv(comm, &message, 1, rank, 0, NULL, &receive));
    CHECK(weir_explain(receive, text_of_message, sizeof text_of_message) == WEIR_ERR_INVALID, "a receive was explained");
    CHECK(weir_explain(NULL, text_of_message, sizeof text_of_message) == WEIR_ERR_INVALID, "nothing was explained");
    OK(weir_send(comm, &message, 1, rank, 0));
    OK(weir_wait(&receive));
    OK(weir_mem_free(mem));
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The slowest rank's time from a barrier on, the best of some. */
static double best_of(weir_request **request, int n)
{
    double best = 0;
    for (int i = 0; i < REPEATS; i++) {
        OK(weir_barrier(comm));
        double start = seconds();
        for (int k = 0; k < n; k++) {
            OK(weir_start(request[k]));
            OK(weir_wait(&request[k]));
        }
        double took = seconds() - start, slowest;
        OK(weir_allreduce(comm, &took, &slowest, 1, WEIR_FP64, WEIR_MAX));
        best = i && best < slowest ? best : slowest;
    }
    return best;
}

/* Reduce and then broadcast gives the same as all-reduce; it may not be much faster. */
static void allreduce_is_not_slower_than_its_parts(uint64_t count)
{
    weir_mem *mem;
    weir_request *whole[1], *parts[2];
    OK(weir_mem_alloc(comm, 2 * count * sizeof(float), 0, &mem));
    float *in = weir_mem_ptr(mem), *out = in + count;
    OK(weir_allreduce_init(comm, in, out, count, WEIR_FP32, WEIR_SUM, whole));
    OK(weir_reduce_init(comm, in, out, count, WEIR_FP32, WEIR_SUM, 0, parts));
    OK(weir_bcast_init(comm, out, count, WEIR_FP32, 0, parts + 1));
    double ratio = 0;
    for (int attempt = 0; attempt < 30; attempt++) { /* what else runs here disturbs */
        double one = best_of(whole, 1), two = best_of(parts, 2);
        ratio = one / two;
        if (ratio < 1.25 || getenv("TEST_TIME_FACTOR"))
            break;
    }
    /* times under a sanitizer say nothing */
    CHECK(ratio < 1.25 || getenv("TEST_TIME_FACTOR"), "all-reduce of %llu takes %.2f times as long as reduce and broadcast",
          (unsigned long long)count, ratio);
    if (rank == 0)
        printf("all-reduce of %llu elements: %.2f of the time of reduce and broadcast\n", (unsigned long long)count, ratio);
    OK(weir_request_free(whole));
    OK(weir_request_free(parts));
    OK(weir_request_free(parts + 1));
    OK(weir_mem_free(mem));
}

/* Microseconds of an all-reduce, for comparing numbers of ranks. */
static void print_time(uint64_t count)
{
    weir_mem *mem;
    weir_request *request[1];
    OK(weir_mem_alloc(comm, 2 * count * sizeof(float), 0, &mem));
    float *in = weir_mem_ptr(mem);
    OK(weir_allreduce_init(comm, in, in + count, count, WEIR_FP32, WEIR_SUM, request));
    double best = best_of(request, 1);
    if (rank == 0)
        printf("%.1f\n", best * 1e6);
    OK(weir_request_free(request));
    OK(weir_mem_free(mem));
}

int main(int argc, char **argv)
{
    start();
    if (argc > 1 && !strcmp(argv[1], "--time")) {
        print_time(1 << 16);
        weir_finalize(ctx);
        return 0;
    }
    describes_what_runs(argc > 1 ? argv[1] : NULL);
    if (size > 1 && argc == 1 && !getenv("TEST_TIME_FACTOR")) /* times under a sanitizer say nothing */
        for (uint64_t count = 4; count <= 1 << 18; count *= 256)
            allreduce_is_not_slower_than_its_parts(count);
    weir_finalize(ctx);
    return 0;
}
