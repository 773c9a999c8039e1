/* SPDX-License-Identifier: BSD-3-Clause */
/* An update: the rules are applied to this rank's pieces, and what they make goes to all ranks. */
#ifndef WR_ZERO_UPDATE_H
#define WR_ZERO_UPDATE_H

#include "optim/zero_offload.h"

/* What rules are applied with. */
struct wr_zero_apply {
    weir_zero *zero;
    const weir_zero_step_options *options;
    double scale;               /* of gradients */
    const unsigned char *grads; /* a copy of them, see wr_zero_delay; NULL: where they were reduced */
    void *work;
    weir_error *error;
    int64_t ns;                 /* that it took */
};

/* Applies the rules; `scale` is what gradients are multiplied by. Begins to distribute the parameters. */
weir_status wr_zero_update(weir_zero *zero, const weir_zero_step_options *options, double scale);

/* Its parts, when it is delayed: sums that rules need of all ranks; the rules; parameters to all ranks. */
weir_status wr_zero_update_prepare(struct wr_zero_apply *a);
weir_status wr_zero_update_apply(struct wr_zero_apply *a);
weir_status wr_zero_update_install(weir_zero *zero);

/*
 * Visits all pieces, section by section, to make parameters (p->param), and distributes them. `reads`, `writes`: masters and states that are
 * on disk; `keep`: parameters that the visitor does not touch stay, else they are zero.
 */
weir_status wr_zero_make_params(weir_zero *zero, bool reads, bool writes, bool keep, wr_zero_visitor visit);

#endif
