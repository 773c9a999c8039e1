/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Put, get, put-with-signal and flush. Mapped memory is copied at once. Other memory moves by cross-memory attach, at once
 * when it is little, else in chunks from progress(); where attach is forbidden it travels through the rings (staged.c).
 */
#include "comm/transport/shm/impl.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "base/copy.h"
#include "base/error.h"

/* A request in the making. */
struct request {
    struct wr_shm *s;
    struct wr_shm_peer *p;
    struct wr_rkey *rkey;
    char *local;
    uint64_t offset, len;
    unsigned flags;
    bool signal;
    uint32_t slot;
    struct wr_op *op;
};

static weir_status stale(const struct wr_shm_peer *p, weir_error *err)
{
    wr_error_set(err, WEIR_ERR_STALE, "exchange keys again after memory was freed or deregistered",
                 "the region of rank %d that this key names is gone", p->rank);
    wr_error_at(err, p->rank, NULL);
    return WEIR_ERR_STALE;
}

static weir_status check(const struct request *r, int peer, weir_error *err)
{
    if (WR_UNLIKELY(!r->p))
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "rank %d is not on this node", peer);
    if (WR_UNLIKELY(r->p->lost || !r->p->tx))
        return wr_shm_error_lost(r->p, err);
    if (!r->len)
        return WEIR_OK;
    if (WR_UNLIKELY(!r->rkey || r->rkey->peer != r->p))
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "the key is not one of rank %d", peer);
    if (WR_UNLIKELY(r->rkey->stale || wr_load_relaxed(r->rkey->generation_word) != r->rkey->generation))
        return stale(r->p, err);
    if (WR_UNLIKELY(r->offset > r->rkey->len || r->len > r->rkey->len - r->offset))
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "bytes %llu to %llu do not lie in a region of %llu at rank %d",
                            (unsigned long long)r->offset, (unsigned long long)(r->offset + r->len),
                            (unsigned long long)r->rkey->len, peer);
    return WEIR_OK;
}

/* The region's memory in this process, ready to be used. */
static char *mapped_at(const struct wr_rkey *k, uint64_t offset, uint64_t len)
{
    if (k->segment)
        wr_shm_segment_prepare(k->segment, k->segment_offset + offset, len);
    return k->mapped + offset;
}

/* One transfer with a peer's memory; the number of bytes, or -1 with errno. */
static ssize_t attach(const struct wr_shm_peer *p, bool put, char *local, uint64_t remote, uint64_t len)
{
    struct iovec l = {local, (size_t)len}, r = {(void *)(uintptr_t)remote, (size_t)len};
    ssize_t n;
    do
        n = put ? process_vm_writev(p->pid, &l, 1, &r, 1, 0) : process_vm_readv(p->pid, &l, 1, &r, 1, 0);
    while (n < 0 && errno == EINTR);
    return n;
}

weir_status wr_shm_attach_step(struct wr_shm *s, struct wr_shm_pending *e)
{
    uint64_t len = WR_MIN(e->len - e->done, WR_SHM_CHUNK);
    if (wr_load_relaxed(&e->peer->block->generations[e->region]) != e->generation)
        return WEIR_ERR_STALE;
    ssize_t n = attach(e->peer, e->kind == WR_SHM_PEND_PUT, e->local + e->done, e->remote + e->offset + e->done, len);
    if (n > 0) {
        e->done += (uint64_t)n;
        return e->done == e->len ? WEIR_OK : WEIR_IN_PROGRESS;
    }
    if (n < 0 && errno == EPERM) { /* its owner has changed what it allows */
        e->peer->attach = WR_SHM_ATTACH_NONE;
        return WEIR_ERR_UNSUPPORTED;
    }
    wr_warn(s->base.params.log, TRANSPORT, "shm: cross-memory attach of %llu bytes with rank %d failed (errno %d)",
            (unsigned long long)len, e->peer->rank, n < 0 ? errno : 0);
    return n < 0 && errno == ESRCH ? WEIR_ERR_PEER_LOST : WEIR_ERR_STALE;
}

/* Puts an operation on the pending list. */
static weir_status defer(const struct request *r, enum wr_shm_pending_kind kind, bool staged)
{
    struct wr_shm_pending *e = wr_pool_get(&r->s->pool);
    if (!e)
        return WEIR_ERR_BUSY;
    memset(e, 0, sizeof *e);
    e->kind = kind;
    e->staged = staged;
    e->signal = r->signal;
    e->signal_slot = r->slot;
    e->peer = r->p;
    e->local = r->local;
    e->offset = r->offset;
    e->len = r->len;
    e->op = r->op;
    e->id = ++r->s->next_id;
    if (r->len) {
        e->region = r->rkey->slot;
        e->generation = r->rkey->generation;
        e->remote = r->rkey->remote;
        e->mapped = r->rkey->mapped;
        if (e->mapped && !staged)
            e->mapped = mapped_at(r->rkey, 0, r->rkey->len);
    }
    if (kind == WR_SHM_PEND_PUT)
        r->p->pending++;
    wr_list_push_back(&r->s->pending, &e->link);
    r->s->restless = true;
    return WEIR_IN_PROGRESS;
}

