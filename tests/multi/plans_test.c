/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Persistent collectives in memory that all ranks know: in parts of one handle, and all-gather into a window of the node. Each
 * execution has other data, and all results are checked; some ranks start late.
 *
 * usage: plans_test [-b ELEMENTS] [-e WORDS] [-w WORDS]: the most of a rank; what weir_explain() says of the largest all-gather
 * into a handle, into a window
 */
#include <unistd.h>

#include <weir/plan.h>

#include "tests/multi/multi.h"

enum { EXECUTIONS = 3 };

static uint64_t most = 50000;       /* elements of a rank */
static const char *expect[2]; /* of the handle, of the window */
static int32_t *in, *out;

static int32_t input(int r, uint64_t i, int e)
{
    return (int32_t)((uint32_t)(r + 1) * 2654435761u + (uint32_t)i * 40503u + (uint32_t)e * 97u) >> 8;
}

static void run(weir_request **request)
{
    OK(weir_start(*request));
    OK(weir_wait(request));
}

static void explain(weir_request *request, const char *what, const char *words)
{
    char text[600];
    OK(weir_explain(request, text, sizeof text));
    if (rank == 0)
        printf("%s: %s\n", what, text);
    CHECK(!words || strstr(text, words), "%s: '%s' does not say '%s'", what, text, words);
}

/* Whoever shares the memory writes it only when all have read it. */
static void gather(uint64_t count, int32_t *to, bool in_place, bool window)
{
    weir_request *request;
    int32_t *mine = in_place ? to + (uint64_t)rank * count : in;
    OK(weir_allgather_init(comm, in_place ? WEIR_IN_PLACE : in, to, count, WEIR_INT32, &request));
    if (count == most && !in_place)
        explain(request, window ? "window" : "handle", expect[window]);
    for (int e = 0; e < EXECUTIONS; e++) {
        for (uint64_t i = 0; i < count; i++)
            mine[i] = input(rank, i, e);
        if (e % size == rank)
            usleep(500);
        run(&request);
        for (uint64_t i = 0; i < count * (uint64_t)size; i++)
            CHECK(to[i] == input((int)(i / count), i % count, e), "all-gather of %llu, execution %d, in place %d, window %d: "
                  "element %llu is wrong", (unsigned long long)count, e, in_place, window, (unsigned long long)i);
        if (window)
            OK(weir_barrier(comm));
    }
    OK(weir_request_free(&request));
}

static int32_t sum(uint64_t i, int e)
{
    uint32_t total = 0;
    for (int r = 0; r < size; r++)
        total += (uint32_t)input(r, i, e);
    return (int32_t)total;
}

static void combine(uint64_t count, bool scatter, bool in_place)
{
    weir_request *request;
    uint64_t all = scatter ? count * (uint64_t)size : count, first = scatter ? count * (uint64_t)rank : 0;
    int32_t *from = in_place ? out : in;
    if (scatter)
        OK(weir_reduce_scatter_init(comm, in_place ? WEIR_IN_PLACE : in, out, count, WEIR_INT32, WEIR_SUM, &request));
    else
        OK(weir_allreduce_init(comm, in_place ? WEIR_IN_PLACE : in, out, count, WEIR_INT32, WEIR_SUM, &request));
    for (int e = 0; e < EXECUTIONS; e++) {
        for (uint64_t i = 0; i < all; i++)
            from[i] = input(rank, i, e);
        if (e % size == rank)
            usleep(500);
        run(&request);
        for (uint64_t i = 0; i < count; i++)
            CHECK(out[i] == sum(first + i, e), "%s of %llu, execution %d, in place %d: element %llu is wrong",
                  scatter ? "reduce-scatter" : "all-reduce", (unsigned long long)count, e, in_place, (unsigned long long)i);
    }
    OK(weir_request_free(&request));
}

int main(int argc, char **argv)
{
    weir_mem *mem, *window;
    int c;
    while ((c = getopt(argc, argv, "b:e:w:")) != -1)
        if (c == 'b')
            most = strtoull(optarg, NULL, 0);
        else
            expect[c == 'w'] = optarg;
    const uint64_t counts[] = {1, 700, most};
    start();
    uint64_t bytes = most * sizeof *in * (uint64_t)size;
    OK(weir_mem_alloc(comm, 2 * bytes, 0, &mem));
    OK(weir_mem_alloc(comm, bytes, WEIR_MEM_NODE_SHARED, &window));
    in = weir_mem_ptr(mem);
    out = in + most * size;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (int in_place = 0; in_place < 2; in_place++) {
            gather(counts[i], out, in_place, false);
            gather(counts[i], weir_mem_ptr(window), in_place, true);
            combine(counts[i], true, in_place);
            combine(counts[i], false, in_place);
        }
    OK(weir_mem_free(window));
    OK(weir_mem_free(mem));
    finish("persistent plans");
    return 0;
}
