/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/boot/mapping.h"

#include <ctype.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct pair {
    int a, b, rank;
};

static int compare_pairs(const void *x, const void *y)
{
    const struct pair *p = x, *q = y;
    if (p->a != q->a)
        return p->a < q->a ? -1 : 1;
    if (p->b != q->b)
        return p->b < q->b ? -1 : 1;
    return p->rank < q->rank ? -1 : p->rank > q->rank;
}

int wr_node_map_join(int size, const int *a, const int *b, int *node_of, int *leader)
{
    int nnodes = 0;
    struct pair *pairs = malloc((size_t)size * sizeof *pairs);
    if (!pairs)
        return -1;
    for (int rank = 0; rank < size; rank++)
        pairs[rank] = (struct pair){a ? a[rank] : 0, b ? b[rank] : 0, rank};
    qsort(pairs, (size_t)size, sizeof *pairs, compare_pairs);
    /* first the lowest rank of each rank's node, then numbers in the order of these */
    for (int i = 0, first = 0; i < size; i++) {
        if (pairs[i].a != pairs[first].a || pairs[i].b != pairs[first].b)
            first = i;
        node_of[pairs[i].rank] = pairs[first].rank;
    }
    for (int rank = 0; rank < size; rank++) {
        if (node_of[rank] == rank) {
            leader[nnodes] = rank;
            node_of[rank] = nnodes++;
        } else {
            node_of[rank] = node_of[node_of[rank]];
        }
    }
    free(pairs);
    return nnodes;
}

/* ---- PMI's text ---- */

static void skip_spaces(const char **p)
{
    while (isspace((unsigned char)**p))
        (*p)++;
}

static bool skip(const char **p, const char *word)
{
    size_t len = strlen(word);
    skip_spaces(p);
    if (strncmp(*p, word, len))
        return false;
    *p += len;
    return true;
}

static bool number(const char **p, int *out)
{
    char *end;
    skip_spaces(p);
    if (!isdigit((unsigned char)**p))
        return false;
    long value = strtol(*p, &end, 10);
    if (value > INT_MAX / 2)
        return false;
    *p = end;
    *out = (int)value;
    return true;
}

/* Reads "(first,nodes,ranks)". */
static bool block(const char **p, int *first, int *nodes, int *ranks)
{
    return skip(p, "(") && number(p, first) && skip(p, ",") && number(p, nodes) && skip(p, ",") && number(p, ranks) &&
           skip(p, ")");
}

bool wr_process_mapping(const char *text, int size, int *node_of)
{
    const char *start = text;
    int *leader, placed = 0;
    if (!skip(&start, "(") || !skip(&start, "vector"))
        return false;
    while (placed < size) {
        const char *p = start;
        int before = placed, first, nodes, ranks;
        while (skip(&p, ",")) {
            if (!block(&p, &first, &nodes, &ranks))
                return false;
            for (int n = 0; ranks && n < nodes && placed < size; n++)
                for (int r = 0; r < ranks && placed < size; r++)
                    node_of[placed++] = first + n;
        }
        if (!skip(&p, ")") || placed == before)
            return false;
    }
    leader = malloc((size_t)size * sizeof *leader);
    bool ok = leader && wr_node_map_join(size, node_of, NULL, node_of, leader) > 0;
    free(leader);
    return ok;
}
