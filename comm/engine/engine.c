/* SPDX-License-Identifier: BSD-3-Clause */
/* Routes, connections, progress, waiting and lost ranks. Opening is in engine_open.c. */
#include "comm/engine/engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "comm/engine/engine_impl.h"

enum {
    NETWORK_SHARE = 4,  /* one of so many polls looks at the network, where there is the node to look at, too ... */
    EAGER_POLLS = 256,  /* ... but all of these, after something came by it */
    IDLE_BEFORE_POLL = 32,     /* progress calls without an event before the clock is looked at */
    EVENT_POLL_NS = 20 * 1000 * 1000 /* how often the launcher is asked for events meanwhile */
};

void wr_engine_add_user(struct wr_engine *e, const struct wr_engine_user *user)
{
    for (int id = 0; id < WR_AM_HANDLERS; id++)
        if (user->am[id]) {
            e->handler[id] = user->am[id];
            e->handler_arg[id] = user->arg;
        }
    e->user[e->nusers++] = *user;
}

/* ---- lost ranks ---- */

void wr_engine_lose(struct wr_engine *e, int peer, const char *host, const char *reason)
{
    if (peer < 0 || peer >= e->size || e->lost[peer])
        return;
    struct wr_engine_loss *loss = e->loss[peer] = calloc(1, sizeof *loss);
    if (loss) { /* else the errors say less */
        wr_str_copy(loss->reason, sizeof loss->reason, reason ? reason : "");
        if (host && host[0])
            wr_str_copy(loss->host, sizeof loss->host, host);
        else
            wr_engine_host(e, peer, loss->host, sizeof loss->host);
    }
    if (!e->nlost) {
        e->first_lost = peer;
        e->lost_order = calloc((size_t)e->size, sizeof *e->lost_order);
        e->told = e->lost_order ? calloc((size_t)e->size, sizeof *e->told) : NULL;
    }
    if (e->told)
        e->lost_order[e->nlost] = peer;
    e->nlost++;
    e->gossip = true;
    e->lost[peer] = 1;
    wr_info(&e->ctx->log, TRANSPORT, "rank %d was lost%s%s", peer, reason ? ": " : "", reason ? reason : "");
}

void wr_engine_peer_lost(struct wr_engine *e, int peer, const char *reason)
{
    wr_engine_lose(e, peer, NULL, reason);
}

static void tell_losses(struct wr_engine *e)
{
    for (int peer = 0; peer < e->size && e->ntold < e->nlost; peer++) {
        if (e->lost[peer] != 1)
            continue;
        e->lost[peer] = 2;
        e->ntold++;
        for (int u = 0; u < e->nusers; u++)
            if (e->user[u].on_peer_lost)
                e->user[u].on_peer_lost(e->user[u].arg, peer);
    }
}

int wr_engine_lost_member(const struct wr_engine *e, const struct wr_group *group)
{
    if (!e->nlost)
        return -1;
    if (!group || wr_group_rank(group, e->first_lost) >= 0)
        return e->first_lost;
    for (int r = 0; r < group->size; r++)
        if (e->lost[wr_group_world(group, r)])
            return wr_group_world(group, r);
    return -1;
}

weir_status wr_engine_lost_error(const struct wr_engine *e, const struct wr_group *group, int peer, weir_error *err)
{
    if (peer < 0)
        peer = wr_engine_lost_member(e, group);
    const struct wr_engine_loss *loss = peer < 0 ? NULL : e->loss[peer];
    const char *reason = loss ? loss->reason : "";
    int member = group && peer >= 0 ? wr_group_rank(group, peer) : peer;
    wr_error_set(err, WEIR_ERR_PEER_LOST, "look at that rank's output for why it ended", "rank %d%s was lost%s%s",
                 member < 0 ? peer : member, member < 0 ? " of the job" : "", *reason ? ": " : "", reason);
    wr_error_at(err, member < 0 ? peer : member, loss && loss->host[0] ? loss->host : NULL);
    return WEIR_ERR_PEER_LOST;
}

