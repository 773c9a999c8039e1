/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mem/steps.h"

weir_status wr_steps_progress(struct wr_steps *s, weir_error *err)
{
    for (;;) {
        weir_status status = s->inner ? wr_steps_progress(s->inner, err) : WEIR_OK;
        if (!status)
            status = wr_exchange_progress(&s->exchange, err);
        if (status)
            return status;
        s->inner = NULL;
        if (!*s->next)
            return WEIR_OK;
        wr_step step = *s->next++;
        status = step(s->arg, s, err);
        if (status == WEIR_IN_PROGRESS)
            s->next--;
        if (status)
            return status;
    }
}

void wr_steps_cancel(struct wr_steps *s)
{
    if (s->inner)
        wr_steps_cancel(s->inner);
    s->inner = NULL;
    wr_exchange_cancel(&s->exchange);
}

struct run {
    struct wr_steps *steps;
    weir_status status;
    weir_error why;
};

static bool has_ended(void *arg)
{
    struct run *r = arg;
    if (r->status == WEIR_IN_PROGRESS)
        r->status = wr_steps_progress(r->steps, &r->why);
    return r->status != WEIR_IN_PROGRESS;
}

weir_status wr_steps_run(struct wr_steps *s, weir_error *err)
{
    struct run r = {.steps = s, .status = WEIR_IN_PROGRESS};
    weir_status status = wr_exchange_settle(s->comm, err);
    if (!status)
        status = wr_comm_wait(s->comm, has_ended, &r, err);
    if (status) {
        wr_steps_cancel(s);
        return status;
    }
    if (r.status)
        *err = r.why;
    return r.status;
}
