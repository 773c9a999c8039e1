/* SPDX-License-Identifier: BSD-3-Clause */
/* The topology as a tree of text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "topo/tree.h"

enum { INDENT = 2 };

struct printer {
    const weir_topo *topo;
    FILE *stream;
    int32_t *order;     /* ranks, sorted by the groups of all levels */
    int node_level;     /* a node's line stands inside the group of this level */
    bool node_is_level; /* that level is the node itself */
};

/* Sorts ranks so that those of a group stand together at every level: by each level in turn, the outermost last. */
static bool sort_ranks(struct printer *p)
{
    const weir_topo *topo = p->topo;
    size_t n = (size_t)topo->nranks;
    int32_t *other = malloc(n * sizeof *other), *start = malloc((n + 1) * sizeof *start);
    p->order = malloc(n * sizeof *p->order);
    bool ok = other && start && p->order;
    /* start from the order of nodes, so that each node is in one piece where no level says so */
    if (ok)
        memcpy(p->order, topo->node_ranks, n * sizeof *p->order);
    for (int level = 0; ok && level < topo->nlevels - 1; level++) {
        const int32_t *group = topo->levels[level].group;
        memset(start, 0, (n + 1) * sizeof *start);
        for (size_t i = 0; i < n; i++)
            start[group[i] + 1]++;
        for (size_t i = 1; i < n; i++)
            start[i] += start[i - 1];
        for (size_t i = 0; i < n; i++)
            other[start[group[p->order[i]]]++] = p->order[i];
        int32_t *swap = p->order;
        p->order = other;
        other = swap;
    }
    free(other);
    free(start);
    return ok;
}

static void print_levels(const struct printer *p)
{
    const weir_topo *topo = p->topo;
    fprintf(p->stream, "%d rank%s on %d node%s; levels from the innermost:\n", topo->nranks,
            topo->nranks == 1 ? "" : "s", topo->nnodes, topo->nnodes == 1 ? "" : "s");
    for (int i = 0; i < topo->nlevels; i++) {
        const struct wr_level *level = &topo->levels[i];
        fprintf(p->stream, "  %d %-8s %6d group%s of ", i, weir_level_kind_name(level->kind), level->ngroups,
                level->ngroups == 1 ? "" : "s");
        if (level->min_ranks == level->max_ranks)
            fprintf(p->stream, "%d rank%s\n", level->max_ranks, level->max_ranks == 1 ? "" : "s");
        else
            fprintf(p->stream, "%d to %d ranks\n", level->min_ranks, level->max_ranks);
    }
    fputc('\n', p->stream);
}

/* The lowest and the highest rank of the first `n` in order, and how many: "ranks 0-3", "4 ranks from 0 to 12". */
static void print_ranks(const struct printer *p, int first, int n)
{
    int low = p->order[first], high = low;
    for (int i = first; i < first + n; i++) {
        low = WR_MIN(low, p->order[i]);
        high = WR_MAX(high, p->order[i]);
    }
    if (n == 1)
        fprintf(p->stream, "rank %d", low);
    else if (high - low == n - 1)
        fprintf(p->stream, "ranks %d-%d", low, high);
    else
        fprintf(p->stream, "%d ranks from %d to %d", n, low, high);
}

static void print_device(const struct printer *p, int depth, const char *what, const weir_device *device)
{
    fprintf(p->stream, "%*s%s %s", INDENT * depth, "", what, device->name);
    if (device->interface[0] && strcmp(device->interface, device->name))
        fprintf(p->stream, " (%s)", device->interface);
    if (device->bus[0])
        fprintf(p->stream, ", %s", device->bus);
    if (device->vendor[0])
        fprintf(p->stream, ", %s", device->vendor);
    if (device->gbit_s > 0)
        fprintf(p->stream, ", %g Gbit/s", device->gbit_s);
    if (device->numa >= 0)
        fprintf(p->stream, ", near numa %d", device->numa);
    fputc('\n', p->stream);
}

static void print_node(const struct printer *p, int depth, int node, int first, int n)
{
    const weir_topo *topo = p->topo;
    weir_device device = {.size = sizeof device};
    char memory[32];
    fprintf(p->stream, "%*snode %d: host %s", INDENT * depth, "", node, topo->strings.data + topo->nodes[node].host);
    if (topo->nodes[node].memory)
        fprintf(p->stream, ", %s", wr_format_bytes(topo->nodes[node].memory, memory, sizeof memory));
    fputs(", ", p->stream);
    print_ranks(p, first, n);
    fputc('\n', p->stream);
    for (int i = 0; weir_topo_nic(topo, node, i, &device) == WEIR_OK; i++)
        print_device(p, depth + 1, "nic", &device);
    for (int i = 0; weir_topo_gpu(topo, node, i, &device) == WEIR_OK; i++)
        print_device(p, depth + 1, "gpu", &device);
}

