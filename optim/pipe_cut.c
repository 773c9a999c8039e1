/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cutting layers into parts of neighbours. First the least possible weight of the heaviest part, then, among the cuts that reach it,
 * the one with the least sum of squares; both by dynamic programming over (parts, layers).
 */
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "optim/pipe.h"

enum { LAYERS_MAX = 2048 };

struct cut {
    double *sum;       /* of the first i layers */
    double *best, *next; /* by layers: the value of the best cut into k, and k+1, parts */
    uint16_t *from;    /* by part and layers: where that part begins in the best cut */
    int layers, parts;
};

/* The least weight of the heaviest part. */
static double least_maximum(struct cut *c)
{
    for (int i = 0; i <= c->layers; i++)
        c->best[i] = i ? c->sum[i] : INFINITY;
    for (int k = 2; k <= c->parts; k++) {
        for (int i = 0; i <= c->layers; i++)
            c->next[i] = INFINITY;
        for (int i = k; i <= c->layers; i++) /* the last part grows backwards until it alone is too heavy */
            for (int j = i - 1; j >= k - 1 && c->sum[i] - c->sum[j] < c->next[i]; j--)
                c->next[i] = WR_MIN(c->next[i], WR_MAX(c->best[j], c->sum[i] - c->sum[j]));
        double *swap = c->best;
        c->best = c->next;
        c->next = swap;
    }
    return c->best[c->layers];
}

/* The cut with the least sum of squares whose parts weigh at most `most`; fills in `from`. */
static void least_squares(struct cut *c, double most)
{
    for (int i = 0; i <= c->layers; i++)
        c->best[i] = i ? INFINITY : 0;
    for (int k = 1; k <= c->parts; k++) {
        uint16_t *from = c->from + (size_t)k * (size_t)(c->layers + 1);
        for (int i = 0; i <= c->layers; i++)
            c->next[i] = INFINITY;
        for (int i = k; i <= c->layers; i++)
            for (int j = i - 1; j >= k - 1 && c->sum[i] - c->sum[j] <= most; j--) {
                double weight = c->sum[i] - c->sum[j], value = c->best[j] + weight * weight;
                if (value < c->next[i]) {
                    c->next[i] = value;
                    from[i] = (uint16_t)j;
                }
            }
        double *swap = c->best;
        c->best = c->next;
        c->next = swap;
    }
}

static weir_status read_weights(const double *weights, struct cut *c, weir_error *err)
{
    for (int i = 0; i < c->layers; i++) {
        double w = weights ? weights[i] : 1;
        if (!(w >= 0 && w <= 1e30))
            return wr_error_set(err, WEIR_ERR_INVALID, NULL, "the weight %g of layer %d is not between 0 and 1e30", w, i);
        c->sum[i + 1] = c->sum[i] + w;
    }
    return WEIR_OK;
}

weir_status weir_pipe_cut(const double *weights, int64_t layers, int64_t parts, int64_t *first, weir_error *error)
{
    if (layers < 1 || layers > LAYERS_MAX || parts < 1 || parts > layers)
        return wr_error_set(error, WEIR_ERR_INVALID, "give each part a layer or more",
                            "%lld layers cannot be cut into %lld parts (1 to %d layers, as many parts at most)", (long long)layers,
                            (long long)parts, LAYERS_MAX);
    struct cut c = {.layers = (int)layers, .parts = (int)parts};
    size_t row = (size_t)layers + 1;
    double *memory = calloc(3 * row, sizeof *memory);
    weir_status status = WEIR_OK;
    c.from = calloc((size_t)(parts + 1) * row, sizeof *c.from);
    if (!memory || !c.from) {
        status = wr_error_memory(error, (size_t)(parts + 1) * row * sizeof *c.from, "cutting layers");
        goto free_memory;
    }
    c.sum = memory;
    c.best = memory + row;
    c.next = memory + 2 * row;
    status = read_weights(weights, &c, error);
    if (status != WEIR_OK)
        goto free_memory;
    least_squares(&c, least_maximum(&c));
    first[parts] = layers;
    for (int64_t k = parts; k > 0; k--)
        first[k - 1] = c.from[(size_t)k * row + (size_t)first[k]];
free_memory:
    free(c.from);
    free(memory);
    return status;
}
