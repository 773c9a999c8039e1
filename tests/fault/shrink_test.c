/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks are killed in the middle of all-reduces: every survivor gets WEIR_ERR_PEER_LOST within two seconds, and goes on with the
 * communicator of those that are left: messages, memory, collectives. Run by weirrun --on-failure continue with 4 ranks.
 * usage: shrink_test one|leader|during|two [COUNT]. leader: rank 0 dies; during: a second one, as it begins to shrink; two: a second
 * one, later.
 */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "tests/multi/multi.h"

static uint64_t count = 1000;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(void)
{
    kill(getpid(), SIGKILL);
}

/* All-reduces; the victim (a rank of `c`) dies inside one of them. The status of the one that fails. */
static weir_status reduce_until(weir_comm *c, int victim, int times)
{
    int me = weir_comm_rank(c), n = weir_comm_size(c);
    float *in = malloc(count * sizeof *in), *out = malloc(count * sizeof *out);
    weir_status status = WEIR_OK;
    double begin = 0;
    for (int k = 0; k < times && !status; k++) {
        for (uint64_t i = 0; i < count; i++)
            in[i] = (float)(me + k + (int)(i % 5));
        begin = now();
        if (k == times / 2 && victim >= 0) { /* all start it, and the victim dies in it */
            weir_request *r = NULL;
            status = weir_iallreduce(c, in, out, count, WEIR_FP32, WEIR_SUM, &r);
            if (me == victim)
                die();
            if (!status)
                status = weir_wait(&r);
        } else {
            status = weir_allreduce(c, in, out, count, WEIR_FP32, WEIR_SUM);
        }
        for (uint64_t i = 0; i < count && !status; i++)
            CHECK(out[i] == (float)(n * (n - 1) / 2 + n * (k + (int)(i % 5))), "all-reduce %d: element %llu is %g", k,
                  (unsigned long long)i, (double)out[i]);
    }
    CHECK(now() - begin < 2.5, "the error took %.2f s", now() - begin);
    free(in);
    free(out);
    return status;
}

static void use(weir_comm *c)
{
    int me = weir_comm_rank(c), n = weir_comm_size(c), next = (me + 1) % n, before = (me - 1 + n) % n, got = -1;
    weir_request *r;
    weir_message m = {.size = sizeof m};
    OK(weir_isend(c, &me, sizeof me, next, 3, &r));
    OK(weir_recv(c, &got, sizeof got, WEIR_ANY_SOURCE, 3, &m));
    OK(weir_wait(&r));
    CHECK(got == before && m.source == before, "got %d from %lld", got, (long long)m.source);
    weir_mem *mem;
    unsigned char data[3000];
    OK(weir_mem_alloc(c, 8192, 0, &mem));
    fill(data, sizeof data, (uint64_t)me);
    OK(weir_put_signal(mem, data, sizeof data, next, 100, 0, &r));
    OK(weir_wait(&r));
    OK(weir_signal_wait(mem, 0, 1));
    check((unsigned char *)weir_mem_ptr(mem) + 100, sizeof data, (uint64_t)before, "a put");
    OK(weir_mem_free(mem));
    OK(reduce_until(c, -1, 6));
    OK(weir_barrier(c));
}

/* The survivors' ranks are in their order, and those that died are not there. */
static weir_comm *take(weir_comm *from, int lost, int nlost)
{
    weir_comm *left;
    double begin = now();
    OK(weir_comm_shrink(from, &left));
    CHECK(now() - begin < 3, "shrinking took %.2f s", now() - begin);
    int n = weir_comm_size(left);
    CHECK(n == weir_comm_size(from) - nlost, "%d ranks are left", n);
    for (int r = 0; r < n; r++)
        CHECK(weir_comm_world_rank(left, r) != lost && (!r || weir_comm_world_rank(left, r - 1) < weir_comm_world_rank(left, r)),
              "rank %d is %d of the job", r, weir_comm_world_rank(left, r));
    return left;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "one";
    bool during = !strcmp(how, "during");
    if (argc > 2)
        count = strtoull(argv[2], NULL, 0);
    start();
    weir_mem *mem;
    weir_comm *again = NULL;
    OK(weir_mem_alloc(comm, 4096, 0, &mem));
    int victim = strcmp(how, "leader") ? size - 2 : 0;
    weir_status status = reduce_until(comm, victim, 10);
    const weir_error *err = weir_last_error(ctx);
    CHECK(status == WEIR_ERR_PEER_LOST, "the status is %s", weir_status_name(status));
    bool named = err->rank == victim || (during && err->rank == 0); /* which dies soon afterwards */
    CHECK(named && err->host[0], "the error names rank %d on '%s'", err->rank, err->host);
    CHECK(weir_barrier(comm) == WEIR_ERR_PEER_LOST, "a collective on a communicator with a lost rank");
    if (during && rank == 0) /* who would have led */
        die();
    weir_comm *left = take(comm, victim, during && weir_comm_size(comm) == 4 ? 2 : 1);
    CHECK(weir_comm_shrink(comm, &again) == WEIR_ERR_INVALID, "shrunk twice");
    weir_mem_free(mem); /* each for itself */
    use(left);
    if (!strcmp(how, "two")) {
        int second = 0;
        status = reduce_until(left, second, 6);
        CHECK(status == WEIR_ERR_PEER_LOST, "the second status is %s", weir_status_name(status));
        weir_comm *last = take(left, 0, 1);
        OK(weir_comm_free(left));
        left = last;
        use(left);
    }
    weir_comm *copy; /* and communicators can be made of it */
    OK(weir_comm_dup(left, &copy));
    use(copy);
    OK(weir_comm_free(copy));
    OK(weir_barrier(left));
    if (weir_comm_rank(left) == 0)
        printf("PASS: %s, %d left\n", how, weir_comm_size(left));
    weir_finalize(ctx); /* cannot succeed, but ends */
    return 0;
}
