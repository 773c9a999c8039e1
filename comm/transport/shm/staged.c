/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided operations through the rings, for memory that is neither mapped nor reachable by cross-memory attach: the
 * owner's progress() copies. A ring holds several fragments, so both sides copy at the same time.
 */
#include <string.h>

#include "base/error.h"
#include "comm/transport/shm/impl.h"

enum { FRAGMENT = WR_SHM_MAX_AM - sizeof(struct wr_shm_staged) };

static weir_status send_put(struct wr_shm *s, struct wr_shm_pending *e)
{
    struct wr_shm_staged head = {.region = e->region, .generation = e->generation, .offset = e->offset + e->done};
    head.len = WR_MIN(e->len - e->done, (uint64_t)FRAGMENT);
    weir_status status =
        wr_shm_send(s, e->peer, WR_SHM_PUT_DATA, 0, &head, sizeof head, e->local + e->done, head.len, NULL);
    if (status != WEIR_OK)
        return status;
    e->done += head.len;
    e->peer->staged++;
    return e->done == e->len ? WEIR_OK : WEIR_IN_PROGRESS;
}

/* A get or a flush: asks, and the answer ends it. */
static weir_status send_request(struct wr_shm *s, struct wr_shm_pending *e)
{
    struct wr_shm_peer *p = e->peer;
    bool get = e->kind == WR_SHM_PEND_GET;
    struct wr_shm_staged head = {e->id, e->region, e->generation, 0, e->offset, e->len};
    if (!get && p->staged == p->arrived)
        return WEIR_OK;
    if (p->awaiting == WR_SHM_REPLIES)
        return WEIR_ERR_BUSY;
    weir_status status =
        wr_shm_send(s, p, get ? WR_SHM_GET_REQUEST : WR_SHM_FLUSH, 0, &head, sizeof head, NULL, 0, NULL);
    if (status != WEIR_OK)
        return status;
    e->requested = true;
    e->mark = p->staged;
    p->awaiting++;
    return WEIR_IN_PROGRESS;
}

weir_status wr_shm_staged_step(struct wr_shm *s, struct wr_shm_pending *e)
{
    return e->kind == WR_SHM_PEND_PUT ? send_put(s, e) : send_request(s, e);
}

/* The request that an answer belongs to. */
static struct wr_shm_pending *find_request(struct wr_shm *s, const struct wr_shm_peer *p, uint32_t id)
{
    struct wr_shm_pending *e;
    wr_list_for_each(e, &s->pending, link) {
        if (e->peer == p && e->requested && e->id == id)
            return e;
    }
    return NULL;
}

/* Sends as much of an answer as there is room for; true when it is complete. */
static bool push_reply(struct wr_shm *s, struct wr_shm_peer *p, struct wr_shm_reply *r, int *n)
{
    struct wr_shm_staged head = r->head;
    weir_status status;
    if (r->kind != WR_SHM_GET_DATA) {
        status = wr_shm_send(s, p, r->kind, 0, &head, sizeof head, NULL, 0, NULL);
        *n += status == WEIR_OK;
        return status != WEIR_ERR_BUSY;
    }
    while (r->done < r->head.len) {
        struct wr_region *region = wr_shm_region_at(s, head.region, head.generation, r->head.offset, r->head.len);
        if (!region) { /* deregistered meanwhile */
            r->kind = WR_SHM_GET_FAILED;
            return push_reply(s, p, r, n);
        }
        head.offset = r->done;
        head.len = WR_MIN(r->head.len - r->done, (uint64_t)FRAGMENT);
        status = wr_shm_send(s, p, WR_SHM_GET_DATA, 0, &head, sizeof head, region->addr + r->head.offset + r->done, head.len,
                             NULL);
        if (status != WEIR_OK)
            return status != WEIR_ERR_BUSY;
        r->done += head.len;
        ++*n;
    }
    return true;
}

