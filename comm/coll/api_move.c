/* SPDX-License-Identifier: BSD-3-Clause */
/* The public calls that move elements, and the barrier. */
#include <weir/coll.h>

#include "comm/coll/coll.h"

static struct wr_coll_call allgather_call(const void *in, void *out, uint64_t count, weir_type type,
                                          const char *operation)
{
    return (struct wr_coll_call){.coll = WR_COLL_ALLGATHER,
                                 .operation = operation,
                                 .in = in,
                                 .out = out,
                                 .count = count,
                                 .type = type};
}

weir_status weir_allgather(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type)
{
    struct wr_coll_call call = allgather_call(in, out, count, type, "weir_allgather");
    return wr_coll_perform(comm, &call, WR_COLL_BLOCKING, NULL);
}

weir_status weir_iallgather(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type,
                            weir_request **request)
{
    struct wr_coll_call call = allgather_call(in, out, count, type, "weir_iallgather");
    return wr_coll_perform(comm, &call, WR_COLL_STARTED, request);
}

weir_status weir_allgather_init(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type,
                                weir_request **request)
{
    struct wr_coll_call call = allgather_call(in, out, count, type, "weir_allgather_init");
    return wr_coll_perform(comm, &call, WR_COLL_PERSISTENT, request);
}

static struct wr_coll_call gather_call(const void *in, void *out, uint64_t count, weir_type type, int root,
                                       const char *operation)
{
    return (struct wr_coll_call){.coll = WR_COLL_GATHER,
                                 .operation = operation,
                                 .in = in,
                                 .out = out,
                                 .count = count,
                                 .type = type,
                                 .root = root};
}

weir_status weir_gather(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, int root)
{
    struct wr_coll_call call = gather_call(in, out, count, type, root, "weir_gather");
    return wr_coll_perform(comm, &call, WR_COLL_BLOCKING, NULL);
}

weir_status weir_igather(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, int root,
                         weir_request **request)
{
    struct wr_coll_call call = gather_call(in, out, count, type, root, "weir_igather");
    return wr_coll_perform(comm, &call, WR_COLL_STARTED, request);
}

weir_status weir_gather_init(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, int root,
                             weir_request **request)
{
    struct wr_coll_call call = gather_call(in, out, count, type, root, "weir_gather_init");
    return wr_coll_perform(comm, &call, WR_COLL_PERSISTENT, request);
}

static struct wr_coll_call scatter_call(const void *in, void *out, uint64_t count, weir_type type, int root,
                                        const char *operation)
{
    return (struct wr_coll_call){.coll = WR_COLL_SCATTER,
                                 .operation = operation,
                                 .in = in,
                                 .out = out,
                                 .count = count,
                                 .type = type,
                                 .root = root};
}

weir_status weir_scatter(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, int root)
{
    struct wr_coll_call call = scatter_call(in, out, count, type, root, "weir_scatter");
    return wr_coll_perform(comm, &call, WR_COLL_BLOCKING, NULL);
}

weir_status weir_iscatter(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, int root,
                          weir_request **request)
{
    struct wr_coll_call call = scatter_call(in, out, count, type, root, "weir_iscatter");
    return wr_coll_perform(comm, &call, WR_COLL_STARTED, request);
}

weir_status weir_scatter_init(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type, int root,
                              weir_request **request)
{
    struct wr_coll_call call = scatter_call(in, out, count, type, root, "weir_scatter_init");
    return wr_coll_perform(comm, &call, WR_COLL_PERSISTENT, request);
}

static struct wr_coll_call alltoall_call(const void *in, void *out, uint64_t count, weir_type type,
                                         const char *operation)
{
    return (struct wr_coll_call){.coll = WR_COLL_ALLTOALL,
                                 .operation = operation,
                                 .in = in,
                                 .out = out,
                                 .count = count,
                                 .type = type};
}

weir_status weir_alltoall(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type)
{
    struct wr_coll_call call = alltoall_call(in, out, count, type, "weir_alltoall");
    return wr_coll_perform(comm, &call, WR_COLL_BLOCKING, NULL);
}

weir_status weir_ialltoall(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type,
                           weir_request **request)
{
    struct wr_coll_call call = alltoall_call(in, out, count, type, "weir_ialltoall");
    return wr_coll_perform(comm, &call, WR_COLL_STARTED, request);
}

weir_status weir_alltoall_init(weir_comm *comm, const void *in, void *out, uint64_t count, weir_type type,
                               weir_request **request)
{
    struct wr_coll_call call = alltoall_call(in, out, count, type, "weir_alltoall_init");
    return wr_coll_perform(comm, &call, WR_COLL_PERSISTENT, request);
}

/* The root's buffer is input and output: the plan reads it as IN and leaves OUT of the root alone or copies it onto itself. */
static struct wr_coll_call bcast_call(void *buffer, uint64_t count, weir_type type, int root, const char *operation)
{
    return (struct wr_coll_call){.coll = WR_COLL_BCAST,
                                 .in = WEIR_IN_PLACE,
                                 .out = buffer,
                                 .count = count,
                                 .type = type,
                                 .root = root,
                                 .operation = operation};
}

weir_status weir_bcast(weir_comm *comm, void *buffer, uint64_t count, weir_type type, int root)
{
    struct wr_coll_call call = bcast_call(buffer, count, type, root, "weir_bcast");
    return wr_coll_perform(comm, &call, WR_COLL_BLOCKING, NULL);
}

weir_status weir_ibcast(weir_comm *comm, void *buffer, uint64_t count, weir_type type, int root, weir_request **request)
{
    struct wr_coll_call call = bcast_call(buffer, count, type, root, "weir_ibcast");
    return wr_coll_perform(comm, &call, WR_COLL_STARTED, request);
}

weir_status weir_bcast_init(weir_comm *comm, void *buffer, uint64_t count, weir_type type, int root,
                            weir_request **request)
{
    struct wr_coll_call call = bcast_call(buffer, count, type, root, "weir_bcast_init");
    return wr_coll_perform(comm, &call, WR_COLL_PERSISTENT, request);
}

static struct wr_coll_call barrier_call(const char *operation)
{
    return (struct wr_coll_call){.coll = WR_COLL_BARRIER, .operation = operation};
}

weir_status weir_barrier(weir_comm *comm)
{
    struct wr_coll_call call = barrier_call("weir_barrier");
    return wr_coll_perform(comm, &call, WR_COLL_BLOCKING, NULL);
}

weir_status weir_ibarrier(weir_comm *comm, weir_request **request)
{
    struct wr_coll_call call = barrier_call("weir_ibarrier");
    return wr_coll_perform(comm, &call, WR_COLL_STARTED, request);
}

weir_status weir_barrier_init(weir_comm *comm, weir_request **request)
{
    struct wr_coll_call call = barrier_call("weir_barrier_init");
    return wr_coll_perform(comm, &call, WR_COLL_PERSISTENT, request);
}
