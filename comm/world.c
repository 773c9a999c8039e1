/* SPDX-License-Identifier: BSD-3-Clause */
/* The communicator of all ranks: puts together the engine and the layers on it, and takes them apart; what comes for the
 * collectives finds its communicator here. */
#include "comm/comm.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/coll/coll.h"
#include "comm/context_levels.h"
#include "comm/mem/exchange.h"
#include "comm/mem/mem.h"
#include "comm/shrink.h"
#include "comm/transport/layer.h"
#include "comm/transport/shm/shm.h"

enum { SIGNALS = 65536 };

static void p2p_peer_lost(void *arg, int peer)
{
    wr_p2p_peer_lost(arg, peer);
}

static void p2p_progress(void *arg)
{
    wr_p2p_progress(arg);
}

/* ---- the collectives of all communicators, for the engine ---- */

static void coll_progress(void *arg)
{
    struct wr_comms *c = arg;
    struct weir_comm *comm, *next;
    wr_list_for_each_safe (comm, next, &c->alive, link) {
        wr_coll_progress(comm->coll);
        if (WR_UNLIKELY(comm->shrink))
            wr_shrink_progress(comm);
    }
}

static void coll_peer_lost(void *arg, int peer)
{
    struct wr_comms *c = arg;
    struct weir_comm *comm;
    wr_list_for_each (comm, &c->alive, link)
        if (wr_group_rank(&comm->group, peer) >= 0)
            wr_coll_peer_lost(comm->coll, peer);
}

/* The communicator that a message names by its first word, and the sender's rank in it; NULL when it is not known. */
static struct weir_comm *find_comm(struct wr_comms *c, int source, const void *data, size_t len, int *rank)
{
    struct weir_comm *comm;
    uint32_t id;
    if (len < sizeof id)
        return NULL;
    memcpy(&id, data, sizeof id);
    wr_list_for_each (comm, &c->alive, link) {
        *rank = comm->group.id == id ? wr_group_rank(&comm->group, source) : -1;
        if (*rank >= 0)
            return comm;
    }
    return NULL;
}

static void coll_on_agree(void *arg, int source, const void *data, size_t len)
{
    int rank;
    struct weir_comm *comm = find_comm(arg, source, data, len, &rank);
    if (comm)
        wr_coll_on_agree(comm->coll, rank, data, len);
}

static void on_shrink(void *arg, int source, const void *data, size_t len)
{
    int rank;
    struct weir_comm *comm = find_comm(arg, source, data, len, &rank);
    if (comm)
        wr_shrink_on_message(comm, rank, data, len);
}

static void coll_on_overdue(void *arg, int source, const void *data, size_t len)
{
    int rank;
    struct weir_comm *comm = find_comm(arg, source, data, len, &rank);
    if (comm)
        wr_coll_on_overdue(comm->coll, rank, data, len);
}

static bool coll_has_signals(void *arg)
{
    struct wr_comms *c = arg;
    struct weir_comm *comm;
    wr_list_for_each (comm, &c->alive, link)
        if (wr_coll_has_signals(comm->coll))
            return true;
    return false;
}

static void add_mem(struct wr_comms *c)
{
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
}

static void add_p2p(struct wr_comms *c)
{
    struct wr_engine_user p2p = {
        .arg = c->p2p,
        .am = {[WR_AM_EAGER] = wr_p2p_on_eager,
               [WR_AM_READY] = wr_p2p_on_ready,
               [WR_AM_CLEAR] = wr_p2p_on_clear,
               [WR_AM_DATA] = wr_p2p_on_data,
               [WR_AM_FINISH] = wr_p2p_on_finish,
               [WR_AM_CREDIT] = wr_p2p_on_credit,
               [WR_AM_PIECE] = wr_p2p_on_piece},
        .on_peer_lost = p2p_peer_lost,
        .progress = p2p_progress,
        .work = wr_p2p_work(c->p2p),
    };
    wr_engine_add_user(c->engine, &p2p);
}

static void add_coll(struct wr_comms *c)
{
    struct wr_engine_user coll =
        {.arg = c,
         .am = {[WR_AM_AGREE] = coll_on_agree, [WR_AM_OVERDUE] = coll_on_overdue, [WR_AM_SHRINK] = on_shrink},
         .on_peer_lost = coll_peer_lost,
         .progress = coll_progress};
    wr_engine_add_user(c->engine, &coll);
    if (wr_engine_shm(c->engine))
        wr_shm_set_pending(wr_engine_shm(c->engine), coll_has_signals, c);
}

