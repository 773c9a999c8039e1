/* SPDX-License-Identifier: BSD-3-Clause */
/* The topology as one JSON object, written piece by piece: a description of a hundred thousand ranks is never in memory. */
#include "topo/tree.h"

#include <stdio.h>

#ifdef HAVE_JANSSON
#include <jansson.h>

struct json_writer {
    const weir_topo *topo;
    FILE *stream;
    bool no_memory;
};

/* Writes and frees a value, behind a comma unless it is the first of its list. */
static void put(struct json_writer *w, bool first, json_t *value)
{
    fputs(first ? "\n    " : ",\n    ", w->stream);
    if (!value || json_dumpf(value, w->stream, JSON_COMPACT | JSON_ENCODE_ANY))
        w->no_memory = w->no_memory || !value;
    json_decref(value);
}

static json_t *level_json(const weir_topo *topo, int index)
{
    const struct wr_level *level = &topo->levels[index];
    json_t *object = json_pack("{s:s, s:i, s:i, s:i}", "kind", weir_level_kind_name(level->kind), "groups",
                               level->ngroups, "min_ranks", level->min_ranks, "max_ranks", level->max_ranks);
    if (object && level->names) {
        json_t *names = json_array();
        for (int group = 0; group < level->ngroups; group++)
            json_array_append_new(names, json_string(weir_topo_group_name(topo, index, group)));
        json_object_set_new(object, "names", names);
    }
    return object;
}

static json_t *device_json(const weir_device *device)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:f}", "name", device->name, "interface", device->interface, "bus",
                     device->bus, "vendor", device->vendor, "numa", device->numa, "gbit_s", device->gbit_s);
}

static json_t *node_json(const weir_topo *topo, int node)
{
    weir_device device = {.size = sizeof device};
    json_t *nics = json_array(), *gpus = json_array(), *ranks = json_array();
    for (int i = 0; weir_topo_nic(topo, node, i, &device) == WEIR_OK; i++)
        json_array_append_new(nics, device_json(&device));
    for (int i = 0; weir_topo_gpu(topo, node, i, &device) == WEIR_OK; i++)
        json_array_append_new(gpus, device_json(&device));
    for (int i = 0; i < weir_topo_node_size(topo, node); i++)
        json_array_append_new(ranks, json_integer(weir_topo_node_rank(topo, node, i)));
    return json_pack("{s:i, s:s, s:I, s:o, s:o, s:o}", "node", node, "host",
                     topo->strings.data + topo->nodes[node].host, "memory", (json_int_t)topo->nodes[node].memory,
                     "nics", nics, "gpus", gpus, "ranks", ranks);
}

static json_t *rank_json(const weir_topo *topo, int rank)
{
    weir_rank_info info = {.size = sizeof info};
    json_t *groups = json_array();
    if (weir_topo_rank_info(topo, rank, &info)) {
        json_decref(groups);
        return NULL;
    }
    for (int level = 0; level < topo->nlevels; level++)
        json_array_append_new(groups, json_integer(weir_topo_group(topo, level, rank)));
    return json_pack("{s:i, s:i, s:i, s:I, s:i, s:i, s:i, s:i, s:i, s:s, s:i, s:o}", "rank", rank, "node", info.node,
                     "local_rank", info.local_rank, "pid", (json_int_t)info.pid, "package", info.package, "numa",
                     info.numa, "cache", info.cache, "core", info.core, "npus", info.npus, "cpuset", info.cpuset, "nic",
                     weir_topo_nic_choice(topo, rank), "groups", groups);
}

static void put_list(struct json_writer *w, const char *name, int n, json_t *(*item)(const weir_topo *topo, int index))
{
    fprintf(w->stream, ",\n  \"%s\": [", name);
    for (int i = 0; i < n && !ferror(w->stream) && !w->no_memory; i++)
        put(w, i == 0, item(w->topo, i));
    fputs("\n  ]", w->stream);
}

weir_status weir_topo_write_json(const weir_topo *topo, FILE *stream)
{
    struct json_writer w = {.topo = topo, .stream = stream};
    if (!topo || !stream)
        return WEIR_ERR_INVALID;
    fprintf(stream, "{\n  \"nranks\": %d,\n  \"nnodes\": %d", topo->nranks, topo->nnodes);
    put_list(&w, "levels", topo->nlevels, level_json);
    put_list(&w, "nodes", topo->nnodes, node_json);
    put_list(&w, "ranks", topo->nranks, rank_json);
    fputs("\n}\n", stream);
    if (w.no_memory)
        return WEIR_ERR_NO_MEMORY;
    return ferror(stream) || fflush(stream) ? WEIR_ERR_IO : WEIR_OK;
}

#else

weir_status weir_topo_write_json(const weir_topo *topo, FILE *stream)
{
    return topo && stream ? WEIR_ERR_UNSUPPORTED : WEIR_ERR_INVALID;
}

#endif
