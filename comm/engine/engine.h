/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine binds the transports of a context together: which one reaches which rank, connecting when a rank is first
 * needed, progress, waiting, signals, and what happens when a rank is lost. Everything above (memory, messages, plans)
 * starts operations through it.
 *
 * One lock guards the engine and all that stands on it: the public call takes it with wr_engine_lock(), nothing below locks.
 */
#ifndef WR_ENGINE_H
#define WR_ENGINE_H

#include <pthread.h>
#include <stdbool.h>

#include "base/atomic.h"
#include "base/compiler.h"
#include "base/list.h"
#include "comm/context.h"
#include "comm/engine/group.h"
#include "comm/engine/watch.h"
#include "comm/transport/transport.h"
#include "comm/transport/wait.h"

/* Who owns which message handler. */
enum wr_am_id {
    WR_AM_EAGER = 0, /* comm/p2p: a whole message */
    WR_AM_READY,     /* comm/p2p: a long message is ready to be sent */
    WR_AM_CLEAR,     /* comm/p2p: the receiver's memory is known: send */
    WR_AM_DATA,      /* comm/p2p: a piece of a long message that travels in messages */
    WR_AM_FINISH,    /* comm/p2p: all of a long message has been put */
    WR_AM_CREDIT,    /* comm/p2p: the receiver has room again */
    WR_AM_STAGED_PUT, /* comm/mem: a piece for memory that is not registered */
    WR_AM_STAGED_ASK, /* comm/mem: asks for a piece of such memory, or whether all pieces have come */
    WR_AM_STAGED_ANSWER,
    WR_AM_AGREE,   /* comm/coll: which call a rank is in */
    WR_AM_OVERDUE, /* comm/coll: asks, and tells, what a rank has called last */
    WR_AM_LOST,    /* comm/engine: a rank is lost */
    WR_AM_SHRINK,  /* comm: who is left */
    WR_AM_PIECE    /* comm/p2p: a piece of a message that comes in pieces */
};

enum { WR_ENGINE_TRANSPORTS = 3 }; /* self, shm, and one for the network */

/* A layer above the engine; it is told of messages and losses inside wr_engine_progress(), with the lock held. */
struct wr_engine_user {
    void *arg;
    wr_am_handler am[WR_AM_HANDLERS]; /* NULL where another layer owns the id */
    void (*on_peer_lost)(void *arg, int peer);
    void (*progress)(void *arg); /* after the transports' progress; may start operations and connect */
    const struct wr_list *work;  /* progress is called only while this list is not empty; NULL: always */
};

/* What a transport's callbacks get: who they belong to. */
struct wr_engine_link {
    struct wr_engine *engine;
    const char *name; /* of the transport */
};

/* How a rank was lost. */
struct wr_engine_loss {
    char host[64]; /* "" when unknown */
    char reason[192];
};

struct wr_engine {
    weir_ctx *ctx;
    int rank, size;
    pthread_mutex_t lock;
    unsigned wanting; /* threads that wait for it */
    struct wr_transport *transport[WR_ENGINE_TRANSPORTS];
    struct wr_engine_link link[WR_ENGINE_TRANSPORTS];
    int ntransports;
    int numa;     /* this rank's NUMA domain, -1 when unknown */
    char nic[64]; /* the network interface to prefer, "" for any */
    uint64_t unexpected_limit; /* of messages that are kept, bytes; the same on all ranks */
    bool shares_memory; /* ranks of a node reach each other by shared memory; the same on all ranks */
    int *node_ranks; /* ranks of this node, ascending */
    int node_size, node_rank;
    uint8_t *route;     /* by rank: index into transport[], or WR_NO_ROUTE */
    uint8_t *connected; /* by rank */
    uint8_t *lost;      /* by rank: 1 found, 2 the layers above were told */
    int nlost, ntold, first_lost;
    int *lost_order;    /* the lost ranks, as they were found */
    uint32_t *told;     /* by rank: how many of these it was told */
    bool gossip;        /* somebody is still to be told */
    struct wr_engine_flush *flush; /* of everything, before closing */
    struct wr_engine_loss **loss; /* by rank; NULL until it is lost */
    struct wr_engine_address **address; /* by rank: of the transport that is routed to */
    uint64_t *signals;
    uint32_t nsignals;
    wr_am_handler handler[WR_AM_HANDLERS];
    void *handler_arg[WR_AM_HANDLERS];
    struct wr_engine_user user[8];
    int nusers;
    bool warned_staging;
    weir_error stopped; /* by wr_engine_stop(); status WEIR_OK: it was not */
    bool aborted; /* the launcher ends the job */
    char abort_reason[192];
    int64_t events_polled_at;
    unsigned idle;
    unsigned completed;    /* requests, ever: some complete by plain stores, without an event of a transport */
    bool both;             /* there are transports on the node and through a network */
    unsigned polls, eager; /* calls of wr_engine_poll(); those that are still to look at everything */
    struct wr_waiter *waiter;
    struct wr_engine_thread *thread; /* NULL without WEIR_PROGRESS=thread */
    struct wr_watch *watch; /* NULL when peers are not watched */
};

enum { WR_NO_ROUTE = 255 };

/*
 * Opens the transports that rank 0's WEIR_TRANSPORT and WEIR_NETWORK ask for, publishes addresses, starts them. Collective.
 * A rank that cannot open one publishes the reason, so that its peers can name it.
 */
weir_status wr_engine_open(weir_ctx *ctx, uint32_t nsignals, struct wr_engine **engine, weir_error *err);

