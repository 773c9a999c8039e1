/* SPDX-License-Identifier: BSD-3-Clause */
/* The public calls that combine elements. */
#include <weir/coll.h>

#include "comm/coll/coll.h"

static struct wr_coll_call allreduce_call(const void *in, void *out, uint64_t count, weir_type type, weir_op op,
                                          const char *operation)
{
    return (struct wr_coll_call){.coll = WR_COLL_ALLREDUCE,
                                 .operation = operation,
                                 .in = in,
                                 .out = out,
                                 .count = count,
                                 .type = type,
                                 .op = op};
}

weir_status weir_allreduce(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op)
{
    struct wr_coll_call call = allreduce_call(in, out, count, type, op, "weir_allreduce");
    return wr_coll_perform(comm, &call, WR_COLL_BLOCKING, NULL);
}

weir_status weir_iallreduce(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op,
                            weir_request **request)
{
    struct wr_coll_call call = allreduce_call(in, out, count, type, op, "weir_iallreduce");
    return wr_coll_perform(comm, &call, WR_COLL_STARTED, request);
}

weir_status weir_allreduce_init(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op,
                                weir_request **request)
{
    struct wr_coll_call call = allreduce_call(in, out, count, type, op, "weir_allreduce_init");
    return wr_coll_perform(comm, &call, WR_COLL_PERSISTENT, request);
}

static struct wr_coll_call reduce_call(const void *in, void *out, uint64_t count, weir_type type, weir_op op, int root,
                                       const char *operation)
{
    return (struct wr_coll_call){.coll = WR_COLL_REDUCE,
                                 .operation = operation,
                                 .in = in,
                                 .out = out,
                                 .count = count,
                                 .type = type,
                                 .op = op,
                                 .root = root};
}

weir_status weir_reduce(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op,
                        int root)
{
    struct wr_coll_call call = reduce_call(in, out, count, type, op, root, "weir_reduce");
    return wr_coll_perform(comm, &call, WR_COLL_BLOCKING, NULL);
}

weir_status weir_ireduce(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op,
                         int root, weir_request **request)
{
    struct wr_coll_call call = reduce_call(in, out, count, type, op, root, "weir_ireduce");
    return wr_coll_perform(comm, &call, WR_COLL_STARTED, request);
}

weir_status weir_reduce_init(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op,
                             int root, weir_request **request)
{
    struct wr_coll_call call = reduce_call(in, out, count, type, op, root, "weir_reduce_init");
    return wr_coll_perform(comm, &call, WR_COLL_PERSISTENT, request);
}

static struct wr_coll_call reduce_scatter_call(const void *in, void *out, uint64_t count, weir_type type, weir_op op,
                                               const char *operation)
{
    return (struct wr_coll_call){.coll = WR_COLL_REDUCE_SCATTER,
                                 .operation = operation,
                                 .in = in,
                                 .out = out,
                                 .count = count,
                                 .type = type,
                                 .op = op};
}

weir_status weir_reduce_scatter(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op)
{
    struct wr_coll_call call = reduce_scatter_call(in, out, count, type, op, "weir_reduce_scatter");
    return wr_coll_perform(comm, &call, WR_COLL_BLOCKING, NULL);
}

weir_status weir_ireduce_scatter(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op,
                                 weir_request **request)
{
    struct wr_coll_call call = reduce_scatter_call(in, out, count, type, op, "weir_ireduce_scatter");
    return wr_coll_perform(comm, &call, WR_COLL_STARTED, request);
}

weir_status weir_reduce_scatter_init(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type,
                                     weir_op op, weir_request **request)
{
    struct wr_coll_call call = reduce_scatter_call(in, out, count, type, op, "weir_reduce_scatter_init");
    return wr_coll_perform(comm, &call, WR_COLL_PERSISTENT, request);
}

static struct wr_coll_call scan_call(const void *in, void *out, uint64_t count, weir_type type, weir_op op,
                                     const char *operation)
{
    return (struct wr_coll_call){
        .coll = WR_COLL_SCAN, .operation = operation, .in = in, .out = out, .count = count, .type = type, .op = op};
}

weir_status weir_scan(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op)
{
    struct wr_coll_call call = scan_call(in, out, count, type, op, "weir_scan");
    return wr_coll_perform(comm, &call, WR_COLL_BLOCKING, NULL);
}

weir_status weir_iscan(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op,
                       weir_request **request)
{
    struct wr_coll_call call = scan_call(in, out, count, type, op, "weir_iscan");
    return wr_coll_perform(comm, &call, WR_COLL_STARTED, request);
}

weir_status weir_scan_init(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op,
                           weir_request **request)
{
    struct wr_coll_call call = scan_call(in, out, count, type, op, "weir_scan_init");
    return wr_coll_perform(comm, &call, WR_COLL_PERSISTENT, request);
}

static struct wr_coll_call exscan_call(const void *in, void *out, uint64_t count, weir_type type, weir_op op,
                                       const char *operation)
{
    return (struct wr_coll_call){
        .coll = WR_COLL_EXSCAN, .operation = operation, .in = in, .out = out, .count = count, .type = type, .op = op};
}

weir_status weir_exscan(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op)
{
    struct wr_coll_call call = exscan_call(in, out, count, type, op, "weir_exscan");
    return wr_coll_perform(comm, &call, WR_COLL_BLOCKING, NULL);
}

weir_status weir_iexscan(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op,
                         weir_request **request)
{
    struct wr_coll_call call = exscan_call(in, out, count, type, op, "weir_iexscan");
    return wr_coll_perform(comm, &call, WR_COLL_STARTED, request);
}

weir_status weir_exscan_init(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, weir_op op,
                             weir_request **request)
{
    struct wr_coll_call call = exscan_call(in, out, count, type, op, "weir_exscan_init");
    return wr_coll_perform(comm, &call, WR_COLL_PERSISTENT, request);
}
