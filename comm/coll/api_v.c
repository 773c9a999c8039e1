/* SPDX-License-Identifier: BSD-3-Clause */
/* The public calls whose counts differ by rank. */
#include <weir/coll_v.h>

#include "comm/coll/forms.h"

WR_COLL_FORMS(gatherv, (weir_comm *comm, const void *in, uint64_t count, void *out, const uint64_t *counts,
                        const uint64_t *offsets, weir_type type, int root),
             .coll = WR_COLL_GATHER, .vector = true, .in = in, .count = count, .out = out, .counts = counts,
             .offsets = offsets, .type = type, .root = root)

WR_COLL_FORMS(scatterv, (weir_comm *comm, const void *in, const uint64_t *counts, const uint64_t *offsets,
                         void *out, uint64_t count, weir_type type, int root),
             .coll = WR_COLL_SCATTER, .vector = true, .in = in, .counts = counts, .offsets = offsets, .out = out,
             .count = count, .type = type, .root = root)

WR_COLL_FORMS(allgatherv, (weir_comm *comm, const void *in, void *out, const uint64_t *counts,
                           const uint64_t *offsets, weir_type type),
             .coll = WR_COLL_ALLGATHER, .vector = true, .in = in, .out = out, .counts = counts, .offsets = offsets,
             .type = type)

WR_COLL_FORMS(reduce_scatterv, (weir_comm *comm, const void *in, void *out, const uint64_t *counts, weir_type type,
                                weir_op op),
             .coll = WR_COLL_REDUCE_SCATTER, .vector = true, .in = in, .out = out, .counts = counts, .type = type,
             .op = op)

WR_COLL_FORMS(alltoallv, (weir_comm *comm, const void *in, const uint64_t *in_counts, const uint64_t *in_offsets,
                          void *out, const uint64_t *out_counts, const uint64_t *out_offsets, weir_type type),
             .coll = WR_COLL_ALLTOALL, .vector = true, .in = in, .in_counts = in_counts, .in_offsets = in_offsets,
             .out = out, .counts = out_counts, .offsets = out_offsets, .type = type)
