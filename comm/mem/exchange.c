/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mem/exchange.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"

enum { BARRIER = 64 }; /* a barrier's messages do not meet those of an exchange that others still stand in */

/* What an agreement tells when somebody has failed. */
struct verdict {
    int32_t status;
    char message[256], advice[128];
};

/* Two rounds, so that the usual case moves 4 bytes a rank. */
struct wr_agreement {
    struct verdict mine;
    int who;               /* the lowest rank that failed, once it is known; -1 before */
    struct verdict *texts; /* of the second round */
    int32_t all[];         /* by rank */
};

/* ---- one message ---- */

weir_status wr_exchange_await(const weir_comm *comm, weir_request **request, bool (*cancel)(weir_request *request),
                              weir_error *err)
{
    weir_request *r = *request;
    const struct wr_engine *e = comm->engine;
    if (!r)
        return WEIR_OK;
    if (r->complete) {
        *request = NULL;
        return wr_request_finish(r, err);
    }
    if ((wr_comm_lost(comm) < 0 && !e->stopped.status) || !cancel(r))
        return WEIR_IN_PROGRESS;
    *request = NULL;
    return e->stopped.status ? wr_engine_stop_error(e, err) : wr_engine_lost_error(e, &comm->group, -1, err);
}

bool wr_exchange_take_back(weir_request *request, bool (*cancel)(weir_request *request))
{
    weir_error ignored;
    if (!request || !request->complete)
        return !request || cancel(request);
    wr_request_finish(request, &ignored);
    return true;
}

/* ---- all-gather: Bruck's algorithm ---- */

/* Ends it, whatever its state. What cannot be taken back is still to be written to, and stays until the transports close. */
static void drop(struct wr_exchange *x)
{
    bool taken = wr_exchange_take_back(x->in, wr_p2p_cancel_recv);
    taken &= wr_exchange_take_back(x->out, wr_p2p_cancel_send);
    if (taken)
        free(x->buffer);
    else
        wr_list_push_back(&x->comm->ctx->comms->strays, &x->buffer->link);
    if (x->agreement)
        free(x->agreement->texts);
    free(x->agreement);
    *x = (struct wr_exchange){.comm = NULL};
}

static weir_status begin(struct wr_exchange *x, weir_comm *comm, const void *send, void *recv, size_t bytes, weir_error *err)
{
    x->buffer = malloc(sizeof *x->buffer + (size_t)comm->size * bytes);
    if (!x->buffer)
        return wr_error_memory(err, (size_t)comm->size * bytes, "an exchange between ranks");
    x->blocks = x->buffer->blocks;
    if (bytes)
        memcpy(x->blocks, send, bytes);
    x->comm = comm;
    x->to = recv;
    x->bytes = bytes;
    x->have = 1;
    x->turn = bytes ? 0 : BARRIER;
    return WEIR_OK;
}

/* Starts this turn's messages. */
static weir_status start_turn(struct wr_exchange *x, weir_error *err)
{
    weir_comm *comm = x->comm;
    int n = comm->size, have = x->have;
    size_t bytes = (size_t)WR_MIN(have, n - have) * x->bytes;
    weir_status status = wr_p2p_recv(comm->p2p, &comm->group, WR_P2P_EXCHANGE, x->blocks + (size_t)have * x->bytes, bytes,
                                     (comm->rank + have) % n, x->turn, NULL, &x->in, err);
    if (!status)
        status = wr_p2p_send(comm->p2p, &comm->group, WR_P2P_EXCHANGE, x->blocks, bytes, (comm->rank - have + n) % n, x->turn,
                             &x->out, err);
    x->turn++;
    return status;
}

static weir_status end_turn(struct wr_exchange *x, weir_error *err)
{
    weir_status sent = wr_exchange_await(x->comm, &x->out, wr_p2p_cancel_send, err);
    if (sent && sent != WEIR_IN_PROGRESS)
        return sent;
    weir_status status = wr_exchange_await(x->comm, &x->in, wr_p2p_cancel_recv, err);
    if (!status && !sent)
        x->have = WR_MIN(x->have * 2, x->comm->size);
    return status ? status : sent;
}

static weir_status gather(struct wr_exchange *x, weir_error *err)
{
    int n = x->comm->size;
    weir_status status = WEIR_OK;
    while (!status && (x->in || x->out || x->have < n)) {
        if (!x->in && !x->out)
            status = start_turn(x, err);
        if (!status)
            status = end_turn(x, err);
    }
    if (status)
        return status;
    for (int j = 0; j < n && x->bytes; j++)
        memcpy(x->to + (size_t)((x->comm->rank + j) % n) * x->bytes, x->blocks + (size_t)j * x->bytes, x->bytes);
    free(x->buffer);
    x->buffer = NULL;
    return WEIR_OK;
}

