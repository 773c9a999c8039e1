/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mem/staged.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "comm/mem/mem.h"

/* ---- what travels ---- */

/* Names a range of the target's memory. */
struct staged_range {
    uint64_t id, offset;
    uint32_t comm;
    uint32_t signal_base; /* of the target's part: where the target finds it */
};

struct staged_put {
    struct staged_range range;
    int32_t signal; /* to count after this piece, -1 for none */
    uint32_t unused;
};

struct staged_ask {
    struct staged_range range;
    uint64_t token; /* given back in the answer */
    uint32_t len;   /* 0: a flush, which names no range */
    uint32_t unused;
};

struct staged_answer {
    uint64_t token;
    int32_t status; /* a weir_status */
    uint32_t unused;
};

/* ---- state ---- */

/* A question of this rank's: a piece of a get, or a flush. */
struct question {
    struct wr_staged_op *op; /* NULL: free */
    uint64_t done, len;      /* the range inside the operation that is still to come */
    uint32_t generation;
    bool sent;
};

struct staged_peer {
    int rank;
    struct wr_list work;    /* in wr_staged.work when answers are owed */
    uint64_t puts, flushed; /* operations that went there, and those that a flush has covered */
    struct question question[WR_STAGED_WINDOW];
    struct staged_ask owed[WR_STAGED_WINDOW]; /* its questions, in order */
    unsigned owed_first, nowed;
    weir_status failed; /* of its puts since its last flush */
};

struct wr_staged {
    struct wr_mem_state *mem;
    struct wr_list ops;  /* gets and flushes, in order */
    struct wr_list work; /* peers to whom answers are owed */
    int size;
    unsigned npeers;
    struct staged_peer *peer[]; /* by world rank; NULL until it is needed */
};

weir_status wr_staged_create(struct wr_mem_state *mem, struct wr_staged **staged, weir_error *err)
{
    size_t n = (size_t)mem->engine->size;
    struct wr_staged *s = calloc(1, sizeof *s + n * sizeof *s->peer);
    if (!s)
        return wr_error_memory(err, sizeof *s + n * sizeof *s->peer, "the staging of memory");
    s->mem = mem;
    s->size = (int)n;
    wr_list_init(&s->ops);
    wr_list_init(&s->work);
    *staged = s;
    return WEIR_OK;
}

const struct wr_list *wr_staged_asking(const struct wr_staged *s)
{
    return &s->ops;
}

const struct wr_list *wr_staged_owing(const struct wr_staged *s)
{
    return &s->work;
}

void wr_staged_destroy(struct wr_staged *s)
{
    for (int r = 0; s && r < s->size; r++)
        free(s->peer[r]);
    free(s);
}

uint64_t wr_staged_bytes(const struct wr_staged *s)
{
    return s->npeers * sizeof(struct staged_peer);
}

static struct staged_peer *peer_of(struct wr_staged *s, int rank)
{
    struct staged_peer *p = s->peer[rank];
    if (p || !(p = calloc(1, sizeof *p)))
        return p;
    p->rank = rank;
    wr_list_init(&p->work);
    s->npeers++;
    return s->peer[rank] = p;
}

static struct staged_range range_of(const struct weir_mem *mem, int rank, uint64_t offset)
{
    return (struct staged_range){mem->id, offset, mem->comm->group.id, mem->peer[rank].signal_base};
}

/* ---- puts ---- */

weir_status wr_staged_put(struct wr_staged *s, const struct weir_mem *mem, int rank, const void *src, uint64_t bytes,
                          uint64_t offset, int signal, uint64_t *moved, weir_error *err)
{
    int world = wr_comm_world_rank(mem->comm, rank);
    struct wr_transport *t = wr_engine_route(s->mem->engine, world);
    struct staged_peer *peer = peer_of(s, world);
    if (!peer)
        return wr_error_memory(err, sizeof *peer, "the staging of memory");
    uint64_t most = t->caps.max_am - sizeof(struct staged_put);
    while (*moved < bytes) {
        uint64_t n = WR_MIN(most, bytes - *moved);
        struct staged_put put = {range_of(mem, rank, offset + *moved), *moved + n == bytes ? signal : -1, 0};
        weir_status status =
            t->ops->am(t, world, WR_AM_STAGED_PUT, &put, sizeof put, (const char *)src + *moved, (size_t)n, 0, err);
        if (status)
            return status;
        if (!*moved) /* what has begun to leave is covered by the next flush */
            peer->puts++;
        *moved += n;
    }
    return WEIR_OK;
}