static void push_replies_to(struct wr_shm *s, struct wr_shm_peer *p, int *n)
{
    unsigned sent = 0;
    while (sent < p->nreplies && push_reply(s, p, &p->replies[sent], n))
        sent++;
    p->nreplies -= sent;
    memmove(p->replies, p->replies + sent, p->nreplies * sizeof p->replies[0]);
    if (!p->nreplies)
        s->nreplying--;
}

int wr_shm_push_replies(struct wr_shm *s)
{
    int n = 0;
    for (int i = 0; i < s->nactive && s->nreplying; i++)
        if (s->active[i]->nreplies)
            push_replies_to(s, s->active[i], &n);
    return n;
}

static void reply(struct wr_shm *s, struct wr_shm_peer *p, int kind, const struct wr_shm_staged *head)
{
    int n = 0;
    if (p->nreplies == WR_SHM_REPLIES) {
        wr_error(s->base.params.log, TRANSPORT, "shm: rank %d asks more at a time than it may: dropped", p->rank);
        return;
    }
    s->nreplying += p->nreplies == 0;
    p->replies[p->nreplies++] = (struct wr_shm_reply){.kind = kind, .head = *head};
    push_replies_to(s, p, &n);
}

static void take_data(struct wr_shm *s, struct wr_shm_peer *p, const struct wr_shm_staged *head, const char *bytes)
{
    struct wr_shm_pending *e = find_request(s, p, head->id);
    if (!e || e->kind != WR_SHM_PEND_GET || head->offset > e->len || head->len > e->len - head->offset) {
        wr_error(s->base.params.log, TRANSPORT, "shm: rank %d answered what nobody asked: dropped", p->rank);
        return;
    }
    memcpy(e->local + head->offset, bytes, head->len);
    e->done += head->len;
    if (e->done == e->len)
        wr_shm_pending_end(s, e, WEIR_OK);
}

void wr_shm_staged_record(struct wr_shm *s, struct wr_shm_peer *p, int kind, const char *data, size_t len)
{
    struct wr_shm_staged head;
    struct wr_shm_pending *e;
    struct wr_region *region;
    bool carries = kind == WR_SHM_PUT_DATA || kind == WR_SHM_GET_DATA;
    if (len >= sizeof head)
        memcpy(&head, data, sizeof head);
    if (len < sizeof head || (carries && head.len != len - sizeof head)) {
        wr_error(s->base.params.log, TRANSPORT, "shm: rank %d sent a record of kind %d with %zu bytes: dropped", p->rank, kind,
                 len);
        return;
    }
    switch (kind) {
    case WR_SHM_PUT_DATA:
        region = wr_shm_region_at(s, head.region, head.generation, head.offset, head.len);
        if (region)
            memcpy(region->addr + head.offset, data + sizeof head, head.len);
        else
            wr_error(s->base.params.log, TRANSPORT, "shm: rank %d wrote %llu bytes to a region that is gone: dropped", p->rank,
                     (unsigned long long)head.len);
        break;
    case WR_SHM_GET_REQUEST:
        region = wr_shm_region_at(s, head.region, head.generation, head.offset, head.len);
        reply(s, p, region ? WR_SHM_GET_DATA : WR_SHM_GET_FAILED, &head);
        break;
    case WR_SHM_FLUSH:
        reply(s, p, WR_SHM_FLUSHED, &head);
        break;
    case WR_SHM_GET_DATA:
        take_data(s, p, &head, data + sizeof head);
        break;
    case WR_SHM_GET_FAILED:
    case WR_SHM_FLUSHED:
        e = find_request(s, p, head.id);
        if (!e)
            break;
        if (kind == WR_SHM_FLUSHED)
            p->arrived = e->mark;
        wr_shm_pending_end(s, e, kind == WR_SHM_FLUSHED ? WEIR_OK : WEIR_ERR_STALE);
        break;
    default:
        wr_error(s->base.params.log, TRANSPORT, "shm: rank %d sent a record of unknown kind %d: dropped", p->rank, kind);
        break;
    }
}
