/* SPDX-License-Identifier: BSD-3-Clause */
/* From node cards to the topology. Cards come from the network: nothing in them is believed unchecked. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/error.h"
#include "topo/card.h"
#include "topo/cpus.h"
#include "topo/topology_file.h"
#include "topo/tree.h"

enum { KNOWN_DEVICES = 16 }; /* how many sets of devices are compared with a new one */

struct builder {
    weir_topo *topo;
    struct wr_switches switches;
    bool use_addresses; /* switches come from the cards, not from a file */
    int ranks_seen;
    size_t nodes_cap, devices_cap, namespaces_cap;
    struct known {
        const uint8_t *data; /* the encoded devices, in a card */
        size_t len;
        uint32_t index;
    } known[KNOWN_DEVICES];
    bool no_memory;
};

static bool reserve(struct builder *b, void **items, size_t *cap, size_t n, size_t size)
{
    if (n < *cap)
        return true;
    size_t more = *cap ? 2 * *cap : 4;
    while (more <= n)
        more *= 2;
    void *grown = realloc(*items, more * size);
    if (!grown) {
        b->no_memory = true;
        return false;
    }
    *items = grown;
    *cap = more;
    return true;
}

/* Reads the devices of a node. Most nodes of a cluster are equal, so that equal bytes share one decoded set. */
static bool read_devices(struct builder *b, struct wr_reader *reader, uint32_t *index)
{
    weir_topo *topo = b->topo;
    struct wr_devices devices = {{NULL, 0, 0}, {NULL, 0, 0}};
    const uint8_t *start = reader->at;
    for (size_t i = 0; i < WR_MIN(topo->ndevices, (size_t)KNOWN_DEVICES); i++)
        if (b->known[i].len <= wr_get_left(reader) && !memcmp(b->known[i].data, start, b->known[i].len)) {
            reader->at += b->known[i].len;
            *index = b->known[i].index;
            return true;
        }
    wr_device_get(reader, &devices.nics);
    wr_device_get(reader, &devices.gpus);
    if (reader->bad || !reserve(b, (void **)&topo->devices, &b->devices_cap, topo->ndevices, sizeof devices)) {
        wr_device_list_free(&devices.nics);
        wr_device_list_free(&devices.gpus);
        return false;
    }
    *index = (uint32_t)topo->ndevices;
    b->known[topo->ndevices % KNOWN_DEVICES] = (struct known){start, (size_t)(reader->at - start), *index};
    topo->devices[topo->ndevices++] = devices;
    return true;
}

static bool read_rank(struct builder *b, struct wr_reader *reader, int node, size_t nnamespaces, int *before)
{
    weir_topo *topo = b->topo;
    uint64_t rank = (uint64_t)(*before + 1) + wr_get_u(reader, INT32_MAX);
    struct wr_place place;
    place.pid = (int32_t)wr_get_u(reader, INT32_MAX);
    place.pid_namespace = (uint16_t)wr_get_u(reader, UINT16_MAX);
    place.package = (int16_t)wr_get_index(reader, INT16_MAX);
    place.numa = (int16_t)wr_get_index(reader, INT16_MAX);
    place.cache = (int16_t)wr_get_index(reader, INT16_MAX);
    place.core = wr_get_index(reader, WR_CPUS_MAX);
    size_t len;
    const void *cpus = wr_get_blob(reader, &len);
    unsigned npus;
    if (reader->bad || rank >= (uint64_t)topo->nranks || topo->node_of[rank] >= 0 ||
        place.pid_namespace >= nnamespaces || !wr_cpus_check(cpus, len, &npus))
        return false;
    if (topo->cpus.len + len + 10 >= WR_NO_CPUS) {
        b->no_memory = true;
        return false;
    }
    place.npus = npus;
    place.cpus = (uint32_t)topo->cpus.len;
    wr_put_blob(&topo->cpus, cpus, len);
    topo->places[rank] = place;
    topo->node_of[rank] = node;
    *before = (int)rank;
    b->ranks_seen++;
    return true;
}

