/* SPDX-License-Identifier: BSD-3-Clause */
/* The topology's life, and the index of nodes. */
#include "topo/tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/cpus.h"

weir_topo *wr_topo_alloc(int nranks)
{
    weir_topo *topo = calloc(1, sizeof *topo);
    size_t n = (size_t)nranks;
    if (!topo)
        return NULL;
    topo->rank = -1;
    topo->nranks = nranks;
    topo->node_of = malloc(n * sizeof *topo->node_of);
    topo->local_rank = malloc(n * sizeof *topo->local_rank);
    topo->node_ranks = malloc(n * sizeof *topo->node_ranks);
    topo->places = malloc(n * sizeof *topo->places);
    wr_topo_string(topo, "", 0); /* offset 0 is "no name" */
    if (!topo->node_of || !topo->local_rank || !topo->node_ranks || !topo->places || topo->strings.failed) {
        weir_topo_free(topo);
        return NULL;
    }
    for (int rank = 0; rank < nranks; rank++)
        topo->node_of[rank] = -1;
    return topo;
}

void weir_topo_free(weir_topo *topo)
{
    if (!topo)
        return;
    for (int i = 0; i < topo->nlevels; i++) {
        free(topo->levels[i].group);
        free(topo->levels[i].names);
    }
    for (size_t i = 0; i < topo->ndevices && !topo->borrows; i++) {
        wr_device_list_free(&topo->devices[i].nics);
        wr_device_list_free(&topo->devices[i].gpus);
    }
    if (!topo->borrows) {
        free(topo->devices);
        free(topo->pid_namespaces);
        wr_buf_free(&topo->strings);
        wr_buf_free(&topo->cpus);
    }
    free(topo->levels);
    free(topo->nodes);
    free(topo->places);
    free(topo->node_ranks);
    free(topo->local_rank);
    free(topo->node_of);
    free(topo);
}

uint32_t wr_topo_string(weir_topo *topo, const char *text, size_t len)
{
    struct wr_buf *strings = &topo->strings;
    if (strings->len + len + 1 >= UINT32_MAX)
        strings->failed = true;
    uint32_t offset = (uint32_t)strings->len;
    wr_buf_add(strings, text, len);
    wr_buf_add(strings, "", 1);
    return strings->failed ? 0 : offset;
}

/* Renumbers nodes in the order in which ranks meet them. */
static weir_status order_nodes(weir_topo *topo, weir_error *err)
{
    size_t n = (size_t)topo->nnodes;
    struct wr_node *ordered = malloc(n * sizeof *ordered);
    int *number = malloc(n * sizeof *number);
    int next = 0;
    if (!ordered || !number) {
        free(ordered);
        free(number);
        return wr_error_memory(err, n * sizeof *ordered, "the nodes of the topology");
    }
    for (size_t i = 0; i < n; i++)
        number[i] = -1;
    for (int rank = 0; rank < topo->nranks; rank++) {
        int node = topo->node_of[rank];
        if (number[node] < 0) {
            ordered[next] = topo->nodes[node];
            number[node] = next++;
        }
        topo->node_of[rank] = number[node];
    }
    free(number);
    free(topo->nodes);
    topo->nodes = ordered;
    return WEIR_OK;
}

weir_status wr_topo_index_nodes(weir_topo *topo, weir_error *err)
{
    weir_status status = order_nodes(topo, err);
    if (status)
        return status;
    for (int node = 0; node < topo->nnodes; node++)
        topo->nodes[node].nranks = 0;
    for (int rank = 0; rank < topo->nranks; rank++)
        topo->local_rank[rank] = topo->nodes[topo->node_of[rank]].nranks++;
    int32_t first = 0;
    for (int node = 0; node < topo->nnodes; node++) {
        topo->nodes[node].first = first;
        first += topo->nodes[node].nranks;
    }
    for (int rank = 0; rank < topo->nranks; rank++)
        topo->node_ranks[topo->nodes[topo->node_of[rank]].first + topo->local_rank[rank]] = rank;
    return WEIR_OK;
}

const char *wr_topo_cpus_text(const weir_topo *topo, int rank, char *buf, size_t size)
{
    const struct wr_place *place = &topo->places[rank];
    if (place->cpus == WR_NO_CPUS) {
        snprintf(buf, size, "%d", place->core);
        return buf;
    }
    struct wr_reader reader = wr_reader(topo->cpus.data + place->cpus, topo->cpus.len - place->cpus);
    size_t len;
    const void *cpus = wr_get_blob(&reader, &len);
    return wr_cpus_format(cpus, len, buf, size);
}
