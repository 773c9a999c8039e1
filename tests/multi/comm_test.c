/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators made from communicators. Run by weirrun with 1..9 ranks and any nodes. Nothing of one communicator may meet
 * anything of another: messages, memory, collectives, errors.
 */
#include <pthread.h>
#include <unistd.h>

#include "tests/multi/multi.h"

enum { TAG = 5 };

/* Whether the communicator has the ranks that it should have, and whether all of it works. */
static void use(weir_comm *c, int color, const char *what)
{
    int me = weir_comm_rank(c), n = weir_comm_size(c);
    int64_t in[2] = {me + 1, color}, out[2] = {0, 0};
    OK(weir_allreduce(c, in, out, 2, WEIR_INT64, WEIR_SUM));
    CHECK(out[0] == (int64_t)n * (n + 1) / 2 && out[1] == (int64_t)color * n, "%s: the sums are %lld and %lld", what,
          (long long)out[0], (long long)out[1]);
    int64_t *world = malloc((size_t)n * sizeof *world), mine = rank;
    OK(weir_allgather(c, &mine, world, 1, WEIR_INT64));
    for (int r = 0; r < n; r++)
        CHECK(world[r] == weir_comm_world_rank(c, r), "%s: rank %d is %lld of the job and said to be %d", what, r,
              (long long)world[r], weir_comm_world_rank(c, r));
    CHECK(world[me] == rank && weir_comm_world_rank(c, n) == -1, "%s: own rank", what);
    free(world);
    int token = color * 1000 + me, got = -1;
    weir_request *r;
    weir_message m = {.size = sizeof m};
    OK(weir_isend(c, &token, sizeof token, (me + 1) % n, TAG, &r));
    OK(weir_recv(c, &got, sizeof got, WEIR_ANY_SOURCE, WEIR_ANY_TAG, &m));
    OK(weir_wait(&r));
    CHECK(m.source == (me - 1 + n) % n && got == color * 1000 + m.source, "%s: got %d from %lld", what, got,
          (long long)m.source);
}

static void use_memory(weir_comm *c, int color)
{
    int me = weir_comm_rank(c), n = weir_comm_size(c), next = (me + 1) % n;
    weir_mem *mem, *window;
    weir_request *r;
    uint64_t bytes = 4096 + (uint64_t)me;
    OK(weir_mem_alloc(c, bytes, 0, &mem));
    for (int p = 0; p < n; p++)
        CHECK(weir_mem_bytes(mem, p) == 4096 + (uint64_t)p, "rank %d has %llu bytes", p,
              (unsigned long long)weir_mem_bytes(mem, p));
    unsigned char data[512];
    fill(data, sizeof data, (uint64_t)(color * 100 + me));
    OK(weir_put_signal(mem, data, sizeof data, next, 64, 0, &r));
    OK(weir_wait(&r));
    OK(weir_signal_wait(mem, 0, 1));
    check((unsigned char *)weir_mem_ptr(mem) + 64, sizeof data, (uint64_t)(color * 100 + (me - 1 + n) % n), "a put");
    OK(weir_mem_free(mem));
    /* one window for the ranks of the node, and only for those of this communicator */
    OK(weir_mem_alloc(c, 8192, WEIR_MEM_NODE_SHARED, &window));
    volatile int *w = weir_mem_ptr(window);
    w[me] = color + 1;
    OK(weir_barrier(c));
    for (int p = 0; p < n; p++)
        CHECK(!weir_mem_peer_ptr(window, p) || w[p] == color + 1, "the window has %d of rank %d", w[p], p);
    OK(weir_barrier(c));
    OK(weir_mem_free(window));
}

/* The topology of a communicator is the job's, in its own numbers. */
static void has_topology(weir_comm *c)
{
    const weir_topo *topo, *again, *whole;
    int n = weir_comm_size(c);
    OK(weir_comm_topo(c, &topo));
    OK(weir_comm_topo(c, &again));
    OK(weir_ctx_topo(ctx, &whole));
    CHECK(topo == again && (c != comm || topo == whole), "two topologies");
    CHECK(weir_topo_nranks(topo) == n, "%d ranks", weir_topo_nranks(topo));
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++) {
            bool together = weir_topo_node(topo, a) == weir_topo_node(topo, b);
            bool said = weir_topo_node(whole, weir_comm_world_rank(c, a)) == weir_topo_node(whole, weir_comm_world_rank(c, b));
            CHECK(together == said, "the nodes of ranks %d and %d", a, b);
        }
}

