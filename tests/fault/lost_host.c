/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host vanishes: nothing that it sends arrives any more, and it says no goodbye. Every rank that waits for one of its
 * ranks gets WEIR_ERR_PEER_LOST with rank and host, WEIR_PEER_TIMEOUT after that at the latest and a second for the rest;
 * so do the ranks of the vanished host, for which all others are gone. The others still talk to each other.
 *
 * Four ranks, of which 2 and 3 are on the host that vanishes. usage: lost_host SECONDS READY GONE: each rank makes a
 * file READY.RANK when it is at work; whoever runs this lets the host vanish then, and makes GONE. SECONDS is the time allowed.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/multi/multi.h"

static double seconds_since(const char *path)
{
    struct stat s;
    struct timespec now;
    CHECK(!stat(path, &s), "%s is not there: the host has not vanished yet", path);
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)(now.tv_sec - s.st_mtim.tv_sec) + (double)(now.tv_nsec - s.st_mtim.tv_nsec) * 1e-9;
}

static weir_status wait_for(int peer, bool sends)
{
    static char buffer[8 << 20];
    weir_status status = WEIR_OK;
    if (!sends)
        return weir_recv(comm, buffer, sizeof buffer, peer, 1, NULL);
    for (int i = 0; i < 1000 && !status; i++) /* it receives nothing: the queues fill up */
        status = weir_send(comm, buffer, sizeof buffer, peer, 1);
    return status;
}

/* Waits for a rank on the other side of the cut. */
static void check_loss(int peer, const char *host, double limit, const char *gone)
{
    weir_status status = wait_for(peer, rank % 2);
    double seconds = seconds_since(gone);
    const weir_error *err = weir_last_error(ctx);
    CHECK(status == WEIR_ERR_PEER_LOST, "%s after %.2f s", weir_status_name(status), seconds);
    CHECK(err->rank == peer, "the error names rank %d instead of %d", err->rank, peer);
    CHECK(!strcmp(err->host, host), "the error names host '%s' instead of %s", err->host, host);
    CHECK(strstr(err->message, "does not answer"), "the message does not say why");
    CHECK(seconds < limit, "it took %.2f s", seconds);
    printf("lost: %d by %d after %.2f s over %s: %s\n", peer, rank, seconds, weir_comm_transport(comm, peer), err->message);
}

/* PREFIX.RANK */
static void make_file(const char *prefix)
{
    char path[512];
    snprintf(path, sizeof path, "%s.%d", prefix, rank);
    CHECK(close(open(path, O_CREAT | O_WRONLY, 0644)) == 0, "%s", path);
}

/* The ranks of the vanished host stay until the others have seen the loss: the launcher would tell them of an end. */
static void wait_for_others(const char *gone)
{
    char path[512];
    for (int other = 0; other < 2; other++) {
        snprintf(path, sizeof path, "%s.%d", gone, other);
        if (rank == other)
            make_file(gone);
        for (int tries = 0; rank >= 2 && access(path, F_OK) && tries < 2000; tries++)
            usleep(10000);
    }
}

int main(int argc, char **argv)
{
    char mine[64] = "", hosts[4][64];
    if (argc != 4)
        return 2;
    start();
    CHECK(size == 4, "%d ranks", size);
    gethostname(mine, sizeof mine - 1);
    for (int step = 0; step < size; step++) { /* connections exist, and everybody knows where everybody is */
        int from = (rank - step + size) % size;
        weir_request *r;
        OK(weir_isend(comm, mine, sizeof mine, (rank + step) % size, 50, &r));
        OK(weir_recv(comm, hosts[from], sizeof hosts[from], from, 50, NULL));
        OK(weir_wait(&r));
    }
    barrier();
    make_file(argv[2]);
    int other = rank < 2 ? 2 : 0, got = -1;
    for (int i = 0; i < 2; i++)
        check_loss(other + (rank + i) % 2, hosts[other + (rank + i) % 2], atof(argv[1]), argv[3]);
    wait_for_others(argv[3]);
    int neighbour = rank ^ 1;
    weir_request *r;
    OK(weir_isend(comm, &rank, sizeof rank, neighbour, 9, &r));
    OK(weir_recv(comm, &got, sizeof got, neighbour, 9, NULL));
    OK(weir_wait(&r));
    CHECK(got == neighbour, "got %d from %d", got, neighbour);
    struct timespec begin, end;
    fflush(stdout);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    weir_status status = weir_finalize(ctx);
    clock_gettime(CLOCK_MONOTONIC, &end);
    double took = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9;
    /* what was sent to others has two seconds, and the launcher, who does not know of the loss, WEIR_PEER_TIMEOUT */
    if (took > atof(argv[1]) + 4 || (status && status != WEIR_ERR_PEER_LOST)) {
        fprintf(stderr, "FAIL rank %d: weir_finalize gave %s after %.1f s\n", rank, weir_status_name(status), took);
        return 1;
    }
    printf("left: %d after %.1f s\n", rank, took);
    return 0;
}
