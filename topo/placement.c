/* SPDX-License-Identifier: BSD-3-Clause */
/* Virtual nodes: which rank is placed on which. Every rank computes the same answer from the same words. */
#include "topo/topo.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define ADVICE "set WEIR_PLACEMENT to block, cyclic, random, random:SEED, or list:N,N,... with the node of each rank"

static void place_block(int nodes, int size, int *node_of)
{
    /* the first `larger` nodes hold one rank more */
    int share = size / nodes, larger = size % nodes;
    for (int rank = 0, node = 0, used = 0; rank < size; rank++) {
        if (used == share + (node < larger)) {
            node++;
            used = 0;
        }
        node_of[rank] = node;
        used++;
    }
}

static void place_cyclic(int nodes, int size, int *node_of)
{
    for (int rank = 0; rank < size; rank++)
        node_of[rank] = rank % nodes;
}

/* Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014 (splitmix64) */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int random_below(uint64_t *state, int bound)
{
    return (int)(next_random(state) % (uint64_t)bound);
}

static void place_random(int nodes, int size, uint64_t seed, int *node_of)
{
    uint64_t state = seed;
    /* one rank for every node, so that none is empty, the others anywhere, then shuffled (Fisher and Yates) */
    for (int rank = 0; rank < size; rank++)
        node_of[rank] = rank < nodes ? rank : random_below(&state, nodes);
    for (int i = size - 1; i > 0; i--) {
        int j = random_below(&state, i + 1);
        int node = node_of[i];
        node_of[i] = node_of[j];
        node_of[j] = node;
    }
}

static weir_status place_list(int nodes, const char *list, int size, int *node_of, weir_error *err)
{
    const char *at = list;
    for (int rank = 0; rank < size; rank++) {
        char *end;
        if (!isdigit((unsigned char)*at))
            return wr_error_set(err, WEIR_ERR_CONFIG, ADVICE,
                                "WEIR_PLACEMENT=list:%s names no node for rank %d: %d ranks need %d numbers", list,
                                rank, size, size);
        unsigned long node = strtoul(at, &end, 10);
        if (node >= (unsigned long)nodes)
            return wr_error_set(err, WEIR_ERR_CONFIG, "raise WEIR_NODES or correct the list",
                                "WEIR_PLACEMENT puts rank %d on node %.20s, but WEIR_NODES=%d", rank, at, nodes);
        node_of[rank] = (int)node;
        at = *end == ',' ? end + 1 : end;
        if (*end && *end != ',')
            return wr_error_set(err, WEIR_ERR_CONFIG, ADVICE, "WEIR_PLACEMENT=list:%s is not understood at '%.20s'",
                                list, end);
    }
    if (*at)
        return wr_error_set(err, WEIR_ERR_CONFIG, ADVICE,
                            "WEIR_PLACEMENT=list:%s has more numbers than the job has ranks (%d)", list, size);
    return WEIR_OK;
}

static weir_status check_nodes_filled(int nodes, int size, const int *node_of, weir_error *err)
{
    bool *filled = calloc((size_t)nodes, sizeof *filled);
    weir_status status = WEIR_OK;
    if (!filled)
        return wr_error_memory(err, (size_t)nodes, "the placement of virtual nodes");
    for (int rank = 0; rank < size; rank++)
        filled[node_of[rank]] = true;
    for (int node = 0; node < nodes && !status; node++)
        if (!filled[node])
            status = wr_error_set(err, WEIR_ERR_CONFIG, "lower WEIR_NODES or name every node in the list",
                                  "WEIR_PLACEMENT leaves node %d of %d without a rank", node, nodes);
    free(filled);
    return status;
}

weir_status wr_placement_nodes(int64_t nodes, const char *placement, int size, int *node_of, weir_error *err)
{
    if (nodes < 1 || nodes > size)
        return wr_error_set(err, WEIR_ERR_CONFIG, "set WEIR_NODES to at most the number of ranks",
                            "WEIR_NODES=%lld is not possible with %d ranks: a node would be empty", (long long)nodes,
                            size);
    int n = (int)nodes;
    if (!placement || !*placement || !strcmp(placement, "block")) {
        place_block(n, size, node_of);
    } else if (!strcmp(placement, "cyclic")) {
        place_cyclic(n, size, node_of);
    } else if (!strcmp(placement, "random")) {
        place_random(n, size, 0, node_of);
    } else if (!strncmp(placement, "random:", 7)) {
        int64_t seed;
        if (!wr_parse_int(placement + 7, &seed))
            return wr_error_set(err, WEIR_ERR_CONFIG, ADVICE, "WEIR_PLACEMENT=%s: the seed is not a whole number",
                                placement);
        place_random(n, size, (uint64_t)seed, node_of);
    } else if (!strncmp(placement, "list:", 5)) {
        weir_status status = place_list(n, placement + 5, size, node_of, err);
        return status ? status : check_nodes_filled(n, size, node_of, err);
    } else {
        return wr_error_set(err, WEIR_ERR_CONFIG, ADVICE, "WEIR_PLACEMENT=%s is not understood", placement);
    }
    return WEIR_OK;
}
