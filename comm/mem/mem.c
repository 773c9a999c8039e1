/* SPDX-License-Identifier: BSD-3-Clause */
/* Making and freeing memory: agreement between the ranks, segments, registration, exchange of keys. */
#include "comm/mem/mem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/str.h"
#include "comm/mem/exchange.h"
#include "comm/transport/shm/shm.h"

enum { STALE_KEPT = 1024 }; /* freed handles that stay readable */

enum { OTHERS_NS = 20000 };

/* Another thread of this rank may be what the other ranks wait for: it gets the lock for a while. */
static void progress_while_waiting(void *arg)
{
    struct timespec others = {.tv_nsec = OTHERS_NS};
    wr_engine_unlock(arg);
    nanosleep(&others, NULL);
    wr_engine_lock(arg);
    wr_engine_progress(arg);
}

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
    if (wr_engine_shm(engine))
        wr_shm_set_idle(wr_engine_shm(engine), progress_while_waiting, engine);
    wr_list_init(&s->alive);
    wr_list_init(&s->stale);
    wr_list_init(&s->waiting);
    wr_pool_init(&s->ops, wr_mem_op_size(), 0, 64, 0);
    *out = s;
    return WEIR_OK;
}

/* ---- one handle ---- */

static void close_part(struct weir_mem *mem)
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
    close_part(mem);
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
        close_part(mem);
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

/* ---- making ---- */

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

static weir_status check_limit(const struct wr_mem_state *s, uint64_t bytes, weir_error *err)
{
    uint64_t limit = s->engine->ctx->config.mem_limit;
    if (bytes <= limit && s->allocated <= limit - bytes)
        return WEIR_OK;
    return wr_error_set(err, WEIR_ERR_LIMIT, "raise WEIR_MEM_LIMIT or free memory",
                        "%llu bytes more would exceed WEIR_MEM_LIMIT=%llu; %llu are allocated",
                        (unsigned long long)bytes, (unsigned long long)limit, (unsigned long long)s->allocated);
}

/* What the ranks must have in common, before anything is done; every rank comes to the same verdict. */
struct request_card {
    uint64_t bytes, flags, kind;
    uint64_t next_id; /* that the communicator would give */
};

static weir_status check_requests(const weir_comm *comm, const struct request_card *cards, weir_error *err)
{
    for (int r = 1; r < comm->size; r++)
        if (cards[r].kind != cards[0].kind || cards[r].flags != cards[0].flags)
            return wr_error_set(
                err, WEIR_ERR_MISMATCH, "call the same function with the same flags on all ranks",
                "rank 0 asked for memory of kind %llu with flags %#llx, rank %d for kind %llu with %#llx",
                (unsigned long long)cards[0].kind, (unsigned long long)cards[0].flags, r,
                (unsigned long long)cards[r].kind, (unsigned long long)cards[r].flags);
    if (cards[0].flags & WEIR_MEM_NODE_SHARED)
        for (int r = 0; r < comm->size; r++) {
            int leader = comm->node_leader[comm->node_of[r]];
            if (cards[r].bytes != cards[leader].bytes)
                return wr_error_set(err, WEIR_ERR_MISMATCH, "give all ranks of a node the same size",
                                    "ranks %d and %d share a node and asked for windows of %llu and %llu bytes", leader,
                                    r, (unsigned long long)cards[leader].bytes, (unsigned long long)cards[r].bytes);
        }
    return WEIR_OK;
}

/* Memory of this rank alone, where there is no segment. */
static weir_status make_private(struct weir_mem *mem, weir_error *err)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (!mem->bytes)
        return WEIR_OK;
    if (mem->bytes > SIZE_MAX - page)
        return wr_error_memory(err, SIZE_MAX, "weir_mem_alloc");
    mem->private_bytes = (mem->bytes + page - 1) / page * page;
    void *p = mmap(NULL, mem->private_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (p == MAP_FAILED)
        return wr_error_memory(err, mem->private_bytes, "weir_mem_alloc");
    mem->private_memory = mem->addr = p;
    return WEIR_OK;
}

/* One segment for the ranks of this node. */
static weir_status make_segment(struct weir_mem *mem, const struct request_card *cards, weir_error *err)
{
    const weir_comm *comm = mem->comm;
    struct wr_transport *shm = wr_engine_shm(comm->engine);
    if (!shm || comm->nmates == 1)
        return make_private(mem, err);
    uint64_t *bytes = malloc((size_t)comm->nmates * sizeof *bytes);
    int *ranks = malloc((size_t)comm->nmates * sizeof *ranks);
    weir_status status = bytes && ranks ? WEIR_OK
                                        : wr_error_memory(err, (size_t)comm->nmates * sizeof *bytes, "weir_mem_alloc");
    for (int i = 0; i < comm->nmates && !status; i++) {
        ranks[i] = wr_comm_world_rank(comm, comm->mates[i]);
        bytes[i] = cards[comm->mates[i]].bytes;
        mem->peer[comm->mates[i]].segment_index = i;
        mem->mapped += mem->node_shared || i == comm->mate ? 0 : bytes[i];
    }
    if (!status)
        status = wr_shm_segment_create(shm, ranks, comm->nmates, bytes, mem->node_shared ? WR_SHM_SEGMENT_SHARED : 0,
                                       wr_mem_number(mem), &mem->segment, err);
    free(ranks);
    free(bytes);
    if (!status)
        mem->addr = wr_shm_segment_base(mem->segment, comm->mate);
    return status;
}

