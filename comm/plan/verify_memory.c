/* SPDX-License-Identifier: BSD-3-Clause */
/* What is known of every buffer: intervals of elements with the same history. */
#include <stdlib.h>
#include <string.h>

#include "comm/plan/verify_impl.h"

static bool reserve(void **array, uint32_t *cap, uint32_t need, size_t size)
{
    if (need <= *cap)
        return true;
    uint32_t more = *cap ? *cap : 4;
    while (more < need)
        more *= 2;
    void *larger = realloc(*array, more * size);
    if (!larger)
        return false;
    *array = larger;
    *cap = more;
    return true;
}

bool wr_vmem_init(struct wr_vmem *m, uint64_t len)
{
    m->len = len;
    if (!reserve((void **)&m->store, &m->cap, 1, sizeof *m->store))
        return false;
    m->store[0] = (struct wr_vspan){0};
    m->n = m->gap = len ? 1 : 0;
    return true;
}

void wr_vmem_free(struct wr_vmem *m)
{
    free(m->store);
    free(m->touches.at);
    memset(m, 0, sizeof *m);
}

/* The gap is in front of span i, and has room for `more`. */
static bool open_gap(struct wr_vmem *m, uint32_t i, uint32_t more)
{
    uint32_t room = m->cap - m->n, behind = m->n - m->gap;
    if (room < more) {
        if (!reserve((void **)&m->store, &m->cap, m->n + more, sizeof *m->store))
            return false;
        memmove(m->store + m->cap - behind, m->store + m->gap + room, behind * sizeof *m->store);
        room = m->cap - m->n;
    }
    if (i < m->gap)
        memmove(m->store + i + room, m->store + i, (m->gap - i) * sizeof *m->store);
    else
        memmove(m->store + m->gap, m->store + m->gap + room, (i - m->gap) * sizeof *m->store);
    m->gap = i;
    return true;
}

uint32_t wr_vmem_find(const struct wr_vmem *m, uint64_t off)
{
    uint32_t lo = 0, hi = m->n;
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (wr_vspan_at(m, mid)->start <= off)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

uint32_t wr_vmem_split(struct wr_vmem *m, uint64_t off)
{
    if (off == m->len)
        return m->n;
    uint32_t i = wr_vmem_find(m, off);
    if (wr_vspan_at(m, i)->start == off)
        return i;
    if (!open_gap(m, i + 1, 1))
        return WR_VERIFY_NONE;
    struct wr_vspan *second = &m->store[m->gap++], *first = &m->store[i];
    m->n++;
    *second = *first;
    second->start = off;
    second->place += off - first->start;
    return i + 1;
}

bool wr_vmem_write(struct wr_vmem *m, uint32_t i, uint32_t j, uint64_t off, const struct wr_vpieces *pieces,
                   wr_vdim dim, uint32_t tick)
{
    if (!open_gap(m, j, pieces->n))
        return false;
    m->gap = i; /* what was there from i to j is in the gap now */
    m->n -= j - i;
    for (uint32_t k = 0; k < pieces->n; k++) {
        const struct wr_vpiece *p = &pieces->at[k];
        m->store[m->gap++] = (struct wr_vspan){.start = off, .place = p->place, .set = p->set, .writer = dim, .written = tick};
        m->n++;
        off += p->len;
    }
    return true;
}

bool wr_vpieces_add(struct wr_vpieces *p, uint64_t len, uint64_t place, uint32_t set)
{
    struct wr_vpiece *last = p->n ? &p->at[p->n - 1] : NULL;
    if (last && last->set == set && last->place + last->len == place) {
        last->len += len;
        return true;
    }
    if (!reserve((void **)&p->at, &p->cap, p->n + 1, sizeof *p->at))
        return false;
    p->at[p->n++] = (struct wr_vpiece){len, place, set};
    return true;
}

bool wr_vread_add(struct wr_vreads *r, uint32_t *list, wr_vdim dim, uint32_t tick)
{
    uint32_t next = *list;
    if (!r->n) /* entry 0 ends lists */
        r->n = 1;
    if (next && r->at[next].dim == dim) {
        if (r->at[next].tick >= tick)
            return true;
        next = r->at[next].next; /* lists share their tails, so entries never change */
    }
    if (r->n == UINT32_MAX || !reserve((void **)&r->at, &r->cap, r->n + 1, sizeof *r->at))
        return false;
    r->at[r->n] = (struct wr_vread){dim, tick, next};
    *list = r->n++;
    return true;
}

static uint32_t touch_home(const struct wr_vtouches *t, wr_vdim dim)
{
    return (uint32_t)((dim * 0x9e3779b97f4a7c15u) >> 35) & (t->cap - 1);
}

bool wr_vtouch(struct wr_vtouches *t, wr_vdim dim, uint32_t tick)
{
    if (2 * t->n >= t->cap) {
        struct wr_vtouches larger = {.cap = t->cap ? t->cap * 2 : 8};
        if (!(larger.at = calloc(larger.cap, sizeof *larger.at)))
            return false;
        for (uint32_t i = 0; i < t->cap; i++)
            if (t->at[i].tick)
                wr_vtouch(&larger, t->at[i].dim, t->at[i].tick);
        free(t->at);
        *t = larger;
    }
    uint32_t i = touch_home(t, dim);
    while (t->at[i].tick && t->at[i].dim != dim)
        i = (i + 1) & (t->cap - 1);
    t->n += !t->at[i].tick;
    t->at[i].dim = dim;
    t->at[i].tick = WR_MAX(t->at[i].tick, tick);
    return true;
}

bool wr_vtouched(const struct wr_vtouches *t, wr_vdim dim)
{
    if (!t->cap)
        return false;
    uint32_t i = touch_home(t, dim);
    while (t->at[i].tick && t->at[i].dim != dim)
        i = (i + 1) & (t->cap - 1);
    return t->at[i].tick != 0;
}
