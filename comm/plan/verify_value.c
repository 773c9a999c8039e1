/* SPDX-License-Identifier: BSD-3-Clause */
/* Which ranks are in a partial result, as sorted ranges, and the tree in which they were combined. */
#include <stdlib.h>
#include <string.h>

#include "comm/plan/verify_impl.h"

static bool reserve(void **array, uint32_t *cap, uint32_t need, size_t size)
{
    if (need <= *cap)
        return true;
    uint32_t more = *cap ? *cap : 64;
    while (more < need) {
        if (more > UINT32_MAX / 2)
            return false;
        more *= 2;
    }
    void *larger = realloc(*array, more * size);
    if (!larger)
        return false;
    *array = larger;
    *cap = more;
    return true;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
    return x ^ (x >> 32);
}

static uint32_t add_set(struct wr_vvalues *v, const uint32_t *ranges, uint32_t n, uint64_t order)
{
    if (!reserve((void **)&v->set, &v->cap_sets, v->nsets + 1, sizeof *v->set) ||
        !reserve((void **)&v->ranges, &v->cap_ranges, v->nranges + 2 * n, sizeof *v->ranges))
        return WR_VERIFY_NONE;
    struct wr_vset *set = &v->set[v->nsets];
    *set = (struct wr_vset){.order = order, .first = v->nranges, .n = n};
    for (uint32_t i = 0; i < n; i++)
        set->size += ranges[2 * i + 1] - ranges[2 * i];
    if (n)
        memcpy(v->ranges + v->nranges, ranges, 2 * n * sizeof *ranges);
    v->nranges += 2 * n;
    return v->nsets++;
}

bool wr_vvalues_init(struct wr_vvalues *v, int nranks)
{
    memset(v, 0, sizeof *v);
    v->nranks = (uint32_t)nranks;
    v->cap_unions = v->cap_shifted = 256;
    v->unions = calloc(v->cap_unions, sizeof *v->unions);
    v->shifted = calloc(v->cap_shifted, sizeof *v->shifted);
    if (!v->unions || !v->shifted || add_set(v, NULL, 0, 0) == WR_VERIFY_NONE)
        return false;
    for (int r = 0; r < nranks; r++) {
        uint32_t range[2] = {(uint32_t)r, (uint32_t)r + 1};
        if (add_set(v, range, 1, mix((uint64_t)r + 1)) == WR_VERIFY_NONE)
            return false;
    }
    return true;
}

void wr_vvalues_free(struct wr_vvalues *v)
{
    free(v->set);
    free(v->ranges);
    free(v->unions);
    free(v->shifted);
    free(v->operands);
    free(v->work);
    memset(v, 0, sizeof *v);
}

bool wr_vvalues_is_range(const struct wr_vvalues *v, uint32_t id, int from, int to)
{
    const struct wr_vset *set = &v->set[id];
    return set->n == 1 && v->ranges[set->first] == (uint32_t)from && v->ranges[set->first + 1] == (uint32_t)to;
}

static int by_start(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Makes the union; 0 when the operands are not disjoint. */
static uint32_t unite(struct wr_vvalues *v, const uint32_t *ids, uint32_t n)
{
    uint32_t total = 0;
    uint64_t order = v->set[ids[0]].order;
    for (uint32_t i = 0; i < n; i++) {
        total += v->set[ids[i]].n;
        if (i) /* the left result and one more operand */
            order = mix(order * 3 + mix(v->set[ids[i]].order + 0x51));
    }
    if (!reserve((void **)&v->work, &v->cap_work, 2 * total, sizeof *v->work))
        return WR_VERIFY_NONE;
    uint32_t k = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct wr_vset *set = &v->set[ids[i]];
        memcpy(v->work + 2 * k, v->ranges + set->first, 2 * set->n * sizeof *v->work);
        k += set->n;
    }
    qsort(v->work, total, 2 * sizeof *v->work, by_start);
    k = 0;
    for (uint32_t i = 1; i < total; i++) {
        uint32_t from = v->work[2 * i], to = v->work[2 * i + 1];
        if (from < v->work[2 * k + 1])
            return 0;
        if (from == v->work[2 * k + 1]) {
            v->work[2 * k + 1] = to;
        } else {
            k++;
            v->work[2 * k] = from;
            v->work[2 * k + 1] = to;
        }
    }
    return add_set(v, v->work, k + 1, order);
}

