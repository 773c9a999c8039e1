/* SPDX-License-Identifier: BSD-3-Clause */
/* What a core and a node do: copies, sums, a flag from core to core. */
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "perf/stream.h"
#include "perf/weir-tune.h"

enum { STEP = 1024, FLAG_ROUNDS = 2000, BATCHES = 7, PATIENCE = 2000 };

static void add(float *restrict to, const float *restrict a, const float *restrict b, size_t n)
{
    float sums[STEP];
    for (size_t done = 0; done < n; done += STEP) {
        size_t piece = n - done < STEP ? n - done : STEP;
        for (size_t i = 0; i < piece; i++)
            sums[i] = a[done + i] + b[done + i];
        put_out(to + done, sums, piece);
    }
}

/* The best of some rounds, in ns. */
static double time_of(struct tune *t, bool sums)
{
    float *in = (float *)(void *)((char *)weir_mem_ptr(t->mem) + FLAGS), *out = in + AREA / sizeof *in;
    size_t half = AREA / sizeof *in / 2;
    double best = 0, end = now_ns() + t->seconds * 1e9;
    do {
        double start = now_ns();
        if (sums)
            add(out, in, in + half, half);
        else
            put_out(out, in, 2 * half);
        double took = now_ns() - start;
        best = best == 0 || took < best ? took : best;
    } while (now_ns() < end);
    return best;
}

/* The ranks of each node below `l` do it at once. */
static bool round_of(struct tune *t, int l, bool sums)
{
    double took = 0;
    if (!check(t, weir_barrier(t->comm), "weir_barrier"))
        return false;
    if (weir_topo_local_rank(t->topo, t->rank) < l)
        took = time_of(t, sums);
    return share(t, took);
}

bool measure_copy(struct tune *t, double *copy, double *reduce, double *memory)
{
    int node = weir_topo_node(t->topo, 0), mates = weir_topo_node_size(t->topo, node);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    double sum = 0;
    int active = cores > 0 && cores < mates ? (int)cores : mates;
    if (!round_of(t, 1, false))
        return false;
    *copy = t->all[0] / AREA;
    if (!round_of(t, 1, true))
        return false;
    *reduce = t->all[0] / AREA;
    if (!round_of(t, active, false))
        return false;
    for (int l = 0; l < active; l++)
        sum += 2.0 * AREA / t->all[rank_of(t, node, l)]; /* loaded and stored */
    *memory = sum > 2 / *copy ? sum : 2 / *copy;
    return true;
}

/* Half of a round trip of a flag between two cores. */
static double flag_round(struct tune *t, uint32_t base)
{
    int peer = t->rank == 0 ? t->mate : 0;
    _Atomic uint32_t *mine = weir_mem_ptr(t->mem), *other = weir_mem_peer_ptr(t->mem, peer);
    double start = now_ns();
    for (uint32_t i = 1; i <= FLAG_ROUNDS; i++) {
        if (t->rank == 0)
            atomic_store_explicit(other, base + i, memory_order_release);
        for (int spins = 0; atomic_load_explicit(mine, memory_order_acquire) != base + i; spins++)
            if (spins % PATIENCE == PATIENCE - 1)
                sched_yield();
        if (t->rank != 0)
            atomic_store_explicit(other, base + i, memory_order_release);
    }
    return (now_ns() - start) / (2 * FLAG_ROUNDS);
}

bool measure_flag(struct tune *t, double *flag)
{
    bool plays = (t->rank == 0 || t->rank == t->mate) && weir_mem_peer_ptr(t->mem, t->rank ? 0 : t->mate);
    double best = 0;
    for (int b = 0; b < BATCHES; b++) {
        if (!check(t, weir_barrier(t->comm), "weir_barrier"))
            return false;
        double took = plays ? flag_round(t, (uint32_t)b * FLAG_ROUNDS) : 0;
        best = best == 0 || took < best ? took : best;
    }
    if (!share(t, best))
        return false;
    *flag = t->all[0];
    return true;
}

/* A step as plans have them, on two lines of a cache, with a counter on one of its own. */
struct counted {
    _Atomic uint32_t *counter;
    uint32_t value;
    bool sets;
    char more[112];
};
struct line {
    _Atomic uint32_t counter;
    char more[124];
};
enum { STEPS = 512, DISPLACED = 4 << 20 };

/* Walks through the steps: each looks at its counter, or sets it; how many were reached is of no interest. */
static double walk(struct counted *list, volatile uint32_t *reached)
{
    double start = now_ns();
    for (int i = 0; i < STEPS; i++)
        if (list[i].sets)
            atomic_store_explicit(list[i].counter, list[i].value, memory_order_release);
        else
            *reached += atomic_load_explicit(list[i].counter, memory_order_acquire) >= list[i].value;
    return now_ns() - start;
}

bool measure_step(struct tune *t, double *step)
{
    struct counted *list = calloc(STEPS, sizeof *list);
    struct line *lines = calloc(STEPS, sizeof *lines);
    char *area = (char *)weir_mem_ptr(t->mem) + FLAGS;
    volatile uint32_t reached = 0;
    double best = 0, end = now_ns() + t->seconds * 1e9;
    bool ok = list && lines;
    for (uint32_t i = 0; ok && i < STEPS; i++)
        list[i] = (struct counted){.counter = &lines[i * 7 % STEPS].counter, .value = i, .sets = i * 2654435761u >> 31};
    do {
        memmove(area + DISPLACED, area, DISPLACED); /* data has gone through the caches since the plan ran last */
        double took = ok ? walk(list, &reached) : 0;
        best = best == 0 || took < best ? took : best;
    } while (ok && now_ns() < end);
    free(list);
    free(lines);
    if (!share(t, best / STEPS))
        return false;
    *step = t->all[0];
    return true;
}
