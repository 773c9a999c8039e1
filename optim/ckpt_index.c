/* SPDX-License-Identifier: BSD-3-Clause */
/* The index of a checkpoint: which parts make which tensor, put together from what the ranks say they have. */
#include "optim/ckpt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static const char advice_cover[] = "the ranges of all ranks together must cover each tensor exactly once";

void wr_ckpt_index_free(struct wr_ckpt_index *index)
{
    for (size_t i = 0; i < index->ntensors; i++) {
        free(index->tensors[i].name);
        free(index->tensors[i].parts);
    }
    free(index->tensors);
    free(index->shards);
    json_decref(index->entries);
    memset(index, 0, sizeof *index);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct wr_ckpt_tensor *)a)->name, ((const struct wr_ckpt_tensor *)b)->name);
}

void wr_ckpt_index_sort(struct wr_ckpt_index *index)
{
    qsort(index->tensors, index->ntensors, sizeof *index->tensors, by_name);
}

struct wr_ckpt_tensor *wr_ckpt_index_find(const struct wr_ckpt_index *index, const char *name)
{
    struct wr_ckpt_tensor key = {.name = (char *)name};
    return bsearch(&key, index->tensors, index->ntensors, sizeof key, by_name);
}

const char *wr_ckpt_part_name(const char *name, uint64_t count, const struct wr_ckpt_part *part,
                              char buf[WR_CKPT_PART_NAME])
{
    if (part->count == count)
        return name;
    snprintf(buf, WR_CKPT_PART_NAME, "%s[%" PRIu64 ":%" PRIu64 "]", name, part->first, part->first + part->count);
    return buf;
}

void wr_ckpt_shard_name(int rank, int nranks, char name[WR_CKPT_FILE_NAME])
{
    snprintf(name, WR_CKPT_FILE_NAME, "shard-%05d-of-%05d.safetensors", rank, nranks);
}

/* ---- merging ---- */

/* What one rank says of one range. */
struct claim {
    const char *name; /* in the description */
    const json_t *dtype, *shape;
    int rank;
    struct wr_ckpt_part part;
};

struct merge {
    struct wr_ckpt_index *index;
    json_t **roots; /* the descriptions, by rank */
    struct claim *claims;
    size_t nclaims;
    int nranks;
};

static int by_range(const void *a, const void *b)
{
    const struct claim *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    if (order || x->part.first == y->part.first)
        return order ? order : x->part.count < y->part.count ? -1 : x->part.count > y->part.count;
    return x->part.first < y->part.first ? -1 : 1;
}

/* Adds an entry of a rank to those of all. */
static weir_status merge_entries(json_t *all, const json_t *entries, int rank, weir_error *err)
{
    const char *key;
    json_t *value;
    char brief[96];
    json_object_foreach((json_t *)entries, key, value)
    {
        json_t *there = json_object_get(all, key);
        if (there && !json_equal(there, value)) {
            wr_error_set(err, WEIR_ERR_MISMATCH, "let them give the same value, or keys of their own",
                         "entry '%s' of rank %d is not what a rank before it gave", wr_ckpt_brief(key, brief), rank);
            wr_error_at(err, rank, NULL);
            return WEIR_ERR_MISMATCH;
        }
        if (!there && json_object_set(all, key, value))
            return wr_error_memory(err, 64, "an entry");
    }
    return WEIR_OK;
}

/* Takes over what a rank describes; `shard` is the one that it writes if it has elements. Sets *has. */
static weir_status take_rank(struct merge *m, int rank, uint64_t shard, bool *has, weir_error *err)
{
    const json_t *root = m->roots[rank], *list = json_object_get(root, "tensors");
    uint64_t step = (uint64_t)json_integer_value(json_object_get(root, "step"));
    if (rank && step != m->index->step) {
        wr_error_set(err, WEIR_ERR_MISMATCH, "save the same step on all ranks",
                     "rank 0 saves step %" PRIu64 ", rank %d step %" PRIu64, m->index->step, rank, step);
        wr_error_at(err, rank, NULL);
        return WEIR_ERR_MISMATCH;
    }
    m->index->step = step;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        struct claim *claim = &m->claims[m->nclaims++];
        claim->name = json_string_value(json_array_get(one, 0));
        claim->dtype = json_array_get(one, 1);
        claim->shape = json_array_get(one, 2);
        claim->rank = rank;
        claim->part.shard = shard;
        claim->part.first = (uint64_t)json_integer_value(json_array_get(one, 3));
        claim->part.count = (uint64_t)json_integer_value(json_array_get(one, 4));
        *has = *has || claim->part.count;
    }
    return merge_entries(m->index->entries, json_object_get(root, "entries"), rank, err);
}

static weir_status take_all(struct merge *m, weir_error *err)
{
    for (int rank = 0; rank < m->nranks; rank++) {
        bool has = false;
        weir_status status = take_rank(m, rank, m->index->nshards, &has, err);
        if (status != WEIR_OK)
            return status;
        if (has)
            wr_ckpt_shard_name(rank, m->nranks, m->index->shards[m->index->nshards++].file);
    }
    qsort(m->claims, m->nclaims, sizeof *m->claims, by_range);
    return WEIR_OK;
}

