/* SPDX-License-Identifier: BSD-3-Clause */
#include "examples/gpt/measure.h"

#include <stdlib.h>
#include <time.h>

/* Time that this process has had on its processors: that others use the machine, too, does not count. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

bool gpt_times_create(struct gpt_times *times, const struct gpt_trainer *t, int n)
{
    /* A block has 12 products, and 6 for each head of each sequence; the last layer has 3. */
    size_t heads = (size_t)t->per_rank * (size_t)t->config.heads, micros = (size_t)(t->per_rank / t->micro.pass.sequences);
    size_t room = (size_t)t->config.layers * (6 * heads + 12 * micros) + 3 * micros;
    *times = (struct gpt_times){.n = n, .noted.room = room};
    times->step = calloc((size_t)n, sizeof *times->step);
    times->products = calloc((size_t)n, sizeof *times->products);
    times->noted.list = calloc(room, sizeof *times->noted.list);
    return times->step && times->products && times->noted.list;
}

void gpt_times_free(struct gpt_times *times)
{
    free(times->step);
    free(times->products);
    free(times->noted.list);
}

weir_status gpt_times_take(struct gpt_times *times, struct gpt_trainer *t, int i)
{
    struct gpt_step step;
    times->noted.n = 0;
    t->micro.pass.products = &times->noted;
    double begin = now();
    weir_status status = gpt_trainer_step(t, GPT_GO_ON, 0, &step);
    double middle = now();
    t->micro.pass.products = NULL;
    for (size_t k = 0; k < times->noted.n && status == WEIR_OK; k++)
        gpt_multiply(&times->noted.list[k]);
    double end = now();
    times->step[i] = middle - begin;
    times->products[i] = end - middle;
    return status == WEIR_OK ? weir_zero_reset(t->shards.zero) : status;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double gpt_median(double *numbers, int n)
{
    qsort(numbers, (size_t)n, sizeof *numbers, by_value);
    return numbers[n / 2];
}
