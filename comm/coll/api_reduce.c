/* SPDX-License-Identifier: BSD-3-Clause */
/* The public calls that combine elements. */
#include <weir/coll.h>

#include "comm/coll/forms.h"

WR_COLL_FORMS(allreduce, (weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op),
             .coll = WR_COLL_ALLREDUCE, .in = in, .out = out, .count = count, .type = type, .op = op)

WR_COLL_FORMS(reduce, (weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op,
                       int root),
             .coll = WR_COLL_REDUCE, .in = in, .out = out, .count = count, .type = type, .op = op, .root = root)

WR_COLL_FORMS(reduce_scatter, (weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type,
                               weir_op op),
             .coll = WR_COLL_REDUCE_SCATTER, .in = in, .out = out, .count = count, .type = type, .op = op)

WR_COLL_FORMS(scan, (weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op),
             .coll = WR_COLL_SCAN, .in = in, .out = out, .count = count, .type = type, .op = op)

WR_COLL_FORMS(exscan, (weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op),
             .coll = WR_COLL_EXSCAN, .in = in, .out = out, .count = count, .type = type, .op = op)