/* The place of a transport in cards: ranks alone on their node have one less. */
static int kind_of(const struct wr_engine *e, int i)
{
    return wr_engine_is_network(e, i) ? 2 : strcmp(e->link[i].name, "self") != 0;
}

/* Registers this rank's part with every transport and writes the keys behind each other; `why` one was refused. */
static weir_status register_part(struct weir_mem *mem, struct wr_mem_card *card, struct wr_buf *keys, weir_error *why,
                                 weir_error *err)
{
    struct wr_engine *e = mem->comm->engine;
    struct wr_mem_state *s = mem->comm->mem;
    unsigned char key[WR_KEY_MAX];
    for (int i = 0; i < e->ntransports && mem->bytes; i++) {
        struct wr_transport *t = e->transport[i];
        size_t len = sizeof key;
        weir_status status =
            t->ops->reg(t, mem->addr, mem->bytes, WR_REG_REMOTE_READ | WR_REG_REMOTE_WRITE, &mem->region[i], why);
        if (status) {
            mem->region[i] = NULL;
            card->refused |= wr_engine_is_network(e, i);
            continue;
        }
        status = t->ops->key_export(t, mem->region[i], key, &len, err);
        if (status)
            return status;
        card->key_len[kind_of(e, i)] = (uint32_t)len;
        wr_buf_add(keys, key, len);
        if (wr_engine_is_network(e, i))
            s->registered += mem->registered = mem->bytes;
    }
    return keys->failed ? wr_error_memory(err, keys->cap, "keys") : WEIR_OK;
}

/* Keeps of each rank's keys the one of the transport that reaches it. */
static weir_status keep_key(struct weir_mem *mem, int rank, const struct wr_mem_card *card, const unsigned char *keys,
                            size_t stride, weir_error *err)
{
    struct wr_engine *e = mem->comm->engine;
    struct wr_mem_peer *peer = &mem->peer[rank];
    size_t offset = 0;
    int route = e->route[wr_comm_world_rank(mem->comm, rank)];
    peer->bytes = card->bytes;
    peer->signal_base = card->signal_base;
    for (int kind = 0; kind < WR_ENGINE_TRANSPORTS; kind++) {
        size_t len = card->key_len[kind];
        if (len > stride - offset)
            return wr_error_set(err, WEIR_ERR_PROTOCOL, "use one version of weir on all ranks",
                                "the keys of rank %d are not understood", rank);
        if (len && route != WR_NO_ROUTE && kind == kind_of(e, route)) {
            if (!(peer->key = malloc(len)))
                return wr_error_memory(err, len, "a key");
            memcpy(peer->key, keys + offset, len);
            peer->key_len = (uint32_t)len;
        }
        offset += len;
    }
    return WEIR_OK;
}

/* One warning a job: of the first rank whose memory was refused. */
static void warn_refused(struct weir_mem *mem, const struct wr_mem_card *cards, const weir_error *why)
{
    struct wr_engine *e = mem->comm->engine;
    int first = -1, n = 0;
    for (int r = mem->comm->size - 1; r >= 0; r--)
        if (cards[r].refused) {
            first = r;
            n++;
        }
    for (int i = 0; i < e->ntransports && first == mem->comm->rank; i++)
        wr_engine_warn_staging(e, e->transport[i], n, why);
    e->warned_staging |= n > 0;
}

static weir_status exchange_keys(struct weir_mem *mem, const struct wr_mem_card *card, const struct wr_buf *keys,
                                 const weir_error *why, weir_error *err)
{
    weir_comm *comm = mem->comm;
    size_t n = (size_t)comm->size, stride = 1;
    struct wr_mem_card *cards = malloc(n * sizeof *cards);
    unsigned char *mine = NULL, *all = NULL;
    weir_status status = cards ? wr_exchange_allgather(comm, card, cards, sizeof *card, err)
                               : wr_error_memory(err, n * sizeof *cards, "keys");
    if (!status)
        warn_refused(mem, cards, why);
    for (size_t r = 0; r < n && !status; r++) {
        size_t sum = 0;
        for (int i = 0; i < WR_ENGINE_TRANSPORTS; i++)
            sum += cards[r].key_len[i];
        stride = WR_MAX(stride, sum);
    }
    if (!status) {
        mine = calloc(1, stride);
        all = malloc(n * stride);
        if (!mine || !all)
            status = wr_error_memory(err, n * stride, "keys");
    }
    if (!status) {
        if (keys->len)
            memcpy(mine, keys->data, keys->len);
        status = wr_exchange_allgather(comm, mine, all, stride, err);
    }
    for (int r = 0; r < comm->size && !status; r++)
        status = keep_key(mem, r, &cards[r], all + (size_t)r * stride, stride, err);
    free(all);
    free(mine);
    free(cards);
    return status;
}

