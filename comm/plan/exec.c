/* SPDX-License-Identifier: BSD-3-Clause */
/* Running a program: lanes advance as far as their signals allow. */
#include <string.h>

#include "base/atomic.h"
#include "base/copy.h"
#include "base/error.h"
#include "comm/plan/exec_impl.h"
#include "comm/transport/shm/shm.h"

static inline char *address(const struct wr_exec *x, const struct exec_place *p)
{
    if (p->base)
        return p->base + p->at;
    return (p->buffer == WR_BUF_IN ? (char *)(uintptr_t)x->in : x->out) + p->at;
}

static inline bool reached(const struct wr_exec *x, const struct exec_step *s)
{
    uint64_t goal = s->counter->base + s->value;
    if (s->remote) {
        const uint64_t *signals = &x->engine->signals[s->slot];
        for (uint32_t i = 0, width = s->counter->width; i < width; i++)
            if (signals[i] < exec_share(goal, width, i))
                return false;
        return true;
    }
    return (int32_t)(wr_load_acquire(s->flag) - (uint32_t)goal) >= 0;
}

/* ---- steps ---- */

static void run_copy(struct wr_exec *x, const struct exec_step *s)
{
    const struct exec_place *dst = &x->places[s->place], *src = dst + 1;
    if (dst->partial == src->partial && s->divide_by == 1) {
        size_t size = dst->partial ? x->spec.partial_size : x->spec.elem_size;
        if (s->streams)
            wr_copy_streaming(address(x, dst), address(x, src), s->len * size);
        else
            wr_copy(address(x, dst), address(x, src), s->len * size);
        return;
    }
    struct wr_operand operand = {address(x, src), src->partial};
    wr_kernel_reduce(&x->kernel, address(x, dst), dst->partial, &operand, 1, s->len, s->divide_by);
}

enum { MOST_OPERANDS = 256 };

static void run_reduce(struct wr_exec *x, const struct exec_step *s)
{
    const struct exec_place *dst = &x->places[s->place];
    struct wr_operand operand[MOST_OPERANDS];
    unsigned n = 0;
    char *to = address(x, dst);
    for (unsigned i = 1; i < s->nplaces; i++) {
        operand[n++] = (struct wr_operand){address(x, dst + i), (dst + i)->partial};
        if (n < MOST_OPERANDS || i + 1 == s->nplaces)
            continue;
        /* more operands than fit: the first part becomes one, where partial results can be kept */
        wr_kernel_reduce(&x->kernel, to, dst->partial, operand, n, s->len, 1);
        operand[0] = (struct wr_operand){to, dst->partial};
        n = 1;
    }
    wr_kernel_reduce(&x->kernel, to, dst->partial, operand, n, s->len, s->divide_by);
}

void wr_exec_put_done(struct wr_op *op, weir_status status)
{
    struct exec_put *put = WR_CONTAINER_OF(op, struct exec_put, op);
    struct wr_exec *x = put->x;
    x->lanes[put->lane].puts--;
    x->puts_running--;
    put->next_free = x->free_put;
    x->free_put = put;
    if (status)
        wr_exec_break(x, status);
}

/* The completion of an operation of a lane that is about to be started; NULL when too many are running. */
static struct exec_put *begin_put(struct wr_exec *x, uint32_t lane)
{
    struct exec_put *put = x->free_put;
    if (!put)
        return NULL;
    x->free_put = put->next_free;
    put->lane = lane;
    x->lanes[lane].puts++;
    x->puts_running++;
    return put;
}

/* It was started, with this result; false when there is no room now. */
static bool started(struct exec_put *put, struct exec_remote *signal, weir_status status)
{
    if (signal && (status == WEIR_OK || status == WEIR_IN_PROGRESS))
        signal->sent++;
    if (status == WEIR_IN_PROGRESS)
        return true;
    wr_exec_put_done(&put->op, status == WEIR_ERR_BUSY ? WEIR_OK : status);
    return status != WEIR_ERR_BUSY;
}

/* Where the next signal is counted. */
static inline uint32_t signal_slot(const struct exec_remote *signal)
{
    return signal->transport_slot + (uint32_t)(signal->sent % signal->width);
}

/* Both of these return false when there is no room now. */
static bool run_put(struct wr_exec *x, uint32_t lane, const struct exec_step *s)
{
    weir_error err;
    const struct exec_place *src = &x->places[s->place + 1];
    struct exec_put *put = begin_put(x, lane);
    if (!put)
        return false;
    struct wr_transport *t = wr_engine_route(x->engine, s->world);
    struct wr_rkey *rkey = wr_mem_rkey(s->target, s->member, &err);
    uint64_t bytes = s->len * (src->partial ? x->spec.partial_size : x->spec.elem_size);
    struct wr_region *region = NULL;
    struct exec_remote *signal = s->flags & WR_STEP_SIGNALS ? s->signal : NULL;
    weir_status status = rkey ? WEIR_OK : err.status;
    if (!status)
        status = wr_exec_source_region(x, t, src, address(x, src), bytes, &region, &err);
    if (!status && signal) {
        bool fence = !t->caps.ordered && !(signal->sent % signal->width); /* see exec_impl.h */
        status = t->ops->put_signal(t, s->world, address(x, src), region, bytes, rkey, s->offset, signal_slot(signal),
                                    fence ? WR_OP_FENCE : 0, &put->op, &err);
    } else if (!status) {
        status = t->ops->put(t, s->world, address(x, src), region, bytes, rkey, s->offset, 0, &put->op, &err);
    }
    return started(put, signal, status);
}

