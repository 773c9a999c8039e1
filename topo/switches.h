/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The switches above nodes, as a forest. A switch is known by its name and the switches above it. Heights count from the
 * nodes: a switch without switches below it has height 0. Branches of different depth are aligned at the nodes, and at a
 * height where a branch has no switch, the highest one below that height stands for it.
 */
#ifndef WR_TOPO_SWITCHES_H
#define WR_TOPO_SWITCHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/topo.h>

#include "topo/intern.h"

enum { WR_SWITCH_DEPTH_MAX = 32 }; /* switches above one another */

struct wr_switch {
    int height;
    weir_level_kind kind; /* WEIR_LEVEL_SWITCH or WEIR_LEVEL_GROUP */
};

/* Zero-initialise. The scope of a name is its parent, which always has the lower index. */
struct wr_switches {
    struct wr_intern names;
    struct wr_switch *items;
    int cap;
    int nheights; /* set by wr_switches_finish() */
};

/* The switch of that name below `parent` (-1: at the top), added when it is new; -1 when out of memory. */
int wr_switches_add(struct wr_switches *switches, int parent, weir_level_kind kind, const char *name, size_t len);

/*
 * The innermost switch of a node with Slurm's SLURM_TOPOLOGY_ADDR and _ADDR_PATTERN, e.g. "spine.leaf0.h1" and
 * "switch.switch.node": *leaf gets its index, or -1 when there is none (also when the two do not fit each other).
 * "block" in the pattern is a group when nothing but blocks is above it; any other word than "node" is a switch.
 * False when out of memory.
 */
bool wr_switches_add_address(struct wr_switches *switches, const char *address, const char *pattern, int *leaf);

/* Computes the heights. To be called once, after all have been added. */
void wr_switches_finish(struct wr_switches *switches);

/* What stands for `leaf` at a height: the highest switch at or below that height, -1 when there is none. */
int wr_switches_at(const struct wr_switches *switches, int leaf, int height);

/* The kind of level at a height: a group when all its switches are groups. */
weir_level_kind wr_switches_kind(const struct wr_switches *switches, int height);

void wr_switches_free(struct wr_switches *switches);

#endif
