/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of the fast path: slots, waiting, the queue of those that were started. */
#include "comm/coll/fast.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "base/error.h"
#include "comm/coll/fast_impl.h"
#include "comm/transport/shm/shm.h"
#include "comm/transport/wait.h"

enum { POLLS = 512, POLLS_A_PAUSE = 8, AHEAD = 2, AHEAD_BYTES = 512 };

static inline uint32_t number_in(uint64_t word)
{
    return (uint32_t)(word >> 32);
}

static inline uint64_t word_of(const struct wr_fast *f, int rank, uint32_t seq)
{
    return wr_load_acquire(&wr_fast_slot_of(f, rank, seq)->word);
}

/* The latest call from `floor` on that a rank is known to have begun: its words are as old as they are far ahead. */
static uint32_t begun(const struct wr_fast *f, int rank)
{
    uint32_t low = f->floor, high = f->seq; /* low has been begun */
    while (low != high) {
        uint32_t middle = high - (high - low) / 2;
        if ((int32_t)(number_in(word_of(f, rank, middle)) - middle) >= 0)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Whether all have read what stands where a call of this rank is to be written. */
static bool has_room(struct wr_fast *f, const struct wr_fast_call *c)
{
    if (WR_LIKELY(f->seq + 1 - f->floor < c->depth))
        return true;
    uint32_t least = f->seq;
    for (int r = 0; r < f->n; r++) {
        uint32_t seq = r == f->me ? f->seq : begun(f, r);
        if ((int32_t)(seq - least) < 0)
            least = seq;
    }
    f->floor = least;
    return f->seq + 1 - f->floor < c->depth;
}

static void wake_mates(const struct wr_fast *f)
{
    /* see wr_shm_wake(): who sleeps has the kernel fence every core, where it can */
    if (f->fence)
        wr_fence_full();
    else
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
    for (int r = 0; r < f->n; r++)
        if (WR_UNLIKELY(wr_load_relaxed(f->mate[r].sleeping)) && r != f->me)
            wr_shm_wake_rank(f->shm, f->mate[r].rank);
}

/* What will be written soon others have read since it was written last; it takes a moment to have it alone again. */
static void fetch_ahead(const struct wr_fast *f, const struct wr_fast_call *c)
{
    const struct wr_fast_slot *slot = wr_fast_slot_of(f, f->me, c->seq + AHEAD);
    wr_prefetch_write(slot);
    if (c->depth == WR_FAST_SLOTS && c->bytes > sizeof slot->inside - WR_CACHE_LINE)
        wr_prefetch_write((const char *)slot + WR_CACHE_LINE);
    if (c->depth == WR_FAST_SLOTS || (!c->all && c->call->root != f->me))
        return;
    const unsigned char *area = f->mate[f->me].part->areas[(c->seq + AHEAD) % WR_FAST_AREAS].data;
    for (uint64_t i = 0; i < WR_MIN(c->bytes, (uint64_t)AHEAD_BYTES); i += WR_CACHE_LINE)
        wr_prefetch_write(area + i);
}

static bool post(struct wr_fast *f, struct wr_fast_call *c)
{
    if (WR_UNLIKELY(!has_room(f, c)))
        return false;
    c->seq = ++f->seq;
    c->word = (uint64_t)c->seq << 32 | c->hash;
    struct wr_fast_slot *slot = wr_fast_slot_of(f, f->me, c->seq);
    wr_fast_put_in(f, c);
    wr_store_release(&slot->word, c->word);
    wake_mates(f);
    fetch_ahead(f, c);
    wr_fast_place_own(f, c);
    c->posted = true;
    return true;
}

/* Moves a call as far as possible; true when it is complete. */
static bool advance(struct wr_fast *f, struct wr_fast_call *c)
{
    if (WR_UNLIKELY(!c->posted) && !post(f, c))
        return false;
    while (c->left) {
        uint64_t word = word_of(f, c->from, c->seq);
        if (word != c->word) {
            if (WR_UNLIKELY(number_in(word) == c->seq)) /* found out by wr_fast_look() when this has lasted for a while */
                f->suspect = c->from;
            return false;
        }
        c->left--;
        c->from = c->from + 1 < f->n ? c->from + 1 : 0;
    }
    wr_fast_take_out(f, c);
    if (c->all)
        f->floor = c->seq;
    return true;
}

static bool can_advance(struct wr_fast *f, const struct wr_fast_call *c)
{
    if (!c->posted)
        return has_room(f, c);
    return !c->left || number_in(word_of(f, c->from, c->seq)) == c->seq;
}

bool wr_fast_serves(const struct wr_fast *f, const struct wr_coll_call *call)
{
    uint64_t left, read;
    if (!f || call->vector || call->op >= WEIR_OP_USER || !(f->served >> call->coll & 1))
        return false;
    wr_fast_sizes(f, call, &left, &read);
    return left <= WR_FAST_BYTES && read <= WR_FAST_READ;
}

/* ---- blocking calls ---- */

/* Before the engine is asked to wait. */
static unsigned polls_of(const struct wr_fast *f)
{
    return wr_waiter_wanted(f->state->comm->engine->waiter) ? 1 : POLLS;
}

struct direct {
    struct wr_fast *f;
    struct wr_fast_call call;
};

static bool direct_ended(void *arg)
{
    struct direct *d = arg;
    if (!d->call.done && wr_list_empty(&d->f->queue))
        d->call.done = advance(d->f, &d->call);
    return d->call.done || d->f->broken;
}

static weir_status broken_error(const struct wr_fast *f, weir_error *err)
{
    struct wr_engine *e = f->state->comm->engine;
    return f->lost >= 0 ? wr_engine_lost_error(e, &f->state->comm->group, f->lost, err) : wr_engine_stop_error(e, err);
}

weir_status wr_fast_run(struct wr_coll_state *s, const struct wr_coll_call *call, weir_error *err)
{
    struct wr_fast *f = s->fast;
    struct direct d = {.f = f};
    wr_fast_prepare(f, &d.call, call);
    for (unsigned i = polls_of(f); i; i--) {
        if (direct_ended(&d))
            goto ended;
        if (i % POLLS_A_PAUSE == 0)
            wr_cpu_relax();
    }
    f->direct = &d.call;
    weir_status status = wr_comm_wait(s->comm, direct_ended, &d, err);
    f->direct = NULL;
    if (status)
        return status;
ended:
    return d.call.done ? WEIR_OK : broken_error(f, err);
}

/* ---- started calls ---- */

void wr_fast_progress(struct wr_fast *f)
{
    while (!wr_list_empty(&f->queue)) {
        struct wr_coll_request *r = wr_list_first(&f->queue, struct wr_coll_request, link);
        if (!f->broken && !advance(f, &r->fast))
            return;
        wr_list_remove(&r->link);
        r->request.peer = f->lost;
        wr_request_complete(&r->request, f->broken);
    }
    if (f->direct && !f->direct->done && !f->broken && advance(f, f->direct)) {
        f->direct->done = true;
        f->state->comm->engine->completed++; /* its thread may sleep behind this one */
    }
}

void wr_fast_start(struct wr_coll_request *r)
{
    struct wr_fast *f = r->state->fast;
    r->request.complete = false;
    r->request.status = WEIR_OK;
    wr_fast_prepare(f, &r->fast, &r->call);
    r->fast.hash = (uint32_t)r->hash;
    if (WR_LIKELY(wr_list_empty(&f->queue) && !f->broken) && advance(f, &r->fast)) {
        wr_request_complete(&r->request, WEIR_OK);
        return;
    }
    wr_list_push_back(&f->queue, &r->link);
    if (f->broken)
        wr_fast_progress(f);
}

void wr_fast_hurry(struct weir_request *request)
{
    struct wr_fast *f = WR_CONTAINER_OF(request, struct wr_coll_request, request)->state->fast;
    for (unsigned i = polls_of(f); i && !request->complete; i--) {
        wr_fast_progress(f);
        if (i % POLLS_A_PAUSE == 0)
            wr_cpu_relax();
    }
}

bool wr_fast_can_move(struct wr_fast *f)
{
    if (!wr_list_empty(&f->queue))
        return f->broken || can_advance(f, &wr_list_first(&f->queue, struct wr_coll_request, link)->fast);
    return f->direct && (f->broken || f->direct->done || can_advance(f, f->direct));
}

void wr_fast_break(struct wr_fast *f, weir_status status, int peer)
{
    if (!f || f->broken)
        return;
    f->broken = status;
    f->lost = peer;
}
