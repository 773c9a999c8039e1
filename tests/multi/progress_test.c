/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What moves while a rank is outside of weir. usage: progress_test thread|none. A long message needs both sides: with a progress
 * thread it is received although the receiver only sleeps, without one it is not. So is an all-reduce that was started.
 */
#include <time.h>
#include <unistd.h>

#include "tests/multi/multi.h"

enum { BYTES = 8 << 20, SLEEP_MS = 1000 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int threads_of_process(void)
{
    char line[128];
    int n = 0;
    FILE *f = fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "Threads: %d", &n) == 1)
            break;
    if (f)
        fclose(f);
    return n;
}

static double seconds_of_cpu(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    bool thread = argc > 1 && !strcmp(argv[1], "thread");
    unsigned char *buffer = malloc(BYTES);
    weir_request *r = NULL;
    start();
    CHECK(size == 2 && buffer, "run it with two ranks");
    OK(weir_barrier(comm));
    if (rank == 0) {
        usleep(100000); /* the receive is posted */
        fill(buffer, BYTES, 1);
        double begin = now();
        OK(weir_send(comm, buffer, BYTES, 1, 5));
        double took = now() - begin;
        CHECK(thread ? took < 0.6 * SLEEP_MS / 1e3 : took > 0.6 * SLEEP_MS / 1e3, "the send took %.2f s", took);
    } else {
        OK(weir_irecv(comm, buffer, BYTES, 0, 5, NULL, &r));
        usleep(SLEEP_MS * 1000);
        OK(weir_wait(&r));
        check(buffer, BYTES, 1, "a message");
    }
    /* nothing is in flight: a thread sleeps */
    OK(weir_barrier(comm));
    double before = seconds_of_cpu();
    usleep(300000);
    CHECK(seconds_of_cpu() - before < 0.1, "%.2f s of 0.3 were spent on nothing", seconds_of_cpu() - before);
    CHECK(!thread || threads_of_process() > 1, "%d threads", threads_of_process());
    free(buffer);
    finish(thread ? "progress by a thread" : "no progress without calls");
    return 0;
}