/* Colors and keys of many shapes, each checked; freed in another order than made. */
static void shapes(void)
{
    weir_comm *half, *back, *alone, *inner, *none = comm;
    OK(weir_comm_split(comm, rank % 2, rank, &half));
    OK(weir_comm_split(comm, 7, -rank, &back));
    OK(weir_comm_split(comm, rank, 0, &alone));
    OK(weir_comm_split(comm, rank ? WEIR_COLOR_NONE : 3, 0, &none));
    CHECK(weir_comm_size(half) == (size + 1 - rank % 2) / 2 && weir_comm_rank(half) == rank / 2, "half");
    CHECK(weir_comm_size(back) == size && weir_comm_rank(back) == size - 1 - rank, "backwards");
    CHECK(weir_comm_size(alone) == 1, "alone");
    CHECK(!none == (rank > 0), "the color of none gave %p", (void *)none);
    OK(weir_comm_split(half, weir_comm_rank(half) % 2, 5, &inner));
    use(half, rank % 2, "half");
    use(back, 7, "backwards");
    use(alone, rank, "alone");
    use(inner, weir_comm_rank(half) % 2, "half of a half");
    has_topology(comm);
    has_topology(half);
    has_topology(back);
    has_topology(alone);
    has_topology(inner);
    if (none)
        use(none, 3, "one");
    use(comm, 9, "the world");
    use_memory(half, rank % 2);
    use_memory(back, 7);
    OK(weir_comm_free(half));
    use(inner, weir_comm_rank(back) % 2 ? 1 : 0, "after the freeing of its parent");
    OK(weir_comm_free(none));
    OK(weir_comm_free(inner));
    OK(weir_comm_free(alone));
    OK(weir_comm_free(back));
}

/* The same tag and source on two communicators; receives that were posted first are on the wrong one. */
static void apart(void)
{
    weir_comm *a, *b;
    OK(weir_comm_dup(comm, &a));
    OK(weir_comm_dup(comm, &b));
    int next = (rank + 1) % size, one = rank, two = rank + 100, got_a = -1, got_b = -1;
    weir_request *r[4];
    OK(weir_irecv(a, &got_a, sizeof got_a, WEIR_ANY_SOURCE, WEIR_ANY_TAG, NULL, &r[0]));
    OK(weir_isend(b, &two, sizeof two, next, TAG, &r[1]));
    OK(weir_irecv(b, &got_b, sizeof got_b, WEIR_ANY_SOURCE, WEIR_ANY_TAG, NULL, &r[2]));
    OK(weir_isend(a, &one, sizeof one, next, TAG, &r[3]));
    OK(weir_waitall(4, r));
    int before = (rank - 1 + size) % size;
    CHECK(got_a == before && got_b == before + 100, "got %d and %d", got_a, got_b);
    /* collectives of one kind in flight on both, completed the other way round */
    float in_a = (float)rank, in_b = (float)(10 * rank), out_a, out_b, sum = (float)(size * (size - 1) / 2);
    for (int i = 0; i < 6; i++) {
        out_a = out_b = -1;
        OK(weir_iallreduce(a, &in_a, &out_a, 1, WEIR_FP32, WEIR_SUM, &r[0]));
        OK(weir_iallreduce(b, &in_b, &out_b, 1, WEIR_FP32, WEIR_SUM, &r[1]));
        OK(weir_wait(&r[1]));
        OK(weir_wait(&r[0]));
        CHECK(out_a == sum && out_b == 10 * sum, "sums %g and %g", (double)out_a, (double)out_b);
    }
    OK(weir_comm_free(a));
    OK(weir_comm_free(b));
}

