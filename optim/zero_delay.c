/* SPDX-License-Identifier: BSD-3-Clause */
/* Updates that are delayed by a step, in a thread of their own. */
#include "optim/zero_delay.h"

#include <weir/zero_state.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/error.h"
#include "optim/zero_offload.h"

/* New parameters beside those that the program sees. */
static weir_status place_fresh(weir_zero *zero, struct wr_zero_delay *d)
{
    uint64_t bytes = zero->g.shard_n * zero->wsize, low = 0;
    if (zero->o.param_type != WEIR_FP32 && !(d->fresh = wr_zero_alloc(zero, bytes, "parameters of a delayed update")))
        return WEIR_ERR_NO_MEMORY;
    for (uint64_t i = 0; i < zero->npieces; i++) {
        struct wr_zero_piece *p = &zero->pieces[i];
        const struct wr_zero_section *s = &zero->l.sections[p->section];
        low = s->at + wr_zero_bound(s, zero->my_shard);
        if (!p->tensor->frozen)
            p->fresh = d->fresh ? (void *)(d->fresh + (zero->g.shard_at[p->section] + p->at - low) * zero->wsize) : p->master;
    }
    return WEIR_OK;
}

weir_status wr_zero_delay_create(weir_zero *zero)
{
    struct wr_zero_delay *d = calloc(1, sizeof *d);
    size_t size = zero->o.reduce == WEIR_ZERO_REDUCE_ONCE ? zero->rsize : sizeof(float);
    if (!d)
        return wr_error_memory(&zero->error, sizeof *d, "a delayed update");
    zero->delay = d;
    d->grad_bytes = zero->g.shard_n * size;
    d->grads = wr_zero_alloc(zero, d->grad_bytes, "gradients of a delayed update");
    d->work = wr_zero_alloc(zero, wr_zero_work_bytes(zero), "the work of update rules");
    return d->grads && d->work ? place_fresh(zero, d) : WEIR_ERR_NO_MEMORY;
}

void wr_zero_delay_destroy(weir_zero *zero)
{
    struct wr_zero_delay *d = zero->delay;
    if (!d)
        return;
    if (d->running)
        pthread_join(d->thread, NULL);
    free(d->grads);
    free(d->fresh);
    free(d->work);
    free(d);
    zero->delay = NULL;
}

/* The gradients as they are now, for their memory is needed. */
static void copy_gradients(const weir_zero *zero, struct wr_zero_delay *d)
{
    for (uint64_t s = 0; s < zero->l.nsections; s++) {
        weir_type type;
        if (!zero->l.sections[s].trainable)
            continue;
        const void *grad = wr_zero_grad_of(zero, s, &type);
        size_t size = weir_type_size(type);
        memcpy(d->grads + zero->g.shard_at[s] * size, grad, wr_zero_part(&zero->l.sections[s], zero->my_shard) * size);
    }
}

static void *run(void *arg)
{
    struct wr_zero_delay *d = arg;
    d->status = wr_zero_update_apply(&d->apply);
    return NULL;
}

weir_status wr_zero_delay_start(weir_zero *zero, const weir_zero_step_options *options, double scale)
{
    struct wr_zero_delay *d = zero->delay;
    sigset_t all, before;
    wr_zero_offload_moved(zero);
    d->options = *options;
    d->apply = (struct wr_zero_apply){.zero = zero, .options = &d->options, .scale = scale, .work = zero->work, .error = &zero->error};
    weir_status status = wr_zero_update_prepare(&d->apply); /* needs all ranks, which a thread has not */
    if (status != WEIR_OK)
        return status;
    copy_gradients(zero, d);
    wr_error_clear(&d->error);
    d->apply.grads = d->grads;
    d->apply.work = d->work;
    d->apply.error = &d->error;
    d->waiting = true;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    d->running = !pthread_create(&d->thread, NULL, run, d);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!d->running)
        run(d); /* without a thread it is not hidden, and the same */
    return WEIR_OK;
}

weir_status wr_zero_delay_join(weir_zero *zero)
{
    struct wr_zero_delay *d = zero->delay;
    if (!d || !d->waiting)
        return WEIR_OK;
    if (d->running)
        pthread_join(d->thread, NULL);
    d->running = false;
    zero->report.update_ns += d->apply.ns;
    zero->report.disk_bytes = wr_zero_offload_moved(zero);
    d->apply.ns = 0;
    if (d->status != WEIR_OK) {
        zero->error = d->error;
        zero->broken = true;
    }
    return d->status;
}

weir_status wr_zero_delay_finish(weir_zero *zero)
{
    struct wr_zero_delay *d = zero->delay;
    if (!d || !d->waiting)
        return WEIR_OK;
    weir_status status = wr_zero_delay_join(zero);
    d->waiting = false;
    return status == WEIR_OK ? wr_zero_update_install(zero) : status;
}

weir_status weir_zero_flush(weir_zero *zero)
{
    if (zero->broken)
        return zero->error.status;
    if (!zero->delay)
        return WEIR_OK;
    weir_status status = wr_zero_quiet(zero);
    if (status != WEIR_OK || !zero->delay->waiting)
        return status;
    status = wr_zero_meet(zero);
    zero->epoch++;
    return status == WEIR_OK ? wr_zero_delay_finish(zero) : status;
}
