/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rank 0 is in weir_finalize while others contact it, some of them for the first time: it still takes their messages and
 * answers their gets, and everybody ends soon and without an error.
 */
#include <time.h>
#include <unistd.h>

#include "tests/multi/multi.h"

enum { LEN = 100000 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(void)
{
    static unsigned char got[LEN];
    weir_mem *mem;
    start();
    OK(weir_mem_alloc(comm, LEN, 0, &mem)); /* contacts some ranks, not all */
    fill(weir_mem_ptr(mem), LEN, (uint64_t)rank);
    if (rank) {
        usleep(200000);
        OK(weir_send(comm, got, 100, 0, 1)); /* nobody will receive it */
        weir_request *r;
        OK(weir_get(mem, got, LEN, 0, 0, &r));
        OK(weir_wait(&r));
        check(got, LEN, 0, "the memory of a rank that leaves");
    }
    double start_time = now();
    CHECK(weir_finalize(ctx) == WEIR_OK, "weir_finalize");
    if (now() - start_time > 10) {
        fprintf(stderr, "FAIL rank %d: weir_finalize took %.1f s\n", rank, now() - start_time);
        return 1;
    }
    return 0;
}
