/* SPDX-License-Identifier: BSD-3-Clause */
/* Leaving: what was sent must have left before the transports go, and who still sends must be answered until then. */
#include <signal.h>
#include <stdlib.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/error.h"
#include "comm/engine/engine_impl.h"

enum { AFTER_LOSS_NS = 2000000000 }; /* most time for what was sent to the others, when ranks are lost */

static void flush_done(struct wr_op *op, weir_status status)
{
    (void)status;
    WR_CONTAINER_OF(op, struct wr_engine_flush, op)->done = true;
}

static bool flush_is_done(void *arg)
{
    return ((struct wr_engine_flush *)arg)->done;
}

/* Flushes to a peer, -1 for all; `flush` outlives the engine when it does not end in time. */
static void flush_to(struct wr_engine *e, struct wr_transport *t, int peer, struct wr_engine_flush *flush, int64_t deadline)
{
    weir_status status;
    weir_error err;
    *flush = (struct wr_engine_flush){{flush_done}, false};
    while ((status = t->ops->flush(t, peer, &flush->op, &err)) == WEIR_ERR_BUSY && !wr_deadline_passed(deadline))
        wr_engine_progress(e);
    if (status == WEIR_IN_PROGRESS && wr_engine_wait(e, flush_is_done, flush, deadline, &err))
        wr_warn(&e->ctx->log, TRANSPORT, "closing although operations have not ended: %s", err.message);
}

/* What was sent must have left before the transport goes. What was sent to lost ranks may never end: only the others count. */
static void drain(struct wr_engine *e)
{
    struct wr_engine_flush *flush = e->flush = calloc((size_t)WR_MAX(e->size, WR_ENGINE_TRANSPORTS), sizeof *flush);
    int64_t deadline = wr_deadline(e->ctx->config.boot_timeout);
    if (!flush) /* then what was sent has had its time */
        return;
    wr_engine_lock(e); /* waiting releases it */
    for (int i = 0; i < e->ntransports && !e->nlost; i++)
        flush_to(e, e->transport[i], -1, &flush[i], deadline);
    if (e->nlost)
        deadline = WR_MIN(deadline, wr_deadline(AFTER_LOSS_NS));
    for (int peer = 0; peer < e->size && e->nlost && !wr_deadline_passed(deadline); peer++)
        if (wr_engine_ready(e, peer))
            flush_to(e, wr_engine_route(e, peer), peer, &flush[peer], deadline);
    wr_engine_unlock(e);
}

/* A thread that moves what comes in while this one stands in the launcher's barrier. */
struct server {
    struct wr_engine *engine;
    bool over;
};

static bool is_over(void *arg)
{
    const struct server *s = arg;
    return wr_load_acquire(&s->over) || s->engine->aborted;
}

static void *serve(void *arg)
{
    struct server *s = arg;
    weir_error err;
    wr_engine_lock(s->engine);
    wr_engine_wait(s->engine, is_over, s, WR_TIME_INF, &err);
    wr_engine_unlock(s->engine);
    return NULL;
}

/* Starts it with all signals blocked: they are for the program's threads. */
static bool start_server(struct server *s, pthread_t *thread)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    bool started = !pthread_create(thread, NULL, serve, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return started;
}

void wr_engine_part(struct wr_engine *e, bool met)
{
    struct server server = {e, false};
    pthread_t thread;
    weir_error err;
    drain(e);
    if (e->size == 1 || !met || e->nlost || e->aborted)
        return;
    bool served = start_server(&server, &thread);
    if (wr_ctx_fence(e->ctx, &err))
        wr_info(&e->ctx->log, TRANSPORT, "leaving although not all ranks have come to the end: %s", err.message);
    if (!served)
        return;
    wr_store_release(&server.over, true);
    wr_waiter_kick(e->waiter);
    pthread_join(thread, NULL);
}
