/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory and one-sided operations, through the public calls. Run by weirrun with 1..8 ranks. */
#include "tests/multi/multi.h"

static void wait_for(weir_request *r)
{
    OK(weir_wait(&r));
}

/* Every rank writes to every rank's part, sees the signals, reads back. */
static void put_signal_get(weir_mem *mem, uint64_t part)
{
    unsigned char *mine = weir_mem_ptr(mem), *src = malloc(part), *back = malloc(part);
    weir_request *r;
    CHECK(src && back && mine, "no memory");
    for (int round = 0; round < 3; round++) {
        fill(src, part, (uint64_t)(rank * 10 + round));
        for (int k = 0; k < size; k++) {
            OK(weir_put_signal(mem, src, part, (rank + k) % size, part * (uint64_t)rank, 3, &r));
            wait_for(r);
        }
        OK(weir_signal_wait(mem, 3, (uint64_t)(size * (round + 1))));
        for (int p = 0; p < size; p++)
            check(mine + part * (uint64_t)p, part, (uint64_t)(p * 10 + round), "a put with a signal");
        barrier();
        int peer = (rank + 1) % size;
        OK(weir_get(mem, back, part, peer, part * (uint64_t)rank, &r));
        wait_for(r);
        check(back, part, (uint64_t)(rank * 10 + round), "a get");
        barrier();
    }
    CHECK(weir_signal_read(mem, 3) == (uint64_t)size * 3, "the signal counts %llu", (unsigned long long)weir_signal_read(mem, 3));
    CHECK(weir_signal_read(mem, 4) == 0, "another signal was touched");
    fill(src, part, 99);
    OK(weir_put(mem, src, part, (rank + 1) % size, 0, &r));
    wait_for(r);
    OK(weir_flush(mem, (rank + 1) % size));
    barrier();
    check(mine, part, 99, "a flushed put");
    free(src);
    free(back);
    barrier();
}

static void mapped(weir_mem *mem, uint64_t part)
{
    unsigned char *mine = weir_mem_ptr(mem);
    fill(mine, part, (uint64_t)rank);
    barrier();
    for (int p = 0; p < size; p++) {
        unsigned char *theirs = weir_mem_peer_ptr(mem, p);
        if (theirs)
            check(theirs, part, (uint64_t)p, "a peer's memory");
        bool same_node = p == rank || !strcmp(weir_comm_transport(comm, p), "shm");
        CHECK(!theirs == !same_node, "rank %d is %s", p, theirs ? "mapped" : "not mapped");
    }
    barrier();
}

static void refusals(void)
{
    weir_mem *mem = NULL, *other = NULL;
    weir_request *r = NULL;
    char c[16];
    CHECK(weir_mem_alloc(comm, 100, 1u << 20, &mem) == WEIR_ERR_INVALID && !mem, "unknown flags");
    CHECK(weir_mem_register(comm, NULL, 100, &mem) == WEIR_ERR_INVALID && !mem, "NULL memory");
    OK(weir_mem_alloc(comm, 100, 0, &mem));
    CHECK(weir_put(mem, c, 16, 0, 90, &r) == WEIR_ERR_INVALID && !r, "a put past the end");
    CHECK(weir_put(mem, c, 16, 0, UINT64_MAX - 8, &r) == WEIR_ERR_INVALID && !r, "an offset that wraps around");
    CHECK(weir_put(mem, c, 16, size, 0, &r) == WEIR_ERR_INVALID && !r, "a rank out of range");
    CHECK(weir_put_signal(mem, c, 1, 0, 0, WEIR_SIGNALS, &r) == WEIR_ERR_INVALID && !r, "a signal out of range");
    CHECK(weir_mem_deregister(mem) == WEIR_ERR_INVALID, "deregister of allocated memory");
    OK(weir_mem_free(mem));
    CHECK(weir_put(mem, c, 16, 0, 0, &r) == WEIR_ERR_STALE && !r, "a put to freed memory");
    CHECK(weir_mem_free(mem) == WEIR_ERR_STALE, "freeing twice");
    CHECK(!weir_mem_ptr(mem), "freed memory has an address");
    if (size > 1) {
        /* one rank asks for something else: all are told, by name */
        weir_status s = weir_mem_alloc(comm, 64, rank == size - 1 ? WEIR_MEM_NODE_SHARED : 0, &other);
        CHECK(s == WEIR_ERR_MISMATCH && !other, "a mismatch gave %s", weir_status_name(s));
        /* memory that one rank cannot have */
        s = weir_mem_alloc(comm, rank == size - 1 ? UINT64_MAX / 4 : 64, 0, &other);
        CHECK(s < 0 && !other, "an impossible size at one rank gave %s", weir_status_name(s));
    }
    OK(weir_mem_alloc(comm, 64, 0, &other)); /* all still works */
    OK(weir_mem_free(other));
}