weir_status wr_exchange_begin(struct wr_exchange *x, weir_comm *comm, const void *send, void *recv, size_t bytes, weir_error *err)
{
    *x = (struct wr_exchange){.comm = NULL};
    return begin(x, comm, send, recv, bytes, err);
}

/* ---- agreement ---- */

weir_status wr_exchange_begin_agree(struct wr_exchange *x, weir_comm *comm, weir_status mine, weir_error *err)
{
    struct wr_agreement *a = calloc(1, sizeof *a + (size_t)comm->size * sizeof a->all[0]);
    *x = (struct wr_exchange){.comm = NULL};
    if (!a)
        return wr_error_memory(err, (size_t)comm->size * sizeof a->all[0], "an agreement");
    a->who = -1;
    a->mine.status = mine;
    if (mine) {
        wr_str_copy(a->mine.message, sizeof a->mine.message, err->message);
        wr_str_copy(a->mine.advice, sizeof a->mine.advice, err->advice);
    }
    weir_status status = begin(x, comm, &a->mine.status, a->all, sizeof a->all[0], err);
    x->agreement = a;
    if (status)
        drop(x);
    return status;
}

/* A round has ended: WEIR_IN_PROGRESS when another follows. */
static weir_status judge(struct wr_exchange *x, weir_error *err)
{
    struct wr_agreement *a = x->agreement;
    if (a->who >= 0) {
        struct verdict *v = &a->texts[a->who];
        v->message[sizeof v->message - 1] = v->advice[sizeof v->advice - 1] = '\0';
        wr_error_set(err, (weir_status)a->all[a->who], v->advice, "%s", v->message);
        wr_error_at(err, a->who, NULL);
        return err->status;
    }
    for (int r = x->comm->size - 1; r >= 0; r--)
        if (a->all[r])
            a->who = r;
    if (a->who < 0)
        return WEIR_OK;
    size_t n = (size_t)x->comm->size;
    a->texts = malloc(n * sizeof *a->texts);
    if (!a->texts)
        return wr_error_memory(err, n * sizeof *a->texts, "an agreement");
    weir_status status = begin(x, x->comm, &a->mine, a->texts, sizeof *a->texts, err);
    return status ? status : WEIR_IN_PROGRESS;
}

weir_status wr_exchange_progress(struct wr_exchange *x, weir_error *err)
{
    if (!x->comm)
        return WEIR_OK;
    weir_status status = gather(x, err);
    while (!status && x->agreement && (status = judge(x, err)) == WEIR_IN_PROGRESS) {
        status = gather(x, err);
        if (status)
            break;
    }
    if (status != WEIR_IN_PROGRESS)
        drop(x);
    return status;
}

void wr_exchange_cancel(struct wr_exchange *x)
{
    drop(x);
}

void wr_exchange_free_strays(struct wr_comms *comms)
{
    struct wr_exchange_buffer *b, *next;
    wr_list_for_each_safe(b, next, &comms->strays, link)
        free(b);
}

/* ---- those that wait ---- */

static bool is_settled(void *arg)
{
    return !((const weir_comm *)arg)->setups;
}

weir_status wr_exchange_settle(weir_comm *comm, weir_error *err)
{
    return WR_LIKELY(!comm->setups) ? WEIR_OK : wr_comm_wait(comm, is_settled, comm, err);
}

struct wait {
    struct wr_exchange exchange;
    weir_status status;
    weir_error *err;
};

static bool has_ended(void *arg)
{
    struct wait *w = arg;
    if (w->status == WEIR_IN_PROGRESS)
        w->status = wr_exchange_progress(&w->exchange, w->err);
    return w->status != WEIR_IN_PROGRESS;
}

static weir_status finish(weir_comm *comm, struct wait *w, weir_error *err)
{
    weir_error why;
    w->status = WEIR_IN_PROGRESS;
    w->err = &why;
    weir_status status = wr_comm_wait(comm, has_ended, w, err);
    if (status) {
        wr_exchange_cancel(&w->exchange);
        return status;
    }
    if (w->status)
        *err = why;
    return w->status;
}

weir_status wr_exchange_allgather(weir_comm *comm, const void *send, void *recv, size_t bytes, weir_error *err)
{
    struct wait w;
    weir_status status = wr_exchange_settle(comm, err);
    if (!status)
        status = wr_exchange_begin(&w.exchange, comm, send, recv, bytes, err);
    return status ? status : finish(comm, &w, err);
}

weir_status wr_exchange_barrier(weir_comm *comm, weir_error *err)
{
    return wr_exchange_allgather(comm, NULL, NULL, 0, err);
}

weir_status wr_exchange_agree(weir_comm *comm, weir_status mine, weir_error *err)
{
    struct wait w;
    weir_error unsettled;
    weir_status status = wr_exchange_settle(comm, &unsettled);
    if (status) {
        *err = unsettled;
        return status;
    }
    status = wr_exchange_begin_agree(&w.exchange, comm, mine, err);
    return status ? status : finish(comm, &w, err);
}