/* The memory of this rank that a peer names, when it is alive and the range fits; else NULL and *why. */
static struct weir_mem *find(const struct wr_mem_state *state, const struct staged_range *range, uint64_t len,
                             weir_status *why)
{
    uint32_t block = range->signal_base / WEIR_SIGNALS;
    struct weir_mem *mem = block < state->signal_blocks ? state->by_block[block] : NULL;
    *why = WEIR_ERR_STALE;
    if (!mem || mem->id != range->id || mem->comm->group.id != range->comm)
        return NULL;
    *why = WEIR_ERR_INVALID;
    return range->offset > mem->bytes || len > mem->bytes - range->offset ? NULL : mem;
}

static void refuse(const struct wr_mem_state *state, int source, const struct staged_range *range, uint64_t len,
                   weir_status why)
{
    wr_warn(&state->engine->ctx->log, MEM, "refused bytes %llu..%llu of memory %llu, which rank %d named: %s",
            (unsigned long long)range->offset, (unsigned long long)(range->offset + len), (unsigned long long)range->id,
            source, why == WEIR_ERR_STALE ? "the memory was freed" : "they are not inside it");
}

void wr_staged_on_put(void *arg, int source, const void *data, size_t len)
{
    struct wr_mem_state *state = arg;
    struct staged_put put;
    weir_status why;
    if (len < sizeof put)
        return;
    memcpy(&put, data, sizeof put);
    size_t n = len - sizeof put;
    struct weir_mem *mem = find(state, &put.range, n, &why);
    if (!mem || put.signal >= WEIR_SIGNALS) {
        struct staged_peer *peer = peer_of(state->staged, source);
        refuse(state, source, &put.range, n, why);
        if (peer && !peer->failed)
            peer->failed = why;
        return;
    }
    if (n)
        memcpy((char *)mem->addr + put.range.offset, (const char *)data + sizeof put, n);
    if (put.signal >= 0)
        state->engine->signals[mem->signal_base + (uint32_t)put.signal]++;
}

/* ---- questions ---- */

/* Ends an operation when nothing of it is on the way any more. */
static void op_settle(struct wr_staged_op *op)
{
    if (op->open || (!op->status && op->asked < op->bytes))
        return;
    wr_list_remove(&op->link);
    op->done(op, op->status);
}

void wr_staged_start(struct wr_staged *s, struct wr_staged_op *op)
{
    op->asked = 0;
    op->open = 0;
    op->status = WEIR_OK;
    if (!op->mem)
        op->bytes = 1; /* one question */
    wr_list_push_back(&s->ops, &op->link);
}

/* Makes questions of an operation as far as the window allows. */
static void make_questions(struct staged_peer *peer, struct wr_staged_op *op, uint64_t most)
{
    for (unsigned i = 0; i < WR_STAGED_WINDOW && op->asked < op->bytes && !op->status; i++) {
        struct question *q = &peer->question[i];
        if (q->op)
            continue;
        q->op = op;
        q->done = op->asked;
        q->len = WR_MIN(most, op->bytes - op->asked);
        q->generation++;
        q->sent = false;
        op->asked += q->len;
        op->open++;
    }
}

