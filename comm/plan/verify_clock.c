/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Vector clocks of thousands of lanes. A clock is a table of pages; pages are shared between clocks until one
 * changes, and a merge that brings nothing new shares the other's page, so that what a whole machine knows is
 * stored about once.
 */
#include <stdlib.h>
#include <string.h>

#include "comm/plan/verify_impl.h"

enum { BLOCK_PAGES = 1024 };

static void *take_block(struct wr_vclocks *c, size_t size)
{
    if (c->nblocks == c->cap_blocks) {
        uint32_t cap = c->cap_blocks ? c->cap_blocks * 2 : 64;
        void **larger = realloc(c->blocks, cap * sizeof *larger);
        if (!larger)
            return NULL;
        c->blocks = larger;
        c->cap_blocks = cap;
    }
    void *block = calloc(1, size);
    if (block)
        c->blocks[c->nblocks++] = block;
    return block;
}

void wr_vclocks_free(struct wr_vclocks *c)
{
    for (uint32_t i = 0; i < c->nblocks; i++)
        free(c->blocks[i]);
    free(c->blocks);
    memset(c, 0, sizeof *c);
}

static struct wr_vpage *page_new(struct wr_vclocks *c)
{
    if (!c->free_pages) {
        struct wr_vpage *block = take_block(c, BLOCK_PAGES * sizeof *block);
        if (!block) {
            c->failed = true;
            return NULL;
        }
        for (int i = 0; i < BLOCK_PAGES; i++) {
            block[i].free_next = c->free_pages;
            c->free_pages = &block[i];
        }
    }
    struct wr_vpage *page = c->free_pages;
    c->free_pages = page->free_next;
    page->refs = 1;
    return page;
}

static void page_unref(struct wr_vclocks *c, struct wr_vpage *page)
{
    if (page && --page->refs == 0) {
        page->free_next = c->free_pages;
        c->free_pages = page;
    }
}

struct wr_vclock *wr_vclock_new(struct wr_vclocks *c)
{
    if (c->sparse)
        return wr_vsparse_new(c);
    struct wr_vclock *clock = c->free_clocks;
    size_t size = sizeof *clock + c->npages * sizeof(struct wr_vpage *);
    if (clock)
        c->free_clocks = clock->free_next;
    else
        clock = take_block(c, size);
    if (!clock) {
        c->failed = true;
        return NULL;
    }
    memset(clock, 0, size);
    clock->refs = 1;
    return clock;
}

void wr_vclock_unref(struct wr_vclocks *c, struct wr_vclock *clock)
{
    if (c->sparse) {
        wr_vsparse_unref(clock);
        return;
    }
    if (!clock || --clock->refs > 0)
        return;
    for (uint32_t i = 0; i < c->npages; i++)
        page_unref(c, clock->page[i]);
    clock->free_next = c->free_clocks;
    c->free_clocks = clock;
}

/* A clock that is ours alone. */
static bool own(struct wr_vclocks *c, struct wr_vclock **mine)
{
    struct wr_vclock *old = *mine;
    if (old->refs == 1)
        return true;
    struct wr_vclock *clock = wr_vclock_new(c);
    if (!clock)
        return false;
    for (uint32_t i = 0; i < c->npages; i++)
        if ((clock->page[i] = old->page[i]))
            clock->page[i]->refs++;
    old->refs--;
    *mine = clock;
    return true;
}

static bool any(wr_vticks mask)
{
    return (mask[0] | mask[1] | mask[2] | mask[3]) != 0;
}

/* How two pages compare: bit 0: a has something larger, bit 1: b has. */
static unsigned compare(const struct wr_vpage *a, const struct wr_vpage *b)
{
    wr_vticks more_a = {0}, more_b = {0};
    for (int i = 0; i < WR_VERIFY_PAGE / 4; i++) {
        more_a |= a->four[i] > b->four[i];
        more_b |= b->four[i] > a->four[i];
    }
    return any(more_a) | (unsigned)any(more_b) << 1;
}

static bool merge_page(struct wr_vclocks *c, struct wr_vpage **mine, struct wr_vpage *other)
{
    if (!other || *mine == other)
        return true;
    unsigned how = *mine ? compare(*mine, other) : 2;
    if (how == 1)
        return true;
    if (how != 3) { /* equal pages become one, so that the next comparison is that of pointers */
        page_unref(c, *mine);
        other->refs++;
        *mine = other;
        return true;
    }
    struct wr_vpage *page = *mine;
    if (page->refs > 1) {
        if (!(page = page_new(c)))
            return false;
        memcpy(page->at, (*mine)->at, sizeof page->at);
        page_unref(c, *mine);
        *mine = page;
    }
    for (int i = 0; i < WR_VERIFY_PAGE / 4; i++) {
        wr_vticks more = other->four[i] > page->four[i];
        page->four[i] = (other->four[i] & more) | (page->four[i] & ~more);
    }
    return true;
}

void wr_vclock_merge(struct wr_vclocks *c, struct wr_vclock **mine, const struct wr_vclock *other, uint32_t shift)
{
    if (c->sparse) {
        wr_vsparse_merge(c, mine, other, shift);
        return;
    }
    if (*mine == other || !own(c, mine))
        return;
    for (uint32_t i = 0; i < c->npages; i++)
        if (!merge_page(c, &(*mine)->page[i], other->page[i]))
            return;
}

void wr_vclock_raise(struct wr_vclocks *c, struct wr_vclock **mine, wr_vdim dim, uint32_t tick)
{
    if (c->sparse) {
        wr_vsparse_raise(c, mine, dim, tick);
        return;
    }
    if (wr_vclock_at(c, *mine, dim) >= tick || !own(c, mine))
        return;
    struct wr_vpage **at = &(*mine)->page[dim / WR_VERIFY_PAGE];
    if (!*at || (*at)->refs > 1) {
        struct wr_vpage *page = page_new(c);
        if (!page)
            return;
        if (*at)
            memcpy(page->at, (*at)->at, sizeof page->at);
        else
            memset(page->at, 0, sizeof page->at);
        page_unref(c, *at);
        *at = page;
    }
    (*at)->at[dim % WR_VERIFY_PAGE] = (int32_t)tick;
}
