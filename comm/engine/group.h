/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The members of a communicator: which rank of the job each of its ranks is. The engine and the transports know ranks of the
 * job (world ranks) only; everything that the user sees is in the communicator's own numbers.
 */
#ifndef WR_ENGINE_GROUP_H
#define WR_ENGINE_GROUP_H

#include <stdint.h>

struct wr_group {
    uint32_t id;      /* of the communicator: the space in which its messages are matched; the same on all its ranks */
    int size;
    int *world;       /* by rank: the world rank; NULL: all ranks of the job, in their order */
    int *by_world;    /* the ranks, ordered by world rank; NULL with world, or when that is their order already */
};

/* The world rank of a member. */
static inline int wr_group_world(const struct wr_group *g, int rank)
{
    return g->world ? g->world[rank] : rank;
}

/* The rank in the group of a world rank, -1 when it is no member. */
int wr_group_rank(const struct wr_group *g, int world);

#endif