/* Sends the questions of an operation that have not been sent, while there is room. */
static void send_questions(struct staged_peer *peer, struct wr_staged_op *op, struct wr_transport *t)
{
    for (unsigned i = 0; i < WR_STAGED_WINDOW; i++) {
        struct question *q = &peer->question[i];
        weir_error err;
        if (q->op != op || q->sent)
            continue;
        struct staged_ask ask = {.token = (uint64_t)q->generation << 32 | i};
        if (op->mem) {
            ask.range = range_of(op->mem, op->rank, op->offset + q->done);
            ask.len = (uint32_t)q->len;
        }
        weir_status status = t->ops->am(t, op->world, WR_AM_STAGED_ASK, &ask, sizeof ask, NULL, 0, 0, &err);
        if (status == WEIR_ERR_BUSY)
            return;
        q->sent = true;
        if (status) {
            q->op = NULL;
            op->open--;
            op->status = status;
        }
    }
}

void wr_staged_ask(void *arg)
{
    struct wr_staged *s = arg;
    struct wr_staged_op *op, *next;
    wr_list_for_each_safe (op, next, &s->ops, link) {
        struct staged_peer *peer = peer_of(s, op->world);
        struct wr_transport *t =
            wr_engine_ready(s->mem->engine, op->world) ? wr_engine_route(s->mem->engine, op->world) : NULL;
        if (!t || !peer) {
            op->status = peer ? WEIR_ERR_PEER_LOST : WEIR_ERR_NO_MEMORY;
        } else {
            make_questions(peer, op, WR_MIN(t->caps.max_am - sizeof(struct staged_answer), (size_t)UINT32_MAX));
            send_questions(peer, op, t);
        }
        if (op->status)
            op_settle(op);
    }
}

void wr_staged_on_answer(void *arg, int source, const void *data, size_t len)
{
    struct wr_mem_state *state = arg;
    struct staged_peer *peer = state->staged->peer[source];
    struct staged_answer answer;
    if (len < sizeof answer)
        return;
    memcpy(&answer, data, sizeof answer);
    unsigned i = (unsigned)(answer.token & UINT32_MAX);
    struct question *q = peer && i < WR_STAGED_WINDOW ? &peer->question[i] : NULL;
    size_t n = len - sizeof answer;
    if (!q || !q->op || !q->sent || q->generation != (uint32_t)(answer.token >> 32) || n > (q->op->mem ? q->len : 0)) {
        wr_warn(&state->engine->ctx->log, MEM, "dropped an answer of rank %d that fits no question", source);
        return;
    }
    struct wr_staged_op *op = q->op;
    if (n)
        memcpy(op->local + q->done, (const char *)data + sizeof answer, n);
    if (answer.status || (op->mem && !n)) {
        if (!op->status)
            op->status = answer.status < 0 ? (weir_status)answer.status : WEIR_ERR_PROTOCOL;
    } else if (op->mem && n < q->len) { /* the answer had less room: the rest is asked for again */
        q->done += n;
        q->len -= n;
        q->sent = false;
        return;
    } else if (!op->mem && peer->flushed < op->mark) {
        peer->flushed = op->mark;
    }
    q->op = NULL;
    op->open--;
    op_settle(op);
}

/* ---- answers ---- */

void wr_staged_on_ask(void *arg, int source, const void *data, size_t len)
{
    struct wr_mem_state *state = arg;
    struct staged_peer *peer = peer_of(state->staged, source);
    if (len != sizeof(struct staged_ask) || !peer || peer->nowed == WR_STAGED_WINDOW) {
        wr_warn(&state->engine->ctx->log, MEM, "dropped a question of rank %d: %s", source,
                !peer ? "memory is exhausted" : "it asks more than it may");
        return;
    }
    memcpy(&peer->owed[(peer->owed_first + peer->nowed++) % WR_STAGED_WINDOW], data, len);
    if (peer->nowed == 1)
        wr_list_push_back(&state->staged->work, &peer->work);
}