static bool rehash(struct wr_vunion **table, uint32_t *capacity)
{
    uint32_t cap = *capacity * 2;
    struct wr_vunion *larger = calloc(cap, sizeof *larger);
    if (!larger)
        return false;
    for (uint32_t i = 0; i < *capacity; i++) {
        if (!(*table)[i].n)
            continue;
        uint32_t at = (uint32_t)(*table)[i].hash & (cap - 1);
        while (larger[at].n)
            at = (at + 1) & (cap - 1);
        larger[at] = (*table)[i];
    }
    free(*table);
    *table = larger;
    *capacity = cap;
    return true;
}

/* Makes the set of the ranks `by` further. */
static uint32_t make_shifted(struct wr_vvalues *v, uint32_t id, uint32_t by)
{
    uint32_t n = v->set[id].n, k = 0, last = v->nranks;
    if (!reserve((void **)&v->work, &v->cap_work, 2 * (n + 1), sizeof *v->work))
        return WR_VERIFY_NONE;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t *range = v->ranges + v->set[id].first + 2 * i;
        uint32_t from = (range[0] + by) % last, to = from + (range[1] - range[0]);
        v->work[2 * k] = from;
        v->work[2 * k++ + 1] = WR_MIN(to, last);
        if (to > last) { /* at most one goes round */
            v->work[2 * k] = 0;
            v->work[2 * k++ + 1] = to - last;
        }
    }
    qsort(v->work, k, 2 * sizeof *v->work, by_start);
    uint32_t joined = 0;
    for (uint32_t i = 1; i < k; i++) {
        if (v->work[2 * i] == v->work[2 * joined + 1]) {
            v->work[2 * joined + 1] = v->work[2 * i + 1];
        } else {
            joined++;
            v->work[2 * joined] = v->work[2 * i];
            v->work[2 * joined + 1] = v->work[2 * i + 1];
        }
    }
    return add_set(v, v->work, joined + 1, 0);
}

uint32_t wr_vvalues_shift(struct wr_vvalues *v, uint32_t id, uint32_t by)
{
    by %= v->nranks;
    if (!by || !v->set[id].n || v->set[id].size == v->nranks)
        return id;
    if (v->set[id].size == 1) /* of one rank alone: 1 + rank */
        return 1 + (v->ranges[v->set[id].first] + by) % v->nranks;
    uint64_t hash = mix((uint64_t)id << 32 | by);
    uint32_t at = (uint32_t)hash & (v->cap_shifted - 1);
    for (; v->shifted[at].n; at = (at + 1) & (v->cap_shifted - 1))
        if (v->shifted[at].first == id && v->shifted[at].n == by)
            return v->shifted[at].set;
    uint32_t set = make_shifted(v, id, by);
    if (set == WR_VERIFY_NONE)
        return set;
    v->shifted[at] = (struct wr_vunion){hash, id, by, set};
    if (++v->nshifted * 2 > v->cap_shifted && !rehash(&v->shifted, &v->cap_shifted))
        return WR_VERIFY_NONE;
    return set;
}

uint32_t wr_vvalues_combine(struct wr_vvalues *v, const uint32_t *ids, uint32_t n)
{
    uint64_t hash = n;
    if (n == 1)
        return ids[0];
    for (uint32_t i = 0; i < n; i++)
        hash = (hash ^ ids[i]) * 0x9e3779b97f4a7c15u, hash ^= hash >> 29;
    uint32_t at = (uint32_t)hash & (v->cap_unions - 1);
    for (; v->unions[at].n; at = (at + 1) & (v->cap_unions - 1))
        if (v->unions[at].hash == hash && v->unions[at].n == n &&
            !memcmp(v->operands + v->unions[at].first, ids, n * sizeof *ids))
            return v->unions[at].set;
    uint32_t set = unite(v, ids, n);
    if (!set || set == WR_VERIFY_NONE)
        return set;
    if (!reserve((void **)&v->operands, &v->cap_operands, v->noperands + n, sizeof *v->operands))
        return WR_VERIFY_NONE;
    memcpy(v->operands + v->noperands, ids, n * sizeof *ids);
    v->unions[at] = (struct wr_vunion){hash, v->noperands, n, set};
    v->noperands += n;
    if (++v->nunions * 2 > v->cap_unions && !rehash(&v->unions, &v->cap_unions))
        return WR_VERIFY_NONE;
    return set;
}