static bool read_namespaces(struct builder *b, struct wr_reader *reader, size_t *n)
{
    weir_topo *topo = b->topo;
    *n = (size_t)wr_get_u(reader, UINT16_MAX);
    for (size_t i = 0; i < *n && !reader->bad; i++) {
        uint64_t inode = wr_get_u(reader, UINT64_MAX);
        if (!reserve(b, (void **)&topo->pid_namespaces, &b->namespaces_cap, topo->npid_namespaces,
                     sizeof *topo->pid_namespaces))
            return false;
        topo->pid_namespaces[topo->npid_namespaces++] = inode;
    }
    return !reader->bad;
}

static bool read_node(struct builder *b, struct wr_reader *reader)
{
    weir_topo *topo = b->topo;
    struct wr_node node = {.leaf = -1};
    char host[sizeof((weir_rank_info *)0)->host], address[WR_ADDRESS_MAX], pattern[WR_PATTERN_MAX];
    size_t nnamespaces;
    int before = -1;
    wr_host_id_get(reader, &node.host_id);
    wr_get_text(reader, host, sizeof host);
    wr_get_text(reader, address, sizeof address);
    wr_get_text(reader, pattern, sizeof pattern);
    node.memory = wr_get_u(reader, UINT64_MAX);
    node.flags = (uint8_t)wr_get_u(reader, WR_NODE_FLAGS);
    if (reader->bad || !read_devices(b, reader, &node.devices))
        return false;
    node.pid_namespaces = (uint32_t)topo->npid_namespaces;
    if (!read_namespaces(b, reader, &nnamespaces))
        return false;
    uint64_t nranks = wr_get_u(reader, (uint64_t)topo->nranks);
    if (!nranks || !reserve(b, (void **)&topo->nodes, &b->nodes_cap, (size_t)topo->nnodes, sizeof node))
        return false;
    node.host = wr_topo_string(topo, host, strlen(host));
    if (b->use_addresses && !wr_switches_add_address(&b->switches, address, pattern, &node.leaf)) {
        b->no_memory = true;
        return false;
    }
    for (uint64_t i = 0; i < nranks; i++)
        if (!read_rank(b, reader, topo->nnodes, nnamespaces, &before))
            return false;
    topo->nodes[topo->nnodes++] = node;
    return true;
}

static bool read_card(struct builder *b, const struct wr_card *card)
{
    struct wr_reader reader = wr_reader(card->data, card->len);
    const void *magic = wr_get_raw(&reader, 3);
    if (!magic || memcmp(magic, WR_NODE_CARD_MAGIC, 3) || wr_get_u(&reader, UINT32_MAX) != WR_CARD_VERSION)
        return false;
    uint64_t n = wr_get_u(&reader, WR_CARD_NODE_RANKS_MAX);
    for (uint64_t i = 0; i < n; i++)
        if (!read_node(b, &reader))
            return false;
    return n && !reader.bad && !wr_get_left(&reader);
}

static weir_status bad_card(const struct wr_card *card, weir_error *err)
{
    wr_error_set(err, WEIR_ERR_PROTOCOL, "see that all ranks run the same version of weir",
                 "the node card that rank %d published is not valid (%zu bytes)", card->rank, card->len);
    wr_error_at(err, card->rank, NULL);
    return WEIR_ERR_PROTOCOL;
}

static weir_status read_cards(struct builder *b, const struct wr_card *cards, size_t n, weir_error *err)
{
    for (size_t i = 0; i < n; i++) {
        bool ok = read_card(b, &cards[i]);
        if (b->no_memory || b->topo->strings.failed || b->topo->cpus.failed)
            return wr_error_memory(err, 0, "the topology");
        if (!ok)
            return bad_card(&cards[i], err);
    }
    for (int rank = 0; rank < b->topo->nranks && b->ranks_seen < b->topo->nranks; rank++)
        if (b->topo->node_of[rank] < 0) {
            wr_error_set(err, WEIR_ERR_PROTOCOL, "see that all ranks run the same version of weir",
                         "no node card tells of rank %d: %d of %d ranks are known", rank, b->ranks_seen,
                         b->topo->nranks);
            wr_error_at(err, rank, NULL);
            return WEIR_ERR_PROTOCOL;
        }
    return WEIR_OK;
}

/*
 * Looks up every node in the topology file: by the name of its host, and a virtual node whose host is not there as node0,
 * node1, ..., so that a network of many switches can be tried on one machine.
 */
