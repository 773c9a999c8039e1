/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/transport/shm/shm.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/transport/shm/impl.h"

enum {
    BUDGET = 64,         /* records of one peer in a row */
    IDLE_POLLS = 1024,   /* unsuccessful polls between two looks at the clock */
    LIFE_PERIOD_MS = 20, /* between two looks for dead peers while polling */
};

struct wr_shm_peer *wr_shm_peer_of(const struct wr_shm *s, int rank)
{
    const int *ranks = s->base.params.node_ranks;
    if (s->one_block) {
        unsigned i = (unsigned)rank - (unsigned)ranks[0];
        return i < (unsigned)s->n ? &s->peers[i] : NULL;
    }
    for (int low = 0, high = s->n; low < high;) {
        int mid = low + (high - low) / 2;
        if (ranks[mid] == rank)
            return &s->peers[mid];
        if (ranks[mid] < rank)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

/* Takes part in barriers that sleepers ask for, where the kernel has them. Registering lasts as long as the process. */
static void use_membarrier(struct wr_shm *s)
{
    long have = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    if (have < 0 || !(have & MEMBARRIER_CMD_GLOBAL_EXPEDITED) ||
        syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0))
        return;
    s->expedited = s->barriers = true;
}

static void set_caps(struct wr_transport *t)
{
    t->caps = (struct wr_transport_caps){.put = true,
                                         .get = true,
                                         .mapped = true,
                                         .ordered = false,
                                         .needs_local_region = false,
                                         .detects_peer_loss = true,
                                         .signal_kind = WR_SIGNAL_MESSAGE,
                                         .immediate_bytes = 4,
                                         .max_put = UINT64_MAX,
                                         .max_am = WR_SHM_MAX_AM,
                                         .inject = SIZE_MAX,
                                         .eager_put = WR_SHM_INLINE,
                                         .rails = 1,
                                         .provider = "memfd",
                                         .device = ""};
}

static weir_status make_address(struct wr_shm *s, weir_error *err)
{
    struct stat st;
    if (getrandom(s->nonce, sizeof s->nonce, 0) != (ssize_t)sizeof s->nonce)
        return wr_error_errno(err, WEIR_ERR_SYSTEM, errno, NULL, "the kernel gave no random numbers");
    s->address.magic = WR_SHM_MAGIC;
    s->address.rank = s->base.params.rank;
    s->address.pid = getpid();
    s->address.uid = geteuid();
    s->address.pid_namespace = stat("/proc/self/ns/pid", &st) ? 0 : st.st_ino;
    s->address.mail = s->mail.address;
    return WEIR_OK;
}

static void free_state(struct wr_shm *s)
{
    wr_pool_destroy(&s->pool);
    wr_pool_destroy(&s->region_pool);
    wr_pool_destroy(&s->rkey_pool);
    if (s->events >= 0)
        close(s->events);
    wr_mailbox_close(&s->mail);
    for (int i = 0; s->peers && i < s->n; i++)
        if (s->peers[i].life >= 0)
            close(s->peers[i].life);
    free(s->region_table);
    free(s->data_after);
    free(s->active);
    free(s->peers);
    free(s);
}

static weir_status open_peers(struct wr_shm *s, weir_error *err)
{
    s->peers = calloc((size_t)s->n, sizeof *s->peers);
    s->active = calloc((size_t)s->n, sizeof(struct wr_shm_peer *));
    if (!s->peers || !s->active)
        return wr_error_memory(err, (size_t)s->n * sizeof *s->peers, "the ranks of the node");
    s->one_block = true;
    for (int i = 0; i < s->n; i++) {
        s->peers[i].rank = s->base.params.node_ranks[i];
        s->peers[i].life = -1;
        s->one_block &= s->peers[i].rank == s->peers[0].rank + i;
    }
    return WEIR_OK;
}

static weir_status shm_open(const struct wr_transport_params *params, struct wr_transport **out, weir_error *err)
{
    if (params->node_size < 1 || params->node_size > WR_SHM_NODE_MAX)
        return wr_error_set(err, WEIR_ERR_UNSUPPORTED, NULL, "shared memory serves 1 to %d ranks a node, not %d",
                            WR_SHM_NODE_MAX, params->node_size);
    struct wr_shm *s = calloc(1, sizeof *s);
    if (!s)
        return wr_error_memory(err, sizeof *s, "the shm transport");
    s->base.ops = &wr_shm_ops;
    s->base.params = *params;
    s->me = params->node_rank;
    s->n = params->node_size;
    s->events = s->mail.listener = s->mail.bell = -1;
    wr_list_init(&s->mail.arrived);
    wr_list_init(&s->mail.callers);
    wr_list_init(&s->mail.ties);
    wr_list_init(&s->pending);
    wr_list_init(&s->segments);
    wr_list_init(&s->regions);
    wr_list_init(&s->rkeys);
    wr_pool_init(&s->pool, sizeof(struct wr_shm_pending), 0, 256, WR_SHM_PENDING);
    wr_pool_init(&s->region_pool, sizeof(struct wr_region), 0, 64, 0);
    wr_pool_init(&s->rkey_pool, sizeof(struct wr_rkey), 0, 64, 0);
    s->attach_off = params->config && params->config->shm_cma == 1;
    set_caps(&s->base);
    use_membarrier(s);
    weir_status status = open_peers(s, err);
    if (status == WEIR_OK)
        status = wr_mailbox_open(&s->mail, err);
    if (status == WEIR_OK)
        status = make_address(s, err);
    if (status == WEIR_OK && s->n > 1)
        status = wr_pool_reserve(&s->pool, WR_SHM_PENDING, err);
    if (status != WEIR_OK) {
        free_state(s);
        return status;
    }
    *out = &s->base;
    return WEIR_OK;
}

static weir_status shm_address(struct wr_transport *t, void *buf, size_t *len, weir_error *err)
{
    struct wr_shm *s = wr_shm_of(t);
    if (*len < sizeof s->address)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "%zu bytes are too few for an address of %zu", *len,
                            sizeof s->address);
    memcpy(buf, &s->address, sizeof s->address);
    *len = sizeof s->address;
    return WEIR_OK;
}

