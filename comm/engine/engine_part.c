/* SPDX-License-Identifier: BSD-3-Clause */
/* Leaving: what was sent must have left before the transports go, and who still sends must be answered until then. */
#include <signal.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/error.h"
#include "comm/engine/engine_impl.h"

static void flush_done(struct wr_op *op, weir_status status)
{
    (void)status;
    WR_CONTAINER_OF(op, struct wr_engine_flush, op)->done = true;
}

static bool flush_is_done(void *arg)
{
    return ((struct wr_engine_flush *)arg)->done;
}

/* What was sent must have left before the transport goes. */
static void drain(struct wr_engine *e)
{
    int64_t deadline = wr_deadline(e->ctx->config.boot_timeout);
    struct wr_engine_flush flush[WR_ENGINE_TRANSPORTS];
    wr_engine_lock(e); /* waiting releases it */
    for (int i = 0; i < e->ntransports && !e->nlost; i++) {
        flush[i] = (struct wr_engine_flush){{flush_done}, false};
        struct wr_transport *t = e->transport[i];
        weir_status status;
        weir_error err;
        while ((status = t->ops->flush(t, -1, &flush[i].op, &err)) == WEIR_ERR_BUSY && !wr_deadline_passed(deadline))
            wr_engine_progress(e);
        if (status == WEIR_IN_PROGRESS && wr_engine_wait(e, flush_is_done, &flush[i], deadline, &err))
            wr_warn(&e->ctx->log, TRANSPORT, "closing although operations have not ended: %s", err.message);
    }
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

void wr_engine_part(struct wr_engine *e)
{
    struct server server = {e, false};
    pthread_t thread;
    weir_error err;
    drain(e);
    if (e->size == 1 || e->nlost || e->aborted)
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