/* Answers one question; false when there is no room. */
static bool answer_one(struct wr_staged *s, struct staged_peer *peer, const struct staged_ask *ask,
                       struct wr_transport *t)
{
    struct staged_answer answer = {.token = ask->token};
    const char *data = NULL;
    uint64_t n = 0;
    weir_error err;
    if (ask->len) {
        weir_status why;
        const struct weir_mem *mem = find(s->mem, &ask->range, ask->len, &why);
        if (mem) {
            data = (const char *)mem->addr + ask->range.offset;
            n = WR_MIN(ask->len, t->caps.max_am - sizeof answer);
        } else {
            refuse(s->mem, peer->rank, &ask->range, ask->len, why);
            answer.status = why;
        }
    } else {
        answer.status = peer->failed;
    }
    weir_status status =
        t->ops->am(t, peer->rank, WR_AM_STAGED_ANSWER, &answer, sizeof answer, data, (size_t)n, 0, &err);
    if (status == WEIR_ERR_BUSY)
        return false;
    if (status)
        wr_warn(&s->mem->engine->ctx->log, MEM, "could not answer rank %d: %s", peer->rank, err.message);
    if (!ask->len)
        peer->failed = WEIR_OK;
    return true;
}

static void answer_peer(struct wr_staged *s, struct staged_peer *peer, struct wr_list *blocked)
{
    weir_error err;
    wr_list_remove(&peer->work);
    struct wr_transport *t = wr_engine_peer(s->mem->engine, peer->rank, &err);
    if (!t) /* lost: it waits for nothing */
        peer->nowed = 0;
    while (peer->nowed && answer_one(s, peer, &peer->owed[peer->owed_first], t)) {
        peer->owed_first = (peer->owed_first + 1) % WR_STAGED_WINDOW;
        peer->nowed--;
    }
    if (peer->nowed)
        wr_list_push_back(blocked, &peer->work);
}

void wr_staged_answer(void *arg)
{
    struct wr_staged *s = arg;
    struct wr_list blocked;
    wr_list_init(&blocked);
    while (!wr_list_empty(&s->work)) /* connecting may come back to here: each peer is taken out of the list first */
        answer_peer(s, wr_list_first(&s->work, struct staged_peer, work), &blocked);
    while (!wr_list_empty(&blocked)) {
        struct wr_list *link = blocked.next;
        wr_list_remove(link);
        wr_list_push_back(&s->work, link);
    }
}

void wr_staged_peer_lost(struct wr_staged *s, int rank)
{
    struct staged_peer *peer = s->peer[rank];
    struct wr_staged_op *op, *next;
    for (unsigned i = 0; peer && i < WR_STAGED_WINDOW; i++)
        peer->question[i].op = NULL;
    wr_list_for_each_safe (op, next, &s->ops, link) {
        if (op->world != rank)
            continue;
        op->open = 0;
        op->status = WEIR_ERR_PEER_LOST;
        op_settle(op);
    }
}

/* ---- flushing ---- */

struct staged_flush {
    struct wr_staged_op op;
    bool done;
    weir_status status;
};

static void flush_done(struct wr_staged_op *op, weir_status status)
{
    struct staged_flush *f = WR_CONTAINER_OF(op, struct staged_flush, op);
    f->done = true;
    f->status = status;
}

static bool flush_is_done(void *arg)
{
    return ((const struct staged_flush *)arg)->done;
}

weir_status wr_staged_flush(struct wr_staged *s, const struct weir_comm *comm, int rank, weir_error *err)
{
    int world = wr_comm_world_rank(comm, rank);
    struct staged_peer *peer = s->peer[world];
    if (!peer || peer->flushed == peer->puts)
        return WEIR_OK;
    struct staged_flush f = {.op = {.done = flush_done, .world = world, .mark = peer->puts}};
    wr_staged_start(s, &f.op);
    weir_status status = wr_engine_wait(s->mem->engine, flush_is_done, &f, WR_TIME_INF, err);
    if (!f.done) { /* the job is being ended: the operation must not outlive this frame */
        for (unsigned i = 0; i < WR_STAGED_WINDOW; i++)
            if (peer->question[i].op == &f.op)
                peer->question[i].op = NULL;
        wr_list_remove(&f.op.link);
        return status;
    }
    if (f.status == WEIR_ERR_PEER_LOST)
        return wr_engine_lost_error(s->mem->engine, &comm->group, world, err);
    if (f.status)
        return wr_error_set(err, f.status, NULL, "rank %d refused what was put to it: %s", rank,
                            weir_status_message(f.status));
    return WEIR_OK;
}
