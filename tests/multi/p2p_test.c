/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between ranks, through the public calls. Run by weirrun with 1..8 ranks; exit status 0 when all ranks passed.
 * usage: p2p_test [-b MAXBYTES] [-r ROUNDS]
 */
#include <getopt.h>

#include "tests/multi/multi.h"

static unsigned char *make(uint64_t bytes, uint64_t seed)
{
    unsigned char *p = malloc(bytes + 1);
    CHECK(p, "no memory for %llu bytes", (unsigned long long)bytes);
    fill(p, bytes, seed);
    return p;
}

/* Everybody to the rank that is `shift` further; the receive is posted before or after the message comes. */
static void exchange(unsigned char *out, unsigned char *in, uint64_t n, int shift, int tag)
{
    int to = (rank + shift) % size, from = (rank - shift + size) % size;
    weir_message m = {.size = sizeof m};
    weir_request *send = NULL, *recv = NULL;
    fill(out, n, (uint64_t)rank + (uint64_t)tag * 8);
    memset(in, 0, n + 1);
    if (tag % 2) {
        OK(weir_irecv(comm, in, n, from, tag, &m, &recv));
        OK(weir_isend(comm, out, n, to, tag, &send));
    } else {
        OK(weir_isend(comm, out, n, to, tag, &send));
        OK(weir_irecv(comm, in, n, from, WEIR_ANY_TAG, &m, &recv));
    }
    OK(weir_wait(&recv));
    OK(weir_wait(&send));
    CHECK(!recv && !send, "requests are not reset");
    CHECK(m.source == from && m.tag == tag && m.bytes == n, "source %lld tag %lld bytes %llu", (long long)m.source,
          (long long)m.tag, (unsigned long long)m.bytes);
    check(in, n, (uint64_t)from + (uint64_t)tag * 8, "a message");
    CHECK(!in[n], "the byte behind the buffer was written");
}

/* Self included, all sizes. */
static void all_sizes(uint64_t max)
{
    static const uint64_t sizes[] = {0, 1, 8, 100, 1000, 4000, 8192, 9000, 65536, 70001, 1 << 20, (4 << 20) + 3, 16 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && sizes[i] <= max; i++)
        for (int shift = 0; shift < size; shift++) {
            unsigned char *out = make(sizes[i], 0), *in = malloc(sizes[i] + 1);
            CHECK(in, "no memory");
            exchange(out, in, sizes[i], shift, (int)i);
            free(out);
            free(in);
        }
}

/* The same with memory that is registered, from which networks take pieces as they are. */
static void registered_sizes(void)
{
    enum { MOST = 300000 };
    static const uint64_t sizes[] = {9000, 30000, 65512, 65513, 70001, 200000, 262144, 262145, MOST};
    weir_mem *mem;
    OK(weir_mem_alloc(comm, 2 * MOST + 2, 0, &mem));
    unsigned char *out = weir_mem_ptr(mem), *in = out + MOST + 1;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int shift = 0; shift < size; shift++)
            exchange(out, in, sizes[i], shift, (int)i + shift);
    OK(weir_mem_free(mem));
}

/* Many of middle length at once, which nobody waits for yet; some are received cut. */
static void unexpected(void)
{
    enum { N = 12, LEN = 90000 };
    int to = (rank + 1) % size, from = (rank - 1 + size) % size;
    unsigned char *out[N], *in = malloc(LEN + 1);
    weir_request *send[N];
    CHECK(in, "no memory");
    for (int i = 0; i < N; i++) {
        out[i] = make(LEN, (uint64_t)i);
        OK(weir_isend(comm, out[i], LEN, to, i, &send[i]));
    }
    for (int k = 0; k < N; k++) {
        int i = k % 2 ? k : N - 2 - k; /* the even ones backwards */
        uint64_t room = k % 3 ? LEN : 70000;
        weir_status expected = room < LEN ? WEIR_ERR_TRUNCATED : WEIR_OK;
        in[room] = 1;
        CHECK(weir_recv(comm, in, room, from, i, NULL) == expected, "message %d", i);
        check(in, room, (uint64_t)i, "a message that came early");
        CHECK(in[room] == 1, "the byte behind the buffer was written");
    }
    OK(weir_waitall(N, send));
    for (int i = 0; i < N; i++)
        free(out[i]);
    free(in);
}

