/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The levels of the tree, made from the outermost to the innermost: each candidate divides the groups of the one above it
 * by a key, so that the result is a tree whatever the machine looks like (an L3 that spans NUMA domains is cut by them).
 *
 * A rank without a key at a level, because its binding spans several of its objects, is a group of its own there: it
 * belongs to the level above only. Where the machine has no such objects at all, ranks stay together as they are above.
 *
 * A candidate that divides nothing, or that leaves every rank alone, is dropped. Of two levels with the same groups the
 * outer one is kept, but the node rather than its switch or group, because to share memory says more.
 */
#include "topo/tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/error.h"
#include "topo/card.h"

enum { KEY_ALONE = -1, KEY_TOGETHER = -2 };
enum { LEVELS_MAX = WR_SWITCH_DEPTH_MAX + 5 };

struct maker {
    weir_topo *topo;
    const struct wr_switches *switches;
    struct slot {
        uint64_t key;
        int32_t group; /* -1: free */
    } * slots;
    size_t nslots;
    struct wr_level kept[LEVELS_MAX]; /* outermost first */
    int nkept;
};

static int64_t key_of(const struct maker *m, weir_level_kind kind, int height, int rank)
{
    const struct wr_node *node = &m->topo->nodes[m->topo->node_of[rank]];
    const struct wr_place *place = &m->topo->places[rank];
    switch (kind) {
    case WEIR_LEVEL_CACHE:
        return node->flags & WR_NODE_HAS_CACHES ? place->cache : KEY_TOGETHER;
    case WEIR_LEVEL_NUMA:
        return node->flags & WR_NODE_HAS_NUMAS ? place->numa : KEY_TOGETHER;
    case WEIR_LEVEL_PACKAGE:
        return node->flags & WR_NODE_HAS_PACKAGES ? place->package : KEY_TOGETHER;
    case WEIR_LEVEL_NODE:
        return m->topo->node_of[rank];
    case WEIR_LEVEL_SWITCH:
    case WEIR_LEVEL_GROUP: {
        /* nodes that are not connected to a known switch at this height are alone, but their ranks are not */
        int at = wr_switches_at(m->switches, node->leaf, height);
        return at >= 0 ? at : (int64_t)m->switches->names.n + m->topo->node_of[rank];
    }
    case WEIR_LEVEL_WORLD:
        break;
    }
    return KEY_TOGETHER;
}

/* The group of `key` inside group `above`; a new one, numbered *ngroups, when it is the first of them. */
static int32_t find_group(struct maker *m, int32_t above, int64_t key, int *ngroups)
{
    if (key == KEY_ALONE)
        return (*ngroups)++;
    uint64_t wanted = (uint64_t)(uint32_t)above << 32 | (uint32_t)(key == KEY_TOGETHER ? 0 : key);
    size_t at = (size_t)((wanted * 0x9e3779b97f4a7c15u) >> 20) & (m->nslots - 1);
    while (m->slots[at].group >= 0 && m->slots[at].key != wanted)
        at = (at + 1) & (m->nslots - 1);
    if (m->slots[at].group < 0) {
        m->slots[at].key = wanted;
        m->slots[at].group = (*ngroups)++;
    }
    return m->slots[at].group;
}

/* Drops `level`, keeps it, or lets it take the place of the one above. Owns level->group and level->names from here on. */
static void keep_or_drop(struct maker *m, struct wr_level *level)
{
    struct wr_level *above = &m->kept[m->nkept - 1];
    bool same = level->ngroups == above->ngroups;
    if (level->ngroups == m->topo->nranks ||
        (same && !(level->kind == WEIR_LEVEL_NODE && above->kind != WEIR_LEVEL_WORLD))) {
        free(level->group);
        free(level->names);
        return;
    }
    if (same) {
        free(above->group);
        free(above->names);
        *above = *level;
        return;
    }
    m->kept[m->nkept++] = *level;
}

static weir_status try_level(struct maker *m, weir_level_kind kind, int height, weir_error *err)
{
    const weir_topo *topo = m->topo;
    const int32_t *above = m->kept[m->nkept - 1].group;
    struct wr_level level = {.kind = kind};
    level.group = malloc((size_t)topo->nranks * sizeof *level.group);
    if (!level.group)
        return wr_error_memory(err, (size_t)topo->nranks * sizeof *level.group, "a level of the topology");
    for (size_t i = 0; i < m->nslots; i++)
        m->slots[i].group = -1;
    for (int rank = 0; rank < topo->nranks; rank++)
        level.group[rank] = find_group(m, above ? above[rank] : 0, key_of(m, kind, height, rank), &level.ngroups);
    keep_or_drop(m, &level);
    return WEIR_OK;
}

static weir_status measure(const weir_topo *topo, struct wr_level *level, weir_error *err)
{
    if (!level->group) {
        level->min_ranks = level->max_ranks = topo->nranks;
        return WEIR_OK;
    }
    int *count = calloc((size_t)level->ngroups, sizeof *count);
    if (!count)
        return wr_error_memory(err, (size_t)level->ngroups * sizeof *count, "a level of the topology");
    for (int rank = 0; rank < topo->nranks; rank++)
        count[level->group[rank]]++;
    level->min_ranks = level->max_ranks = count[0];
    for (int group = 1; group < level->ngroups; group++) {
        level->min_ranks = WR_MIN(level->min_ranks, count[group]);
        level->max_ranks = WR_MAX(level->max_ranks, count[group]);
    }
    free(count);
    return WEIR_OK;
}

