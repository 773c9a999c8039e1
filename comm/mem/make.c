/* SPDX-License-Identifier: BSD-3-Clause */
/* Making memory: agreement between the ranks, segments, registration, exchange of keys. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/str.h"
#include "comm/mem/mem.h"
#include "comm/transport/shm/shm.h"

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

/* One segment for the ranks of this node; the first of them makes it. */
static weir_status begin_segment(struct weir_mem *mem, const struct request_card *cards, struct wr_shm_segment **segment,
                                 weir_error *err)
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
        status = wr_shm_segment_begin(shm, ranks, comm->nmates, bytes, mem->node_shared ? WR_SHM_SEGMENT_SHARED : 0,
                                      wr_mem_number(mem), segment, err);
    free(ranks);
    free(bytes);
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

static struct weir_mem *new_handle(weir_comm *comm, const struct wr_mem_wish *wish)
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
    mem->bytes = wish->bytes;
    mem->user_owned = wish->kind == WR_MEM_REGISTER;
    mem->node_shared = wish->flags & WEIR_MEM_NODE_SHARED;
    mem->addr = wish->addr;
    mem->signal_base = UINT32_MAX;
    wr_list_init(&mem->link);
    return mem;
}

/* ---- the steps, each agreed upon by all ranks before the next ---- */

struct wr_mem_making {
    struct wr_steps steps;
    weir_comm *comm;
    struct wr_mem_wish wish;
    struct weir_mem *mem;            /* NULL before it begins to be one */
    struct wr_shm_segment *segment;  /* before it is the handle's */
    struct request_card *requests;   /* by rank */
    struct wr_mem_card card, *cards; /* mine, and all by rank */
    struct wr_buf keys;              /* mine */
    weir_error why;                  /* a registration was refused */
    size_t stride;                   /* of a rank's keys */
    unsigned char *all_keys;
};

static weir_status tell_request(void *arg, struct wr_steps *steps, weir_error *err)
{
    const struct wr_mem_making *m = arg;
    struct request_card request = {m->wish.bytes, m->wish.flags, m->wish.kind, m->comm->next_mem_id};
    return wr_steps_gather(steps, &request, m->requests, sizeof request, err);
}

static weir_status reserve(void *arg, struct wr_steps *steps, weir_error *err)
{
    struct wr_mem_making *m = arg;
    weir_comm *comm = m->comm;
    uint64_t id = 0;
    for (int r = 0; r < comm->size; r++)
        id = WR_MAX(id, m->requests[r].next_id);
    comm->next_mem_id = id + 1;
    weir_status status = check_requests(comm, m->requests, err);
    if (status)
        return status;
    m->mem = new_handle(comm, &m->wish);
    status = m->mem ? WEIR_OK : wr_error_memory(err, sizeof *m->mem, "a handle");
    if (m->mem)
        m->mem->id = id;
    if (!status && m->wish.kind == WR_MEM_ALLOC)
        status = check_limit(comm->mem, m->wish.bytes, err);
    if (!status)
        status = wr_mem_take_signals(comm->mem, WEIR_SIGNALS, &m->mem->signal_base, err);
    return wr_steps_agree(steps, status, err);
}

static weir_status begin_memory(void *arg, struct wr_steps *steps, weir_error *err)
{
    struct wr_mem_making *m = arg;
    if (m->wish.kind == WR_MEM_REGISTER)
        return WEIR_OK;
    weir_status status = begin_segment(m->mem, m->requests, &m->segment, err);
    m->mem->allocated = m->mem->bytes;
    m->comm->mem->allocated += m->mem->allocated;
    m->comm->mem->mapped += m->mem->mapped;
    return wr_steps_agree(steps, status, err);
}

static weir_status end_memory(void *arg, struct wr_steps *steps, weir_error *err)
{
    struct wr_mem_making *m = arg;
    struct weir_mem *mem = m->mem;
    weir_status status = WEIR_OK;
    if (m->wish.kind == WR_MEM_REGISTER)
        return WEIR_OK;
    if (m->segment)
        status = wr_shm_segment_end(wr_engine_shm(m->comm->engine), m->segment, err);
    if (m->segment && !status) {
        mem->segment = m->segment;
        mem->addr = wr_shm_segment_base(mem->segment, m->comm->mate);
    }
    m->segment = NULL;
    return wr_steps_agree(steps, status, err);
}

