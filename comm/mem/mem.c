/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory handles: the public calls, signals, ends. Making is in make.c. */
#include "comm/mem/mem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/mem/exchange.h"
#include "comm/transport/shm/shm.h"

enum { STALE_KEPT = 1024 }; /* freed handles that stay readable */

weir_status wr_mem_state_create(struct wr_engine *engine, struct wr_mem_state **out, weir_error *err)
{
    struct wr_mem_state *s = calloc(1, sizeof *s);
    uint32_t blocks = engine->nsignals / WEIR_SIGNALS;
    if (!s)
        return wr_error_memory(err, sizeof *s, "the memory layer");
    s->engine = engine;
    s->signal_blocks = blocks;
    s->signal_used = calloc(blocks, 1);
    s->by_block = calloc(blocks, sizeof *s->by_block);
    weir_status status = s->signal_used && s->by_block
                             ? wr_staged_create(s, &s->staged, err)
                             : wr_error_memory(err, blocks * (1 + sizeof *s->by_block), "the memory layer");
    if (status) {
        free(s->by_block);
        free(s->signal_used);
        free(s);
        return status;
    }
    wr_list_init(&s->alive);
    wr_list_init(&s->stale);
    wr_list_init(&s->waiting);
    wr_pool_init(&s->ops, wr_mem_op_size(), 0, 64, 0);
    *out = s;
    return WEIR_OK;
}

/* ---- one handle ---- */

void wr_mem_close_part(struct weir_mem *mem)
{
    struct wr_engine *e = mem->comm->engine;
    struct wr_mem_state *s = mem->comm->mem;
    for (int r = 0; mem->peer && r < mem->comm->size; r++) {
        struct wr_transport *t = wr_engine_route(e, wr_comm_world_rank(mem->comm, r));
        if (mem->peer[r].rkey)
            t->ops->key_close(t, mem->peer[r].rkey);
        free(mem->peer[r].key);
    }
    free(mem->peer);
    mem->peer = NULL;
    for (int i = 0; i < e->ntransports; i++)
        if (mem->region[i])
            e->transport[i]->ops->dereg(e->transport[i], mem->region[i]);
    memset(mem->region, 0, sizeof mem->region);
    if (mem->segment)
        wr_shm_segment_free(wr_engine_shm(e), mem->segment);
    if (mem->private_memory)
        munmap(mem->private_memory, mem->private_bytes);
    if (mem->signal_base != UINT32_MAX) {
        s->by_block[mem->signal_base / WEIR_SIGNALS] = NULL;
        wr_mem_give_signals(s, mem->signal_base, WEIR_SIGNALS);
    }
    s->allocated -= mem->allocated;
    s->mapped -= mem->mapped;
    s->registered -= mem->registered;
    mem->segment = NULL;
    mem->private_memory = NULL;
    mem->signal_base = UINT32_MAX;
    s->windows -= mem->alive && mem->node_shared;
    mem->alive = false;
}

/* Ends a handle: it stays readable as stale until STALE_KEPT others have ended after it. */
static void retire(struct weir_mem *mem)
{
    struct wr_mem_state *s = mem->comm->mem;
    wr_mem_close_part(mem);
    mem->comm->nmems--;
    wr_list_remove(&mem->link);
    wr_list_push_back(&s->stale, &mem->link);
    if (++s->nstale > STALE_KEPT) {
        struct weir_mem *oldest = wr_list_first(&s->stale, struct weir_mem, link);
        wr_list_remove(&oldest->link);
        free(oldest);
        s->nstale--;
    }
}

void wr_mem_state_destroy(struct wr_mem_state *s)
{
    struct weir_mem *mem, *next;
    if (!s)
        return;
    wr_list_for_each_safe (mem, next, &s->alive, link) {
        wr_mem_close_part(mem);
        free(mem);
    }
    wr_list_for_each_safe (mem, next, &s->stale, link)
        free(mem);
    wr_pool_destroy(&s->ops);
    wr_staged_destroy(s->staged);
    free(s->by_block);
    free(s->signal_used);
    free(s);
}

/* ---- signals ---- */

static uint32_t blocks_of(uint32_t n)
{
    return (n + WEIR_SIGNALS - 1) / WEIR_SIGNALS;
}

weir_status wr_mem_take_signals(struct wr_mem_state *s, uint32_t n, uint32_t *first, weir_error *err)
{
    uint32_t need = blocks_of(n), run = 0;
    for (uint32_t b = 0; b < s->signal_blocks; b++) {
        run = s->signal_used[b] ? 0 : run + 1;
        if (run < need)
            continue;
        uint32_t from = b + 1 - need;
        memset(&s->signal_used[from], 1, need);
        *first = from * WEIR_SIGNALS;
        memset(&s->engine->signals[*first], 0, (size_t)need * WEIR_SIGNALS * sizeof *s->engine->signals);
        return WEIR_OK;
    }
    return wr_error_set(err, WEIR_ERR_LIMIT, "free memory handles and persistent requests that are no longer used",
                        "no %u of the %u signals of a context are free", n, s->signal_blocks * WEIR_SIGNALS);
}

