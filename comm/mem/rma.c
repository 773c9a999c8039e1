/* SPDX-License-Identifier: BSD-3-Clause */
/* One-sided operations on memory handles. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "comm/mem/mem.h"

enum mem_op_kind { OP_PUT, OP_PUT_SIGNAL, OP_GET };

/* An operation that was started by the user; in state.waiting while the transport has no room for it. */
struct mem_op {
    struct weir_request request;
    struct wr_op op;
    struct wr_list link;
    struct weir_mem *mem;
    struct wr_mem_state *state;
    enum mem_op_kind kind;
    void *local;
    uint64_t bytes, offset;
    int rank, world; /* the target in the memory's communicator, and in the job */
    int signal;
    struct wr_region *region;
    bool own_region;
    bool by_messages;           /* the memory of one side is not registered */
    uint64_t moved;             /* of a put by messages */
    struct wr_staged_op staged; /* of a get by messages */
};

size_t wr_mem_op_size(void)
{
    return sizeof(struct mem_op);
}

struct wr_rkey *wr_mem_rkey(struct weir_mem *mem, int rank, weir_error *err)
{
    struct wr_mem_peer *peer = &mem->peer[rank];
    if (!peer->rkey && peer->key) {
        int world = wr_comm_world_rank(mem->comm, rank);
        struct wr_transport *t = wr_engine_route(mem->comm->engine, world);
        if (t->ops->key_import(t, world, peer->key, peer->key_len, &peer->rkey, err))
            return NULL;
    }
    if (!peer->rkey)
        wr_error_set(err, WEIR_ERR_UNSUPPORTED, "raise the limit of locked memory there (ulimit -l unlimited)",
                     "the memory of rank %d could not be registered with the network, so that it cannot be reached",
                     rank);
    return peer->rkey;
}

struct wr_region *wr_mem_find(void *arg, struct wr_transport *t, const void *addr, uint64_t len, uint64_t *offset)
{
    struct wr_mem_state *s = arg;
    struct weir_mem *mem = wr_mem_containing(s, addr, len, offset);
    for (int i = 0; mem && i < s->engine->ntransports; i++)
        if (s->engine->transport[i] == t)
            return mem->region[i];
    return NULL;
}

/* ---- life of an operation ---- */

static void op_free(struct mem_op *op)
{
    wr_pool_put(&op->state->ops, op);
}

static void op_give_region(struct mem_op *op)
{
    if (WR_UNLIKELY(op->own_region)) {
        struct wr_transport *t = wr_engine_route(op->state->engine, op->world);
        t->ops->dereg(t, op->region);
        op->own_region = false;
    }
}

static void op_end(struct mem_op *op, weir_status status)
{
    op_give_region(op);
    op->mem->outstanding--;
    wr_request_complete(&op->request, status);
}

static void op_done(struct wr_op *done, weir_status status)
{
    op_end(WR_CONTAINER_OF(done, struct mem_op, op), status);
}

static void op_release(struct weir_request *request)
{
    op_free(WR_CONTAINER_OF(request, struct mem_op, request));
}

/*
 * A registration of the local buffer, when the transport insists on one. Where it is refused, the operation goes by messages.
 */
static void need_region(struct mem_op *op, struct wr_transport *t)
{
    uint64_t unused;
    weir_error why;
    if (!t->caps.needs_local_region || op->region || (op->kind != OP_GET && op->bytes <= t->caps.inject) || !op->bytes)
        return;
    op->region = wr_mem_find(op->state, t, op->local, op->bytes, &unused);
    if (op->region)
        return;
    op->own_region = !t->ops->reg(t, op->local, op->bytes, 0, &op->region, &why);
    if (op->own_region)
        return;
    op->region = NULL;
    op->by_messages = true;
    wr_engine_warn_staging(op->state->engine, t, 1, &why);
}

static void staged_done(struct wr_staged_op *done, weir_status status)
{
    op_end(WR_CONTAINER_OF(done, struct mem_op, staged), status);
}

