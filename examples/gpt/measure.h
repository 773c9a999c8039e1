/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long a step takes beside its matrix products alone (the same products, on the same memory, one after the other) and beside the
 * memory that the optimizer goes through; and the memory of the process.
 */
#ifndef GPT_MEASURE_H
#define GPT_MEASURE_H

#include "examples/gpt/trainer.h"

/* Seconds of the processor, of n turns. */
struct gpt_times {
    int n;
    double *step, *products, *update;
    struct gpt_products noted;
    real *numbers; /* as many as AdamW reads: four for each parameter */
    int64_t parameters;
};

/* false without memory. To be freed by gpt_times_free() in any case. */
bool gpt_times_create(struct gpt_times *times, const struct gpt_trainer *trainer, int n);
void gpt_times_free(struct gpt_times *times);

/* Turn i: a step, its products, and a pass over as much memory as AdamW reads and writes. For a trainer on one rank with ZeRO stage 0, whose parameters and gradients stay where they are. */
weir_status gpt_times_take(struct gpt_times *times, struct gpt_trainer *trainer, int i);

/* The median of n numbers, which it sorts. */
double gpt_median(double *numbers, int n);

/*
 * Bytes of memory that this process has at present, or the most that it had so far. What n processes share counts as one n-th (as it is
 * shared now); 0 where that cannot be known.
 */
int64_t gpt_resident(bool most);

#endif