static void poll_launcher(struct wr_engine *e)
{
    struct wr_boot_event event;
    while (wr_ctx_poll_event(e->ctx, &event)) {
        if (event.kind == WR_BOOT_EVENT_RANK_LOST) {
            wr_engine_lose(e, event.rank, event.host, event.reason);
        } else if (event.kind == WR_BOOT_EVENT_JOB_ABORTED && !e->aborted) {
            e->aborted = true;
            snprintf(e->abort_reason, sizeof e->abort_reason, "the job is being ended%s%.150s", event.reason[0] ? ": " : "",
                     event.reason);
        }
    }
}

/* ---- peers ---- */

struct wr_transport *wr_engine_shm(const struct wr_engine *e)
{
    for (int i = 0; i < e->ntransports; i++) {
        struct wr_transport *t = e->transport[i];
        while (t->lower)
            t = t->lower;
        if (!strcmp(t->ops->name, "shm"))
            return t;
    }
    return NULL;
}

bool wr_engine_is_network(const struct wr_engine *e, int i)
{
    const char *name = e->link[i].name;
    return strcmp(name, "self") != 0 && strcmp(name, "shm") != 0;
}

void wr_engine_warn_staging(struct wr_engine *e, const struct wr_transport *t, int ranks, const weir_error *why)
{
    struct rlimit limit;
    char have[32] = "unlimited", others[48] = "";
    int i = 0;
    while (i < e->ntransports && e->transport[i] != t)
        i++;
    if (e->warned_staging || i == e->ntransports || !wr_engine_is_network(e, i))
        return;
    e->warned_staging = true;
    if (!getrlimit(RLIMIT_MEMLOCK, &limit) && limit.rlim_cur != RLIM_INFINITY)
        wr_format_bytes(limit.rlim_cur, have, sizeof have);
    if (ranks > 1)
        snprintf(others, sizeof others, " on %d ranks", ranks);
    wr_warn(&e->ctx->log, MEM,
            "memory cannot be registered with the network%s and moves through staging, which is slower: %s; the limit of locked "
            "memory (RLIMIT_MEMLOCK) is %s here: raise it with ulimit -l unlimited, or LimitMEMLOCK=infinity for the service that "
            "starts jobs",
            others, why->message, have);
}

struct wr_transport *wr_engine_peer(struct wr_engine *e, int peer, weir_error *err)
{
    if (WR_LIKELY(wr_engine_ready(e, peer)))
        return wr_engine_route(e, peer);
    if (e->lost[peer]) {
        wr_engine_lost_error(e, NULL, peer, err);
        return NULL;
    }
    if (e->route[peer] == WR_NO_ROUTE) {
        wr_error_set(err, WEIR_ERR_TRANSPORT, "set WEIR_TRANSPORT=auto, or start all ranks on one node",
                     "no transport that is open reaches rank %d of the job, on node %d", peer, e->ctx->node_of[peer]);
        return NULL;
    }
    struct wr_transport *t = wr_engine_route(e, peer);
    if (t->ops->connect(t, peer, err)) {
        char host[64];
        wr_error_at(err, peer, wr_engine_host(e, peer, host, sizeof host));
        return NULL;
    }
    e->connected[peer] = 1;
    e->gossip = e->nlost > 0;
    wr_engine_watch(e, peer);
    return t;
}

struct wr_transport *wr_engine_member(struct wr_engine *e, const struct wr_group *group, int rank, weir_error *err)
{
    int peer = wr_group_world(group, rank);
    if (WR_LIKELY(wr_engine_ready(e, peer)))
        return wr_engine_route(e, peer);
    struct wr_transport *t = wr_engine_peer(e, peer, err);
    if (!t && e->lost[peer])
        wr_engine_lost_error(e, group, peer, err);
    else if (!t)
        err->rank = rank;
    return t;
}

/* ---- progress and waiting ---- */

