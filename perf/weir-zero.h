/* SPDX-License-Identifier: BSD-3-Clause */
/* The arguments of weir-zero. */
#ifndef WR_PERF_WEIR_ZERO_H
#define WR_PERF_WEIR_ZERO_H

#include <stdbool.h>
#include <stdint.h>

enum { LAYERS_MAX = 512, STAGES = 4, WIDTH = 1024 };

struct options {
    int stage; /* -1: all */
    uint64_t params, bucket, prefetch, live, int8, secondary;
    int layers, steps, micros, compute_us, ranks;
    const char *rule, *trace, *report, *offload; /* offload NULL: states stay in memory */
    uint64_t offload_bytes;
    bool bf16, private_rooms, json, estimate, reproducible, alone, torch, sleeps, delayed, full_offload;
};

/* false: it is to end with *status. */
bool zero_parse(int argc, char **argv, struct options *o, int *status);

#endif