static weir_status op_by_messages(struct mem_op *op, weir_error *err)
{
    if (op->kind != OP_GET)
        return wr_staged_put(op->state->staged, op->mem, op->rank, op->local, op->bytes, op->offset,
                             op->kind == OP_PUT_SIGNAL ? op->signal : -1, &op->moved, err);
    op->staged = (struct wr_staged_op){.done = staged_done,
                                       .mem = op->mem,
                                       .rank = op->rank,
                                       .world = op->world,
                                       .local = op->local,
                                       .offset = op->offset,
                                       .bytes = op->bytes};
    wr_staged_start(op->state->staged, &op->staged);
    return WEIR_IN_PROGRESS;
}

static weir_status op_by_transport(struct mem_op *op, struct wr_transport *t, weir_error *err)
{
    struct weir_mem *mem = op->mem;
    struct wr_rkey *rkey = op->bytes ? wr_mem_rkey(mem, op->rank, err) : NULL;
    if (op->bytes && !rkey)
        return err->status;
    if (op->kind == OP_PUT)
        return t->ops->put(t, op->world, op->local, op->region, op->bytes, rkey, op->offset, 0, &op->op, err);
    if (op->kind == OP_GET)
        return t->ops->get(t, op->world, op->local, op->region, op->bytes, rkey, op->offset, &op->op, err);
    return t->ops->put_signal(t, op->world, op->local, op->region, op->bytes, rkey, op->offset,
                              mem->peer[op->rank].signal_base + (uint32_t)op->signal, 0, &op->op, err);
}

/* Tries to start; WEIR_ERR_BUSY when there is no room. */
static weir_status op_start(struct mem_op *op)
{
    weir_error err;
    struct wr_transport *t = wr_engine_peer(op->state->engine, op->world, &err);
    if (!t)
        return err.status;
    op->by_messages |= op->bytes && !op->mem->peer[op->rank].key;
    if (!op->by_messages)
        need_region(op, t);
    return op->by_messages ? op_by_messages(op, &err) : op_by_transport(op, t, &err);
}

void wr_mem_peer_lost(void *arg, int rank)
{
    wr_staged_peer_lost(((struct wr_mem_state *)arg)->staged, rank);
}

void wr_mem_progress(void *arg)
{
    struct wr_mem_state *s = arg;
    while (!wr_list_empty(&s->waiting)) {
        struct mem_op *op = wr_list_first(&s->waiting, struct mem_op, link);
        wr_list_remove(&op->link);
        weir_status status = op_start(op);
        if (status == WEIR_ERR_BUSY) {
            wr_list_push_front(&s->waiting, &op->link);
            return;
        }
        if (status != WEIR_IN_PROGRESS)
            op_end(op, status);
    }
}

static weir_status check_range(const struct weir_mem *mem, uint64_t bytes, int rank, uint64_t offset, int signal,
                               weir_error *err)
{
    if (!mem->alive)
        return wr_error_set(err, WEIR_ERR_STALE, "use memory between its allocation and its freeing",
                            "the memory was freed already");
    weir_status status = wr_comm_check_rank(mem->comm, "rank", rank, err);
    if (status)
        return status;
    if (signal < 0 || signal >= WEIR_SIGNALS)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "signal %d is not in 0..%d", signal, WEIR_SIGNALS - 1);
    uint64_t have = mem->peer[rank].bytes;
    if (bytes && (offset > have || bytes > have - offset))
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "bytes %llu..%llu are not inside the %llu bytes of rank %d",
                            (unsigned long long)offset, (unsigned long long)(offset + bytes), (unsigned long long)have,
                            rank);
    return WEIR_OK;
}