static struct weir_mem *new_handle(weir_comm *comm, uint64_t bytes, bool user_owned, bool node_shared)
{
    struct weir_mem *mem = calloc(1, sizeof *mem);
    if (!mem)
        return NULL;
    mem->peer = calloc((size_t)comm->size, sizeof *mem->peer);
    if (!mem->peer) {
        free(mem);
        return NULL;
    }
    for (int r = 0; r < comm->size; r++)
        mem->peer[r].segment_index = -1;
    mem->comm = comm;
    mem->bytes = bytes;
    mem->user_owned = user_owned;
    mem->node_shared = node_shared;
    mem->signal_base = UINT32_MAX;
    wr_list_init(&mem->link);
    return mem;
}

enum { KIND_ALLOC = 1, KIND_REGISTER = 2 };

/* The steps of making memory, each agreed upon by all ranks before the next. */
static weir_status make(weir_comm *comm, void *addr, const struct request_card *request, struct weir_mem **out,
                        weir_error *err)
{
    struct wr_mem_state *s = comm->mem;
    bool user_owned = request->kind == KIND_REGISTER;
    struct request_card *cards = malloc((size_t)comm->size * sizeof *cards);
    struct wr_buf keys = {0};
    struct wr_mem_card card = {.bytes = request->bytes};
    struct weir_mem *mem = NULL;
    weir_error why;
    uint64_t id = 0;
    weir_status status = cards ? wr_exchange_allgather(comm, request, cards, sizeof *request, err)
                               : wr_error_memory(err, (size_t)comm->size * sizeof *cards, "weir_mem");
    if (!status) {
        for (int r = 0; r < comm->size; r++)
            id = WR_MAX(id, cards[r].next_id);
        comm->next_mem_id = id + 1;
        status = check_requests(comm, cards, err);
    }
    if (status)
        goto out;
    mem = new_handle(comm, request->bytes, user_owned, request->flags & WEIR_MEM_NODE_SHARED);
    status = mem ? WEIR_OK : wr_error_memory(err, sizeof *mem, "a handle");
    if (!status && !user_owned)
        status = check_limit(s, request->bytes, err);
    if (!status)
        status = wr_mem_take_signals(s, WEIR_SIGNALS, &mem->signal_base, err);
    status = wr_exchange_agree(comm, status, err);
    if (status)
        goto out;
    mem->addr = addr;
    mem->id = id;
    status = user_owned ? WEIR_OK : make_segment(mem, cards, err);
    mem->allocated = user_owned ? 0 : mem->bytes;
    s->allocated += mem->allocated;
    s->mapped += mem->mapped;
    status = wr_exchange_agree(comm, status, err);
    if (status)
        goto out;
    card.signal_base = mem->signal_base;
    s->by_block[mem->signal_base / WEIR_SIGNALS] = mem; /* messages may come before the exchange has ended here */
    status = register_part(mem, &card, &keys, &why, err);
    status = wr_exchange_agree(comm, status, err);
    if (!status)
        status = exchange_keys(mem, &card, &keys, &why, err);
    if (status)
        goto out;
    mem->alive = true;
    s->windows += mem->node_shared;
    comm->nmems++;
    wr_list_push_back(&s->alive, &mem->link);
    *out = mem;
out:
    if (status && mem) {
        close_part(mem);
        free(mem);
    }
    wr_buf_free(&keys);
    free(cards);
    return status;
}

weir_status wr_mem_alloc(weir_comm *comm, uint64_t bytes, struct weir_mem **mem, weir_error *err)
{
    struct request_card request = {bytes, 0, KIND_ALLOC, comm->next_mem_id};
    return make(comm, NULL, &request, mem, err);
}

static weir_status make_public(weir_comm *comm, void *addr, const struct request_card *request, weir_mem **mem,
                               const char *operation)
{
    weir_error err = {.rank = -1};
    struct weir_mem *made = NULL;
    wr_engine_lock(comm->engine);
    wr_comm_step(comm, operation);
    weir_status status = make(comm, addr, request, &made, &err);
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
    struct request_card request = {bytes, flags, KIND_ALLOC, comm->next_mem_id};
    return make_public(comm, NULL, &request, mem, "weir_mem_alloc");
}

weir_status weir_mem_register(weir_comm *comm, void *addr, uint64_t bytes, weir_mem **mem)
{
    weir_error err = {.rank = -1};
    if (!addr && bytes) {
        wr_error_set(&err, WEIR_ERR_INVALID, NULL, "the memory of %llu bytes is NULL", (unsigned long long)bytes);
        return wr_comm_fail(comm, &err, "weir_mem_register");
    }
    struct request_card request = {bytes, 0, KIND_REGISTER, comm->next_mem_id};
    return make_public(comm, addr, &request, mem, "weir_mem_register");
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