void wr_mem_give_signals(struct wr_mem_state *s, uint32_t first, uint32_t n)
{
    memset(&s->signal_used[first / WEIR_SIGNALS], 0, blocks_of(n));
}

/* ---- making ---- */

static weir_status make(weir_comm *comm, const struct wr_mem_wish *wish, struct weir_mem **mem, weir_error *err)
{
    struct wr_mem_making *m;
    weir_status status = wr_mem_make(comm, wish, &m, err);
    if (status)
        return status;
    status = wr_steps_run(wr_mem_making_steps(m), err);
    struct weir_mem *made = wr_mem_made(m, !status);
    if (!status)
        *mem = made;
    return status;
}

static weir_status make_public(weir_comm *comm, const struct wr_mem_wish *wish, weir_mem **mem, const char *operation)
{
    weir_error err = {.rank = -1};
    struct weir_mem *made = NULL;
    wr_engine_lock(comm->engine);
    wr_comm_step(comm, operation);
    weir_status status = make(comm, wish, &made, &err);
    wr_engine_unlock(comm->engine);
    if (status)
        return wr_comm_fail(comm, &err, operation);
    *mem = made;
    return WEIR_OK;
}

weir_status weir_mem_alloc(weir_comm *comm, uint64_t bytes, uint64_t flags, weir_mem **mem)
{
    weir_error err = {.rank = -1};
    if (flags & ~(uint64_t)WEIR_MEM_NODE_SHARED) {
        wr_error_set(&err, WEIR_ERR_INVALID, NULL, "unknown flags %#llx", (unsigned long long)flags);
        return wr_comm_fail(comm, &err, "weir_mem_alloc");
    }
    struct wr_mem_wish wish = {.bytes = bytes, .flags = flags, .kind = WR_MEM_ALLOC};
    return make_public(comm, &wish, mem, "weir_mem_alloc");
}

weir_status weir_mem_register(weir_comm *comm, void *addr, uint64_t bytes, weir_mem **mem)
{
    weir_error err = {.rank = -1};
    if (!addr && bytes) {
        wr_error_set(&err, WEIR_ERR_INVALID, NULL, "the memory of %llu bytes is NULL", (unsigned long long)bytes);
        return wr_comm_fail(comm, &err, "weir_mem_register");
    }
    struct wr_mem_wish wish = {.addr = addr, .bytes = bytes, .kind = WR_MEM_REGISTER};
    return make_public(comm, &wish, mem, "weir_mem_register");
}

/* ---- ending ---- */

/* What was started to a lost rank may never end. */
static bool nothing_outstanding(void *arg)
{
    const struct weir_mem *mem = arg;
    return !mem->outstanding || wr_comm_lost(mem->comm) >= 0;
}

void wr_mem_abandon(struct weir_mem *mem)
{
    if (!mem->outstanding) {
        retire(mem);
        return;
    }
    /* the transport may still use it: its parts stay until the context ends */
    mem->alive = false;
    mem->comm->nmems--;
}

weir_status wr_mem_free(struct weir_mem *mem, weir_error *err)
{
    weir_comm *comm = mem->comm;
    weir_status status = wr_engine_wait(comm->engine, nothing_outstanding, mem, WR_TIME_INF, err);
    if (!status) /* nobody writes to memory that is gone: all have flushed and have come here */
        status = wr_mem_flush(mem, -1, err);
    if (!status)
        status = wr_exchange_barrier(comm, err);
    wr_mem_abandon(mem);
    return status;
}

static weir_status end(weir_mem *mem, bool user_owned, const char *operation)
{
    weir_error err = {.rank = -1};
    weir_status status;
    weir_comm *comm = mem->comm;
    wr_engine_lock(comm->engine);
    if (!mem->alive || mem->user_owned != user_owned) {
        status = wr_error_set(&err, mem->alive ? WEIR_ERR_INVALID : WEIR_ERR_STALE,
                              user_owned ? "free allocated memory with weir_mem_free()"
                                         : "end a registration with weir_mem_deregister()",
                              mem->alive ? "the memory was made in another way" : "the memory was freed already");
    } else {
        wr_comm_step(comm, operation);
        status = wr_mem_free(mem, &err);
    }
    wr_engine_unlock(comm->engine);
    return status ? wr_comm_fail(comm, &err, operation) : WEIR_OK;
}

weir_status weir_mem_free(weir_mem *mem)
{
    return mem ? end(mem, false, "weir_mem_free") : WEIR_OK;
}

weir_status weir_mem_deregister(weir_mem *mem)
{
    return mem ? end(mem, true, "weir_mem_deregister") : WEIR_OK;
}
