/* SPDX-License-Identifier: BSD-3-Clause */
#include "topo/switches.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

int wr_switches_add(struct wr_switches *s, int parent, weir_level_kind kind, const char *name, size_t len)
{
    int before = s->names.n;
    int index = wr_intern_add(&s->names, parent, name, len);
    if (index < before)
        return index;
    if (index >= s->cap) {
        struct wr_switch *items = realloc(s->items, (size_t)s->names.cap * sizeof *items);
        if (!items)
            return -1;
        s->items = items;
        s->cap = s->names.cap;
    }
    s->items[index] = (struct wr_switch){0, kind};
    return index;
}

static size_t count_words(const char *text)
{
    size_t n = 1;
    for (; *text; text++)
        n += *text == '.';
    return n;
}

bool wr_switches_add_address(struct wr_switches *s, const char *address, const char *pattern, int *leaf)
{
    size_t depth = count_words(pattern) - 1; /* the last word is the node */
    const char *last = strrchr(pattern, '.');
    bool only_blocks = true;
    int at = -1;
    *leaf = -1;
    /* a node's name may have dots, so that only the number of switches must fit */
    if (!depth || depth > WR_SWITCH_DEPTH_MAX || strcmp(last, ".node") || count_words(address) <= depth)
        return true;
    for (size_t i = 0; i < depth; i++) {
        size_t word = strcspn(pattern, "."), name = strcspn(address, ".");
        only_blocks = only_blocks && word == 5 && !memcmp(pattern, "block", 5);
        at = wr_switches_add(s, at, only_blocks ? WEIR_LEVEL_GROUP : WEIR_LEVEL_SWITCH, address, name);
        if (at < 0)
            return false;
        pattern += word + 1;
        address += name + 1;
    }
    *leaf = at;
    return true;
}

void wr_switches_finish(struct wr_switches *s)
{
    s->nheights = 0;
    for (int i = s->names.n - 1; i >= 0; i--) {
        int parent = s->names.items[i].scope, height = s->items[i].height;
        if (parent >= 0)
            s->items[parent].height = WR_MAX(s->items[parent].height, height + 1);
        s->nheights = WR_MAX(s->nheights, height + 1);
    }
}

int wr_switches_at(const struct wr_switches *s, int leaf, int height)
{
    int at = -1;
    for (int i = leaf; i >= 0 && s->items[i].height <= height; i = s->names.items[i].scope)
        at = i;
    return at;
}

weir_level_kind wr_switches_kind(const struct wr_switches *s, int height)
{
    for (int i = 0; i < s->names.n; i++)
        if (s->items[i].height == height && s->items[i].kind == WEIR_LEVEL_SWITCH)
            return WEIR_LEVEL_SWITCH;
    return WEIR_LEVEL_GROUP;
}

void wr_switches_free(struct wr_switches *s)
{
    wr_intern_free(&s->names);
    free(s->items);
    memset(s, 0, sizeof *s);
}