/* The ranges do not cover a tensor. */
static weir_status refuse(weir_error *err, int rank, const char *what, const char *name, uint64_t at)
{
    char brief[96];
    wr_error_set(err, WEIR_ERR_INVALID, advice_cover, what, wr_ckpt_brief(name, brief), at);
    wr_error_at(err, rank, NULL);
    return WEIR_ERR_INVALID;
}

static weir_status refuse_other(weir_error *err, const struct claim *claim, int other)
{
    char brief[96];
    wr_error_set(err, WEIR_ERR_MISMATCH, "give the same type and shape on all ranks",
                 "tensor '%s' has another type or shape on rank %d than on rank %d", wr_ckpt_brief(claim->name, brief),
                 claim->rank, other);
    wr_error_at(err, claim->rank, NULL);
    return WEIR_ERR_MISMATCH;
}

/* Makes one tensor of its claims, which are in the order of their ranges. */
static weir_status make_tensor(const struct claim *claims, size_t n, struct wr_ckpt_tensor *tensor, weir_error *err)
{
    uint64_t at = 0;
    tensor->dtype = wr_ckpt_dtype_named(json_string_value(claims->dtype));
    tensor->ndims = (unsigned)json_array_size(claims->shape);
    for (unsigned i = 0; i < tensor->ndims; i++)
        tensor->shape[i] = (uint64_t)json_integer_value(json_array_get(claims->shape, i));
    wr_ckpt_count(tensor->shape, tensor->ndims, tensor->dtype->bytes, &tensor->count);
    tensor->name = strdup(claims->name);
    tensor->parts = calloc(n, sizeof *tensor->parts);
    if (!tensor->name || !tensor->parts)
        return wr_error_memory(err, n * sizeof *tensor->parts, "the parts of a tensor");
    for (size_t i = 0; i < n; i++) {
        const struct claim *claim = &claims[i];
        if (!json_equal((json_t *)claim->dtype, (json_t *)claims->dtype) ||
            !json_equal((json_t *)claim->shape, (json_t *)claims->shape))
            return refuse_other(err, claim, claims->rank);
        if (!claim->part.count)
            continue;
        if (claim->part.first < at)
            return refuse(err, claim->rank, "elements of tensor '%s' from %" PRIu64 " on are there twice", claim->name,
                          claim->part.first);
        if (claim->part.first > at)
            break;
        at += claim->part.count;
        tensor->parts[tensor->nparts++] = claim->part;
    }
    if (at != tensor->count)
        return refuse(err, -1, "no rank has the elements of tensor '%s' from %" PRIu64 " on", claims->name, at);
    return WEIR_OK;
}

static weir_status make_tensors(struct merge *m, weir_error *err)
{
    weir_status status = WEIR_OK;
    for (size_t i = 0, n; status == WEIR_OK && i < m->nclaims; i += n) {
        for (n = 1; i + n < m->nclaims && !strcmp(m->claims[i].name, m->claims[i + n].name);)
            n++;
        status = make_tensor(&m->claims[i], n, &m->index->tensors[m->index->ntensors++], err);
    }
    return status;
}

static weir_status parse_all(struct merge *m, const char *const *texts, const uint64_t *lens, weir_error *err)
{
    json_error_t why;
    size_t n = 0;
    for (int rank = 0; rank < m->nranks; rank++) {
        m->roots[rank] = json_loadb(texts[rank], (size_t)lens[rank], 0, &why);
        if (!m->roots[rank])
            return wr_error_set(err, WEIR_ERR_INTERNAL, NULL, "what rank %d describes cannot be read: %s", rank,
                                why.text);
        n += json_array_size(json_object_get(m->roots[rank], "tensors"));
    }
    m->claims = calloc(n + 1, sizeof *m->claims);
    m->index->tensors = calloc(n + 1, sizeof *m->index->tensors);
    m->index->shards = calloc((size_t)m->nranks, sizeof *m->index->shards);
    m->index->entries = json_object();
    if (!m->claims || !m->index->tensors || !m->index->shards || !m->index->entries)
        return wr_error_memory(err, n * sizeof *m->index->tensors, "the index of a checkpoint");
    return WEIR_OK;
}

weir_status wr_ckpt_index_merge(const char *const *texts, const uint64_t *lens, int nranks, struct wr_ckpt_index *index,
                                weir_error *err)
{
    struct wr_ckpt_index made = {.ranks = (uint64_t)nranks};
    struct merge m = {.index = &made, .nranks = nranks, .roots = calloc((size_t)nranks, sizeof(json_t *))};
    weir_status status =
        m.roots ? parse_all(&m, texts, lens, err) : wr_error_memory(err, (size_t)nranks * 8, "an index");
    if (status == WEIR_OK)
        status = take_all(&m, err);
    if (status == WEIR_OK)
        status = make_tensors(&m, err);
    for (int rank = 0; m.roots && rank < nranks; rank++)
        json_decref(m.roots[rank]);
    free(m.roots);
    free(m.claims);
    if (status != WEIR_OK)
        wr_ckpt_index_free(&made);
    else
        *index = made;
    return status;
}