/* The first `n` transports, and what stands on all of them. */
static int progress_some(struct wr_engine *e, int n)
{
    int events = 0;
    unsigned completed = e->completed;
    for (int i = 0; i < n; i++) {
        int moved = e->transport[i]->ops->progress(e->transport[i]);
        events += moved;
        if (moved && e->both && i == e->ntransports - 1)
            e->eager = EAGER_POLLS;
    }
    for (int u = 0; u < e->nusers; u++)
        if (e->user[u].progress && (!e->user[u].work || WR_UNLIKELY(!wr_list_empty(e->user[u].work))))
            e->user[u].progress(e->user[u].arg);
    if (WR_UNLIKELY(e->nlost != e->ntold))
        tell_losses(e);
    if (WR_UNLIKELY(e->gossip))
        wr_engine_gossip(e);
    events += e->completed != completed; /* another thread may be waiting for it */
    if (events) {
        e->idle = 0;
    } else if (++e->idle % IDLE_BEFORE_POLL == 0) {
        int64_t now = wr_clock_ns();
        if (now - e->events_polled_at >= EVENT_POLL_NS) {
            e->events_polled_at = now;
            poll_launcher(e);
            if (e->watch)
                wr_watch_progress(e->watch);
        }
    }
    return events;
}

int wr_engine_progress(struct wr_engine *e)
{
    return progress_some(e, e->ntransports);
}

int wr_engine_poll(struct wr_engine *e)
{
    bool all = !e->both || e->eager || e->polls % NETWORK_SHARE == 0;
    e->polls++;
    e->eager -= e->eager > 0;
    return progress_some(e, all ? e->ntransports : e->ntransports - 1);
}

void wr_engine_stop(struct wr_engine *e, weir_status status, int rank, const char *fmt, ...)
{
    va_list ap;
    if (e->stopped.status)
        return;
    va_start(ap, fmt);
    vsnprintf(e->stopped.message, sizeof e->stopped.message, fmt, ap);
    va_end(ap);
    e->stopped.rank = rank;
    e->stopped.status = status;
}

weir_status wr_engine_stop_error(const struct wr_engine *e, weir_error *err)
{
    wr_error_set(err, e->stopped.status, "call the same collectives in the same order with the same arguments on all ranks", "%s",
                 e->stopped.message);
    wr_error_at(err, e->stopped.rank, NULL);
    return e->stopped.status;
}

struct wait {
    struct wr_engine *engine;
    bool (*ready)(void *arg);
    void *arg;
};

static bool wait_ended(void *arg)
{
    const struct wait *w = arg;
    return w->ready(w->arg) || w->engine->aborted || w->engine->stopped.status;
}

weir_status wr_engine_wait(struct wr_engine *e, bool (*ready)(void *arg), void *arg, int64_t deadline, weir_error *err)
{
    struct wait wait = {e, ready, arg};
    weir_status status = wr_waiter_wait(e->waiter, wait_ended, &wait, deadline);
    if (status == WEIR_ERR_TIMEOUT)
        return wr_error_set(err, status, NULL, "the wait timed out");
    if (status)
        return wr_error_set(err, status, NULL, "waiting failed");
    if (e->stopped.status && !ready(arg))
        return wr_engine_stop_error(e, err);
    if (e->aborted && !ready(arg))
        return wr_error_set(err, WEIR_ERR_CANCELED, "look at the launcher's report", "%s", e->abort_reason);
    return WEIR_OK;
}

weir_status wr_engine_wait_long(struct wr_engine *e, bool (*ready)(void *arg), void *arg, const struct wr_overdue *o,
                                weir_error *err)
{
    if (!o || o->after_ns == WR_TIME_INF)
        return wr_engine_wait(e, ready, arg, WR_TIME_INF, err);
    /* with a deadline that has passed it only spins: most waits need no clock */
    weir_status status = wr_engine_wait(e, ready, arg, 0, err);
    if (status != WEIR_ERR_TIMEOUT)
        return status;
    int64_t since = wr_clock_ns(), next = wr_deadline(o->after_ns);
    while ((status = wr_engine_wait(e, ready, arg, next, err)) == WEIR_ERR_TIMEOUT) {
        status = o->look(o, since, &next, err);
        if (status)
            return status;
    }
    return status;
}
