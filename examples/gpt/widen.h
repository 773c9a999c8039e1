/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parameters that are stored in bf16. OpenBLAS multiplies fp32, so those of a unit are widened, once for each use of it: memory for the
 * units that are in use at once is all that is needed. Activations and gradients are fp32.
 */
#ifndef GPT_WIDEN_H
#define GPT_WIDEN_H

#include <weir/weir.h>

/* Units that a layer uses at once: an embedding beside that of positions, or beside the last norm. */
enum { GPT_WIDEN_AT_ONCE = 2 };

struct gpt_widen {
    struct gpt_wide {
        float *memory;
        int64_t room; /* numbers */
        int unit;     /* that is there; -1: none */
    } slots[GPT_WIDEN_AT_ONCE];
};

void gpt_widen_create(struct gpt_widen *widen);
void gpt_widen_free(struct gpt_widen *widen);

/* Widens n tensors of a unit, of sizes[] numbers; they are where w[] says until gpt_widen_done(). */
weir_status gpt_widen_unit(struct gpt_widen *widen, int unit, int n, const void *const *tensors, const int64_t *sizes, const float **w);
void gpt_widen_done(struct gpt_widen *widen, int unit);

#endif
