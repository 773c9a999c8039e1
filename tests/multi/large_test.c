/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sizes and offsets past 2^32 bytes: a put, a get and a message between two ranks.
 * usage: large_test WINDOW BYTES   (BYTES of rank 0, and the end of a window of WINDOW bytes of rank 1; multiples of 8)
 */
#include "tests/multi/multi.h"

static uint64_t bytes, offset;
static uint64_t *mine;

static uint64_t word(uint64_t i, uint64_t seed)
{
    return (i + 1) * 0x9e3779b97f4a7c15u + seed;
}

static void write_words(uint64_t seed)
{
    for (uint64_t i = 0; i < bytes / 8; i++)
        mine[i] = word(i, seed);
}

static void check_words(uint64_t seed, const char *what)
{
    for (uint64_t i = 0; i < bytes / 8; i++)
        CHECK(mine[i] == word(i, seed), "%s of %llu bytes is wrong at %llu", what, (unsigned long long)bytes,
              (unsigned long long)i * 8);
}

int main(int argc, char **argv)
{
    weir_mem *mem;
    weir_request *r;
    start();
    CHECK(argc == 3 && size == 2, "usage: two ranks of large_test WINDOW BYTES");
    uint64_t window = strtoull(argv[1], NULL, 10);
    bytes = strtoull(argv[2], NULL, 10);
    offset = window - bytes;
    OK(weir_mem_alloc(comm, rank ? window : bytes, 0, &mem));
    CHECK(weir_mem_bytes(mem, 1) == window, "the size of the window");
    mine = (uint64_t *)((char *)weir_mem_ptr(mem) + (rank ? offset : 0));
    if (rank == 0) {
        write_words(1);
        OK(weir_put_signal(mem, mine, bytes, 1, offset, 0, &r));
        OK(weir_wait(&r));
    } else {
        OK(weir_signal_wait(mem, 0, 1));
        check_words(1, "a put");
        write_words(2);
    }
    barrier();
    if (rank == 0) {
        OK(weir_get(mem, mine, bytes, 1, offset, &r));
        OK(weir_wait(&r));
        check_words(2, "a get");
        write_words(3);
        OK(weir_send(comm, mine, bytes, 1, 5));
    } else {
        weir_message m = {.size = sizeof m};
        OK(weir_recv(comm, mine, bytes, 0, 5, &m));
        CHECK(m.bytes == bytes, "a message of %llu bytes", (unsigned long long)m.bytes);
        check_words(3, "a message");
    }
    OK(weir_mem_free(mem));
    finish("large sizes");
    return 0;
}
