/* SPDX-License-Identifier: BSD-3-Clause */
/* Passes and hooks: what the program tells, handed on to the parts of the engine. */
#include "base/clock.h"
#include "base/compiler.h"
#include "optim/zero.h"

static weir_status refuse(weir_zero *zero, const char *what, const char *advice)
{
    return wr_zero_fail(zero, WEIR_ERR_INVALID, advice, "ZeRO engine: %s", what);
}

weir_status weir_zero_begin(weir_zero *zero, weir_zero_pass pass)
{
    if (zero->broken)
        return zero->error.status;
    if (zero->in_pass || (unsigned)pass >= WR_ZERO_PASSES)
        return refuse(zero, "a pass begins inside another one, or is none that exists", "end a pass by weir_zero_end()");
    if (pass == WEIR_ZERO_TRAIN && zero->passes == zero->o.accumulate)
        return refuse(zero, "more passes of training than weir_zero_options::accumulate", "call weir_zero_step() first");
    if (pass == WEIR_ZERO_TRAIN && zero->given)
        return refuse(zero, "a pass of training when gradients were set", "call weir_zero_apply() or weir_zero_reset() first");
    if (!zero->begun)
        zero->begun = wr_clock_ns();
    zero->in_pass = true;
    zero->open_hooks = 0;
    zero->pass = pass;
    wr_zero_order_begin(&zero->order[pass]);
    if (pass == WEIR_ZERO_TRAIN) {
        zero->passes++;
        wr_zero_grads_begin(zero);
    }
    return zero->o.stage == 3 ? wr_zero_live_ahead(zero) : WEIR_OK;
}

weir_status weir_zero_end(weir_zero *zero)
{
    if (zero->broken)
        return zero->error.status;
    if (!zero->in_pass)
        return refuse(zero, "a pass ends that has not begun", "call weir_zero_begin() first");
    zero->in_pass = false;
    wr_zero_order_end(&zero->order[zero->pass]);
    return zero->pass == WEIR_ZERO_TRAIN ? wr_zero_grads_end(zero) : WEIR_OK;
}

static weir_status check(weir_zero *zero, uint64_t unit, bool backward)
{
    if (zero->broken)
        return zero->error.status;
    if (!zero->in_pass || unit >= zero->l.nunits || (backward && zero->pass != WEIR_ZERO_TRAIN))
        return refuse(zero, "a hook outside of a pass of its kind, or of a unit that does not exist",
                      "call hooks between weir_zero_begin() and weir_zero_end(), those of the backward pass in training");
    return WEIR_OK;
}

/* Stages 0 to 2: what the last step has distributed of a block is there. */
static weir_status wait_params(weir_zero *zero, uint64_t block)
{
    const struct wr_zero_block *b = &zero->l.blocks[block];
    weir_status status = WEIR_OK;
    for (uint64_t s = b->section; status == WEIR_OK && s < b->section + b->nsections; s++)
        status = wr_zero_params_wait(zero, s);
    return status;
}

static weir_status enter(weir_zero *zero, uint64_t unit, bool backward)
{
    weir_status status = check(zero, unit, backward);
    if (status != WEIR_OK)
        return status;
    const struct wr_zero_unit *u = &zero->l.units[unit];
    struct wr_zero_order *order = &zero->order[zero->pass];
    if (!wr_zero_order_use(order, unit))
        return wr_zero_fail(zero, WEIR_ERR_NO_MEMORY, NULL, "no memory to remember the order of units");
    if (order->differs && zero->report.differs_unit < 0)
        zero->report.differs_unit = (int64_t)unit;
    for (uint64_t i = 0; status == WEIR_OK && i < u->nblocks; i++)
        status = zero->o.stage == 3 ? wr_zero_live_pin(zero, u->blocks[i]) : wait_params(zero, u->blocks[i]);
    for (uint64_t i = 0; zero->pass == WEIR_ZERO_TRAIN && status == WEIR_OK && i < u->nblocks; i++) {
        if (backward)
            status = wr_zero_grads_open(zero, u->blocks[i]);
        else
            wr_zero_grads_forward(zero, u->blocks[i]);
    }
    if (status == WEIR_OK && zero->o.stage == 3)
        status = wr_zero_live_ahead(zero);
    return status;
}

static weir_status leave(weir_zero *zero, uint64_t unit, bool backward)
{
    weir_status status = check(zero, unit, backward);
    if (status != WEIR_OK)
        return status;
    const struct wr_zero_unit *u = &zero->l.units[unit];
    for (uint64_t i = 0; backward && status == WEIR_OK && i < u->nblocks; i++)
        status = wr_zero_grads_used(zero, u->blocks[i]);
    for (uint64_t i = 0; zero->o.stage == 3 && status == WEIR_OK && i < u->nblocks; i++)
        status = wr_zero_live_unpin(zero, u->blocks[i]);
    if (zero->o.stage == 3 && status == WEIR_OK)
        status = wr_zero_live_ahead(zero);
    return status == WEIR_OK && !backward ? wr_zero_reduce_progress(zero) : status;
}

static weir_status before(weir_zero *zero, uint64_t unit, bool backward)
{
    wr_zero_compute_end(zero);
    weir_status status = enter(zero, unit, backward);
    if (status == WEIR_OK) {
        zero->open_hooks++;
        wr_zero_trace_open(zero, unit);
    }
    wr_zero_compute_begin(zero);
    return status;
}

static weir_status after(weir_zero *zero, uint64_t unit, bool backward)
{
    wr_zero_compute_end(zero);
    if (zero->open_hooks && unit < zero->l.nunits) {
        zero->open_hooks--;
        wr_zero_trace_close(zero, unit, backward);
    }
    weir_status status = leave(zero, unit, backward);
    wr_zero_compute_begin(zero);
    return status;
}

weir_status weir_zero_before_forward(weir_zero *zero, uint64_t unit)
{
    return before(zero, unit, false);
}

weir_status weir_zero_after_forward(weir_zero *zero, uint64_t unit)
{
    return after(zero, unit, false);
}

weir_status weir_zero_before_backward(weir_zero *zero, uint64_t unit)
{
    return before(zero, unit, true);
}

weir_status weir_zero_after_backward(weir_zero *zero, uint64_t unit)
{
    return after(zero, unit, true);
}

static struct wr_zero_tensor *find(const weir_zero *zero, uint64_t unit, uint64_t tensor)
{
    if (unit >= zero->l.nunits || tensor >= zero->l.units[unit].ntensors)
        return NULL;
    return zero->l.units[unit].tensors[tensor].origin;
}

void *weir_zero_param(weir_zero *zero, uint64_t unit, uint64_t tensor)
{
    const struct wr_zero_tensor *t = find(zero, unit, tensor);
    if (!t)
        return NULL;
    if (zero->o.stage < 3)
        return (unsigned char *)weir_mem_ptr(zero->params) + (zero->l.blocks[t->block].at + t->at) * zero->wsize;
    const struct wr_zero_live_block *b = &zero->live.blocks[t->block];
    return b->pins ? b->data + t->at * zero->wsize : NULL;
}

void *weir_zero_grad(weir_zero *zero, uint64_t unit, uint64_t tensor)
{
    const struct wr_zero_tensor *t = find(zero, unit, tensor);
    if (!t || t->frozen)
        return NULL;
    const struct wr_zero_grad_block *gb = &zero->g.blocks[t->block];
    return gb->open && gb->slot ? gb->slot->data + t->at * zero->gsize : NULL;
}
