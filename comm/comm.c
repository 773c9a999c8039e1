/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/comm.h"

#include "base/error.h"
#include "comm/transport/layer.h"

weir_ctx *weir_comm_ctx(const weir_comm *comm)
{
    return comm->ctx;
}

int weir_comm_rank(const weir_comm *comm)
{
    return comm->rank;
}

int weir_comm_size(const weir_comm *comm)
{
    return comm->size;
}

const char *weir_comm_transport(const weir_comm *comm, int rank)
{
    if (rank < 0 || rank >= comm->size || comm->engine->route[rank] == WR_NO_ROUTE)
        return NULL;
    return wr_layer_bottom(wr_engine_route(comm->engine, rank))->ops->name;
}

const char *weir_comm_provider(const weir_comm *comm, int rank)
{
    if (rank < 0 || rank >= comm->size || comm->engine->route[rank] == WR_NO_ROUTE)
        return NULL;
    const char *provider = wr_layer_bottom(wr_engine_route(comm->engine, rank))->caps.provider;
    return provider ? provider : "";
}

weir_status wr_comm_check_rank(const weir_comm *comm, const char *what, int rank, weir_error *err)
{
    if (rank >= 0 && rank < comm->size)
        return WEIR_OK;
    return wr_error_set(err, WEIR_ERR_INVALID, NULL, "%s %d is not in 0..%d", what, rank, comm->size - 1);
}
