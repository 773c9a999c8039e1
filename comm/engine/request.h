/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests: what the user holds while an operation runs. Who starts an operation embeds a weir_request in its own object and
 * says how that object is given back.
 */
#ifndef WR_REQUEST_H
#define WR_REQUEST_H

#include <weir/comm.h>

#include "comm/engine/engine.h"

struct weir_request {
    struct wr_engine *engine;
    struct weir_ctx *ctx;  /* whose weir_last_error() tells of a failure */
    bool complete;
    bool persistent;       /* stays the user's when it has completed, to be started again */
    weir_status status;    /* of the completed operation */
    const struct wr_group *group; /* in whose numbers errors are told; NULL: the world's */
    int peer;              /* world rank that the operation concerns, -1 for none in particular */
    const char *operation; /* "weir_isend": what was asked, for errors */
    const weir_error *why; /* it failed in a way that the status does not tell; may be NULL */
    const struct wr_overdue *overdue; /* looks after waits for it; may be NULL */
    void (*release)(struct weir_request *request); /* gives the object back, with the lock held */
    void (*hurry)(struct weir_request *request); /* moves it without the engine, for a moment, before a wait; may be NULL */
};

static inline void wr_request_init(struct weir_request *request, struct weir_ctx *ctx, struct wr_engine *engine,
                                   const struct wr_group *group, int peer, const char *operation,
                                   void (*release)(struct weir_request *request))
{
    *request = (struct weir_request){
        .engine = engine, .ctx = ctx, .group = group, .peer = peer, .operation = operation, .release = release};
}

/* Called once, with the lock held. */
static inline void wr_request_complete(struct weir_request *request, weir_status status)
{
    request->status = status;
    request->complete = true;
    request->engine->completed++;
}

/*
 * Waits for a request whose variable the caller owns, with the lock held, and gives it back: what blocking calls use.
 * `err` is filled on failure.
 */
weir_status wr_request_finish(struct weir_request *request, weir_error *err);

#endif
