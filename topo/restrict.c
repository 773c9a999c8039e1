/* SPDX-License-Identifier: BSD-3-Clause */
/* The topology of some of the ranks. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/tree.h"

/* The nodes that the ranks are on. */
static weir_status take_nodes(weir_topo *part, const weir_topo *whole, const int *ranks, weir_error *err)
{
    size_t n = (size_t)whole->nnodes;
    int *number = malloc(n * sizeof *number);
    part->nodes = malloc(n * sizeof *part->nodes);
    if (!number || !part->nodes) {
        free(number);
        return wr_error_memory(err, n * sizeof *part->nodes, "the nodes of a topology");
    }
    for (size_t i = 0; i < n; i++)
        number[i] = -1;
    for (int r = 0; r < part->nranks; r++) {
        int node = whole->node_of[ranks[r]];
        if (number[node] < 0) {
            part->nodes[part->nnodes] = whole->nodes[node];
            number[node] = part->nnodes++;
        }
        part->node_of[r] = number[node];
    }
    free(number);
    return wr_topo_index_nodes(part, err);
}

weir_status wr_topo_restrict(const weir_topo *whole, const int *ranks, int n, weir_topo **topo, weir_error *err)
{
    weir_topo *part = wr_topo_alloc(n);
    if (!part)
        return wr_error_memory(err, (size_t)n * sizeof *part->places, "the topology of a communicator");
    wr_buf_free(&part->strings);
    part->borrows = true;
    part->strings = whole->strings;
    part->cpus = whole->cpus;
    part->devices = whole->devices;
    part->ndevices = whole->ndevices;
    part->pid_namespaces = whole->pid_namespaces;
    part->npid_namespaces = whole->npid_namespaces;
    for (int r = 0; r < n; r++) {
        part->places[r] = whole->places[ranks[r]];
        if (ranks[r] == whole->rank)
            part->rank = r;
    }
    weir_status status = take_nodes(part, whole, ranks, err);
    if (!status)
        status = wr_topo_restrict_levels(part, whole, ranks, err);
    if (status)
        weir_topo_free(part);
    else
        *topo = part;
    return status;
}
