/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of weir-perf share. */
#ifndef WEIR_PERF_WEIR_PERF_H
#define WEIR_PERF_WEIR_PERF_H

#include <weir/coll.h>
#include <weir/weir.h>

#include "perf/coll-loop.h"

struct self {
    weir_ctx *ctx;
    weir_comm *comm;
    int rank, size, nodes;
    bool unsupported;  /* the library has refused a call as not supported */
    bool reference;    /* loops instead of calls */
    weir_mem *mems[2]; /* of the input and of the output */
    int nmems;
};

/* ---- weir-perf.c ---- */

/* Tells on stderr what has failed. */
bool ok(struct self *s, weir_status status, const char *what);

/* ---- weir-perf-reference.c ---- */

/* NULL, or the sentence why it cannot be. */
const char *reference_refuse(const struct self *s, const struct coll_options *o);
bool reference_run(struct self *s, struct coll_call *call);

#endif
