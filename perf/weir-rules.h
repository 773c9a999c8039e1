/* SPDX-License-Identifier: BSD-3-Clause */
/* weir-rules: what an update costs for each parameter, beside a stream with the same reads and writes. */
#ifndef WEIR_RULES_BENCHMARK_H
#define WEIR_RULES_BENCHMARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The arrays of a shard as a stream sees them. */
enum array { MASTER, GRAD, STATE_A, STATE_B, WORK, OUT, BYTES_A, BYTES_B, ARRAYS };

/*
 * One pass over memory, in letters: w master, g gradient, a and b states, x working memory (4 bytes an element), o copy in low
 * precision (2 bytes), 8 and 9 states of one byte; each followed by - (read), + (read and written) or = (written).
 */
typedef const char *pass;

/* Bytes an element that a pass reads and writes; grad_bytes: of an element of the gradient, 2 or 4. */
unsigned pass_bytes(pass p, unsigned grad_bytes);

/* Makes a pass over n elements, with as little work as can be; arrays are left as they were. False when there is no such loop. */
bool pass_run(pass p, unsigned grad_bytes, void *const arrays[ARRAYS], size_t n);

/* Cores, processor and its features that matter here, from the operating system. Cut to size. */
void processor_name(char *text, size_t size);
void processor_features(char *text, size_t size);

#endif
