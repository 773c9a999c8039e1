/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/comm.h"

#include <stdlib.h>

#include "base/error.h"
#include "comm/transport/layer.h"
#include "comm/mem/mem.h"

enum { SIGNALS = 4096 };

static void p2p_peer_lost(void *arg, int peer)
{
    wr_p2p_peer_lost(arg, peer);
}

static void p2p_progress(void *arg)
{
    wr_p2p_progress(arg);
}

static weir_status open_comms(weir_ctx *ctx, struct wr_comms **out, weir_error *err)
{
    struct wr_comms *c = calloc(1, sizeof *c);
    if (!c)
        return wr_error_memory(err, sizeof *c, "communicators");
    weir_status status = wr_engine_open(ctx, SIGNALS, &c->engine, err);
    if (status)
        goto free_comms;
    status = wr_p2p_create(ctx, c->engine, ctx->config.unexpected_limit, &c->p2p, err);
    if (status)
        goto close_engine;
    status = wr_mem_state_create(c->engine, &c->mem, err);
    if (status)
        goto destroy_p2p;
    struct wr_p2p_memory memory = {wr_mem_find, c->mem};
    wr_p2p_set_memory(c->p2p, &memory);
    struct wr_engine_user mem = {.arg = c->mem, .progress = wr_mem_progress};
    wr_engine_add_user(c->engine, &mem);
    struct wr_engine_user p2p = {
        .arg = c->p2p,
        .am = {[WR_AM_EAGER] = wr_p2p_on_eager,
               [WR_AM_READY] = wr_p2p_on_ready,
               [WR_AM_CLEAR] = wr_p2p_on_clear,
               [WR_AM_DATA] = wr_p2p_on_data,
               [WR_AM_FINISH] = wr_p2p_on_finish,
               [WR_AM_CREDIT] = wr_p2p_on_credit},
        .on_peer_lost = p2p_peer_lost,
        .progress = p2p_progress,
    };
    wr_engine_add_user(c->engine, &p2p);
    c->world = (struct weir_comm){ctx, c->engine, c->p2p, c->mem, 0, ctx->rank, ctx->size};
    *out = c;
    return WEIR_OK;
destroy_p2p:
    wr_p2p_destroy(c->p2p);
close_engine:
    wr_engine_close(c->engine);
free_comms:
    free(c);
    return status;
}

void wr_comms_close(weir_ctx *ctx, bool abandon)
{
    struct wr_comms *c = ctx->comms;
    if (!c)
        return;
    if (!abandon)
        wr_engine_drain(c->engine);
    wr_mem_state_destroy(c->mem); /* gives registrations back, so before the transports close */
    wr_engine_close(c->engine);
    wr_p2p_destroy(c->p2p);
    free(c);
    ctx->comms = NULL;
}

weir_status weir_comm_world(weir_ctx *ctx, weir_comm **comm)
{
    weir_error err;
    weir_status status = WEIR_OK;
    wr_error_clear(&err);
    pthread_mutex_lock(&ctx->comms_lock);
    if (!ctx->comms)
        status = open_comms(ctx, &ctx->comms, &err);
    if (!status)
        *comm = &ctx->comms->world;
    pthread_mutex_unlock(&ctx->comms_lock);
    return status ? wr_ctx_fail(ctx, &err, "weir_comm_world") : WEIR_OK;
}

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

weir_status wr_comm_check_rank(const weir_comm *comm, const char *what, int rank, weir_error *err)
{
    if (rank >= 0 && rank < comm->size)
        return WEIR_OK;
    return wr_error_set(err, WEIR_ERR_INVALID, NULL, "%s %d is not in 0..%d", what, rank, comm->size - 1);
}
