/* SPDX-License-Identifier: BSD-3-Clause */
/* Registrations of the user's buffers while a plan puts from them, for transports that insist on them. */
#include "base/error.h"
#include "comm/plan/exec_impl.h"

weir_status wr_exec_source_region(struct wr_exec *x, struct wr_transport *t, const struct exec_place *place, void *source,
                                  uint64_t bytes, struct wr_region **region, weir_error *err)
{
    uint64_t unused;
    *region = NULL;
    if (!t->caps.needs_local_region || bytes <= t->caps.inject)
        return WEIR_OK;
    *region = wr_mem_find(x->params.comm->mem, t, source, bytes, &unused);
    if (*region || place->base)
        return WEIR_OK;
    bool in = place->buffer == WR_BUF_IN;
    int rank = x->params.comm->rank;
    struct wr_region **mine = &x->user_region[!in];
    uint64_t len = (in ? wr_plan_in_len(&x->spec, rank) : wr_plan_out_len(&x->spec, rank)) * x->spec.elem_size;
    if (!*mine) {
        void *buffer = in ? (void *)(uintptr_t)x->in : x->out;
        weir_status status = t->ops->reg(t, buffer, len, 0, mine, err);
        if (status) {
            *mine = NULL;
            return status;
        }
        x->user_region_of = t;
    }
    *region = *mine;
    return WEIR_OK;
}

void wr_exec_drop_regions(struct wr_exec *x)
{
    for (int i = 0; i < 2; i++)
        if (x->user_region[i])
            x->user_region_of->ops->dereg(x->user_region_of, x->user_region[i]);
    x->user_region[0] = x->user_region[1] = NULL;
}