static bool run_signal(struct wr_exec *x, uint32_t lane, const struct exec_step *s)
{
    weir_error err;
    if (!s->remote) {
        wr_store_release(s->flag, ++*s->sent);
        if (s->world != x->engine->rank && wr_engine_shm(x->engine))
            wr_shm_wake_rank(wr_engine_shm(x->engine), s->world);
        return true;
    }
    struct exec_put *put = begin_put(x, lane);
    if (!put)
        return false;
    struct wr_transport *t = wr_engine_route(x->engine, s->world);
    weir_status status =
        t->ops->put_signal(t, s->world, NULL, NULL, 0, NULL, 0, signal_slot(s->signal), WR_OP_FENCE, &put->op, &err);
    return started(put, s->signal, status);
}

/* Runs a lane until it must wait; true when something moved. */
static bool run_lane(struct wr_exec *x, uint32_t index)
{
    struct exec_lane *lane = &x->lanes[index];
    uint32_t first = lane->next;
    while (lane->next < lane->end && !x->broken) {
        const struct exec_step *s = &x->steps[lane->next];
        bool moved = true;
        switch (s->op) {
        case WR_STEP_COPY:
            run_copy(x, s);
            break;
        case WR_STEP_REDUCE:
            run_reduce(x, s);
            break;
        case WR_STEP_PUT:
            moved = run_put(x, index, s);
            break;
        case WR_STEP_SIGNAL:
            moved = run_signal(x, index, s);
            break;
        case WR_STEP_WAIT:
            moved = reached(x, s);
            break;
        case WR_STEP_DRAIN:
            moved = !lane->puts;
            break;
        }
        if (!moved)
            break;
        lane->next++;
    }
    return lane->next != first;
}

/* ---- executions ---- */

static void finish(struct wr_exec *x)
{
    for (uint32_t i = 0; i < x->ncounters; i++)
        x->counters[i].base += x->counters[i].most;
    if (WR_UNLIKELY(x->user_region_of != NULL))
        wr_exec_drop_regions(x);
    if (x->params.divide_by > 1 && x->kernel.loops.divide && !x->divides) {
        uint64_t n = wr_plan_out_len(&x->spec, x->params.comm->rank);
        struct wr_operand out = {x->out, false};
        wr_kernel_reduce(&x->kernel, x->out, false, &out, 1, n, x->params.divide_by);
    }
    x->running = false;
}

void wr_exec_start(struct wr_exec *x, const void *in, void *out)
{
    x->in = in;
    x->out = out;
    x->running = true;
    x->status = x->broken ? WEIR_ERR_PEER_LOST : WEIR_OK;
    x->lanes_left = x->program.nlanes;
    for (uint32_t i = 0; i < x->program.nlanes; i++)
        x->lanes[i] = (struct exec_lane){x->program.lane[i], x->program.lane[i + 1], 0};
    if (x->broken)
        x->running = false;
}

bool wr_exec_progress(struct wr_exec *x)
{
    bool moved = false, left = false;
    if (!x->running)
        return false;
    for (uint32_t i = 0; i < x->program.nlanes; i++) {
        moved |= run_lane(x, i);
        left |= x->lanes[i].next < x->lanes[i].end || x->lanes[i].puts;
    }
    if (x->broken)
        x->running = false;
    else if (!left)
        finish(x);
    return moved;
}

bool wr_exec_can_move(const struct wr_exec *x)
{
    if (!x->running)
        return true; /* it has ended: whoever waits for it looks */
    for (uint32_t i = 0; i < x->program.nlanes; i++) {
        const struct exec_lane *lane = &x->lanes[i];
        if (lane->next < lane->end && x->steps[lane->next].op == WR_STEP_WAIT && reached(x, &x->steps[lane->next]))
            return true;
    }
    return false;
}

bool wr_exec_done(const struct wr_exec *x)
{
    return !x->running;
}

weir_status wr_exec_status(const struct wr_exec *x)
{
    return x->status;
}

void wr_exec_break(struct wr_exec *x, weir_status status)
{
    if (!x->broken && x->running)
        x->status = status;
    x->broken = true;
    x->running = false;
}

uint64_t wr_exec_bytes(const struct wr_exec *x)
{
    uint64_t most = 0;
    for (int r = 0; r < x->params.comm->size; r++)
        most = WR_MAX(most, x->mem->peer[r].bytes);
    return most;
}
