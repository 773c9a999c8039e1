/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Vector clocks for any number of lanes: a small hash table of the entries that are kept, and of the latest RECENT others. Ranks
 * hear of many others, but whether two accesses are ordered is asked soon after the signal that orders them, or of ranks that work
 * in the same memory, whose entries are kept. A table is shared until one of its owners changes it.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "comm/plan/verify_impl.h"

enum { RECENT = 64, SLOTS = 32 };

struct entry {
    wr_vdim dim;
    uint32_t tick;
    bool used, kept;
};

struct wr_vsparse {
    uint32_t refs;   /* where wr_vclock has them */
    uint32_t n, cap; /* cap: a power of two */
    uint32_t oldest, nrecent;
    wr_vdim recent[RECENT];
    struct entry at[];
};

_Static_assert(offsetof(struct wr_vsparse, refs) == offsetof(struct wr_vclock, refs), "who counts references need not know which it is");

static struct wr_vsparse *of(struct wr_vclock *clock)
{
    return (struct wr_vsparse *)clock;
}

static uint32_t home(const struct wr_vsparse *s, wr_vdim dim)
{
    return (uint32_t)((dim * 0x9e3779b97f4a7c15u) >> 40) & (s->cap - 1);
}

static struct wr_vsparse *make(struct wr_vclocks *c, uint32_t cap)
{
    struct wr_vsparse *s = malloc(sizeof *s + cap * sizeof(struct entry));
    if (!s) {
        c->failed = true;
        return NULL;
    }
    memset(s, 0, sizeof *s);
    memset(s->at, 0, cap * sizeof(struct entry));
    s->refs = 1;
    s->cap = cap;
    return s;
}

struct wr_vclock *wr_vsparse_new(struct wr_vclocks *c)
{
    return (struct wr_vclock *)make(c, SLOTS);
}

void wr_vsparse_unref(struct wr_vclock *clock)
{
    if (clock && --clock->refs == 0)
        free(clock);
}

/* Where the entry is, or belongs. */
static struct entry *find(struct wr_vsparse *s, wr_vdim dim)
{
    uint32_t i = home(s, dim);
    while (s->at[i].used && s->at[i].dim != dim)
        i = (i + 1) & (s->cap - 1);
    return &s->at[i];
}

uint32_t wr_vsparse_at(const struct wr_vclock *clock, wr_vdim dim)
{
    return find(of((struct wr_vclock *)clock), dim)->tick;
}

/* A table that is ours alone, with room for one more. */
static struct wr_vsparse *own(struct wr_vclocks *c, struct wr_vclock **mine)
{
    struct wr_vsparse *old = of(*mine);
    bool full = 2 * old->n + 2 > old->cap;
    if (old->refs == 1 && !full)
        return old;
    struct wr_vsparse *s = make(c, full ? 2 * old->cap : old->cap);
    if (!s)
        return NULL;
    s->n = old->n;
    s->oldest = old->oldest;
    s->nrecent = old->nrecent;
    memcpy(s->recent, old->recent, sizeof s->recent);
    if (!full)
        memcpy(s->at, old->at, old->cap * sizeof *old->at);
    for (uint32_t i = 0; full && i < old->cap; i++)
        if (old->at[i].used)
            *find(s, old->at[i].dim) = old->at[i];
    wr_vsparse_unref(*mine);
    *mine = (struct wr_vclock *)s;
    return s;
}

static void drop(struct wr_vsparse *s, wr_vdim dim)
{
    uint32_t hole = (uint32_t)(find(s, dim) - s->at), i = hole;
    while (s->at[i = (i + 1) & (s->cap - 1)].used) {
        uint32_t from = home(s, s->at[i].dim);
        bool stays = hole <= i ? hole < from && from <= i : hole < from || from <= i;
        if (stays)
            continue;
        s->at[hole] = s->at[i];
        hole = i;
    }
    s->at[hole] = (struct entry){0};
    s->n--;
}

/* Of the recent ones the oldest makes room. */
static void put(struct wr_vsparse *s, wr_vdim dim, uint32_t tick)
{
    struct entry *e = find(s, dim);
    if (e->used) {
        e->tick = WR_MAX(e->tick, tick);
        return;
    }
    if (s->nrecent == RECENT) {
        drop(s, s->recent[s->oldest]);
        e = find(s, dim);
    } else {
        s->nrecent++;
    }
    s->recent[s->oldest] = dim;
    s->oldest = (s->oldest + 1) % RECENT;
    *e = (struct entry){dim, tick, true, false};
    s->n++;
}

void wr_vsparse_raise(struct wr_vclocks *c, struct wr_vclock **mine, wr_vdim dim, uint32_t tick)
{
    if (wr_vsparse_at(*mine, dim) >= tick)
        return;
    struct wr_vsparse *s = own(c, mine);
    if (s)
        put(s, dim, tick);
}

void wr_vsparse_merge(struct wr_vclocks *c, struct wr_vclock **mine, const struct wr_vclock *other, uint32_t shift)
{
    const struct wr_vsparse *o = of((struct wr_vclock *)other);
    if (*mine == other && !shift)
        return;
    for (uint32_t i = 0; i < o->cap; i++)
        if (o->at[i].used && o->at[i].tick)
            wr_vsparse_raise(c, mine, wr_vdim_shift(c, o->at[i].dim, shift), o->at[i].tick);
}

void wr_vsparse_keep(struct wr_vclocks *c, struct wr_vclock **mine, wr_vdim dim)
{
    struct wr_vsparse *s = own(c, mine);
    if (!s)
        return;
    struct entry *e = find(s, dim);
    if (!e->used) { /* clocks are told before anything is known */
        *e = (struct entry){dim, 0, true, true};
        s->n++;
    }
}
