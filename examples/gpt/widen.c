/* SPDX-License-Identifier: BSD-3-Clause */
#include "examples/gpt/widen.h"

#include <stdbool.h>
#include <stdlib.h>

/* Tensors begin at cache lines. */
static int64_t padded(int64_t n)
{
    return (n + 15) / 16 * 16;
}

void gpt_widen_create(struct gpt_widen *w)
{
    for (int i = 0; i < GPT_WIDEN_AT_ONCE; i++)
        w->slots[i] = (struct gpt_wide){NULL, 0, -1};
}

void gpt_widen_free(struct gpt_widen *w)
{
    for (int i = 0; i < GPT_WIDEN_AT_ONCE; i++)
        free(w->slots[i].memory);
    gpt_widen_create(w);
}

/* Whether a is better than b for n numbers: the smallest that has room, or else the largest, which has least to grow. */
static bool better(const struct gpt_wide *a, const struct gpt_wide *b, int64_t n)
{
    bool fits = a->room >= n, other = b->room >= n;
    return fits != other ? fits : fits ? a->room < b->room : a->room > b->room;
}

/* A free slot with room for n numbers; NULL without memory. */
static struct gpt_wide *take(struct gpt_widen *w, int64_t n)
{
    struct gpt_wide *best = NULL;
    for (int i = 0; i < GPT_WIDEN_AT_ONCE; i++)
        if (w->slots[i].unit < 0 && (!best || better(&w->slots[i], best, n)))
            best = &w->slots[i];
    if (!best || best->room >= n)
        return best;
    free(best->memory);
    best->memory = aligned_alloc(64, (size_t)n * sizeof *best->memory);
    best->room = best->memory ? n : 0;
    return best->memory ? best : NULL;
}

weir_status gpt_widen_unit(struct gpt_widen *w, int unit, int n, const void *const *tensors, const int64_t *sizes, const float **to)
{
    int64_t total = 0;
    for (int t = 0; t < n; t++)
        total += padded(sizes[t]);
    struct gpt_wide *slot = take(w, total);
    if (!slot)
        return WEIR_ERR_NO_MEMORY;
    weir_status status = WEIR_OK;
    float *at = slot->memory;
    for (int t = 0; t < n && status == WEIR_OK; t++) {
        to[t] = at;
        status = weir_convert(at, WEIR_FP32, tensors[t], WEIR_BF16, (uint64_t)sizes[t]);
        at += padded(sizes[t]);
    }
    slot->unit = unit;
    return status;
}

void gpt_widen_done(struct gpt_widen *w, int unit)
{
    for (int i = 0; i < GPT_WIDEN_AT_ONCE; i++)
        if (w->slots[i].unit == unit)
            w->slots[i].unit = -1;
}