static weir_status watch_fd(struct wr_shm *s, int fd, uint64_t data, weir_error *err)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = data};
    if (epoll_ctl(s->events, EPOLL_CTL_ADD, fd, &ev))
        return wr_error_errno(err, WEIR_ERR_SYSTEM, errno, "raise fs.epoll.max_user_watches", "cannot watch a descriptor");
    return WEIR_OK;
}

static weir_status shm_start(struct wr_transport *t, weir_error *err)
{
    struct wr_shm *s = wr_shm_of(t);
    s->events = epoll_create1(EPOLL_CLOEXEC);
    if (s->events < 0)
        return wr_error_errno(err, WEIR_ERR_SYSTEM, errno, "raise the limit of open files (ulimit -n)",
                              "no epoll set for shared memory");
    weir_status status = watch_fd(s, s->mail.bell, (uint64_t)s->n, err);
    if (status == WEIR_OK)
        status = watch_fd(s, s->mail.listener, (uint64_t)s->n + 1, err);
    if (status == WEIR_OK)
        status = wr_shm_join(s, err);
    if (status == WEIR_OK)
        wr_debug(s->base.params.log, TRANSPORT, "shm: joined the node as %d of %d, %s", s->me, s->n,
                 s->expedited ? "with membarrier" : "with fences");
    return status;
}

static void shm_close(struct wr_transport *t)
{
    struct wr_shm *s = wr_shm_of(t);
    if (s->block)
        wr_store_release(&s->block->closed, 1);
    wr_shm_segments_close(s);
    while (!wr_list_empty(&s->rkeys))
        wr_shm_key_close(t, wr_list_first(&s->rkeys, struct wr_rkey, link));
    while (!wr_list_empty(&s->regions))
        wr_shm_dereg(t, wr_list_first(&s->regions, struct wr_region, link));
    wr_shm_unmap(s->mapping);
    free_state(s);
}

static bool shm_reaches(const struct wr_transport *t, int peer)
{
    const struct wr_shm *s = wr_shm_of(t);
    return peer != t->params.rank && wr_shm_peer_of(s, peer);
}

/* Waits until a peer has joined the segment. */
static weir_status await_joined(struct wr_shm *s, struct wr_shm_peer *p, weir_error *err)
{
    int64_t deadline = wr_deadline(s->base.params.timeout_ns);
    for (int i = 0; !wr_load_acquire(&p->block->joined); i++) {
        wr_shm_progress(&s->base);
        if (p->lost)
            return wr_shm_error_lost(p, err);
        if (wr_deadline_passed(deadline)) {
            wr_error_set(err, WEIR_ERR_TIMEOUT, "see whether that rank hangs or computes",
                         "rank %d did not join the node's shared memory in time", p->rank);
            wr_error_at(err, p->rank, NULL);
            return WEIR_ERR_TIMEOUT;
        }
        if (i > 100)
            poll(NULL, 0, 1);
        if (i > 100 && i % 64 == 0 && !wr_mail_alive(&p->address.mail))
            wr_shm_lose(s, p, "it ended before it joined the node's shared memory");
    }
    return WEIR_OK;
}

static weir_status shm_connect(struct wr_transport *t, int peer, weir_error *err)
{
    struct wr_shm *s = wr_shm_of(t);
    struct wr_shm_peer *p = wr_shm_peer_of(s, peer);
    if (!p || !s->mapping)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "rank %d is not on this node, or start() was not called", peer);
    if (p->connected)
        return p->lost ? wr_shm_error_lost(p, err) : WEIR_OK;
    weir_status status = wr_shm_find_address(s, (int)(p - s->peers), err);
    if (status == WEIR_OK)
        status = await_joined(s, p, err);
    if (status == WEIR_OK)
        status = wr_shm_open_ring(s, p, err);
    if (status == WEIR_OK)
        status = wr_shm_watch(s, p, err);
    if (status != WEIR_OK)
        return status;
    p->fence = !(s->expedited && p->block->barriers);
    wr_shm_probe_attach(s, p);
    p->connected = true;
    return WEIR_OK;
}

