/* SPDX-License-Identifier: BSD-3-Clause */
/* A table that numbers names, each within a scope (any number from -1 up), in the order in which they are added. */
#ifndef WR_TOPO_INTERN_H
#define WR_TOPO_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct wr_intern_item {
    int scope;
    uint32_t name, len; /* in names; terminated */
};

/* Zero-initialise. */
struct wr_intern {
    struct wr_intern_item *items;
    int n, cap;
    int *slots; /* hash table of indices + 1 */
    size_t nslots;
    struct wr_buf names;
};

/* The number of a name, added when it is new; -1 when out of memory. */
int wr_intern_add(struct wr_intern *table, int scope, const char *name, size_t len);

/* The number of a name, -1 when it is not there. */
int wr_intern_find(const struct wr_intern *table, int scope, const char *name, size_t len);

static inline const char *wr_intern_name(const struct wr_intern *table, int index)
{
    return table->names.data + table->items[index].name;
}

void wr_intern_free(struct wr_intern *table);

#endif
