/* SPDX-License-Identifier: BSD-3-Clause */
/* From --nodes, --ppn, --levels and --placement to a machine with ranks on it. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "tools/weir-plan.h"

enum { RANKS_MAX = 1 << 21 };

static weir_status no_memory(weir_error *err)
{
    return wr_error_memory(err, RANKS_MAX, "the machine");
}

/* Ranks of each node from "4" or "4,2,8": the list is repeated. */
static weir_status parse_ppn(const struct plan_options *o, int *size, int *nranks, weir_error *err)
{
    int n = (int)o->nodes, given = 0;
    int64_t sum = 0, value;
    char *copy = strdup(o->ppn), *save = NULL;
    if (!copy)
        return no_memory(err);
    for (char *word = strtok_r(copy, ",", &save); word && given < n; word = strtok_r(NULL, ",", &save)) {
        if (!wr_parse_int(word, &value) || value < 1 || value > RANKS_MAX) {
            wr_error_set(err, WEIR_ERR_INVALID, "write --ppn 8 or --ppn 8,4,2", "--ppn has '%s', which is no number of ranks", word);
            free(copy);
            return WEIR_ERR_INVALID;
        }
        size[given++] = (int)value;
    }
    free(copy);
    if (!given)
        return wr_error_set(err, WEIR_ERR_INVALID, "write --ppn 8 or --ppn 8,4,2", "--ppn has no number");
    for (int i = 0; i < n; i++) {
        size[i] = size[i % given];
        sum += size[i];
    }
    if (sum > RANKS_MAX)
        return wr_error_set(err, WEIR_ERR_INVALID, "ask for fewer", "%lld ranks are more than %d", (long long)sum, RANKS_MAX);
    *nranks = (int)sum;
    return WEIR_OK;
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* The node of every rank, by the numbers that the levels have; size: ranks of each. */
static weir_status place(const char *how, int nodes, int nranks, const int *size, int *node_of, weir_error *err)
{
    int64_t seed = 1;
    bool cyclic = !strcmp(how, "cyclic"), random = !strncmp(how, "random", 6) && (!how[6] || how[6] == ':');
    if (random && how[6] && !wr_parse_int(how + 7, &seed))
        return wr_error_set(err, WEIR_ERR_INVALID, "write random:7", "--placement %s has no seed", how);
    if (!cyclic && !random && strcmp(how, "block") != 0)
        return wr_error_set(err, WEIR_ERR_INVALID, "it is block, cyclic or random:SEED", "there is no --placement %s", how);
    int r = 0;
    for (int round = 0; cyclic && r < nranks; round++)
        for (int k = 0; k < nodes; k++)
            if (size[k] > round)
                node_of[r++] = k;
    for (int k = 0; !cyclic && k < nodes; k++)
        for (int i = 0; i < size[k]; i++)
            node_of[r++] = k;
    uint64_t state = (uint64_t)seed;
    for (int i = nranks - 1; random && i > 0; i--) {
        int j = (int)(next_random(&state) % (uint64_t)(i + 1)), node = node_of[i];
        node_of[i] = node_of[j];
        node_of[j] = node;
    }
    return WEIR_OK;
}

/* Numbers nodes by their lowest rank: was[new] is the old number. */
static bool renumber(int nodes, int nranks, int *node_of, int *was)
{
    int *now = malloc((size_t)nodes * sizeof *now), known = 0;
    if (!now)
        return false;
    for (int i = 0; i < nodes; i++)
        now[i] = -1;
    for (int r = 0; r < nranks; r++) {
        if (now[node_of[r]] < 0) {
            was[known] = node_of[r];
            now[node_of[r]] = known++;
        }
        node_of[r] = now[node_of[r]];
    }
    free(now);
    return true;
}

static bool fill_nodes(struct plan_machine *m, int nodes, int nranks)
{
    m->local_rank = calloc((size_t)nranks, sizeof(int));
    m->ranks = calloc((size_t)nranks, sizeof(int));
    m->node_ranks = calloc((size_t)nodes, sizeof(int *));
    if (!m->local_rank || !m->ranks || !m->node_ranks)
        return false;
    memset(m->node_size, 0, (size_t)nodes * sizeof(int));
    for (int r = 0; r < nranks; r++)
        m->local_rank[r] = m->node_size[m->node_of[r]]++;
    for (int k = 0, at = 0; k < nodes; at += m->node_size[k++])
        m->node_ranks[k] = m->ranks + at;
    for (int r = 0; r < nranks; r++)
        m->node_ranks[m->node_of[r]][m->local_rank[r]] = r;
    return true;
}

/* Groups of one level, numbered by their first node. */
static int *groups_of(const weir_topo *topo, int level, int nodes, const int *was)
{
    int *group = malloc((size_t)nodes * sizeof *group), *now = malloc((size_t)nodes * sizeof *now), known = 0;
    for (int i = 0; now && i < nodes; i++)
        now[i] = -1;
    for (int i = 0; now && group && i < nodes; i++) {
        int g = weir_topo_group(topo, level, was[i]);
        if (now[g] < 0)
            now[g] = known++;
        group[i] = now[g];
    }
    if (!now) {
        free(group);
        group = NULL;
    }
    free(now);
    return group;
}

/* "group:2 switch:4": each word divides the nodes further. */
static weir_status make_levels(struct plan_machine *m, const struct plan_options *o, const int *was, weir_error *err)
{
    long long groups = 1, factor;
    char spec[256];
    weir_topo *topo;
    m->group_of = calloc(WR_COST_LEVELS, sizeof *m->group_of);
    if (!m->group_of)
        return no_memory(err);
    for (const char *colon = o->levels; (colon = strchr(colon, ':')); colon++) {
        factor = strtoll(colon + 1, NULL, 10);
        groups *= factor > 0 && factor <= o->nodes ? factor : o->nodes + 1;
        if (groups > o->nodes)
            break;
    }
    if (strstr(o->levels, "node") || strstr(o->levels, "core") || o->nodes % groups)
        return wr_error_set(err, WEIR_ERR_INVALID, "write for example --levels 'group:2 switch:4'; their product divides the nodes",
                            "--levels '%s' does not divide %lld nodes", o->levels, (long long)o->nodes);
    snprintf(spec, sizeof spec, "%s node:%lld core:1", o->levels, (long long)(o->nodes / groups));
    weir_status status = weir_topo_create(spec, &topo, err);
    if (status != WEIR_OK)
        return status;
    for (int i = 0; i < weir_topo_nlevels(topo) && m->topo.nlevels < WR_COST_LEVELS && status == WEIR_OK; i++) {
        weir_level level = {.size = sizeof level};
        weir_topo_level(topo, i, &level);
        if (level.kind != WEIR_LEVEL_SWITCH && level.kind != WEIR_LEVEL_GROUP)
            continue;
        m->level_name[m->topo.nlevels] = weir_level_kind_name(level.kind);
        m->group_of[m->topo.nlevels] = groups_of(topo, i, (int)o->nodes, was);
        if (!m->group_of[m->topo.nlevels++])
            status = no_memory(err);
    }
    weir_topo_free(topo);
    return status;
}

weir_status plan_machine_make(struct plan_machine *m, const struct plan_options *o, weir_error *err)
{
    int nodes = (int)o->nodes, nranks = 0, *was = calloc((size_t)nodes, sizeof *was);
    memset(m, 0, sizeof *m);
    m->node_size = calloc((size_t)nodes, sizeof *m->node_size);
    weir_status status = was && m->node_size ? parse_ppn(o, m->node_size, &nranks, err) : no_memory(err);
    if (status == WEIR_OK) {
        m->node_of = calloc((size_t)nranks, sizeof *m->node_of);
        status = m->node_of ? place(o->placement, nodes, nranks, m->node_size, m->node_of, err) : no_memory(err);
    }
    if (status == WEIR_OK && (!renumber(nodes, nranks, m->node_of, was) || !fill_nodes(m, nodes, nranks)))
        status = no_memory(err);
    if (status == WEIR_OK && o->levels)
        status = make_levels(m, o, was, err);
    free(was);
    if (status != WEIR_OK) {
        plan_machine_free(m);
        return status;
    }
    int nlevels = m->topo.nlevels;
    m->topo = (struct wr_plan_topo){.nranks = nranks, .nnodes = nodes, .node_of = m->node_of, .node_size = m->node_size,
                                    .node_ranks = (const int *const *)m->node_ranks, .local_rank = m->local_rank,
                                    .nlevels = nlevels, .group_of = (const int *const *)m->group_of};
    return WEIR_OK;
}

void plan_machine_free(struct plan_machine *m)
{
    for (int i = 0; m->group_of && i < WR_COST_LEVELS; i++)
        free(m->group_of[i]);
    free(m->group_of);
    free(m->node_of);
    free(m->local_rank);
    free(m->node_size);
    free(m->ranks);
    free(m->node_ranks);
    memset(m, 0, sizeof *m);
}
