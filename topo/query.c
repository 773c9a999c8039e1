/* SPDX-License-Identifier: BSD-3-Clause */
/* Asking a topology. */
#include "topo/tree.h"

#include <string.h>

#include "base/compiler.h"

static bool has_rank(const weir_topo *topo, int rank)
{
    return topo && rank >= 0 && rank < topo->nranks;
}

static const struct wr_node *find_node(const weir_topo *topo, int node)
{
    return topo && node >= 0 && node < topo->nnodes ? &topo->nodes[node] : NULL;
}

static const struct wr_level *find_level(const weir_topo *topo, int index)
{
    return topo && index >= 0 && index < topo->nlevels ? &topo->levels[index] : NULL;
}

/* Hands out as much of a struct as the caller knows; its size stays the caller's. */
static weir_status hand_out(void *dst, const void *src, size_t size)
{
    size_t wanted;
    memcpy(&wanted, dst, sizeof wanted);
    if (wanted < sizeof wanted)
        return WEIR_ERR_INVALID;
    memcpy((char *)dst + sizeof wanted, (const char *)src + sizeof wanted, WR_MIN(wanted, size) - sizeof wanted);
    return WEIR_OK;
}

int weir_topo_nranks(const weir_topo *topo)
{
    return topo ? topo->nranks : -1;
}

int weir_topo_nnodes(const weir_topo *topo)
{
    return topo ? topo->nnodes : -1;
}

int weir_topo_node(const weir_topo *topo, int rank)
{
    return has_rank(topo, rank) ? topo->node_of[rank] : -1;
}

int weir_topo_local_rank(const weir_topo *topo, int rank)
{
    return has_rank(topo, rank) ? topo->local_rank[rank] : -1;
}

int weir_topo_node_size(const weir_topo *topo, int node)
{
    const struct wr_node *found = find_node(topo, node);
    return found ? found->nranks : -1;
}

int weir_topo_node_rank(const weir_topo *topo, int node, int local_rank)
{
    const struct wr_node *found = find_node(topo, node);
    return found && local_rank >= 0 && local_rank < found->nranks ? topo->node_ranks[found->first + local_rank] : -1;
}

int weir_topo_nlevels(const weir_topo *topo)
{
    return topo ? topo->nlevels : -1;
}

weir_status weir_topo_level(const weir_topo *topo, int index, weir_level *level)
{
    const struct wr_level *found = find_level(topo, index);
    if (!found || !level)
        return WEIR_ERR_INVALID;
    weir_level full = {sizeof full, found->kind, found->ngroups, found->min_ranks, found->max_ranks};
    return hand_out(level, &full, sizeof full);
}

const char *weir_level_kind_name(weir_level_kind kind)
{
    switch (kind) {
    case WEIR_LEVEL_CACHE:
        return "cache";
    case WEIR_LEVEL_NUMA:
        return "numa";
    case WEIR_LEVEL_PACKAGE:
        return "package";
    case WEIR_LEVEL_NODE:
        return "node";
    case WEIR_LEVEL_SWITCH:
        return "switch";
    case WEIR_LEVEL_GROUP:
        return "group";
    case WEIR_LEVEL_WORLD:
        return "world";
    }
    return "unknown";
}

int weir_topo_group(const weir_topo *topo, int index, int rank)
{
    const struct wr_level *level = find_level(topo, index);
    if (!level || !has_rank(topo, rank))
        return -1;
    return level->group ? level->group[rank] : 0;
}

const char *weir_topo_group_name(const weir_topo *topo, int index, int group)
{
    const struct wr_level *level = find_level(topo, index);
    if (!level || group < 0 || group >= level->ngroups || !level->names)
        return "";
    return topo->strings.data + level->names[group];
}

int weir_topo_common_level(const weir_topo *topo, int rank_a, int rank_b)
{
    if (!has_rank(topo, rank_a) || !has_rank(topo, rank_b))
        return -1;
    int index = 0;
    while (index < topo->nlevels - 1 && topo->levels[index].group[rank_a] != topo->levels[index].group[rank_b])
        index++;
    return index;
}

weir_status weir_topo_rank_info(const weir_topo *topo, int rank, weir_rank_info *info)
{
    if (!has_rank(topo, rank) || !info)
        return WEIR_ERR_INVALID;
    const struct wr_place *place = &topo->places[rank];
    weir_rank_info full = {
        .size = sizeof full,
        .node = topo->node_of[rank],
        .local_rank = topo->local_rank[rank],
        .pid = place->pid,
        .package = place->package,
        .numa = place->numa,
        .cache = place->cache,
        .core = place->core,
        .npus = (int)place->npus,
    };
    wr_str_copy(full.host, sizeof full.host, topo->strings.data + topo->nodes[topo->node_of[rank]].host);
    wr_topo_cpus_text(topo, rank, full.cpuset, sizeof full.cpuset);
    return hand_out(info, &full, sizeof full);
}

uint64_t weir_topo_node_memory(const weir_topo *topo, int node)
{
    const struct wr_node *found = find_node(topo, node);
    return found ? found->memory : 0;
}

const struct wr_host_id *wr_topo_host_id(const weir_topo *topo, int node)
{
    const struct wr_node *found = find_node(topo, node);
    return found ? &found->host_id : NULL;
}

uint64_t wr_topo_pid_namespace(const weir_topo *topo, int rank)
{
    if (!has_rank(topo, rank) || !topo->npid_namespaces)
        return 0;
    return topo->pid_namespaces[topo->nodes[topo->node_of[rank]].pid_namespaces + topo->places[rank].pid_namespace];
}
