/* SPDX-License-Identifier: BSD-3-Clause */
#include "examples/gpt/leaves.h"

#include <stdlib.h>
#include <string.h>

enum half { TAIL, HEAD, HALVES }; /* of wte: of the last layer, of the first */

static int64_t padded(int64_t n)
{
    enum { LINE = 64 / sizeof(real) };
    return (n + LINE - 1) / LINE * LINE;
}

static int64_t tensor_size(const struct gpt_leaves *l, int unit, int tensor)
{
    struct gpt_tensor t;
    gpt_unit_tensor(l->config, unit, tensor, &t);
    return padded(t.rows * t.cols);
}

static real *zeros(int64_t n)
{
    real *p = aligned_alloc(64, (size_t)n * sizeof *p);
    return p ? memset(p, 0, (size_t)n * sizeof *p) : NULL;
}

weir_status gpt_leaves_create(struct gpt_leaves *l, const struct gpt_config *config, const bool *marks, bool begins, bool ends,
                              int64_t micros)
{
    int n = gpt_units(config);
    *l = (struct gpt_leaves){.config = config, .micros = micros, .open = -1, .ends = ends};
    l->trees = calloc((size_t)n, sizeof *l->trees);
    if (!l->trees)
        return WEIR_ERR_NO_MEMORY;
    for (int u = 0; u < n; u++) {
        struct gpt_tree *t = &l->trees[u];
        for (int i = 0; i < gpt_unit_tensors(config, u); i++)
            t->size += tensor_size(l, u, i);
        if (!marks[u])
            continue;
        t->leaves = calloc((size_t)micros, sizeof *t->leaves);
        t->nodes = calloc((size_t)(2 * micros), sizeof *t->nodes);
        if (!t->leaves || !t->nodes)
            return WEIR_ERR_NO_MEMORY;
    }
    for (int h = 0; h < HALVES; h++) {
        if (h == TAIL ? !ends : !begins)
            continue;
        l->halves[h] = zeros(micros * l->trees[0].size);
        if (!l->halves[h])
            return WEIR_ERR_NO_MEMORY;
    }
    return WEIR_OK;
}

void gpt_leaves_free(struct gpt_leaves *l)
{
    for (int u = 0; l->trees && u < gpt_units(l->config); u++) {
        struct gpt_tree *t = &l->trees[u];
        for (int64_t i = 0; t->leaves && i < l->micros; i++)
            free(t->leaves[i]);
        for (int64_t i = 0; t->nodes && i < 2 * l->micros; i++)
            free(t->nodes[i]);
        free(t->leaves);
        free(t->nodes);
    }
    for (int h = 0; h < HALVES; h++)
        free(l->halves[h]);
    free(l->trees);
    *l = (struct gpt_leaves){.config = NULL};
}

void gpt_leaves_begin(struct gpt_leaves *l, int64_t micro)
{
    l->micro = micro;
}

/* A half of wte in a micro-batch. */
static real *half(const struct gpt_leaves *l, enum half h, int64_t micro)
{
    return l->halves[h] + micro * l->trees[0].size;
}

weir_status gpt_leaves_grads(struct gpt_leaves *l, int unit, real **dw)
{
    struct gpt_tree *t = &l->trees[unit];
    real *at;
    if (unit == 0) { /* the unit that is open beside it tells which layer asks */
        at = half(l, l->open == 1 ? HEAD : TAIL, l->micro);
    } else {
        real **leaf = &t->leaves[l->micro];
        l->open = unit;
        if (!*leaf && !(*leaf = zeros(t->size)))
            return WEIR_ERR_NO_MEMORY;
        at = *leaf;
    }
    for (int i = 0; i < gpt_unit_tensors(l->config, unit); at += tensor_size(l, unit, i++))
        dw[i] = at;
    return WEIR_OK;
}

/* x += y */
static void add(int64_t n, real *x, const real *y)
{
    for (int64_t i = 0; i < n; i++)
        x[i] += y[i];
}

/* A leaf is complete: sums whose two parts are there are made. Sums are the same bits whichever part comes first. */
static void grow(const struct gpt_leaves *l, struct gpt_tree *t, int64_t micro)
{
    t->nodes[l->micros + micro] = t->leaves[micro];
    t->leaves[micro] = NULL;
    for (int64_t n = l->micros + micro; n > 1 && t->nodes[n] && t->nodes[n ^ 1]; n /= 2) {
        add(t->size, t->nodes[n], t->nodes[n ^ 1]);
        t->nodes[n / 2] = t->nodes[n];
        free(t->nodes[n ^ 1]);
        t->nodes[n] = t->nodes[n ^ 1] = NULL;
    }
}

/* Both halves of wte in a micro-batch are there: together they are its leaf. */
static weir_status unite(struct gpt_leaves *l, int64_t micro)
{
    struct gpt_tree *t = &l->trees[0];
    real *leaf = aligned_alloc(64, (size_t)t->size * sizeof *leaf);
    if (!leaf)
        return WEIR_ERR_NO_MEMORY;
    memcpy(leaf, half(l, TAIL, micro), (size_t)t->size * sizeof *leaf);
    add(t->size, leaf, half(l, HEAD, micro));
    t->leaves[micro] = leaf;
    grow(l, t, micro);
    return WEIR_OK;
}

void gpt_leaves_end(struct gpt_leaves *l, const struct gpt_part *part)
{
    for (int b = part->first; b < part->last; b++)
        grow(l, &l->trees[2 + b], l->micro);
    if (part->begins)
        grow(l, &l->trees[1], l->micro);
    if (part->ends)
        grow(l, &l->trees[gpt_units(l->config) - 1], l->micro);
}

/* The half that another stage has is in its place, too. */
static weir_status swap(struct gpt_leaves *l, weir_comm *tied)
{
    enum half mine = l->ends ? TAIL : HEAD;
    int64_t n = l->micros * l->trees[0].size;
    uint64_t bytes = (uint64_t)n * sizeof(real);
    int other = 1 - weir_comm_rank(tied);
    weir_request *request = NULL;
    if (!l->halves[!mine] && !(l->halves[!mine] = zeros(n)))
        return WEIR_ERR_NO_MEMORY;
    weir_status status = weir_irecv(tied, l->halves[!mine], bytes, other, 0, NULL, &request);
    if (status == WEIR_OK)
        status = weir_send(tied, l->halves[mine], bytes, other, 0);
    weir_status received = weir_wait(&request);
    return status == WEIR_OK ? received : status;
}

weir_status gpt_leaves_join(struct gpt_leaves *l, weir_comm *tied)
{
    weir_status status = tied ? swap(l, tied) : WEIR_OK;
    for (int64_t i = 0; i < l->micros && l->halves[TAIL] && l->halves[HEAD] && status == WEIR_OK; i++)
        status = unite(l, i);
    for (int h = 0; h < HALVES; h++)
        if (l->halves[h])
            memset(l->halves[h], 0, (size_t)(l->micros * l->trees[0].size) * sizeof(real));
    return status;
}

void gpt_leaves_take(struct gpt_leaves *l, int unit, int tensor, real *to)
{
    struct gpt_tree *t = &l->trees[unit];
    struct gpt_tensor shape;
    const real *from = t->nodes[1];
    gpt_unit_tensor(l->config, unit, tensor, &shape);
    for (int i = 0; i < tensor; i++)
        from += tensor_size(l, unit, i);
    add(shape.rows * shape.cols, to, from);
    if (tensor + 1 < gpt_unit_tensors(l->config, unit))
        return;
    free(t->nodes[1]);
    t->nodes[1] = NULL;
}
