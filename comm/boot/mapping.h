/* SPDX-License-Identifier: BSD-3-Clause */
/* Maps of ranks to nodes: numbering them, and the text that PMI launchers give. */
#ifndef WR_BOOT_MAPPING_H
#define WR_BOOT_MAPPING_H

#include <stdbool.h>

/*
 * Numbers the nodes that two maps make together (either may be NULL: all one node): two ranks share a node when they do
 * in both. Nodes are numbered by their lowest rank, whose list goes to `leader`. Returns the number of nodes, or -1 when
 * out of memory.
 */
int wr_node_map_join(int size, const int *a, const int *b, int *node_of, int *leader);

/*
 * Reads PMI's process mapping, "(vector,(FIRST,NODES,RANKS),...)": RANKS ranks on each of NODES nodes from FIRST on. The
 * vector is used again from its start while ranks are left. False when it is not understood.
 */
bool wr_process_mapping(const char *text, int size, int *node_of);

#endif
