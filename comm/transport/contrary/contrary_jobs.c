/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/transport/contrary/contrary.h"

static void tell_user(struct job *j, weir_status status)
{
    struct wr_op *user = j->user;
    j->user = NULL;
    if (!user)
        return;
    if (j->copy >= 0)
        j->c->user_waits--;
    user->done(user, status);
}

static void job_end(struct job *j)
{
    struct contrary *c = j->c;
    wr_list_remove(&j->link);
    if (j->status != WEIR_OK && !j->user)
        wr_warn(c->base.params.log, TRANSPORT, "contrary: a put that was held back failed: %s",
                weir_status_name(j->status));
    tell_user(j, j->status);
    if (j->copy >= 0)
        c->copy_used[j->copy] = false;
    wr_pool_put(&c->jobs, j);
}

static void piece_done(struct wr_op *op, weir_status status)
{
    struct job *j = WR_CONTAINER_OF(op, struct piece, op)->job;
    if (status != WEIR_OK && j->status == WEIR_OK)
        j->status = status;
    if (!--j->pending && j->started == j->npieces)
        job_end(j);
}

static weir_status piece_start(struct job *j, unsigned i, weir_error *err)
{
    struct wr_transport *l = j->c->base.lower;
    struct piece *p = &j->piece[i];
    unsigned flags = j->fence ? WR_OP_FENCE : 0;
    if (j->signal)
        return l->ops->put_signal(l, j->peer, j->src, j->region, j->len, j->rkey, j->offset, j->slot, flags, &p->op,
                                  err);
    uint64_t each = (j->len + j->npieces - 1) / j->npieces, at = i * each;
    uint64_t len = at >= j->len ? 0 : WR_MIN(each, j->len - at);
    return l->ops->put(l, j->peer, j->src + at, j->region, len, j->rkey, j->offset + at, flags, &p->op, err);
}

/* Starts a job's pieces; false when the transport below is busy. The job may be gone afterwards. */
static bool job_start(struct job *j)
{
    while (j->started < j->npieces) {
        weir_error err;
        weir_status status = piece_start(j, j->order[j->started], &err);
        if (status == WEIR_ERR_BUSY)
            return false;
        j->started++;
        if (status == WEIR_IN_PROGRESS)
            j->pending++;
        else if (status != WEIR_OK && j->status == WEIR_OK)
            j->status = status;
    }
    wr_list_remove(&j->link);
    wr_list_push_back(&j->c->flying, &j->link);
    if (!j->pending)
        job_end(j);
    return true;
}

static void shuffle(struct contrary *c, unsigned char *order, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        order[i] = (unsigned char)i;
    for (unsigned i = n; i > 1; i--) {
        unsigned k = (unsigned)(wr_layer_random(&c->random) % i);
        unsigned char swap = order[i - 1];
        order[i - 1] = order[k];
        order[k] = swap;
    }
}

static int copy_take(struct contrary *c)
{
    for (int i = 0; i < CONTRARY_JOBS; i++)
        if (!c->copy_used[i]) {
            c->copy_used[i] = true;
            return i;
        }
    return -1;
}

weir_status wr_contrary_hold(struct contrary *c, const struct job *model, weir_error *err)
{
    (void)err;
    struct job *j = wr_pool_get(&c->jobs);
    if (!j)
        return WEIR_ERR_BUSY;
    *j = *model;
    j->c = c;
    j->copy = -1;
    bool copy = j->len <= CONTRARY_INJECT || (j->len <= CONTRARY_COPY && !contrary_chance(c, 4));
    if (copy && (j->copy = copy_take(c)) >= 0) {
        char *to = c->copies + (size_t)j->copy * CONTRARY_COPY;
        if (j->len)
            memcpy(to, j->src, j->len);
        j->src = to;
        j->region = c->copies_region;
    } else if (j->len <= CONTRARY_INJECT) {
        wr_pool_put(&c->jobs, j);
        return WEIR_ERR_BUSY;
    }
    j->npieces = j->signal ? 1 : (unsigned)WR_MIN(j->len / CONTRARY_PIECE + 1, (uint64_t)CONTRARY_PIECES);
    shuffle(c, j->order, j->npieces);
    for (unsigned i = 0; i < j->npieces; i++)
        j->piece[i] = (struct piece){{piece_done}, j};
    j->release = j->fence ? 0 : wr_clock_ns() + (int64_t)(wr_layer_random(&c->random) % CONTRARY_HOLD_NS);
    wr_list_push_back(&c->held, &j->link);
    if (j->copy >= 0 && (j->len <= CONTRARY_INJECT || contrary_chance(c, 2))) {
        j->user = NULL; /* complete: the memory is the user's again, the data still here */
        return WEIR_OK;
    }
    c->user_waits += j->copy >= 0;
    return WEIR_IN_PROGRESS;
}

bool wr_contrary_release(struct contrary *c, int peer)
{
    for (;;) {
        struct job *j, *found = NULL;
        wr_list_for_each(j, &c->held, link)
            if (peer == -1 || j->peer == peer) {
                found = j;
                break;
            }
        if (!found)
            return true;
        if (!job_start(found)) /* it may tell a user, who changes the list */
            return false;
    }
}

/* Tells one user whose data was copied that the put is complete; false when there is none. */
static bool tell_one(struct wr_list *list)
{
    struct job *j;
    wr_list_for_each(j, list, link)
        if (j->copy >= 0 && j->user) {
            tell_user(j, WEIR_OK);
            return true;
        }
    return false;
}

int wr_contrary_turn(struct contrary *c)
{
    int n = 0;
    if (c->user_waits && contrary_chance(c, 2))
        n += tell_one(&c->held) || tell_one(&c->flying);
    int64_t now = wr_clock_ns();
    for (int tries = 0; tries < CONTRARY_JOBS && !wr_list_empty(&c->held); tries++) {
        /* any of those whose time has come */
        struct job *j, *due = NULL;
        unsigned k = 0;
        wr_list_for_each(j, &c->held, link)
            if (j->release <= now && wr_layer_random(&c->random) % ++k == 0)
                due = j;
        if (!due || !job_start(due))
            break;
        n++;
    }
    return n;
}
