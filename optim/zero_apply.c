/* SPDX-License-Identifier: BSD-3-Clause */
/* Gradients that the program sets instead of adding them up in passes. They stand where reduced ones do. */
#include <weir/zero_state.h>

#include <string.h>

#include "base/compiler.h"
#include "optim/zero.h"

/* The first one since the last step: all others are zero. */
static void begin(weir_zero *zero)
{
    for (uint64_t s = 0; s < zero->l.nsections; s++) {
        weir_type type;
        if (!zero->l.sections[s].trainable)
            continue;
        void *grad = wr_zero_grad_of(zero, s, &type);
        memset(grad, 0, wr_zero_part(&zero->l.sections[s], zero->my_shard) * weir_type_size(type));
    }
    zero->given = true;
}

weir_status wr_zero_give(weir_zero *zero, const struct wr_zero_tensor *t, const float *values)
{
    if (zero->broken)
        return zero->error.status;
    if (zero->in_pass || zero->passes)
        return wr_zero_fail(zero, WEIR_ERR_INVALID, "call weir_zero_step() or weir_zero_reset() first",
                            "ZeRO engine: gradients are set when there are some of passes");
    if (!zero->given)
        begin(zero);
    for (uint64_t i = 0; i < zero->npieces; i++) {
        const struct wr_zero_piece *p = &zero->pieces[i];
        weir_type type;
        if (p->tensor != t)
            continue;
        void *grad = wr_zero_piece_grad(zero, p, &type);
        weir_convert(grad, type, values + p->first, WEIR_FP32, p->n);
    }
    return WEIR_OK;
}

weir_status weir_zero_apply(weir_zero *zero, const weir_zero_step_options *options, weir_zero_report *report)
{
    if (!zero->broken && !zero->given)
        return wr_zero_fail(zero, WEIR_ERR_INVALID, "set them by weir_zero_scatter() as \"grad\"", "ZeRO engine: no gradients were set");
    return wr_zero_step_any(zero, options, report);
}