/* Messages of one pair and tag keep their order although long and short ones mix. */
static void order(int rounds)
{
    int to = (rank + 1) % size, from = (rank - 1 + size) % size;
    weir_request **send = calloc((size_t)rounds, sizeof *send);
    unsigned char **out = calloc((size_t)rounds, sizeof *out);
    CHECK(send && out, "no memory");
    for (int i = 0; i < rounds; i++) {
        uint64_t n = i % 7 == 3 ? 50000 : (uint64_t)(i % 300);
        out[i] = make(n, (uint64_t)i);
        OK(weir_isend(comm, out[i], n, to, 5, &send[i]));
    }
    for (int i = 0; i < rounds; i++) {
        uint64_t n = i % 7 == 3 ? 50000 : (uint64_t)(i % 300);
        unsigned char *in = malloc(n + 1);
        weir_message m = {.size = sizeof m};
        OK(weir_recv(comm, in, n, i % 2 ? from : WEIR_ANY_SOURCE, 5, &m));
        CHECK(m.bytes == n, "message %d has %llu bytes, not %llu", i, (unsigned long long)m.bytes, (unsigned long long)n);
        check(in, n, (uint64_t)i, "an ordered message");
        free(in);
    }
    OK(weir_waitall((size_t)rounds, send));
    for (int i = 0; i < rounds; i++)
        free(out[i]);
    free(out);
    free(send);
}

/* Tags pick messages out of order. */
static void tags(void)
{
    int to = (rank + 1) % size, from = (rank - 1 + size) % size;
    weir_request *send[3];
    int value[3] = {10, 11, 12}, got = 0;
    for (int i = 0; i < 3; i++)
        OK(weir_isend(comm, &value[i], sizeof value[i], to, i, &send[i]));
    for (int i = 2; i >= 0; i--) {
        OK(weir_recv(comm, &got, sizeof got, from, i, NULL));
        CHECK(got == 10 + i, "tag %d brought %d", i, got);
    }
    OK(weir_waitall(3, send));
}

/* A message that is too long fills the buffer and says so; the next one is whole. */
static void truncation(uint64_t bytes)
{
    int to = (rank + 1) % size, from = (rank - 1 + size) % size;
    unsigned char *out = make(bytes, 3), in[64] = {0};
    weir_request *send;
    weir_message m = {.size = sizeof m};
    OK(weir_isend(comm, out, bytes, to, 1, &send));
    CHECK(weir_recv(comm, in, 10, from, 1, &m) == WEIR_ERR_TRUNCATED, "a message of %llu bytes was not reported as truncated",
          (unsigned long long)bytes);
    CHECK(m.bytes == bytes, "the length is reported as %llu", (unsigned long long)m.bytes);
    check(in, 10, 3, "a truncated message");
    for (int i = 10; i < 64; i++)
        CHECK(!in[i], "byte %d behind the buffer was written", i);
    OK(weir_wait(&send));
    OK(weir_isend(comm, out, bytes, to, 2, &send));
    CHECK(weir_recv(comm, NULL, 0, from, 2, &m) == (bytes ? WEIR_ERR_TRUNCATED : WEIR_OK), "no room at all");
    OK(weir_wait(&send));
    OK(weir_isend(comm, out, 5, to, 3, &send));
    OK(weir_recv(comm, in, 5, from, 3, &m));
    OK(weir_wait(&send));
    free(out);
}

