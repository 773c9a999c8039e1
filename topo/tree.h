/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of a weir_topo. About 36 bytes a rank, and four more a rank for each level that is kept; what nodes have in
 * common is stored once.
 */
#ifndef WR_TOPO_TREE_H
#define WR_TOPO_TREE_H

#include "topo/device.h"
#include "topo/switches.h"
#include "topo/topo.h"

#define WR_NO_CPUS UINT32_MAX

/* Where a rank sits inside its node: hwloc's logical indices, -1 when none or several. */
struct wr_place {
    int32_t pid;
    int32_t core;
    uint32_t npus;
    uint32_t cpus; /* offset in weir_topo.cpus, or WR_NO_CPUS: the thread with the core's number */
    int16_t package, numa, cache;
    uint16_t pid_namespace; /* index after the node's first */
};

struct wr_node {
    struct wr_host_id host_id;
    uint64_t memory;
    uint32_t host;           /* offset in weir_topo.strings */
    uint32_t devices;        /* index in weir_topo.devices */
    uint32_t pid_namespaces; /* of its first in weir_topo.pid_namespaces */
    int32_t first, nranks;   /* its part of weir_topo.node_ranks */
    int32_t leaf;            /* its innermost switch, -1 when unknown; used while levels are made */
    uint8_t flags;           /* WR_NODE_HAS_... of topo/card.h */
};

struct wr_level {
    weir_level_kind kind;
    int ngroups, min_ranks, max_ranks;
    int32_t *group;  /* of each rank; NULL for the world */
    uint32_t *names; /* of each group, offsets in weir_topo.strings; NULL when they have none */
};

struct wr_devices {
    struct wr_device_list nics, gpus;
};

struct weir_topo {
    int rank; /* from whose side it is seen, -1 for a planned one */
    int nranks, nnodes, nlevels;
    int32_t *node_of, *local_rank, *node_ranks;
    struct wr_place *places;
    struct wr_node *nodes;
    struct wr_level *levels;
    struct wr_devices *devices;
    size_t ndevices;
    uint64_t *pid_namespaces;
    size_t npid_namespaces;
    struct wr_buf strings, cpus;
    bool borrows; /* devices, pid_namespaces, strings and cpus are another topology's */
};

/* An empty topology of `nranks` ranks without nodes: node_of is -1 everywhere. NULL when out of memory. */
weir_topo *wr_topo_alloc(int nranks);

/* Appends a text, returns its offset; sets strings.failed when out of memory or above 4 GiB. */
uint32_t wr_topo_string(weir_topo *topo, const char *text, size_t len);

/* From node_of and nodes: numbers nodes by lowest rank, fills nodes[].first and nranks, node_ranks and local_rank. */
weir_status wr_topo_index_nodes(weir_topo *topo, weir_error *err);

/* Makes the levels (topo/levels.c). Everything else must be there. */
weir_status wr_topo_make_levels(weir_topo *topo, const struct wr_switches *switches, weir_error *err);

/* The same from the levels of another topology, of which `topo` has these ranks. */
weir_status wr_topo_restrict_levels(weir_topo *topo, const weir_topo *whole, const int *ranks, weir_error *err);

/* The text of a rank's hardware threads; returns buf. */
const char *wr_topo_cpus_text(const weir_topo *topo, int rank, char *buf, size_t size);

#endif
