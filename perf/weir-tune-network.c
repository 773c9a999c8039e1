/* SPDX-License-Identifier: BSD-3-Clause */
/* Between two nodes: latency, what a message costs its sender and the interface, bandwidth, and how many interfaces help. */
#include <stdlib.h>
#include <unistd.h>

#include "perf/weir-tune.h"

enum { PINGS = 100, BATCHES = 7, WINDOW = 16, SMALL_PUTS = 512, LARGE = 1 << 20, LARGE_WINDOW = 8, ACKED = 1 << 16 };

static uint64_t put_at(void)
{
    return FLAGS + (uint64_t)AREA;
}

static const char *source(const struct tune *t)
{
    return (const char *)weir_mem_ptr(t->mem) + FLAGS;
}

static bool finish(struct tune *t, weir_request **request)
{
    return !*request || check(t, weir_wait(request), "weir_wait");
}

static bool ping(struct tune *t, int peer)
{
    weir_request *request = NULL;
    return check(t, weir_put_signal(t->mem, source(t), 8, peer, put_at(), 0, &request), "weir_put_signal") && finish(t, &request);
}

static bool pong(struct tune *t)
{
    return check(t, weir_signal_wait(t->mem, 0, ++t->arrived), "weir_signal_wait");
}

static void keep_least(double *best, double value)
{
    *best = *best == 0 || value < *best ? value : *best;
}

bool one_way(struct tune *t, int peer, double *ns)
{
    double best = 0;
    for (int b = 0; b < BATCHES; b++) {
        if (!check(t, weir_barrier(t->comm), "weir_barrier"))
            return false;
        double start = now_ns();
        for (int i = 0; i < PINGS; i++)
            if ((t->rank == 0 && (!ping(t, peer) || !pong(t))) || (t->rank == peer && (!pong(t) || !ping(t, 0))))
                return false;
        keep_least(&best, (now_ns() - start) / (2 * PINGS));
    }
    *ns = best;
    return true;
}

/* Puts in windows: the time to start one, and the time that one takes in a row of many. */
static bool many(struct tune *t, int peer, uint64_t bytes, int puts, int window, double *post, double *each)
{
    weir_request *request[WINDOW];
    double posting = 0, start = now_ns();
    for (int done = 0; done < puts; done += window) {
        double begin = now_ns();
        for (int i = 0; i < window; i++) {
            uint64_t at = bytes * (uint64_t)i;
            request[i] = NULL;
            if (!check(t, weir_put(t->mem, source(t) + at, bytes, peer, put_at() + at, &request[i]), "weir_put"))
                return false;
        }
        keep_least(&posting, (now_ns() - begin) / window);
        if (!check(t, weir_waitall((size_t)window, request), "weir_waitall"))
            return false;
    }
    if (!check(t, weir_flush(t->mem, peer), "weir_flush"))
        return false;
    *each = (now_ns() - start) / puts;
    *post = posting;
    return true;
}

bool rate_of(struct tune *t, const int *from, const int *to, int pairs, double *rate)
{
    int peer = -1;
    double best = 0, post;
    for (int i = 0; i < pairs; i++)
        peer = from[i] == t->rank ? to[i] : peer;
    for (int b = 0; b < BATCHES; b++) {
        double each = 0;
        if (!check(t, weir_barrier(t->comm), "weir_barrier"))
            return false;
        if (peer >= 0 && !many(t, peer, LARGE, 4 * LARGE_WINDOW, LARGE_WINDOW, &post, &each))
            return false;
        if (peer >= 0)
            keep_least(&best, each);
    }
    if (!share(t, best))
        return false;
    *rate = 0;
    for (int i = 0; i < pairs; i++)
        *rate += LARGE / t->all[from[i]];
    return true;
}

/* The `pairs` first ranks of the nodes of rank 0 and t->far send at once: GB/s of all together. */
static bool bandwidth_of(struct tune *t, int pairs, double *rate)
{
    int *from = malloc(2 * (size_t)pairs * sizeof *from), *to = from + pairs;
    bool ok = from != NULL;
    for (int i = 0; ok && i < pairs; i++) {
        from[i] = rank_of(t, weir_topo_node(t->topo, 0), i);
        to[i] = rank_of(t, weir_topo_node(t->topo, t->far), i);
    }
    ok = ok && rate_of(t, from, to, pairs, rate);
    free(from);
    return ok;
}

/*
 * Whether the source of a put is free only when its acknowledgement is back: the least time from start to completion is then the
 * way there, with the bytes, and the way back; else it is over as soon as the bytes have left.
 */
static bool waits_for_ack(struct tune *t, double latency, double bandwidth, int *ack)
{
    double best = 0, post, each = 0;
    for (int b = 0; b < BATCHES; b++) {
        double start = now_ns();
        weir_request *request = NULL;
        if (t->rank == 0 && (!check(t, weir_put(t->mem, source(t), ACKED, t->far, put_at(), &request), "weir_put") || !finish(t, &request)))
            return false;
        keep_least(&best, now_ns() - start);
        if (t->rank == 0 && !many(t, t->far, 8, 1, 1, &post, &each)) /* with a flush */
            return false;
    }
    if (!share(t, best))
        return false;
    *ack = t->all[0] > ACKED / bandwidth + 1.5 * latency;
    return true;
}

bool measure_network(struct tune *t, double *overhead, double *latency, double *gap, double *bandwidth, int *rails, int *ack)
{
    double small = 0, each = 0, post = 0, single, together;
    int node = weir_topo_node(t->topo, 0), other = weir_topo_node(t->topo, t->far), mates = weir_topo_node_size(t->topo, node);
    int others = weir_topo_node_size(t->topo, other), pairs = mates < others ? mates : others;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (!one_way(t, t->far, &small) || !check(t, weir_barrier(t->comm), "weir_barrier"))
        return false;
    if (t->rank == 0 && (!many(t, t->far, 8, SMALL_PUTS, WINDOW, &post, &each) || !many(t, t->far, 8, SMALL_PUTS, WINDOW, &post, &each)))
        return false;
    if (!bandwidth_of(t, 1, &single))
        return false;
    if (cores > 0 && pairs > cores)
        pairs = (int)cores;
    together = single;
    if (pairs > 1 && !bandwidth_of(t, pairs, &together))
        return false;
    *rails = together > single ? (int)(together / single + 0.4) : 1; /* 1.6 times as much shows a second one */
    *rails = *rails > pairs ? pairs : *rails;
    *bandwidth = *rails > 1 ? together / *rails : single;
    *overhead = post < small / 2 ? post : small / 2;
    *gap = each > *overhead ? each - *overhead : 0;
    *latency = small - 2 * *overhead > 0 ? small - 2 * *overhead : 0;
    return waits_for_ack(t, *latency, single, ack);
}