static void print_rank(const struct printer *p, int depth, int rank)
{
    const weir_topo *topo = p->topo;
    const struct wr_place *place = &topo->places[rank];
    weir_device nic = {.size = sizeof nic};
    char cpus[128];
    fprintf(p->stream, "%*srank %d:", INDENT * depth, "", rank);
    if (place->core >= 0)
        fprintf(p->stream, " core %d,", place->core);
    fprintf(p->stream, " cpus %s", wr_topo_cpus_text(topo, rank, cpus, sizeof cpus));
    int choice = weir_topo_nic_choice(topo, rank);
    if (choice >= 0 && weir_topo_nic(topo, topo->node_of[rank], choice, &nic) == WEIR_OK)
        fprintf(p->stream, ", nic %s", nic.name);
    fprintf(p->stream, "%s\n", rank == topo->rank ? "  (this rank)" : "");
}

static void print_group_name(const struct printer *p, int level, int rank)
{
    const struct wr_place *place = &p->topo->places[rank];
    weir_level_kind kind = p->topo->levels[level].kind;
    int group = weir_topo_group(p->topo, level, rank);
    int index = kind == WEIR_LEVEL_PACKAGE ? place->package
                : kind == WEIR_LEVEL_NUMA  ? place->numa
                : kind == WEIR_LEVEL_CACHE ? place->cache
                                           : group;
    const char *name = weir_topo_group_name(p->topo, level, group);
    fputs(weir_level_kind_name(kind), p->stream);
    if (*name)
        fprintf(p->stream, " %s", name);
    else if (kind != WEIR_LEVEL_WORLD && index >= 0)
        fprintf(p->stream, " %d", index);
    fputs(": ", p->stream);
}

static bool same_group(const struct printer *p, int level, int a, int b)
{
    if (level < 0)
        return a == b;
    const int32_t *group = p->topo->levels[level].group;
    return !group || group[a] == group[b];
}

static void print_inside(const struct printer *p, int level, int depth, int first, int n);

/* The ranks order[first..first+n) that are one group of `level`; -1 stands for a single rank. */
static void print_group(const struct printer *p, int level, int depth, int first, int n)
{
    int rank = p->order[first];
    if (level < 0) {
        print_rank(p, depth, rank);
        return;
    }
    if (n == 1 && level < p->node_level) { /* a rank that is alone in its package needs no line for that */
        print_inside(p, level, depth, first, n);
        return;
    }
    if (level == p->node_level && p->node_is_level) {
        print_node(p, depth, p->topo->node_of[rank], first, n);
    } else {
        fprintf(p->stream, "%*s", INDENT * depth, "");
        print_group_name(p, level, rank);
        print_ranks(p, first, n);
        fputc('\n', p->stream);
    }
    print_inside(p, level, depth + 1, first, n);
}

/* What is inside a group of `level`: the nodes when they have no level of their own and stand here, then its groups. */
static void print_inside(const struct printer *p, int level, int depth, int first, int n)
{
    bool nodes_here = level == p->node_level && !p->node_is_level;
    for (int at = first, size; at < first + n; at += size) {
        int rank = p->order[at];
        size = 1;
        if (nodes_here) {
            while (at + size < first + n && p->topo->node_of[p->order[at + size]] == p->topo->node_of[rank])
                size++;
            print_node(p, depth, p->topo->node_of[rank], at, size);
            for (int inner = at, count; inner < at + size; inner += count) {
                count = 1;
                while (inner + count < at + size && same_group(p, level - 1, p->order[inner], p->order[inner + count]))
                    count++;
                print_group(p, level - 1, depth + 1, inner, count);
            }
            continue;
        }
        while (at + size < first + n && same_group(p, level - 1, rank, p->order[at + size]))
            size++;
        print_group(p, level - 1, depth, at, size);
    }
}

weir_status weir_topo_write_tree(const weir_topo *topo, FILE *stream)
{
    struct printer p = {.topo = topo, .stream = stream};
    if (!topo || !stream)
        return WEIR_ERR_INVALID;
    if (!sort_ranks(&p)) {
        free(p.order);
        return WEIR_ERR_NO_MEMORY;
    }
    /* nodes belong into the innermost level that is not inside a node */
    while (topo->levels[p.node_level].kind < WEIR_LEVEL_NODE)
        p.node_level++;
    p.node_is_level = topo->levels[p.node_level].kind == WEIR_LEVEL_NODE;
    print_levels(&p);
    print_group(&p, topo->nlevels - 1, 0, 0, topo->nranks);
    free(p.order);
    return ferror(stream) || fflush(stream) ? WEIR_ERR_IO : WEIR_OK;
}
