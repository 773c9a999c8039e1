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
    if (!reserve((void **)&m->span, &m->cap, 1, sizeof *m->span))
        return false;
    m->span[0] = (struct wr_vspan){0};
    m->n = len ? 1 : 0;
    return true;
}

void wr_vmem_free(struct wr_vmem *m)
{
    free(m->span);
    free(m->touches.at);
    memset(m, 0, sizeof *m);
}

uint32_t wr_vmem_find(const struct wr_vmem *m, uint64_t off)
{
    uint32_t lo = 0, hi = m->n;
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (m->span[mid].start <= off)
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
    if (m->span[i].start == off)
        return i;
    if (!reserve((void **)&m->span, &m->cap, m->n + 1, sizeof *m->span))
        return WR_VERIFY_NONE;
    memmove(&m->span[i + 2], &m->span[i + 1], (m->n - i - 1) * sizeof *m->span);
    m->span[i + 1] = m->span[i];
    m->span[i + 1].start = off;
    m->span[i + 1].place += off - m->span[i].start;
    m->n++;
    return i + 1;
}

bool wr_vmem_write(struct wr_vmem *m, uint32_t i, uint32_t j, uint64_t off, const struct wr_vpieces *pieces,
                   uint32_t dim, uint32_t tick)
{
    if (!reserve((void **)&m->span, &m->cap, m->n + pieces->n, sizeof *m->span))
        return false;
    memmove(&m->span[i + pieces->n], &m->span[j], (m->n - j) * sizeof *m->span);
    m->n = m->n - (j - i) + pieces->n;
    for (uint32_t k = 0; k < pieces->n; k++) {
        const struct wr_vpiece *p = &pieces->at[k];
        m->span[i + k] =
            (struct wr_vspan){.start = off, .place = p->place, .set = p->set, .writer = dim, .written = tick};
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

bool wr_vread_add(struct wr_vreads *r, uint32_t *list, uint32_t dim, uint32_t tick)
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

bool wr_vtouch(struct wr_vtouches *t, uint32_t dim, uint32_t tick)
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
    uint32_t i = (dim * 0x9e3779b1u >> 7) & (t->cap - 1);
    while (t->at[i].tick && t->at[i].dim != dim)
        i = (i + 1) & (t->cap - 1);
    t->n += !t->at[i].tick;
    t->at[i].dim = dim;
    t->at[i].tick = WR_MAX(t->at[i].tick, tick);
    return true;
}