/* All send far more to rank 0 than it keeps; it receives from anyone, late. */
static void flood(int rounds)
{
    enum { LEN = 3000 };
    if (rank == 0) {
        unsigned char in[LEN];
        int *next = calloc((size_t)size, sizeof *next);
        for (int i = 0; i < rounds * (size - 1); i++) {
            weir_message m = {.size = sizeof m};
            OK(weir_recv(comm, in, LEN, WEIR_ANY_SOURCE, WEIR_ANY_TAG, &m));
            CHECK(m.tag == next[m.source], "message %lld of rank %lld came as number %d", (long long)m.tag, (long long)m.source,
                  next[m.source]);
            check(in, LEN, (uint64_t)(m.source * 1000 + m.tag), "a message of the flood");
            next[m.source]++;
        }
        free(next);
        for (int r = 1; r < size; r++)
            OK(weir_send(comm, NULL, 0, r, 9));
    } else {
        for (int i = 0; i < rounds; i++) {
            unsigned char *out = make(LEN, (uint64_t)(rank * 1000 + i));
            OK(weir_send(comm, out, LEN, 0, i));
            free(out);
        }
        OK(weir_recv(comm, NULL, 0, 0, 9, NULL));
    }
}

static void waitany(void)
{
    weir_request *r[4] = {NULL};
    int in[4], seen = 0;
    if (size == 1)
        return;
    if (rank == 0) {
        for (int i = 0; i < 4; i++)
            OK(weir_irecv(comm, &in[i], sizeof in[i], size - 1, i, NULL, &r[i]));
        for (int k = 0; k < 4; k++) {
            size_t i;
            OK(weir_waitany(4, r, &i));
            CHECK(i < 4 && in[i] == (int)i && !(seen & 1 << i), "waitany gave %zu", i);
            seen |= 1 << i;
        }
        size_t i;
        OK(weir_waitany(4, r, &i));
        CHECK(i == 4, "waitany on nothing gave %zu", i);
    } else if (rank == size - 1) {
        static const int mixed[] = {2, 0, 3, 1};
        for (int k = 0; k < 4; k++)
            OK(weir_send(comm, &mixed[k], sizeof(int), 0, mixed[k]));
    }
}

static void wrong_arguments(void)
{
    weir_request *r = NULL;
    char c;
    CHECK(weir_send(comm, &c, 1, size, 0) == WEIR_ERR_INVALID, "destination out of range");
    CHECK(strstr(weir_last_error(weir_comm_ctx(comm))->message, "destination"), "the error does not say what is wrong");
    CHECK(weir_send(comm, &c, 1, -1, 0) == WEIR_ERR_INVALID, "destination -1");
    CHECK(weir_send(comm, &c, 1, 0, -5) == WEIR_ERR_INVALID, "negative tag");
    CHECK(weir_send(comm, NULL, 1, 0, 0) == WEIR_ERR_INVALID, "NULL buffer");
    CHECK(weir_irecv(comm, &c, 1, size, 0, NULL, &r) == WEIR_ERR_INVALID && !r, "source out of range");
    weir_message m = {.size = 0};
    CHECK(weir_recv(comm, &c, 1, 0, 0, &m) == WEIR_ERR_INVALID, "message without a size");
}

int main(int argc, char **argv)
{
    uint64_t max = 4 << 20;
    int rounds = 400, c;
    while ((c = getopt(argc, argv, "b:r:")) != -1) {
        if (c == 'b')
            max = strtoull(optarg, NULL, 0);
        else if (c == 'r')
            rounds = atoi(optarg);
        else
            return 2;
    }
    start();
    all_sizes(max);
    barrier();
    registered_sizes();
    barrier();
    unexpected();
    barrier();
    order(rounds);
    barrier();
    tags();
    barrier();
    truncation(60);
    barrier();
    truncation(100000);
    barrier();
    flood(rounds);
    barrier();
    waitany();
    barrier();
    wrong_arguments();
    finish("messages");
    return 0;
}