static weir_status shm_am(struct wr_transport *t, int peer, unsigned id, const void *header, size_t header_len,
                          const void *payload, size_t len, unsigned flags, weir_error *err)
{
    struct wr_shm *s = wr_shm_of(t);
    struct wr_shm_peer *p = wr_shm_peer_of(s, peer);
    if (WR_UNLIKELY(!p || header_len + len > WR_SHM_MAX_AM || id >= WR_AM_HANDLERS))
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "message %u of %zu bytes to rank %d: at most %d bytes, on the node",
                            id, header_len + len, peer, WR_SHM_MAX_AM);
    if (WR_UNLIKELY((flags & WR_OP_FENCE) && p->pending))
        return WEIR_ERR_BUSY;
    return wr_shm_send(s, p, WR_SHM_MESSAGE, id, header, header_len, payload, len, err);
}

/* A rank has begun to send to this one. Its messages are handled even when it cannot be answered or watched. */
static void accept_caller(struct wr_shm *s, int index)
{
    struct wr_shm_peer *p = &s->peers[index];
    uint64_t ring = (uint64_t)index * (uint64_t)s->n + (uint64_t)s->me;
    weir_error err;
    if (p->active || index >= s->n)
        return;
    p->rx = (void *)(s->mapping->base + s->control->rings_at + ring * s->control->ring_bytes);
    p->active = true;
    p->fence |= !(s->expedited && p->block->barriers);
    s->active[s->nactive++] = p;
    weir_status status = wr_shm_populate(-1, (char *)p->rx, 0, s->control->ring_bytes, &err);
    if (status == WEIR_OK)
        status = wr_shm_find_address(s, index, &err);
    if (status == WEIR_OK)
        status = wr_shm_watch(s, p, &err);
    if (status == WEIR_OK)
        status = wr_shm_open_ring(s, p, &err);
    if (status != WEIR_OK)
        wr_warn(s->base.params.log, TRANSPORT, "shm: rank %d sends, but: %s", p->rank, err.message);
}

static int accept_callers(struct wr_shm *s)
{
    int n = 0;
    for (int w = 0; w * 64 < s->n; w++) {
        uint64_t now = wr_load_relaxed(&s->block->callers[w]);
        if (WR_LIKELY(now == s->known[w]))
            continue;
        now = wr_load_acquire(&s->block->callers[w]);
        for (uint64_t fresh = now & ~s->known[w]; fresh; fresh &= fresh - 1, n++)
            accept_caller(s, w * 64 + __builtin_ctzll(fresh));
        s->known[w] = now;
    }
    return n;
}

int wr_shm_progress(struct wr_transport *t)
{
    struct wr_shm *s = wr_shm_of(t);
    int n = 0;
    if (WR_UNLIKELY(!s->block))
        return 0;
    n += accept_callers(s);
    for (int i = 0; i < s->nactive; i++)
        n += wr_shm_receive(s, s->active[i], BUDGET);
    if (WR_UNLIKELY(s->nreplying))
        n += wr_shm_push_replies(s);
    if (WR_UNLIKELY(!wr_list_empty(&s->pending)))
        n += wr_shm_push_pending(s);
    if (WR_UNLIKELY(s->look)) {
        s->look = false;
        n += wr_shm_check_lives(s);
    }
    if (n) {
        s->idle = 0;
        return n;
    }
    if (WR_UNLIKELY(++s->idle % IDLE_POLLS == 0)) {
        int64_t now = wr_clock_ns();
        if (now - s->life_checked > LIFE_PERIOD_MS * INT64_C(1000000)) {
            s->life_checked = now;
            n += wr_shm_check_lives(s);
        }
    }
    return n;
}

const struct wr_transport_ops wr_shm_ops = {
    .name = "shm",
    .open = shm_open,
    .address = shm_address,
    .start = shm_start,
    .close = shm_close,
    .reaches = shm_reaches,
    .connect = shm_connect,
    .reg = wr_shm_reg,
    .dereg = wr_shm_dereg,
    .key_export = wr_shm_key_export,
    .key_import = wr_shm_key_import,
    .key_close = wr_shm_key_close,
    .put = wr_shm_put,
    .put_signal = wr_shm_put_signal,
    .get = wr_shm_get,
    .am = shm_am,
    .flush = wr_shm_flush,
    .progress = wr_shm_progress,
    .wait_fd = wr_shm_wait_fd,
    .arm = wr_shm_arm,
    .disarm = wr_shm_disarm,
    .block = wr_shm_block_on,
    .unblock = wr_shm_unblock,
};
