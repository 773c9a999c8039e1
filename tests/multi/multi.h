/* SPDX-License-Identifier: BSD-3-Clause */
/* What the programs of several ranks share: checks that name rank and place, patterns, starting and ending. */
#ifndef WR_TEST_MULTI_H
#define WR_TEST_MULTI_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

static weir_ctx *ctx;
static weir_comm *comm;
static int rank, size;

#define CHECK(condition, ...)                                                                                \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "FAIL rank %d, %s:%d: ", rank, __FILE__, __LINE__);                              \
            fprintf(stderr, __VA_ARGS__);                                                                    \
            fprintf(stderr, " [%s]\n", weir_last_error(ctx)->message);                                       \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)
#define OK(call) CHECK((call) == WEIR_OK, "%s", #call)

static inline unsigned char pattern(uint64_t i, uint64_t seed)
{
    return (unsigned char)((i * 2654435761u + seed * 40503u) >> 7);
}

static inline void fill(unsigned char *p, uint64_t bytes, uint64_t seed)
{
    for (uint64_t i = 0; i < bytes; i++)
        p[i] = pattern(i, seed);
}

static inline void check(const unsigned char *p, uint64_t bytes, uint64_t seed, const char *what)
{
    for (uint64_t i = 0; i < bytes; i++)
        CHECK(p[i] == pattern(i, seed), "%s of %llu bytes is wrong at %llu", what, (unsigned long long)bytes, (unsigned long long)i);
}

static inline void barrier(void)
{
    for (int step = 1; step < size; step *= 2) {
        weir_request *send;
        OK(weir_isend(comm, NULL, 0, (rank + step) % size, 77, &send));
        OK(weir_recv(comm, NULL, 0, (rank - step + size) % size, 77, NULL));
        OK(weir_wait(&send));
    }
}

/* By TEST_COMM the test runs on another communicator: dup, reverse (all ranks the other way round), halves (odd and even). */
static inline void take_comm(void)
{
    const char *what = getenv("TEST_COMM");
    if (!what)
        return;
    bool halves = !strcmp(what, "halves"), dup = !strcmp(what, "dup");
    if (dup ? weir_comm_dup(comm, &comm) : weir_comm_split(comm, halves ? rank % 2 : 0, -rank, &comm)) {
        fprintf(stderr, "FAIL weir_comm_split: %s\n", weir_last_error(ctx)->message);
        exit(1);
    }
    rank = weir_comm_rank(comm);
    size = weir_comm_size(comm);
}

/* Joins, with the log off (unless TEST_LOG is set): errors are provoked in tests. */
static inline void start(void)
{
    static const char *const quiet[] = {"LOG=off", NULL};
    weir_init_options options = WEIR_INIT_OPTIONS_INIT;
    weir_error err;
    if (!getenv("TEST_LOG"))
        options.config = quiet;
    options.error = &err;
    if (weir_init(&options, &ctx)) {
        fprintf(stderr, "FAIL weir_init: %s\n", err.message);
        exit(1);
    }
    if (weir_comm_world(ctx, &comm)) {
        fprintf(stderr, "FAIL weir_comm_world: %s\n", weir_last_error(ctx)->message);
        exit(1);
    }
    rank = weir_comm_rank(comm);
    size = weir_comm_size(comm);
    take_comm();
}

static inline void finish(const char *what)
{
    barrier();
    if (rank == 0)
        printf("PASS: %s, %d ranks over %s\n", what, size, weir_comm_transport(comm, size - 1));
    if (weir_finalize(ctx)) {
        fprintf(stderr, "FAIL rank %d: weir_finalize\n", rank);
        exit(1);
    }
}

#endif
