/* SPDX-License-Identifier: BSD-3-Clause */
#include "topo/intern.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static uint64_t hash(int scope, const char *name, size_t len)
{
    uint64_t h = 0xcbf29ce484222325u ^ (uint64_t)(uint32_t)scope; /* FNV-1a */
    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)name[i]) * 0x100000001b3u;
    return h ^ h >> 29;
}

static size_t find_slot(const struct wr_intern *t, int scope, const char *name, size_t len)
{
    size_t slot = (size_t)hash(scope, name, len) & (t->nslots - 1);
    for (; t->slots[slot]; slot = (slot + 1) & (t->nslots - 1)) {
        const struct wr_intern_item *known = &t->items[t->slots[slot] - 1];
        if (known->scope == scope && known->len == len && !memcmp(t->names.data + known->name, name, len))
            break;
    }
    return slot;
}

static bool grow(struct wr_intern *t)
{
    if (t->cap > INT_MAX / 4)
        return false;
    int cap = t->cap ? 2 * t->cap : 16;
    struct wr_intern_item *items = realloc(t->items, (size_t)cap * sizeof *items);
    if (!items)
        return false;
    t->items = items;
    int *slots = calloc(2 * (size_t)cap, sizeof *slots);
    if (!slots)
        return false;
    free(t->slots);
    t->slots = slots;
    t->cap = cap;
    t->nslots = 2 * (size_t)cap;
    for (int i = 0; i < t->n; i++) {
        const struct wr_intern_item *known = &t->items[i];
        t->slots[find_slot(t, known->scope, t->names.data + known->name, known->len)] = i + 1;
    }
    return true;
}

int wr_intern_add(struct wr_intern *t, int scope, const char *name, size_t len)
{
    if ((t->n == t->cap && !grow(t)) || t->names.len + len + 1 > UINT32_MAX)
        return -1;
    size_t slot = find_slot(t, scope, name, len);
    if (t->slots[slot])
        return t->slots[slot] - 1;
    struct wr_intern_item added = {scope, (uint32_t)t->names.len, (uint32_t)len};
    wr_buf_add(&t->names, name, len);
    wr_buf_add(&t->names, "", 1);
    if (t->names.failed)
        return -1;
    t->items[t->n++] = added;
    t->slots[slot] = t->n;
    return t->n - 1;
}

int wr_intern_find(const struct wr_intern *t, int scope, const char *name, size_t len)
{
    return t->n ? t->slots[find_slot(t, scope, name, len)] - 1 : -1;
}

void wr_intern_free(struct wr_intern *t)
{
    free(t->items);
    free(t->slots);
    wr_buf_free(&t->names);
    memset(t, 0, sizeof *t);
}
