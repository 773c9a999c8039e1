/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The switches of a network from a file in the syntax of Slurm's topology.conf:
 *
 *     # comment
 *     SwitchName=leaf0 Nodes=h[0-3,7]
 *     SwitchName=leaf1 Nodes=h[4-6]
 *     SwitchName=spine Switches=leaf[0-1]
 *
 * or "BlockName=b0 Nodes=..." lines, whose blocks are groups. Words are found in any case, a backslash at the end of a
 * line continues it, LinkSpeed= and BlockSizes= are accepted and mean nothing here. A node or switch that is named
 * several times belongs where it was named first.
 */
#ifndef WR_TOPO_TOPOLOGY_FILE_H
#define WR_TOPO_TOPOLOGY_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/status.h>

#include "topo/switches.h"

enum {
    WR_TOPOLOGY_FILE_BYTES = 64 << 20, /* longest file */
    WR_TOPOLOGY_FILE_NAMES = 1 << 20   /* most names in it, after expansion of ranges */
};

struct wr_topology_file {
    struct wr_intern names; /* scope 0: switches and blocks, scope 1: nodes */
    struct wr_topology_entry {
        int parent;    /* index of the switch that it hangs on, -1 when none */
        int line;      /* where it is defined, 0 when it was only mentioned */
        int mentioned; /* the line that mentioned it first */
    } * entries;       /* parallel to names */
    int cap;
    weir_level_kind kind; /* what the file describes */
};

/* Parses; `path` is for messages only. WEIR_ERR_CONFIG with path and line; WEIR_ERR_NO_MEMORY. Survives any input. */
weir_status wr_topology_file_parse(struct wr_topology_file *file, const char *data, size_t len, const char *path,
                                   weir_error *err);

/* Reads and parses; WEIR_ERR_CONFIG also when it cannot be read. */
weir_status wr_topology_file_load(struct wr_topology_file *file, const char *path, weir_error *err);

/*
 * Adds the switches above `host` to `switches`: *leaf is the innermost, -1 when the file does not know the host. A host
 * name with a domain is also looked up without it.
 */
weir_status wr_topology_file_find(const struct wr_topology_file *file, const char *host, struct wr_switches *switches,
                                  int *leaf, weir_error *err);

void wr_topology_file_free(struct wr_topology_file *file);

#endif
