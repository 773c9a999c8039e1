/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank is killed while others wait for it: everyone who does gets WEIR_ERR_PEER_LOST with its number within two seconds.
 * Run by weirrun --on-failure continue with at least 3 ranks. usage: lost_peer recv|any|send|signal|compute|sent
 */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "tests/multi/multi.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

enum { DELAY_MS = 300, SENT = 32, LEN = 100000 };

static void compute(double seconds)
{
    double end = now() + seconds;
    while (now() < end)
        ;
}

/* The victim's last messages: some are here as a whole, some in part, of some it had only said that they would come. */
static void send_last_messages(void)
{
    static char buffer[LEN];
    for (int peer = 0; peer < size; peer++)
        for (int i = 0; i < SENT && peer != rank; i++) {
            weir_request *r;
            OK(weir_isend(comm, buffer, LEN, peer, 100 + i, &r));
        }
}

static weir_status receive_last_messages(char *buffer, int victim)
{
    int gone = 0;
    weir_status status = weir_recv(comm, buffer, LEN, victim, 99, NULL); /* which it has not sent */
    for (int i = SENT; i-- > 0 && status == WEIR_ERR_PEER_LOST;) {
        weir_status one = weir_recv(comm, buffer, LEN, victim, 100 + i, NULL);
        CHECK(one == WEIR_OK || one == WEIR_ERR_PEER_LOST, "message %d of the lost rank: %s", i, weir_status_name(one));
        gone += one != WEIR_OK;
    }
    CHECK(gone, "more messages of the lost rank are here than a rank keeps");
    return status;
}

static weir_status wait_for_victim(const char *how, int victim)
{
    static char buffer[8 << 20];
    if (!strcmp(how, "recv"))
        return weir_recv(comm, buffer, sizeof buffer, victim, 1, NULL);
    if (!strcmp(how, "any"))
        return weir_recv(comm, buffer, sizeof buffer, WEIR_ANY_SOURCE, 1, NULL);
    if (!strcmp(how, "sent"))
        return receive_last_messages(buffer, victim);
    if (!strcmp(how, "compute")) { /* nobody is taken for dead because it only computes */
        compute(1.0);
        return weir_recv(comm, buffer, sizeof buffer, victim, 1, NULL);
    }
    if (!strcmp(how, "send")) {
        weir_status status = WEIR_OK;
        for (int i = 0; i < 1000 && !status; i++) /* the victim receives nothing: the queue fills up */
            status = weir_send(comm, buffer, sizeof buffer, victim, 1);
        return status;
    }
    return WEIR_ERR_INVALID;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "recv";
    weir_mem *mem = NULL;
    start();
    int victim = size - 2;
    if (!strcmp(how, "signal"))
        OK(weir_mem_alloc(comm, 4096, 0, &mem));
    for (int peer = 0; peer < size; peer++) { /* connections exist */
        weir_request *r;
        OK(weir_isend(comm, NULL, 0, peer, 50, &r));
        OK(weir_recv(comm, NULL, 0, WEIR_ANY_SOURCE, 50, NULL));
        OK(weir_wait(&r));
    }
    barrier();
    double start_time = now();
    if (rank == victim) {
        if (!strcmp(how, "sent"))
            send_last_messages();
        usleep(DELAY_MS * 1000);
        kill(getpid(), SIGKILL);
    }
    weir_status status = mem ? weir_signal_wait(mem, 0, 1) : wait_for_victim(how, victim);
    double seconds = now() - start_time;
    const weir_error *err = weir_last_error(ctx);
    CHECK(status == WEIR_ERR_PEER_LOST, "status %s after %.2f s", weir_status_name(status), seconds);
    CHECK(err->rank == victim, "the error names rank %d", err->rank);
    CHECK(err->operation[0] && err->message[0] && err->host[0], "the error is not described");
    CHECK(seconds < DELAY_MS / 1000. + 2 + (strcmp(how, "compute") ? 0 : 1), "it took %.2f s", seconds);
    /* the next call fails at once */
    start_time = now();
    CHECK(weir_send(comm, NULL, 0, victim, 1) == WEIR_ERR_PEER_LOST, "a send to the lost rank");
    CHECK(now() - start_time < 0.5, "the second error took %.2f s", now() - start_time);
    /* the survivors still talk to each other */
    int next = rank, prev = rank;
    do
        next = (next + 1) % size;
    while (next == victim);
    do
        prev = (prev - 1 + size) % size;
    while (prev == victim);
    int token = rank, got = -1;
    weir_request *r;
    OK(weir_isend(comm, &token, sizeof token, next, 9, &r));
    OK(weir_recv(comm, &got, sizeof got, prev, 9, NULL));
    OK(weir_wait(&r));
    CHECK(got == prev, "got %d from %d", got, prev);
    if (rank == 0)
        printf("PASS: %s, %.2f s after the death at the latest here, over %s\n", how, seconds - DELAY_MS / 1000., weir_comm_transport(comm, victim));
    start_time = now();
    weir_finalize(ctx); /* cannot succeed, but ends */
    if (now() - start_time > 5) {
        fprintf(stderr, "FAIL rank %d: weir_finalize took %.1f s\n", rank, now() - start_time);
        return 1;
    }
    return 0;
}