/* Memory of the world under a collective of a part: ranks of a node work on it directly, and the result is right. */
static void borrowed_memory(void)
{
    weir_comm *part;
    weir_mem *in, *out;
    weir_request *r;
    enum { N = 10000 };
    OK(weir_comm_split(comm, rank % 2, -rank, &part));
    OK(weir_mem_alloc(comm, N * sizeof(float), 0, &in));
    OK(weir_mem_alloc(comm, N * sizeof(float), 0, &out));
    float *x = weir_mem_ptr(in), *y = weir_mem_ptr(out);
    OK(weir_allreduce_init(part, x, y, N, WEIR_FP32, WEIR_SUM, &r));
    for (int k = 0; k < 3; k++) {
        int n = weir_comm_size(part), sum = 0;
        for (int p = 0; p < n; p++)
            sum += weir_comm_world_rank(part, p);
        for (int i = 0; i < N; i++)
            x[i] = (float)(rank + k + i % 10);
        OK(weir_start(r));
        OK(weir_wait(&r));
        for (int i = 0; i < N; i++)
            CHECK(y[i] == (float)(sum + n * (k + i % 10)), "element %d is %g", i, (double)y[i]);
    }
    CHECK(weir_comm_free(part) == WEIR_ERR_BUSY, "a communicator with a persistent request was freed");
    CHECK(strstr(weir_last_error(ctx)->message, "1 requests"), "the reason is: %s", weir_last_error(ctx)->message);
    OK(weir_request_free(&r));
    OK(weir_mem_free(in));
    OK(weir_mem_free(out));
    OK(weir_comm_free(part));
}

/* Errors tell ranks of the communicator that the call was made on. */
static void errors(void)
{
    weir_comm *back, *bad = NULL;
    OK(weir_comm_split(comm, 0, -rank, &back));
    int color = rank == size - 1 ? -5 : 1;
    CHECK(weir_comm_split(comm, color, 0, &bad) == WEIR_ERR_INVALID && !bad, "a negative color was taken");
    CHECK(weir_last_error(ctx)->rank == size - 1, "the error names rank %d", weir_last_error(ctx)->rank);
    CHECK(weir_comm_free(comm) == WEIR_ERR_INVALID, "the world was freed");
    char big[64] = {0};
    int me = weir_comm_rank(back), next = (me + 1) % size, before = (me - 1 + size) % size;
    weir_request *r;
    OK(weir_isend(back, big, sizeof big, next, 1, &r));
    CHECK(weir_recv(back, big, 10, before, 1, NULL) == WEIR_ERR_TRUNCATED, "a long message fits");
    char text[64];
    snprintf(text, sizeof text, "the message from rank %d ", before);
    CHECK(strstr(weir_last_error(ctx)->message, text), "the error says: %s", weir_last_error(ctx)->message);
    OK(weir_wait(&r));
    CHECK(weir_send(back, big, 1, size, 1) == WEIR_ERR_INVALID, "a rank out of range");
    OK(weir_comm_free(back));
    CHECK(weir_comm_free(back) == WEIR_ERR_STALE, "freed twice");
    const weir_topo *topo;
    CHECK(weir_comm_topo(back, &topo) == WEIR_ERR_STALE, "asked after its freeing");
    CHECK(weir_barrier(back) == WEIR_ERR_STALE, "used after its freeing");
    CHECK(weir_comm_dup(back, &back) == WEIR_ERR_STALE, "duplicated after its freeing");
}

/* On one node more than are kept as stale; a network takes its time. */
static void many(void)
{
    weir_comm *c;
    int times = 80;
    for (int r = 0; r < size; r++)
        if (strcmp(weir_comm_transport(comm, r), "shm") && strcmp(weir_comm_transport(comm, r), "self"))
            times = 6;
    for (int i = 0; i < times; i++) {
        OK(weir_comm_split(comm, (rank + i) % 2, 0, &c));
        if (i % 20 == 0)
            use(c, (rank + i) % 2, "one of many");
        OK(weir_comm_free(c));
    }
}

/* Two threads make communicators at once, from two communicators. */
static void *split_in_thread(void *arg)
{
    weir_comm *from = arg, *c;
    for (int i = 0; i < 3; i++) {
        OK(weir_comm_split(from, 0, i % 2 ? rank : -rank, &c));
        int64_t in = 1, out = 0;
        OK(weir_allreduce(c, &in, &out, 1, WEIR_INT64, WEIR_SUM));
        CHECK(out == size, "a communicator of %lld", (long long)out);
        OK(weir_comm_free(c));
    }
    return NULL;
}

static void threads(void)
{
    weir_comm *other;
    pthread_t thread;
    OK(weir_comm_dup(comm, &other));
    CHECK(!pthread_create(&thread, NULL, split_in_thread, other), "no thread");
    split_in_thread(comm);
    pthread_join(thread, NULL);
    OK(weir_comm_free(other));
}

int main(void)
{
    start();
    shapes();
    apart();
    borrowed_memory();
    errors();
    many();
    threads();
    weir_comm *left; /* what is not freed goes with the context */
    OK(weir_comm_split(comm, 0, 0, &left));
    use(left, 0, "the last");
    finish("communicators");
    return 0;
}