static weir_status register_memory(void *arg, struct wr_steps *steps, weir_error *err)
{
    struct wr_mem_making *m = arg;
    m->card.bytes = m->mem->bytes;
    m->card.signal_base = m->mem->signal_base;
    /* messages may come before the exchange has ended here */
    m->comm->mem->by_block[m->mem->signal_base / WEIR_SIGNALS] = m->mem;
    return wr_steps_agree(steps, register_part(m->mem, &m->card, &m->keys, &m->why, err), err);
}

static weir_status tell_card(void *arg, struct wr_steps *steps, weir_error *err)
{
    struct wr_mem_making *m = arg;
    return wr_steps_gather(steps, &m->card, m->cards, sizeof m->card, err);
}

static weir_status tell_keys(void *arg, struct wr_steps *steps, weir_error *err)
{
    struct wr_mem_making *m = arg;
    size_t n = (size_t)m->comm->size;
    warn_refused(m->mem, m->cards, &m->why);
    m->stride = 1;
    for (size_t r = 0; r < n; r++) {
        size_t sum = 0;
        for (int i = 0; i < WR_ENGINE_TRANSPORTS; i++)
            sum += m->cards[r].key_len[i];
        m->stride = WR_MAX(m->stride, sum);
    }
    unsigned char *mine = calloc(1, m->stride);
    m->all_keys = malloc(n * m->stride);
    weir_status status = mine && m->all_keys ? WEIR_OK : wr_error_memory(err, n * m->stride, "keys");
    if (!status && m->keys.len)
        memcpy(mine, m->keys.data, m->keys.len);
    if (!status)
        status = wr_steps_gather(steps, mine, m->all_keys, m->stride, err);
    free(mine);
    return status;
}

static weir_status keep_keys(void *arg, struct wr_steps *steps, weir_error *err)
{
    struct wr_mem_making *m = arg;
    weir_status status = WEIR_OK;
    for (int r = 0; r < steps->comm->size && !status; r++)
        status = keep_key(m->mem, r, &m->cards[r], m->all_keys + (size_t)r * m->stride, m->stride, err);
    return status;
}

weir_status wr_mem_make(weir_comm *comm, const struct wr_mem_wish *wish, struct wr_mem_making **making, weir_error *err)
{
    static const wr_step list[] = {tell_request, reserve,   begin_memory, end_memory, register_memory,
                                   tell_card,    tell_keys, keep_keys,    NULL};
    size_t n = (size_t)comm->size;
    struct wr_mem_making *m = calloc(1, sizeof *m);
    if (m) {
        m->requests = malloc(n * sizeof *m->requests);
        m->cards = malloc(n * sizeof *m->cards);
    }
    if (!m || !m->requests || !m->cards) {
        wr_mem_made(m, false);
        return wr_error_memory(err, n * (sizeof *m->requests + sizeof *m->cards), "the exchange of keys");
    }
    m->comm = comm;
    m->wish = *wish;
    wr_steps_init(&m->steps, comm, list, m);
    *making = m;
    return WEIR_OK;
}

struct wr_steps *wr_mem_making_steps(struct wr_mem_making *m)
{
    return &m->steps;
}

struct weir_mem *wr_mem_made(struct wr_mem_making *m, bool ok)
{
    struct weir_mem *mem = ok ? m->mem : NULL;
    if (!m)
        return NULL;
    if (mem) {
        mem->alive = true;
        mem->comm->mem->windows += mem->node_shared;
        mem->comm->nmems++;
        wr_list_push_back(&mem->comm->mem->alive, &mem->link);
    } else if (m->mem) {
        if (m->segment)
            wr_shm_segment_free(wr_engine_shm(m->comm->engine), m->segment);
        wr_mem_close_part(m->mem);
        free(m->mem);
    }
    wr_buf_free(&m->keys);
    free(m->requests);
    free(m->cards);
    free(m->all_keys);
    free(m);
    return mem;
}