static weir_status start(weir_mem *mem, enum mem_op_kind kind, void *local, uint64_t bytes, int rank, uint64_t offset,
                         int signal, weir_request **request, weir_error *err, const char *operation)
{
    struct wr_mem_state *s = mem->comm->mem;
    weir_status status = check_range(mem, bytes, rank, offset, signal, err);
    if (!status && !local && bytes)
        status =
            wr_error_set(err, WEIR_ERR_INVALID, NULL, "the buffer of %llu bytes is NULL", (unsigned long long)bytes);
    if (status)
        return status;
    struct mem_op *op = wr_pool_get(&s->ops);
    if (!op)
        return wr_error_memory(err, sizeof *op, "an operation");
    /* one by one: on the node most operations are complete when they have been started, and need no more of it */
    op->op.done = op_done;
    op->mem = mem;
    op->state = s;
    op->kind = kind;
    op->local = local;
    op->bytes = bytes;
    op->offset = offset;
    op->rank = rank;
    op->world = wr_comm_world_rank(mem->comm, rank);
    op->signal = signal;
    op->region = NULL;
    op->own_region = false;
    op->by_messages = false;
    op->moved = 0;
    /* operations that wait go first, so that none is overtaken for ever */
    status = wr_list_empty(&s->waiting) ? op_start(op) : WEIR_ERR_BUSY;
    if (WR_LIKELY(status == WEIR_OK)) {
        op_give_region(op);
        op_free(op);
        *request = NULL;
        return WEIR_OK;
    }
    wr_request_init(&op->request, mem->comm->ctx, s->engine, &mem->comm->group, op->world, operation, op_release);
    wr_list_init(&op->link);
    mem->outstanding++;
    if (status == WEIR_ERR_BUSY)
        wr_list_push_back(&s->waiting, &op->link);
    else if (status != WEIR_IN_PROGRESS)
        op_end(op, status);
    *request = &op->request;
    return WEIR_OK;
}

static weir_status start_public(weir_mem *mem, enum mem_op_kind kind, void *local, uint64_t bytes, int rank,
                                uint64_t offset, int signal, weir_request **request, const char *operation)
{
    weir_error err;
    weir_request *started = NULL;
    wr_error_reset(&err);
    wr_engine_lock(mem->comm->engine);
    weir_status status = start(mem, kind, local, bytes, rank, offset, signal, &started, &err, operation);
    wr_engine_unlock(mem->comm->engine);
    if (status)
        return wr_comm_fail(mem->comm, &err, operation);
    *request = started;
    return WEIR_OK;
}

weir_status weir_put(weir_mem *mem, const void *src, uint64_t bytes, int rank, uint64_t offset, weir_request **request)
{
    return start_public(mem, OP_PUT, (void *)(uintptr_t)src, bytes, rank, offset, 0, request, "weir_put");
}

weir_status weir_get(weir_mem *mem, void *dst, uint64_t bytes, int rank, uint64_t offset, weir_request **request)
{
    return start_public(mem, OP_GET, dst, bytes, rank, offset, 0, request, "weir_get");
}

weir_status weir_put_signal(weir_mem *mem, const void *src, uint64_t bytes, int rank, uint64_t offset, int signal,
                            weir_request **request)
{
    return start_public(mem, OP_PUT_SIGNAL, (void *)(uintptr_t)src, bytes, rank, offset, signal, request,
                        "weir_put_signal");
}

/* ---- signals and flushing ---- */

struct signal_goal {
    const uint64_t *signal;
    uint64_t value;
    const weir_comm *comm;
};

static bool signal_reached(void *arg)
{
    const struct signal_goal *g = arg;
    return *g->signal >= g->value || wr_comm_lost(g->comm) >= 0;
}

weir_status weir_signal_wait(weir_mem *mem, int signal, uint64_t value)
{
    weir_error err;
    struct wr_engine *e = mem->comm->engine;
    wr_error_reset(&err);
    wr_engine_lock(e);
    weir_status status = check_range(mem, 0, mem->comm->rank, 0, signal, &err);
    if (!status) {
        struct signal_goal goal = {&e->signals[mem->signal_base + (uint32_t)signal], value, mem->comm};
        status = wr_engine_wait(e, signal_reached, &goal, WR_TIME_INF, &err);
        if (!status && *goal.signal < value)
            status = wr_engine_lost_error(e, &mem->comm->group, -1, &err);
    }
    wr_engine_unlock(e);
    return status ? wr_comm_fail(mem->comm, &err, "weir_signal_wait") : WEIR_OK;
}