/* ---- opening and closing ---- */

static weir_status open_comms(weir_ctx *ctx, struct wr_comms **out, weir_error *err)
{
    struct wr_comms *c = calloc(1, sizeof *c);
    if (!c)
        return wr_error_memory(err, sizeof *c, "communicators");
    wr_list_init(&c->alive);
    wr_list_init(&c->stale);
    wr_list_init(&c->strays);
    weir_status status = wr_ctx_put_levels(ctx, err);
    if (!status)
        status = wr_engine_open(ctx, SIGNALS, &c->engine, err); /* with a fence */
    if (status)
        goto free_comms;
    status = wr_ctx_fetch_levels(ctx, err);
    if (status)
        goto close_engine;
    status = wr_p2p_create(ctx, c->engine, c->engine->unexpected_limit, &c->p2p, err);
    if (status)
        goto close_engine;
    status = wr_mem_state_create(c->engine, &c->mem, err);
    if (status)
        goto destroy_p2p;
    struct wr_p2p_memory memory = {wr_mem_find, c->mem};
    wr_p2p_set_memory(c->p2p, &memory);
    add_mem(c);
    add_p2p(c);
    status = wr_comm_new(c, ctx, c->next_id++, NULL, ctx->size, &c->world, err);
    if (status)
        goto destroy_mem;
    status = wr_coll_create(c->world, &c->world->coll, err);
    if (status)
        goto free_world;
    wr_list_push_back(&c->alive, &c->world->link);
    add_coll(c);
    status = wr_engine_start_thread(c->engine, err);
    if (status)
        goto destroy_coll;
    *out = c;
    return WEIR_OK;
destroy_coll:
    wr_coll_destroy(c->world->coll);
free_world:
    wr_comm_free(c->world);
destroy_mem:
    wr_mem_state_destroy(c->mem);
destroy_p2p:
    wr_p2p_destroy(c->p2p);
close_engine:
    wr_engine_close(c->engine);
    wr_ctx_free_levels(ctx);
free_comms:
    free(c);
    return status;
}

static weir_status give_up(const struct wr_overdue *o, int64_t since, int64_t *next, weir_error *err)
{
    (void)o;
    (void)since;
    (void)next;
    return wr_error_set(err, WEIR_ERR_TIMEOUT, NULL, "not all ranks have come to weir_finalize");
}

/*
 * Waits by messages until all ranks have come to the end, answering them meanwhile, also those that contact this rank for the
 * first time. False when they do not come.
 */
static bool meet(struct wr_comms *c, weir_ctx *ctx)
{
    weir_error err;
    weir_status status = WEIR_OK;
    wr_engine_lock(c->engine);
    c->world->overdue = (struct wr_overdue){.after_ns = ctx->config.boot_timeout, .look = give_up};
    if (!c->engine->nlost && !c->engine->aborted)
        status = wr_exchange_barrier(c->world, &err);
    wr_engine_unlock(c->engine);
    if (status)
        wr_info(&ctx->log, CTX, "leaving alone: %s", err.message);
    return status != WEIR_ERR_TIMEOUT;
}

static void close_comms(weir_ctx *ctx, bool abandon)
{
    struct wr_comms *c = ctx->comms;
    struct weir_comm *comm, *next;
    wr_engine_stop_thread(c->engine);
    if (!abandon)
        wr_engine_part(c->engine, meet(c, ctx));
    wr_engine_mute(c->engine);
    if (c->engine->nlost)
        wr_engine_lost_error(c->engine, NULL, -1, &ctx->loss);
    wr_list_for_each (comm, &c->alive, link)
        wr_coll_destroy(comm->coll);
    wr_mem_state_destroy(c->mem); /* gives registrations back, so before the transports close */
    wr_engine_close(c->engine);
    wr_p2p_destroy(c->p2p);
    wr_exchange_free_strays(c);
    wr_list_for_each_safe (comm, next, &c->alive, link)
        wr_comm_free(comm);
    wr_list_for_each_safe (comm, next, &c->stale, link)
        wr_comm_free(comm);
    free(c);
    wr_ctx_free_levels(ctx);
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
        *comm = ctx->comms->world;
    }
    pthread_mutex_unlock(&ctx->comms_lock);
    return status ? wr_ctx_fail(ctx, &err, "weir_comm_world") : WEIR_OK;
}
