/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Updates that are delayed by a step: weir_zero_step() starts a thread that applies the rules to a copy of the gradients while the
 * program computes the next one with the parameters that there are. What it makes is kept apart and shown by the next weir_zero_step().
 */
#ifndef WR_ZERO_DELAY_H
#define WR_ZERO_DELAY_H

#include <pthread.h>

#include "optim/zero_update.h"

struct wr_zero_delay {
    pthread_t thread;
    bool running; /* it is to be joined */
    bool waiting; /* what it makes, or has made, is not shown yet; the same on all ranks */
    struct wr_zero_apply apply;
    weir_zero_step_options options;
    weir_status status; /* how it ended */
    weir_error error;
    unsigned char *grads;
    uint64_t grad_bytes;
    unsigned char *fresh; /* half types: new parameters; else they are the masters */
    void *work;
};

weir_status wr_zero_delay_create(weir_zero *zero);
void wr_zero_delay_destroy(weir_zero *zero);

/* Bytes that a rank with `n` trainable elements in its shard needs for it, beside masters. */
static inline uint64_t wr_zero_delay_bytes(const weir_zero_options *o, uint64_t n)
{
    size_t grad = o->reduce == WEIR_ZERO_REDUCE_ONCE ? weir_type_size((weir_type)o->reduce_type) : sizeof(float);
    return o->delayed ? n * (grad + (o->param_type == WEIR_FP32 ? 0 : weir_type_size((weir_type)o->param_type))) : 0;
}

/* Starts an update; the one before has been finished. */
weir_status wr_zero_delay_start(weir_zero *zero, const weir_zero_step_options *options, double scale);

/* Waits for the thread and tells how it ended. */
weir_status wr_zero_delay_join(weir_zero *zero);

/* The same, then shows what it made: all ranks together, when all have read what they wanted. Without a delay it does nothing. */
weir_status wr_zero_delay_finish(weir_zero *zero);

#endif
