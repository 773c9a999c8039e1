/* SPDX-License-Identifier: BSD-3-Clause */
/* The public calls whose counts differ by rank. */
#include <weir/coll_v.h>

#include "comm/coll/coll.h"

static struct wr_coll_call gatherv_call(const void *in, uint64_t count, void *out, const uint64_t *counts,
                                        const uint64_t *offsets, weir_type type, int root, const char *operation)
{
    return (struct wr_coll_call){.coll = WR_COLL_GATHER,
                                 .operation = operation,
                                 .vector = true,
                                 .in = in,
                                 .count = count,
                                 .out = out,
                                 .counts = counts,
                                 .offsets = offsets,
                                 .type = type,
                                 .root = root};
}

weir_status weir_gatherv(weir_comm *comm, const void *in, uint64_t count, void *out, const uint64_t *counts,
                         const uint64_t *offsets, weir_type type, int root)
{
    struct wr_coll_call call = gatherv_call(in, count, out, counts, offsets, type, root, "weir_gatherv");
    return wr_coll_perform(comm, &call, WR_COLL_BLOCKING, NULL);
}

weir_status weir_igatherv(weir_comm *comm, const void *in, uint64_t count, void *out, const uint64_t *counts,
                          const uint64_t *offsets, weir_type type, int root, weir_request **request)
{
    struct wr_coll_call call = gatherv_call(in, count, out, counts, offsets, type, root, "weir_igatherv");
    return wr_coll_perform(comm, &call, WR_COLL_STARTED, request);
}

weir_status weir_gatherv_init(weir_comm *comm, const void *in, uint64_t count, void *out, const uint64_t *counts,
                              const uint64_t *offsets, weir_type type, int root, weir_request **request)
{
    struct wr_coll_call call = gatherv_call(in, count, out, counts, offsets, type, root, "weir_gatherv_init");
    return wr_coll_perform(comm, &call, WR_COLL_PERSISTENT, request);
}

static struct wr_coll_call scatterv_call(const void *in, const uint64_t *counts, const uint64_t *offsets, void *out,
                                         uint64_t count, weir_type type, int root, const char *operation)
{
    return (struct wr_coll_call){.coll = WR_COLL_SCATTER,
                                 .operation = operation,
                                 .vector = true,
                                 .in = in,
                                 .counts = counts,
                                 .offsets = offsets,
                                 .out = out,
                                 .count = count,
                                 .type = type,
                                 .root = root};
}

weir_status weir_scatterv(weir_comm *comm, const void *in, const uint64_t *counts, const uint64_t *offsets, void *out,
                          uint64_t count, weir_type type, int root)
{
    struct wr_coll_call call = scatterv_call(in, counts, offsets, out, count, type, root, "weir_scatterv");
    return wr_coll_perform(comm, &call, WR_COLL_BLOCKING, NULL);
}

weir_status weir_iscatterv(weir_comm *comm, const void *in, const uint64_t *counts, const uint64_t *offsets, void *out,
                           uint64_t count, weir_type type, int root, weir_request **request)
{
    struct wr_coll_call call = scatterv_call(in, counts, offsets, out, count, type, root, "weir_iscatterv");
    return wr_coll_perform(comm, &call, WR_COLL_STARTED, request);
}

weir_status weir_scatterv_init(weir_comm *comm, const void *in, const uint64_t *counts, const uint64_t *offsets,
                               void *out, uint64_t count, weir_type type, int root, weir_request **request)
{
    struct wr_coll_call call = scatterv_call(in, counts, offsets, out, count, type, root, "weir_scatterv_init");
    return wr_coll_perform(comm, &call, WR_COLL_PERSISTENT, request);
}

static struct wr_coll_call allgatherv_call(const void *in, void *out, const uint64_t *counts, const uint64_t *offsets,
                                           weir_type type, const char *operation)
{
    return (struct wr_coll_call){.coll = WR_COLL_ALLGATHER,
                                 .operation = operation,
                                 .vector = true,
                                 .in = in,
                                 .out = out,
                                 .counts = counts,
                                 .offsets = offsets,
                                 .type = type};
}

weir_status weir_allgatherv(weir_comm *comm, const void *in, void *out, const uint64_t *counts, const uint64_t *offsets,
                            weir_type type)
{
    struct wr_coll_call call = allgatherv_call(in, out, counts, offsets, type, "weir_allgatherv");
    return wr_coll_perform(comm, &call, WR_COLL_BLOCKING, NULL);
}

