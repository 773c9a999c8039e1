/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/placement.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

enum { CPUS_MAX = 4096 };

/* Adds the threads of "0-3,8" to a bitmap; a list that was cut counts as far as it goes. */
static void add_cpus(uint64_t *map, const char *list)
{
    while (*list >= '0' && *list <= '9') {
        char *end;
        long first = strtol(list, &end, 10), last = first;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        for (long cpu = first; cpu <= last && cpu < CPUS_MAX; cpu++)
            map[cpu / 64] |= 1ull << (cpu % 64);
        list = *end == ',' ? end + 1 : end;
    }
}

static int count_cpus(const uint64_t *map)
{
    int n = 0;
    for (int i = 0; i < CPUS_MAX / 64; i++)
        n += __builtin_popcountll(map[i]);
    return n;
}

struct seat {
    weir_rank_info info;
    int rank;
};

static int compare(const void *a, const void *b)
{
    const struct seat *x = a, *y = b;
    int order = strcmp(x->info.host, y->info.host);
    if (order)
        return order;
    if (x->info.core != y->info.core)
        return x->info.core < y->info.core ? -1 : 1;
    return x->rank < y->rank ? -1 : 1;
}

/* Looks at the ranks of one host, ordered by core. */
static void judge_host(const struct seat *seats, size_t n, struct placement *p)
{
    uint64_t map[CPUS_MAX / 64] = {0};
    const weir_rank_info *first = &seats[0].info;
    bool same = n > 1 && first->npus > 1 && first->core < 0;
    for (size_t i = 0; i < n; i++) {
        const weir_rank_info *info = &seats[i].info;
        add_cpus(map, info->cpuset);
        same = same && !strcmp(info->cpuset, first->cpuset);
        if (i && info->core >= 0 && info->core == seats[i - 1].info.core && p->same_core[1] < 0) {
            p->same_core[0] = seats[i - 1].rank;
            p->same_core[1] = seats[i].rank;
            wr_str_copy(p->same_core_host, sizeof p->same_core_host, info->host);
        }
    }
    for (size_t i = 0; i < n && !same && p->spread < 0; i++)
        if (seats[i].info.numa < 0 && seats[i].info.npus > 0)
            p->spread = seats[i].rank;
    int cpus = count_cpus(map), ranks = (int)n;
    if (cpus > 0 && (!p->crowded_cpus || (int64_t)ranks * p->crowded_cpus > (int64_t)p->crowded_ranks * cpus)) {
        p->crowded_ranks = ranks;
        p->crowded_cpus = cpus;
        wr_str_copy(p->crowded_host, sizeof p->crowded_host, first->host);
    }
    if (same && !p->unbound) {
        p->unbound = true;
        wr_str_copy(p->unbound_host, sizeof p->unbound_host, first->host);
    }
}

bool placement_of(const weir_topo *topo, struct placement *placement)
{
    memset(placement, 0, sizeof *placement);
    placement->same_core[0] = placement->same_core[1] = placement->spread = -1;
    int n = weir_topo_nranks(topo);
    struct seat *seats = calloc((size_t)n, sizeof *seats);
    if (!seats)
        return false;
    for (int rank = 0; rank < n; rank++) {
        seats[rank].rank = rank;
        seats[rank].info.size = sizeof seats[rank].info;
        weir_topo_rank_info(topo, rank, &seats[rank].info);
    }
    qsort(seats, (size_t)n, sizeof *seats, compare);
    for (int begin = 0, end; begin < n; begin = end) {
        for (end = begin + 1; end < n && !strcmp(seats[end].info.host, seats[begin].info.host); end++)
            ;
        judge_host(&seats[begin], (size_t)(end - begin), placement);
    }
    free(seats);
    return true;
}