static weir_status send_signal(struct wr_shm *s, struct wr_shm_peer *p, uint32_t slot, weir_error *err)
{
    return wr_shm_send(s, p, WR_SHM_SIGNAL, 0, &slot, sizeof slot, NULL, 0, err);
}

/* Tries to do a whole transfer at once by attach; IN_PROGRESS: it has to be deferred. */
static weir_status attach_now(const struct request *r, bool put, weir_error *err)
{
    if (r->p->attach != WR_SHM_ATTACH_CMA || r->len > WR_SHM_CHUNK)
        return WEIR_IN_PROGRESS;
    ssize_t n = attach(r->p, put, r->local, r->rkey->remote + r->offset, r->len);
    if (n == (ssize_t)r->len)
        return WEIR_OK;
    if (n >= 0 || errno == EPERM)
        return WEIR_IN_PROGRESS;
    if (errno == ESRCH) {
        wr_shm_lose(r->s, r->p, "its process has ended");
        return wr_shm_error_lost(r->p, err);
    }
    return stale(r->p, err);
}

static weir_status put(const struct request *r, weir_error *err)
{
    struct wr_shm_peer *p = r->p;
    bool fence = r->flags & WR_OP_FENCE, behind = fence && p->pending;
    bool unarrived = fence && p->staged != p->arrived; /* only the rings keep the order then */
    if (!r->len && !behind)
        return r->signal ? send_signal(r->s, p, r->slot, err) : WEIR_OK;
    if (behind || unarrived)
        return defer(r, WR_SHM_PEND_PUT, unarrived || (r->len && !r->rkey->mapped && p->attach == WR_SHM_ATTACH_NONE));
    if (WR_UNLIKELY(r->signal && !wr_shm_has_room(r->s, p, sizeof r->slot)))
        return WEIR_ERR_BUSY;
    if (WR_LIKELY(r->rkey->mapped)) {
        wr_copy(mapped_at(r->rkey, r->offset, r->len), r->local, r->len);
    } else {
        weir_status status = attach_now(r, true, err);
        if (status == WEIR_IN_PROGRESS)
            return defer(r, WR_SHM_PEND_PUT, p->attach == WR_SHM_ATTACH_NONE);
        if (status != WEIR_OK)
            return status;
    }
    return r->signal ? send_signal(r->s, p, r->slot, err) : WEIR_OK;
}

weir_status wr_shm_put(struct wr_transport *t, int peer, const void *src, struct wr_region *region, uint64_t len,
                       struct wr_rkey *rkey, uint64_t offset, unsigned flags, struct wr_op *op, weir_error *err)
{
    struct wr_shm *s = wr_shm_of(t);
    struct request r = {s, wr_shm_peer_of(s, peer), rkey, (char *)(uintptr_t)src, offset, len, flags, false, 0, op};
    (void)region;
    weir_status status = check(&r, peer, err);
    return status == WEIR_OK ? put(&r, err) : status;
}

weir_status wr_shm_put_signal(struct wr_transport *t, int peer, const void *src, struct wr_region *region, uint64_t len,
                              struct wr_rkey *rkey, uint64_t offset, uint32_t slot, unsigned flags, struct wr_op *op,
                              weir_error *err)
{
    struct wr_shm *s = wr_shm_of(t);
    struct request r = {s, wr_shm_peer_of(s, peer), rkey, (char *)(uintptr_t)src, offset, len, flags, true, slot, op};
    (void)region;
    weir_status status = check(&r, peer, err);
    return status == WEIR_OK ? put(&r, err) : status;
}

weir_status wr_shm_get(struct wr_transport *t, int peer, void *dst, struct wr_region *region, uint64_t len,
                       struct wr_rkey *rkey, uint64_t offset, struct wr_op *op, weir_error *err)
{
    struct wr_shm *s = wr_shm_of(t);
    struct request r = {s, wr_shm_peer_of(s, peer), rkey, dst, offset, len, 0, false, 0, op};
    (void)region;
    weir_status status = check(&r, peer, err);
    if (status != WEIR_OK || !len)
        return status;
    if (rkey->mapped) {
        wr_copy(dst, mapped_at(rkey, offset, len), len);
        return WEIR_OK;
    }
    status = attach_now(&r, false, err);
    return status == WEIR_IN_PROGRESS ? defer(&r, WR_SHM_PEND_GET, r.p->attach == WR_SHM_ATTACH_NONE) : status;
}

static bool must_flush(const struct wr_shm_peer *p)
{
    return !p->lost && (p->pending || p->staged != p->arrived);
}