static weir_status place_nodes(struct builder *b, const struct wr_config *config, const struct wr_log *log,
                               weir_error *err)
{
    weir_topo *topo = b->topo;
    struct wr_topology_file file;
    int missing = 0, example = 0;
    weir_status status = wr_topology_file_load(&file, config->topology_file, err);
    if (status)
        return status;
    for (int i = 0; i < topo->nnodes && !status; i++) {
        struct wr_node *node = &topo->nodes[i];
        status = wr_topology_file_find(&file, topo->strings.data + node->host, &b->switches, &node->leaf, err);
        if (!status && node->leaf < 0 && config->nodes > 0) {
            char name[32];
            snprintf(name, sizeof name, "node%d", i);
            status = wr_topology_file_find(&file, name, &b->switches, &node->leaf, err);
        }
        if (node->leaf < 0 && !missing++)
            example = i;
    }
    wr_topology_file_free(&file);
    if (!status && missing)
        wr_warn(log, TOPO, "%s does not tell where %d of %d nodes are connected, the first being %s",
                config->topology_file, missing, topo->nnodes, topo->strings.data + topo->nodes[example].host);
    return status;
}

weir_status wr_topo_build(const struct wr_config *config, const struct wr_log *log, int rank, int size,
                          const struct wr_card *node_cards, size_t n, weir_topo **topo, weir_error *err)
{
    struct builder b = {.use_addresses = !config->topology_file};
    weir_status status;
    if (size < 1 || rank < 0 || rank >= size)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "rank %d of %d ranks is not possible", rank, size);
    b.topo = wr_topo_alloc(size);
    if (!b.topo)
        return wr_error_memory(err, (size_t)size * sizeof *b.topo->places, "the topology");
    b.topo->rank = rank;
    if ((status = read_cards(&b, node_cards, n, err)) || (status = wr_topo_index_nodes(b.topo, err)) ||
        (config->topology_file && (status = place_nodes(&b, config, log, err))))
        goto free_topo;
    wr_switches_finish(&b.switches);
    if ((status = wr_topo_make_levels(b.topo, &b.switches, err)))
        goto free_topo;
    wr_switches_free(&b.switches);
    *topo = b.topo;
    return WEIR_OK;

free_topo:
    wr_switches_free(&b.switches);
    weir_topo_free(b.topo);
    return status;
}

/* Numbers the ranks of one node; those of other nodes stay unknown. */
static void index_one_node(weir_topo *topo, int node)
{
    int32_t n = 0;
    for (int rank = 0; rank < topo->nranks; rank++) {
        if (topo->node_of[rank] != node)
            continue;
        topo->local_rank[rank] = n;
        topo->node_ranks[n++] = rank;
    }
    topo->nodes[node].first = 0;
    topo->nodes[node].nranks = n;
}

weir_status wr_topo_local(const struct wr_card *node_card, int rank, int size, struct wr_topo_local *local,
                          weir_error *err)
{
    struct builder b = {.use_addresses = false};
    weir_status status = WEIR_OK;
    if (size < 1 || rank < 0 || rank >= size)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "rank %d of %d ranks is not possible", rank, size);
    b.topo = wr_topo_alloc(size);
    if (!b.topo)
        return wr_error_memory(err, (size_t)size * sizeof *b.topo->places, "the node's topology");
    bool ok = read_card(&b, node_card) && b.topo->node_of[rank] >= 0;
    if (b.no_memory || b.topo->strings.failed || b.topo->cpus.failed)
        status = wr_error_memory(err, node_card->len, "the node's topology");
    else if (!ok)
        status = bad_card(node_card, err);
    if (!status) {
        weir_device nic = {.size = sizeof nic};
        struct wr_topo_local found = {""};
        int node = b.topo->node_of[rank];
        index_one_node(b.topo, node);
        int choice = weir_topo_nic_choice(b.topo, rank);
        const struct wr_device_list *nics = &b.topo->devices[b.topo->nodes[node].devices].nics;
        if (choice >= 0 && !(nics->items[choice].flags & WR_DEVICE_DOWN) && !weir_topo_nic(b.topo, node, choice, &nic))
            wr_str_copy(found.nic, sizeof found.nic, nic.name);
        *local = found;
    }
    wr_switches_free(&b.switches);
    weir_topo_free(b.topo);
    return status;
}