/* Starts the progress thread, when WEIR_PROGRESS asks for it, after all layers have been added; and ends it. Without the lock. */
weir_status wr_engine_start_thread(struct wr_engine *e, weir_error *err);
void wr_engine_stop_thread(struct wr_engine *e);

/*
 * Before wr_engine_close(), without the lock: waits until what was sent has left, as far as that is possible, and then until
 * all ranks have got so far, answering them meanwhile. Collective. `met`: all ranks have come to the end; only then are
 * they waited for. Whom this rank has not connected yet it cannot answer: the launcher, which knows the addresses, is busy.
 */
void wr_engine_part(struct wr_engine *e, bool met);

/* From now on no message and no loss reaches the layers above, whose objects may go. */
void wr_engine_mute(struct wr_engine *e);

/* Closes the transports; operations that have not ended do not complete. */
void wr_engine_close(struct wr_engine *e);

/* Adds a layer; before the first operation. */
void wr_engine_add_user(struct wr_engine *e, const struct wr_engine_user *user);

static inline void wr_engine_lock(struct wr_engine *e)
{
    if (WR_LIKELY(!pthread_mutex_trylock(&e->lock)))
        return;
    wr_add_acq_rel(&e->wanting, 1u); /* the progress thread gives way */
    pthread_mutex_lock(&e->lock);
    wr_add_acq_rel(&e->wanting, -1u);
}

static inline void wr_engine_unlock(struct wr_engine *e)
{
    pthread_mutex_unlock(&e->lock);
}

/*
 * The transport to a rank, connected; NULL with `err` filled when the rank cannot be reached or is lost. Not from inside a
 * message handler or a completion (connecting may wait): those ask wr_engine_ready() first.
 */
struct wr_transport *wr_engine_peer(struct wr_engine *e, int peer, weir_error *err);

static inline bool wr_engine_ready(const struct wr_engine *e, int peer)
{
    return e->connected[peer] && !e->lost[peer];
}

/* The transport on the node itself (below its layers), NULL when it is not open. */
struct wr_transport *wr_engine_shm(const struct wr_engine *e);

/* Whether transport `i` goes through a network. */
bool wr_engine_is_network(const struct wr_engine *e, int i);

/*
 * Warns, once for the engine and when `t` goes through a network, that it refused to register memory, which therefore moves
 * by messages. `ranks` is how many it happened to.
 */
void wr_engine_warn_staging(struct wr_engine *e, const struct wr_transport *t, int ranks, const weir_error *why);

/*
 * The same for a rank of a communicator: its numbers are those in the error.
 */
struct wr_transport *wr_engine_member(struct wr_engine *e, const struct wr_group *group, int rank, weir_error *err);

/* The transport of a rank for which wr_engine_ready() holds. */
static inline struct wr_transport *wr_engine_route(const struct wr_engine *e, int peer)
{
    return e->transport[e->route[peer]];
}

/* Moves what can move; the number of events. */
int wr_engine_progress(struct wr_engine *e);

/*
 * The same for who calls it again at once. A look at a network takes as long as several at the node's memory, so it is made
 * in one of four calls, unless something has come by it of late.
 */
int wr_engine_poll(struct wr_engine *e);

/*
 * Waits with the lock held (it is given up while sleeping) until ready(arg). WEIR_ERR_TIMEOUT at the deadline;
 * WEIR_ERR_CANCELED when the launcher ends the job. What a lost rank means is up to ready().
 */
weir_status wr_engine_wait(struct wr_engine *e, bool (*ready)(void *arg), void *arg, int64_t deadline, weir_error *err);

/* What looks after a wait that takes long. */
struct wr_overdue {
    int64_t after_ns; /* when it is called first, since the wait began; WR_TIME_INF: never */
    /*
     * `since`: when the wait began. Sets *next to when to be called again. An error, filled in, ends the wait.
     */
    weir_status (*look)(const struct wr_overdue *o, int64_t since, int64_t *next, weir_error *err);
    void *arg;
    uint64_t step; /* what is waited for, for the arg */
};

/* wr_engine_wait() without a deadline of its own; `o` may be NULL. */
weir_status wr_engine_wait_long(struct wr_engine *e, bool (*ready)(void *arg), void *arg, const struct wr_overdue *o,
                                weir_error *err);

/* Declares a rank lost; the layers above are told, once, from the next progress on. */
void wr_engine_peer_lost(struct wr_engine *e, int peer, const char *reason);

/* The host name of a (world) rank when it is known already, else NULL; writes to buf. */
const char *wr_engine_host(const struct wr_engine *e, int peer, char *buf, size_t size);

/* All waits, now and later, fail with this: the ranks no longer agree on what they do. The first call counts. */
void wr_engine_stop(struct wr_engine *e, weir_status status, int rank, const char *fmt, ...) WR_PRINTF(4, 5);
weir_status wr_engine_stop_error(const struct wr_engine *e, weir_error *err);

/* The world rank of a lost member, of the first one when there is a choice; -1 when none is lost. */
int wr_engine_lost_member(const struct wr_engine *e, const struct wr_group *group);

/*
 * Fills in the error for a lost rank (a world rank, -1: the first lost member), in the numbers of `group` (NULL: of the
 * world); returns WEIR_ERR_PEER_LOST.
 */
weir_status wr_engine_lost_error(const struct wr_engine *e, const struct wr_group *group, int peer, weir_error *err);

#endif