/* The names of the switches that the groups of a level are. */
static weir_status name_groups(const struct maker *m, struct wr_level *level, int height, weir_error *err)
{
    weir_topo *topo = m->topo;
    level->names = calloc((size_t)level->ngroups, sizeof *level->names);
    if (!level->names)
        return wr_error_memory(err, (size_t)level->ngroups * sizeof *level->names, "the names of switches");
    for (int node = 0; node < topo->nnodes; node++) {
        int at = wr_switches_at(m->switches, topo->nodes[node].leaf, height);
        int group = level->group[topo->node_ranks[topo->nodes[node].first]];
        if (at >= 0 && !level->names[group])
            level->names[group] =
                wr_topo_string(topo, wr_intern_name(&m->switches->names, at), m->switches->names.items[at].len);
    }
    return topo->strings.failed ? wr_error_memory(err, 0, "the names of switches") : WEIR_OK;
}

/* Makes the candidates one by one; m->kept holds what remains of them. */
static weir_status try_all(struct maker *m, weir_error *err)
{
    static const weir_level_kind inside[] = {WEIR_LEVEL_NODE, WEIR_LEVEL_PACKAGE, WEIR_LEVEL_NUMA, WEIR_LEVEL_CACHE};
    weir_status status = WEIR_OK;
    m->kept[m->nkept++] = (struct wr_level){.kind = WEIR_LEVEL_WORLD, .ngroups = 1};
    for (int height = m->switches->nheights - 1; height >= 0 && !status; height--) {
        int before = m->nkept;
        status = try_level(m, wr_switches_kind(m->switches, height), height, err);
        if (!status && m->nkept > before)
            status = name_groups(m, &m->kept[before], height, err);
    }
    for (size_t i = 0; i < WR_ARRAY_SIZE(inside) && !status; i++)
        status = try_level(m, inside[i], 0, err);
    for (int i = 0; i < m->nkept && !status; i++)
        status = measure(m->topo, &m->kept[i], err);
    return status;
}

/* Hands what was kept over to the topology, innermost first; or frees it, when the making has failed. */
static weir_status finish(struct maker *m, weir_status status, weir_error *err)
{
    weir_topo *topo = m->topo;
    if (!status && !(topo->levels = calloc((size_t)m->nkept, sizeof *topo->levels)))
        status = wr_error_memory(err, (size_t)m->nkept * sizeof *topo->levels, "the levels of the topology");
    if (!status)
        topo->nlevels = m->nkept;
    for (int i = 0; i < m->nkept; i++) {
        if (!status) {
            topo->levels[m->nkept - 1 - i] = m->kept[i];
        } else {
            free(m->kept[i].group);
            free(m->kept[i].names);
        }
    }
    return status;
}

weir_status wr_topo_make_levels(weir_topo *topo, const struct wr_switches *switches, weir_error *err)
{
    struct maker m = {.topo = topo, .switches = switches, .nslots = 16};
    while (m.nslots < 2 * (size_t)topo->nranks)
        m.nslots *= 2;
    m.slots = malloc(m.nslots * sizeof *m.slots);
    if (!m.slots)
        return wr_error_memory(err, m.nslots * sizeof *m.slots, "the levels of the topology");
    weir_status status = finish(&m, try_all(&m, err), err);
    free(m.slots);
    return status;
}

/* The groups of a level that hold some of the ranks, numbered by the lowest of these. */
static weir_status restrict_level(struct maker *m, const struct wr_level *whole, const int *ranks, weir_error *err)
{
    size_t n = (size_t)m->topo->nranks, ngroups = (size_t)whole->ngroups;
    struct wr_level level = {.kind = whole->kind};
    int32_t *number = malloc(ngroups * sizeof *number);
    level.group = malloc(n * sizeof *level.group);
    level.names = whole->names ? calloc(ngroups, sizeof *level.names) : NULL;
    if (!number || !level.group || (whole->names && !level.names)) {
        free(number);
        free(level.group);
        free(level.names);
        return wr_error_memory(err, (n + 2 * ngroups) * sizeof *number, "a level of the topology");
    }
    for (size_t g = 0; g < ngroups; g++)
        number[g] = -1;
    for (size_t r = 0; r < n; r++) {
        int32_t group = whole->group[ranks[r]];
        if (number[group] < 0) {
            if (level.names)
                level.names[level.ngroups] = whole->names[group];
            number[group] = level.ngroups++;
        }
        level.group[r] = number[group];
    }
    free(number);
    keep_or_drop(m, &level);
    return WEIR_OK;
}

weir_status wr_topo_restrict_levels(weir_topo *topo, const weir_topo *whole, const int *ranks, weir_error *err)
{
    struct maker m = {.topo = topo};
    weir_status status = WEIR_OK;
    m.kept[m.nkept++] = (struct wr_level){.kind = WEIR_LEVEL_WORLD, .ngroups = 1};
    for (int i = whole->nlevels - 1; i >= 0 && !status; i--)
        if (whole->levels[i].group)
            status = restrict_level(&m, &whole->levels[i], ranks, err);
    for (int i = 0; i < m.nkept && !status; i++)
        status = measure(topo, &m.kept[i], err);
    return finish(&m, status, err);
}
