/* SPDX-License-Identifier: BSD-3-Clause */
/* The public calls that move elements, and the barrier. */
#include <weir/coll.h>

#include "comm/coll/forms.h"

WR_COLL_FORMS(allgather, (weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type),
             .coll = WR_COLL_ALLGATHER, .in = in, .out = out, .count = count, .type = type)

WR_COLL_FORMS(gather, (weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, int root),
             .coll = WR_COLL_GATHER, .in = in, .out = out, .count = count, .type = type, .root = root)

WR_COLL_FORMS(scatter, (weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, int root),
             .coll = WR_COLL_SCATTER, .in = in, .out = out, .count = count, .type = type, .root = root)

WR_COLL_FORMS(alltoall, (weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type),
             .coll = WR_COLL_ALLTOALL, .in = in, .out = out, .count = count, .type = type)

/* The root's buffer is input and output: the plan reads it as IN and leaves OUT of the root alone or copies it onto itself. */
WR_COLL_FORMS(bcast, (weir_comm *comm, void *buffer, uint64_t count, weir_type type, int root),
             .coll = WR_COLL_BCAST, .in = WEIR_IN_PLACE, .out = buffer, .count = count, .type = type, .root = root)

WR_COLL_FORMS(barrier, (weir_comm *comm),
             .coll = WR_COLL_BARRIER)
