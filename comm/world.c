/* SPDX-License-Identifier: BSD-3-Clause */
/* The communicator of all ranks: puts together the engine and the layers on it, and takes them apart. */
#include "comm/comm.h"

#include <stdlib.h>

#include "base/error.h"
#include "comm/coll/coll.h"
#include "comm/transport/layer.h"
#include "comm/mem/mem.h"

enum { SIGNALS = 65536 };

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
    struct wr_engine_user mem = {
        .arg = c->mem,
        .am = {[WR_AM_STAGED_PUT] = wr_staged_on_put,
               [WR_AM_STAGED_ASK] = wr_staged_on_ask,
               [WR_AM_STAGED_ANSWER] = wr_staged_on_answer},
        .on_peer_lost = wr_mem_peer_lost,
        .progress = wr_mem_progress,
        .work = &c->mem->waiting,
    };
    wr_engine_add_user(c->engine, &mem);
    struct wr_engine_user asks = {.arg = c->mem->staged,
                                  .progress = wr_staged_ask,
                                  .work = wr_staged_asking(c->mem->staged)};
    struct wr_engine_user answers = {.arg = c->mem->staged,
                                     .progress = wr_staged_answer,
                                     .work = wr_staged_owing(c->mem->staged)};
    wr_engine_add_user(c->engine, &asks);
    wr_engine_add_user(c->engine, &answers);
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
        .work = wr_p2p_work(c->p2p),
    };
    wr_engine_add_user(c->engine, &p2p);
    c->world = (struct weir_comm){.ctx = ctx, .engine = c->engine, .p2p = c->p2p, .mem = c->mem, .rank = ctx->rank, .size = ctx->size, .next_mem_id = 1};
    status = wr_coll_create(&c->world, &c->world.coll, err);
    if (status)
        goto destroy_mem;
    struct wr_engine_user coll = {.arg = c->world.coll,
                                  .am = {[WR_AM_AGREE] = wr_coll_on_agree},
                                  .on_peer_lost = wr_coll_peer_lost,
                                  .progress = wr_coll_progress};
    wr_engine_add_user(c->engine, &coll);
    *out = c;
    return WEIR_OK;
destroy_mem:
    wr_mem_state_destroy(c->mem);
destroy_p2p:
    wr_p2p_destroy(c->p2p);
close_engine:
    wr_engine_close(c->engine);
free_comms:
    free(c);
    return status;
}

static void close_comms(weir_ctx *ctx, bool abandon)
{
    struct wr_comms *c = ctx->comms;
    if (!abandon)
        wr_engine_part(c->engine);
    wr_coll_destroy(c->world.coll);
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
    if (!status) {
        ctx->comms_close = close_comms;
        *comm = &ctx->comms->world;
    }
    pthread_mutex_unlock(&ctx->comms_lock);
    return status ? wr_ctx_fail(ctx, &err, "weir_comm_world") : WEIR_OK;
}
