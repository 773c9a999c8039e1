/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/engine/group.h"

int wr_group_rank(const struct wr_group *g, int world)
{
    int low = 0, high = g->size - 1;
    if (!g->world)
        return world >= 0 && world < g->size ? world : -1;
    while (low <= high) {
        int middle = low + (high - low) / 2, rank = g->by_world ? g->by_world[middle] : middle;
        if (g->world[rank] == world)
            return rank;
        if (g->world[rank] < world)
            low = middle + 1;
        else
            high = middle - 1;
    }
    return -1;
}
