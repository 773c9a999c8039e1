/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The counts of v-forms. All-gather and reduce-scatter know those of all ranks, and have a plan for each set of them. In gather,
 * scatter and all-to-all a rank knows only what it sends and receives itself, and cannot tell whether the others' counts are
 * those of last time; so there one plan serves all counts: it is made for a count of 1 everywhere, and each call puts its own
 * steps into it (wr_exec_reshape()), which needs no word with other ranks.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/coll/coll.h"

static weir_status check_one(const weir_comm *comm, const char *what, const uint64_t *counts, const uint64_t *offsets,
                             weir_error *err)
{
    uint64_t most = UINT64_MAX / 16 / (uint64_t)comm->size;
    if (!counts)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "the counts of the %s are NULL", what);
    for (int r = 0; r < comm->size; r++)
        if (counts[r] > most || (offsets && offsets[r] > most))
            return wr_error_set(err, WEIR_ERR_INVALID, NULL, "%llu elements for rank %d are too many",
                                (unsigned long long)WR_MAX(counts[r], offsets ? offsets[r] : 0), r);
    return WEIR_OK;
}

weir_status wr_coll_check_numbers(const weir_comm *comm, const struct wr_coll_call *call, weir_error *err)
{
    bool rooted = call->coll == WR_COLL_GATHER || call->coll == WR_COLL_SCATTER;
    weir_status status = WEIR_OK;
    if (!rooted || comm->rank == call->root)
        status = check_one(comm, call->coll == WR_COLL_SCATTER ? "input" : "output", call->counts, call->offsets, err);
    if (!status && call->coll == WR_COLL_ALLTOALL)
        status = check_one(comm, "input", call->in_counts, call->in_offsets, err);
    if (!status && rooted && comm->rank == call->root && call->counts[call->root] != call->count)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "the root's own count is %llu, and %llu in counts",
                            (unsigned long long)call->count, (unsigned long long)call->counts[call->root]);
    return status;
}

uint64_t wr_coll_hash_counts(const weir_comm *comm, const struct wr_coll_call *call, uint64_t *sum)
{
    uint64_t hash = 0xcbf29ce484222325u;
    *sum = 0;
    for (int r = 0; r < comm->size; r++) {
        *sum += call->counts[r];
        hash = (hash ^ call->counts[r]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash;
}

/* Room for n numbers. */
static weir_status reserve(struct wr_coll_numbers *numbers, size_t n, weir_error *err)
{
    if (n <= numbers->cap)
        return WEIR_OK;
    uint64_t *larger = realloc(numbers->counts, n * sizeof *larger);
    if (!larger)
        return wr_error_memory(err, n * sizeof *larger, "counts");
    numbers->counts = larger;
    numbers->cap = n;
    return WEIR_OK;
}

/* `len` and `at` get counts and offsets, times `unit`; returns whether each part begins where the one before ends. */
static bool scale(uint64_t *len, uint64_t *at, const uint64_t *counts, const uint64_t *offsets, int n, uint64_t unit)
{
    uint64_t sum = 0;
    bool packed = true;
    for (int r = 0; r < n; r++) {
        len[r] = counts ? counts[r] * unit : 1;
        at[r] = offsets ? offsets[r] * unit : sum;
        packed &= !len[r] || at[r] == sum;
        sum += len[r];
    }
    return packed;
}

static void set_pairs(const weir_comm *comm, const struct wr_coll_call *call, bool any, uint64_t unit,
                      struct wr_coll_numbers *numbers)
{
    size_t n = (size_t)comm->size;
    uint64_t *at = numbers->counts;
    scale(at, at + n, any ? NULL : call->in_counts, any ? NULL : call->in_offsets, comm->size, unit);
    scale(at + 2 * n, at + 3 * n, any ? NULL : call->counts, any ? NULL : call->offsets, comm->size, unit);
    numbers->pairs = (struct wr_plan_pairs){at, at + n, at + 2 * n, at + 3 * n};
}

weir_status wr_coll_set_numbers(const weir_comm *comm, const struct wr_coll_call *call, bool any,
                                struct wr_coll_numbers *numbers, struct wr_plan_spec *spec, weir_error *err)
{
    size_t n = (size_t)comm->size;
    uint64_t unit = wr_coll_combines(call->coll) ? 1 : weir_type_size(call->type);
    weir_status status = reserve(numbers, 4 * n + 1, err);
    if (status)
        return status;
    uint64_t *counts = numbers->counts, *offsets = counts + n, *places = offsets + n + 1;
    bool local = spec->local = wr_coll_is_local(call), packed;
    if (call->coll == WR_COLL_ALLTOALL) {
        set_pairs(comm, call, any, unit, numbers);
        spec->pairs = &numbers->pairs;
        return WEIR_OK;
    }
    if (local && !any && comm->rank != call->root) {
        memset(counts, 0, (2 * n + 1) * sizeof *counts);
        counts[comm->rank] = call->count * unit;
    } else if (local) {
        scale(counts, offsets, any ? NULL : call->counts, any ? NULL : call->offsets, comm->size, unit);
        offsets[n] = 0;
        for (size_t r = 0; r < n; r++)
            offsets[n] = WR_MAX(offsets[n], counts[r] ? offsets[r] + counts[r] : 0);
    } else {
        packed = scale(counts, places, call->counts, call->offsets, comm->size, unit);
        scale(counts, offsets, call->counts, NULL, comm->size, unit);
        offsets[n] = offsets[n - 1] + counts[n - 1];
        numbers->places = packed ? NULL : places;
    }
    numbers->offsets = offsets;
    spec->counts = counts;
    spec->offsets = offsets;
    return WEIR_OK;
}
