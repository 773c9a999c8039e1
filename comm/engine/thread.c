/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The progress thread (WEIR_PROGRESS=thread): moves everything while the program computes. It never spins: when nothing moves, it
 * sleeps until a transport has something.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/error.h"
#include "comm/engine/engine_impl.h"
#include "topo/topo.h"

enum { PROGRESS_NONE, PROGRESS_THREAD }; /* as in base/config_table.h */

struct wr_engine_thread {
    struct wr_engine *engine;
    pthread_t thread;
    int ranks, index; /* that have the same binding, and which of them this one is */
    bool over;
};

static bool is_over(void *arg)
{
    const struct wr_engine_thread *t = arg;
    return wr_load_acquire(&t->over);
}

static void pin(struct wr_engine_thread *t)
{
    const struct wr_engine *e = t->engine;
    weir_error err;
    int core;
    if (wr_host_pin_thread((int)e->ctx->config.progress_core, t->ranks, t->index, &core, &err))
        wr_warn(&e->ctx->log, TRANSPORT, "the progress thread is not bound: %s", err.message);
    else if (core >= 0)
        wr_info(&e->ctx->log, TRANSPORT, "the progress thread is bound to core %d", core);
    else
        wr_info(&e->ctx->log, TRANSPORT, "the progress thread is not bound: the ranks use all cores");
}

static void *run(void *arg)
{
    struct wr_engine_thread *t = arg;
    pin(t);
    wr_engine_lock(t->engine);
    wr_waiter_serve(t->engine->waiter, is_over, t);
    wr_engine_unlock(t->engine);
    return NULL;
}

/* The ranks of this node that may run on the same hardware threads: each of them has one of their cores. */
static void find_sharers(struct wr_engine_thread *t)
{
    const struct wr_engine *e = t->engine;
    weir_rank_info own = {.size = sizeof own}, other = {.size = sizeof other};
    const weir_topo *topo;
    t->ranks = e->node_size;
    t->index = e->node_rank;
    if (weir_ctx_topo(e->ctx, &topo) || weir_topo_rank_info(topo, e->rank, &own))
        return;
    t->ranks = t->index = 0;
    for (int i = 0; i < e->node_size; i++) {
        if (weir_topo_rank_info(topo, e->node_ranks[i], &other) || strcmp(own.cpuset, other.cpuset))
            continue;
        t->index += e->node_ranks[i] < e->rank;
        t->ranks++;
    }
}

weir_status wr_engine_start_thread(struct wr_engine *e, weir_error *err)
{
    sigset_t all, old;
    if (e->ctx->config.progress != PROGRESS_THREAD)
        return WEIR_OK;
    struct wr_engine_thread *t = calloc(1, sizeof *t);
    if (!t)
        return wr_error_memory(err, sizeof *t, "the progress thread");
    t->engine = e;
    find_sharers(t);
    sigfillset(&all); /* signals are for the program's threads */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int error = pthread_create(&t->thread, NULL, run, t);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (error) {
        free(t);
        return wr_error_errno(err, WEIR_ERR_SYSTEM, error, "raise the limit of processes (ulimit -u), or unset WEIR_PROGRESS",
                              "the progress thread could not be started");
    }
    e->thread = t;
    return WEIR_OK;
}

void wr_engine_stop_thread(struct wr_engine *e)
{
    struct wr_engine_thread *t = e->thread;
    if (!t)
        return;
    wr_store_release(&t->over, true);
    wr_waiter_kick(e->waiter);
    pthread_join(t->thread, NULL);
    e->thread = NULL;
    free(t);
}