weir_status weir_iallgatherv(weir_comm *comm, const void *in, void *out, const uint64_t *counts,
                             const uint64_t *offsets, weir_type type, weir_request **request)
{
    struct wr_coll_call call = allgatherv_call(in, out, counts, offsets, type, "weir_iallgatherv");
    return wr_coll_perform(comm, &call, WR_COLL_STARTED, request);
}

weir_status weir_allgatherv_init(weir_comm *comm, const void *in, void *out, const uint64_t *counts,
                                 const uint64_t *offsets, weir_type type, weir_request **request)
{
    struct wr_coll_call call = allgatherv_call(in, out, counts, offsets, type, "weir_allgatherv_init");
    return wr_coll_perform(comm, &call, WR_COLL_PERSISTENT, request);
}

static struct wr_coll_call reduce_scatterv_call(const void *in, void *out, const uint64_t *counts, weir_type type,
                                                weir_op op, const char *operation)
{
    return (struct wr_coll_call){.coll = WR_COLL_REDUCE_SCATTER,
                                 .operation = operation,
                                 .vector = true,
                                 .in = in,
                                 .out = out,
                                 .counts = counts,
                                 .type = type,
                                 .op = op};
}

weir_status weir_reduce_scatterv(weir_comm *comm, const void *in, void *out, const uint64_t *counts, weir_type type,
                                 weir_op op)
{
    struct wr_coll_call call = reduce_scatterv_call(in, out, counts, type, op, "weir_reduce_scatterv");
    return wr_coll_perform(comm, &call, WR_COLL_BLOCKING, NULL);
}

weir_status weir_ireduce_scatterv(weir_comm *comm, const void *in, void *out, const uint64_t *counts, weir_type type,
                                  weir_op op, weir_request **request)
{
    struct wr_coll_call call = reduce_scatterv_call(in, out, counts, type, op, "weir_ireduce_scatterv");
    return wr_coll_perform(comm, &call, WR_COLL_STARTED, request);
}

weir_status weir_reduce_scatterv_init(weir_comm *comm, const void *in, void *out, const uint64_t *counts,
                                      weir_type type, weir_op op, weir_request **request)
{
    struct wr_coll_call call = reduce_scatterv_call(in, out, counts, type, op, "weir_reduce_scatterv_init");
    return wr_coll_perform(comm, &call, WR_COLL_PERSISTENT, request);
}

static struct wr_coll_call alltoallv_call(const void *in, const uint64_t *in_counts, const uint64_t *in_offsets,
                                          void *out, const uint64_t *out_counts, const uint64_t *out_offsets,
                                          weir_type type, const char *operation)
{
    return (struct wr_coll_call){.coll = WR_COLL_ALLTOALL,
                                 .operation = operation,
                                 .vector = true,
                                 .in = in,
                                 .in_counts = in_counts,
                                 .in_offsets = in_offsets,
                                 .out = out,
                                 .counts = out_counts,
                                 .offsets = out_offsets,
                                 .type = type};
}

weir_status weir_alltoallv(weir_comm *comm, const void *in, const uint64_t *in_counts, const uint64_t *in_offsets,
                           void *out, const uint64_t *out_counts, const uint64_t *out_offsets, weir_type type)
{
    struct wr_coll_call call =
        alltoallv_call(in, in_counts, in_offsets, out, out_counts, out_offsets, type, "weir_alltoallv");
    return wr_coll_perform(comm, &call, WR_COLL_BLOCKING, NULL);
}

weir_status weir_ialltoallv(weir_comm *comm, const void *in, const uint64_t *in_counts, const uint64_t *in_offsets,
                            void *out, const uint64_t *out_counts, const uint64_t *out_offsets, weir_type type,
                            weir_request **request)
{
    struct wr_coll_call call =
        alltoallv_call(in, in_counts, in_offsets, out, out_counts, out_offsets, type, "weir_ialltoallv");
    return wr_coll_perform(comm, &call, WR_COLL_STARTED, request);
}

weir_status weir_alltoallv_init(weir_comm *comm, const void *in, const uint64_t *in_counts, const uint64_t *in_offsets,
                                void *out, const uint64_t *out_counts, const uint64_t *out_offsets, weir_type type,
                                weir_request **request)
{
    struct wr_coll_call call =
        alltoallv_call(in, in_counts, in_offsets, out, out_counts, out_offsets, type, "weir_alltoallv_init");
    return wr_coll_perform(comm, &call, WR_COLL_PERSISTENT, request);
}
