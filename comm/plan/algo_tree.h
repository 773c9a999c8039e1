/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Trees over nodes for rooted collectives: one leader a node (the root on its own node), nodes counted from the
 * root's on.
 */
#ifndef WR_ALGO_TREE_H
#define WR_ALGO_TREE_H

#include "comm/plan/algo.h"

enum wr_tree_shape { WR_TREE_BINOMIAL, WR_TREE_CHAIN };
enum { WR_TREE_CHILDREN = 31 };

struct wr_tree {
    int leader; /* of my node */
    int parent; /* leader of the parent node, -1 at the root's node */
    int index;  /* which of the parent's children my node is */
    int nchildren;
    int child[WR_TREE_CHILDREN]; /* leaders, those with the largest subtrees first */
};

struct wr_tree wr_tree(const struct wr_plan_spec *spec, int rank, enum wr_tree_shape shape);

#endif
