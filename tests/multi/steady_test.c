/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Once warm, messages, puts and gets on the node allocate nothing: counted here. Phases of small ones stand between
 * close(-BEGIN) and close(-END), so that who traces the system calls knows which belong to them.
 */
#include <unistd.h>

#include "tests/multi/multi.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)

int main(void)
{
    puts("allocations cannot be counted here: they are somebody else's already");
    return 77;
}

#else

static unsigned long allocations;

/* The C library's own, under their second names. */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t each);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

void *malloc(size_t n)
{
    __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t each)
{
    __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
    return __libc_calloc(n, each);
}

void *realloc(void *p, size_t n)
{
    __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
    return __libc_realloc(p, n);
}

void *aligned_alloc(size_t align, size_t n)
{
    __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
    return __libc_memalign(align, n);
}

enum { BEGIN = 7701, END = 7702 };
enum { WARM = 100, WINDOW = 8, LARGE = 256 << 10, PART = 2 * WINDOW * LARGE };

static weir_mem *mem;
static unsigned char *base;
static uint64_t come; /* signals */

static void ping_pong(uint64_t bytes)
{
    for (int leg = 0; leg < 2; leg++)
        if (leg == rank)
            OK(weir_send(comm, base, bytes, !rank, 1));
        else
            OK(weir_recv(comm, base + PART / 2, bytes, !rank, 1, NULL));
}

/* Both ways at once; half of the messages come before their receives. */
static void windows(uint64_t bytes)
{
    weir_request *r[2 * WINDOW];
    for (int i = 0; i < WINDOW; i++)
        OK(weir_isend(comm, base + (uint64_t)i * bytes, bytes, !rank, i, &r[i]));
    OK(weir_send(comm, NULL, 0, !rank, 100));
    OK(weir_recv(comm, NULL, 0, !rank, 100, NULL));
    for (int i = WINDOW - 1; i >= 0; i--)
        OK(weir_irecv(comm, base + PART / 2 + (uint64_t)i * bytes, bytes, !rank, i, NULL, &r[WINDOW + i]));
    OK(weir_waitall(2 * WINDOW, r));
}

static void put_signal(uint64_t bytes)
{
    weir_request *r = NULL;
    for (int leg = 0; leg < 2; leg++) {
        if (leg == rank) {
            OK(weir_put_signal(mem, base, bytes, !rank, PART / 2, 0, &r));
            OK(weir_wait(&r));
        } else {
            OK(weir_signal_wait(mem, 0, ++come));
        }
    }
}

static void get(uint64_t bytes)
{
    weir_request *r = NULL;
    OK(weir_get(mem, base + PART / 2, bytes, !rank, 0, &r));
    OK(weir_wait(&r));
    OK(weir_flush(mem, -1));
}

/* Allocations of both ranks in `rounds` rounds. */
static unsigned long count(void (*work)(uint64_t bytes), uint64_t bytes, int rounds)
{
    unsigned long before = __atomic_load_n(&allocations, __ATOMIC_RELAXED), theirs;
    if (bytes <= 4096 && rounds > WARM && work != windows)
        close(-BEGIN);
    for (int i = 0; i < rounds; i++)
        work(bytes);
    close(-END);
    unsigned long made = __atomic_load_n(&allocations, __ATOMIC_RELAXED) - before;
    weir_request *r;
    OK(weir_isend(comm, &made, sizeof made, !rank, 2, &r));
    OK(weir_recv(comm, &theirs, sizeof theirs, !rank, 2, NULL));
    OK(weir_wait(&r));
    return made + theirs;
}

/* Pools grow until they have seen the worst, which depends on who comes first: some attempts are allowed. */
static void phase(const char *name, void (*work)(uint64_t bytes), uint64_t bytes, int rounds)
{
    unsigned long made = 1;
    count(work, bytes, WARM);
    for (int attempt = 0; attempt < 5 && made; attempt++)
        made = count(work, bytes, rounds);
    CHECK(!made, "%lu allocations in %d rounds of %s of %llu bytes", made, rounds, name, (unsigned long long)bytes);
    barrier();
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 20000;
    start();
    OK(weir_mem_alloc(comm, PART, 0, &mem));
    CHECK(size == 2 && weir_mem_peer_ptr(mem, !rank), "this takes two ranks on one node");
    CHECK(allocations, "allocations are not counted");
    base = weir_mem_ptr(mem);
    phase("messages", ping_pong, 8, rounds);
    phase("messages", ping_pong, 4096, rounds);
    phase("messages", ping_pong, LARGE, rounds / 100);
    phase("puts", put_signal, 8, rounds);
    phase("puts", put_signal, LARGE, rounds / 100);
    phase("gets", get, 8, rounds);
    phase("windows of messages", windows, 8, rounds / 10);
    phase("windows of messages", windows, 4096, rounds / 10);
    phase("windows of messages", windows, LARGE, rounds / 100);
    base = malloc(PART); /* memory that nobody registered */
    CHECK(base, "no memory");
    memset(base, 1, PART);
    phase("messages from private memory", ping_pong, 8, rounds);
    phase("messages from private memory", ping_pong, LARGE, rounds / 100);
    free(base);
    OK(weir_mem_free(mem));
    finish("nothing is allocated in the steady state");
    return 0;
}

#endif