uint64_t weir_signal_read(weir_mem *mem, int signal)
{
    struct wr_engine *e = mem->comm->engine;
    uint64_t value = 0;
    wr_engine_lock(e);
    if (mem->alive && signal >= 0 && signal < WEIR_SIGNALS) {
        wr_engine_progress(e);
        value = e->signals[mem->signal_base + (uint32_t)signal];
    }
    wr_engine_unlock(e);
    return value;
}

struct flush {
    struct wr_op op;
    bool done;
    weir_status status;
    struct wr_mem_state *state;
};

static void flush_done(struct wr_op *op, weir_status status)
{
    struct flush *f = WR_CONTAINER_OF(op, struct flush, op);
    f->done = true;
    f->status = status;
}

static bool flush_is_done(void *arg)
{
    return ((const struct flush *)arg)->done;
}

static bool nothing_waits(void *arg)
{
    return wr_list_empty(&((const struct wr_mem_state *)arg)->waiting);
}

/* `peer` is a world rank, -1 for all; `rank` the number to tell. */
static weir_status flush_one(struct wr_engine *e, struct wr_transport *t, int peer, int rank, weir_error *err)
{
    struct flush f = {{flush_done}, false, WEIR_OK, NULL};
    weir_status status;
    while ((status = t->ops->flush(t, peer, &f.op, err)) == WEIR_ERR_BUSY)
        wr_engine_progress(e);
    if (status == WEIR_IN_PROGRESS) {
        status = wr_engine_wait(e, flush_is_done, &f, WR_TIME_INF, err);
        if (!status && f.status)
            status = wr_error_set(err, f.status, NULL, "flushing the puts to rank %d failed", rank);
    }
    return status;
}

static weir_status flush_rank(const weir_comm *comm, int rank, weir_error *err)
{
    struct wr_engine *e = comm->engine;
    int peer = wr_comm_world_rank(comm, rank);
    weir_status status = wr_engine_ready(e, peer) ? flush_one(e, wr_engine_route(e, peer), peer, rank, err) : WEIR_OK;
    return status || e->lost[peer] ? status : wr_staged_flush(comm->mem->staged, comm, rank, err);
}

weir_status wr_mem_flush(struct weir_mem *mem, int rank, weir_error *err)
{
    struct wr_engine *e = mem->comm->engine;
    struct wr_staged *staged = mem->comm->mem->staged;
    weir_status status = wr_engine_wait(e, nothing_waits, mem->comm->mem, WR_TIME_INF, err);
    if (status)
        return status;
    if (rank >= 0)
        return flush_rank(mem->comm, rank, err);
    if (e->nlost) { /* what was put to the lost ones may never end: only the others are asked */
        for (int r = 0; r < mem->comm->size && !status; r++)
            status = flush_rank(mem->comm, r, err);
        return status;
    }
    for (int i = 0; i < e->ntransports && !status; i++)
        status = flush_one(e, e->transport[i], -1, -1, err);
    for (int r = 0; r < mem->comm->size && !status; r++)
        status = wr_staged_flush(staged, mem->comm, r, err);
    return status;
}

weir_status weir_flush(weir_mem *mem, int rank)
{
    weir_error err;
    wr_error_reset(&err);
    wr_engine_lock(mem->comm->engine);
    weir_status status = check_range(mem, 0, rank < 0 ? mem->comm->rank : rank, 0, 0, &err);
    if (!status)
        status = wr_mem_flush(mem, rank, &err);
    wr_engine_unlock(mem->comm->engine);
    return status ? wr_comm_fail(mem->comm, &err, "weir_flush") : WEIR_OK;
}