static void usage(void)
{
    weir_mem_info before = {.size = sizeof before}, after = {.size = sizeof after};
    weir_mem *mem;
    OK(weir_mem_usage(ctx, &before));
    OK(weir_mem_alloc(comm, 1 << 20, 0, &mem));
    OK(weir_mem_usage(ctx, &after));
    CHECK(after.allocated == before.allocated + (1 << 20), "allocated went from %llu to %llu", (unsigned long long)before.allocated,
          (unsigned long long)after.allocated);
    OK(weir_mem_free(mem));
    OK(weir_mem_usage(ctx, &after));
    CHECK(after.allocated == before.allocated && after.registered == before.registered, "freeing is not counted");
    CHECK(after.pss > 0, "the proportional set size is 0");
}

/* With WEIR_MEM_LIMIT=1M: no rank gets more, all ranks are told, and nothing of what failed is kept. */
static void limit(void)
{
    weir_mem_info info = {.size = sizeof info};
    weir_mem *mem, *more = NULL;
    for (int round = 0; round < 20; round++) {
        OK(weir_mem_alloc(comm, 600 << 10, 0, &mem));
        CHECK(weir_mem_alloc(comm, 600 << 10, 0, &more) == WEIR_ERR_LIMIT && !more, "1.2 MiB were given out");
        CHECK(strstr(weir_last_error(ctx)->message, "WEIR_MEM_LIMIT"), "the limit is not named");
        CHECK(weir_mem_alloc(comm, rank == size - 1 ? 600 << 10 : 8, 0, &more) == WEIR_ERR_LIMIT && !more,
              "one rank went past the limit");
        OK(weir_mem_usage(ctx, &info));
        CHECK(info.limit == 1 << 20 && info.allocated == 600 << 10, "%llu bytes of %llu are counted",
              (unsigned long long)info.allocated, (unsigned long long)info.limit);
        OK(weir_mem_alloc(comm, (1 << 20) - (600 << 10), 0, &more)); /* what is left */
        OK(weir_mem_free(more));
        OK(weir_mem_free(mem));
        more = NULL;
    }
    CHECK(weir_mem_alloc(comm, UINT64_MAX, 0, &more) == WEIR_ERR_LIMIT && !more, "2^64 - 1 bytes were given out");
    finish("the limit of memory");
    exit(0);
}

static void node_shared(void)
{
    weir_mem *mem;
    enum { LEN = 100000 };
    OK(weir_mem_alloc(comm, LEN, WEIR_MEM_NODE_SHARED, &mem));
    unsigned char *window = weir_mem_ptr(mem);
    int first = rank; /* the lowest rank of this node writes, all of the node read */
    for (int p = rank - 1; p >= 0; p--)
        if (!strcmp(weir_comm_transport(comm, p), "shm"))
            first = p;
    if (first == rank)
        fill(window, LEN, (uint64_t)rank);
    barrier();
    check(window, LEN, (uint64_t)first, "a window of the node");
    barrier();
    OK(weir_mem_free(mem));
}

/* Memory of many bytes, of which a little is moved: it can be more than the network may lock. */
static void large(uint64_t bytes)
{
    enum { PART = 100000 };
    weir_mem *mem;
    OK(weir_mem_alloc(comm, bytes, 0, &mem));
    mapped(mem, PART);
    put_signal_get(mem, PART);
    OK(weir_mem_free(mem));
    finish("large memory");
    exit(0);
}

int main(int argc, char **argv)
{
    weir_mem *mem;
    start();
    if (argc > 2 && !strcmp(argv[1], "large"))
        large(strtoull(argv[2], NULL, 10) << 20);
    if (argc > 1 && !strcmp(argv[1], "limit"))
        limit();
    for (uint64_t part = 1; part <= 300000; part = part * 17 + 3) {
        OK(weir_mem_alloc(comm, part * (uint64_t)size, 0, &mem));
        CHECK((uintptr_t)weir_mem_ptr(mem) % 4096 == 0, "memory is not aligned to a page");
        CHECK(weir_mem_bytes(mem, size - 1) == part * (uint64_t)size, "the size of a peer's part");
        mapped(mem, part);
        put_signal_get(mem, part);
        OK(weir_mem_free(mem));
        unsigned char *user = malloc(part * (uint64_t)size);
        OK(weir_mem_register(comm, user, part * (uint64_t)size, &mem));
        CHECK(weir_mem_ptr(mem) == user, "registered memory has moved");
        put_signal_get(mem, part);
        OK(weir_mem_deregister(mem));
        free(user);
    }
    OK(weir_mem_alloc(comm, rank ? 0 : 777, 0, &mem)); /* unequal, and none at all */
    CHECK(weir_mem_bytes(mem, 0) == 777 && (size == 1 || weir_mem_bytes(mem, 1) == 0), "unequal parts");
    OK(weir_mem_free(mem));
    node_shared();
    refusals();
    usage();
    finish("registered memory");
    return 0;
}