weir_status wr_shm_flush(struct wr_transport *t, int peer, struct wr_op *op, weir_error *err)
{
    struct wr_shm *s = wr_shm_of(t);
    int first = 0, end = s->n, parts = 0;
    if (peer >= 0) {
        struct request r = {.s = s, .p = wr_shm_peer_of(s, peer)};
        weir_status status = check(&r, peer, err);
        if (status != WEIR_OK)
            return status;
        first = (int)(r.p - s->peers);
        end = first + 1;
    }
    wr_fence_full(); /* plain stores to mapped memory */
    for (int i = first; i < end; i++)
        parts += must_flush(&s->peers[i]);
    if (!parts)
        return WEIR_OK;
    if (s->pool.max - s->pool.in_use < (size_t)parts + 1)
        return WEIR_ERR_BUSY;
    struct wr_shm_pending *whole = wr_pool_get(&s->pool);
    if (!whole)
        return WEIR_ERR_BUSY;
    memset(whole, 0, sizeof *whole);
    wr_list_init(&whole->link);
    whole->op = op;
    whole->parts = (unsigned)parts;
    for (int i = first; i < end; i++) {
        struct request r = {.s = s, .p = &s->peers[i]};
        if (!must_flush(r.p))
            continue;
        if (defer(&r, WR_SHM_PEND_FLUSH, true) == WEIR_IN_PROGRESS)
            wr_list_entry(s->pending.prev, struct wr_shm_pending, link)->whole = whole;
    }
    return WEIR_IN_PROGRESS;
}

void wr_shm_pending_end(struct wr_shm *s, struct wr_shm_pending *e, weir_status status)
{
    struct wr_shm_pending *whole = e->whole;
    struct wr_op *op = e->op;
    wr_list_remove(&e->link);
    s->removed++;
    e->peer->pending -= e->kind == WR_SHM_PEND_PUT;
    e->peer->awaiting -= e->requested;
    s->restless = true; /* what stood behind it may move */
    wr_pool_put(&s->pool, e);
    if (whole) {
        if (whole->status == WEIR_OK)
            whole->status = status;
        if (--whole->parts)
            return;
        op = whole->op;
        status = whole->status;
        wr_pool_put(&s->pool, whole);
    }
    if (op)
        op->done(op, status);
}

/* One step of a deferred put, get or flush; statuses as of wr_shm_staged_step(). */
static weir_status step(struct wr_shm *s, struct wr_shm_pending *e)
{
    weir_status status = WEIR_OK;
    if (e->kind == WR_SHM_PEND_FLUSH || (e->staged && e->done < e->len)) {
        status = wr_shm_staged_step(s, e);
    } else if (e->mapped && e->done < e->len) {
        if (wr_load_relaxed(&e->peer->block->generations[e->region]) != e->generation)
            return WEIR_ERR_STALE;
        wr_copy(e->mapped + e->offset, e->local, e->len);
        e->done = e->len;
    } else if (e->done < e->len) {
        status = wr_shm_attach_step(s, e);
        if (status == WEIR_ERR_UNSUPPORTED) {
            e->staged = true;
            e->local += e->done;
            e->offset += e->done;
            e->len -= e->done;
            e->done = 0;
            return WEIR_IN_PROGRESS;
        }
    }
    if (status == WEIR_OK && e->signal)
        status = send_signal(s, e->peer, e->signal_slot, NULL);
    return status;
}

int wr_shm_push_pending(struct wr_shm *s)
{
    struct wr_shm_pending *e, *tmp;
    int n = 0;
    s->pass++;
    s->restless = false;
    wr_list_for_each_safe(e, tmp, &s->pending, link) {
        struct wr_shm_peer *p = e->peer;
        if (e->requested || p->passed == s->pass)
            continue;
        weir_status status = step(s, e);
        if (status == WEIR_ERR_BUSY) {
            p->passed = s->pass;
            continue;
        }
        n++;
        if (status == WEIR_IN_PROGRESS) {
            if (!e->requested) /* more to come of it: what stands behind must wait */
                p->passed = s->pass;
            continue;
        }
        uint32_t removed = s->removed;
        if (status == WEIR_ERR_PEER_LOST)
            wr_shm_lose(s, p, "its process has ended");
        else
            wr_shm_pending_end(s, e, status);
        if (s->removed != removed + 1) /* the loss of a peer took others: the next one may be gone */
            break;
    }
    s->restless |= n > 0;
    return n;
}

void wr_shm_fail_pending(struct wr_shm *s, struct wr_shm_peer *p)
{
    bool again = true;
    while (again) { /* callbacks may change the list */
        struct wr_shm_pending *e;
        again = false;
        wr_list_for_each(e, &s->pending, link) {
            if (e->peer != p)
                continue;
            wr_shm_pending_end(s, e, WEIR_ERR_PEER_LOST);
            again = true;
            break;
        }
    }
}
