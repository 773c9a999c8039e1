/* SPDX-License-Identifier: BSD-3-Clause */
#include "examples/gpt/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    times->update = calloc((size_t)n, sizeof *times->update);
    times->parameters = gpt_model_size(&t->config);
    times->numbers = aligned_alloc(64, ((size_t)times->parameters * 4 * sizeof *times->numbers + 63) / 64 * 64);
    for (int64_t i = 0; times->numbers && i < 4 * times->parameters; i++)
        times->numbers[i] = (real)1e-3;
    return times->step && times->products && times->noted.list && times->update && times->numbers;
}

void gpt_times_free(struct gpt_times *times)
{
    free(times->step);
    free(times->products);
    free(times->noted.list);
    free(times->update);
    free(times->numbers);
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
    int64_t n = times->parameters;
    t->micro.pass.kernels->pass_over(n, times->numbers, times->numbers + n, times->numbers + 2 * n, times->numbers + 3 * n);
    times->update[i] = now() - end;
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

/* A number of KiB from a file of /proc, in bytes; 0: there is none. */
static int64_t kib(const char *path, const char *format)
{
    FILE *f = fopen(path, "r");
    char line[256];
    long long n = 0;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, format, &n) == 1)
            break;
    if (f)
        fclose(f);
    return n * 1024;
}

int64_t gpt_resident(bool most)
{
    int64_t share = kib("/proc/self/smaps_rollup", "Pss: %lld"), resident = kib("/proc/self/smaps_rollup", "Rss: %lld");
    return share + (most ? kib("/proc/self/status", "VmHWM: %lld") - resident : 0);
}
