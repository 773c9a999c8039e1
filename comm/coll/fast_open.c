/* SPDX-License-Identifier: BSD-3-Clause */
/* Setting up the fast path of a communicator; and comparing what the ranks have called, which all can see in its memory. */
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/error.h"
#include "comm/coll/fast_impl.h"
#include "comm/mem/mem.h"
#include "comm/transport/shm/shm.h"

/* Collectives for which no algorithm is asked for: WEIR_ALGO is about plans. Rank 0's counts. */
static weir_status served_here(const struct wr_coll_state *s, uint32_t *served, weir_error *err)
{
    static const enum wr_collective all[] = {WR_COLL_BARRIER,   WR_COLL_BCAST,          WR_COLL_ALLREDUCE,
                                             WR_COLL_ALLGATHER, WR_COLL_REDUCE_SCATTER, WR_COLL_ALLTOALL};
    weir_status status = WEIR_OK;
    *served = 0;
    for (size_t i = 0; i < WR_ARRAY_SIZE(all) && !status && s->comm->rank == 0; i++) {
        bool asked;
        status = wr_coll_algorithm_asked(s, all[i], &asked, err);
        *served |= (uint32_t)!asked << all[i];
    }
    return status;
}

static weir_status find_mate(struct wr_fast *f, int rank, weir_error *err)
{
    weir_comm *comm = f->state->comm;
    struct wr_fast_mate *mate = &f->mate[rank];
    bool fence = false;
    mate->rank = wr_comm_world_rank(comm, rank);
    mate->part = rank == comm->rank ? f->mem->addr : wr_mem_peer_address(f->mem, rank);
    if (rank != comm->rank &&
        !wr_engine_member(comm->engine, &comm->group, rank, err)) /* from now on its end is noticed */
        return err->status;
    mate->sleeping = wr_shm_sleeper(f->shm, mate->rank, &fence);
    f->fence |= fence;
    if (!mate->part || !mate->sleeping)
        return wr_error_set(err, WEIR_ERR_INTERNAL, NULL, "the memory of rank %d is not mapped", rank);
    return WEIR_OK;
}

/* ---- the steps of opening ---- */

/* What the ranks tell each other first. */
struct card {
    uint32_t served, able;
};

struct wr_fast_opening {
    struct wr_steps steps;
    struct wr_coll_state *state;
    struct card card, cards[WR_FAST_RANKS];
    struct wr_mem_making *mem;
    struct wr_fast *fast; /* NULL in the end where the ranks do not share a node */
};

static weir_status look(void *arg, struct wr_steps *steps, weir_error *err)
{
    struct wr_fast_opening *o = arg;
    o->card.able = wr_engine_shm(steps->comm->engine) != NULL;
    return wr_steps_agree(steps, served_here(o->state, &o->card.served, err), err);
}

static weir_status tell_card(void *arg, struct wr_steps *steps, weir_error *err)
{
    struct wr_fast_opening *o = arg;
    return wr_steps_gather(steps, &o->card, o->cards, sizeof o->card, err);
}

static const wr_step nothing_more[] = {NULL};

static weir_status begin(void *arg, struct wr_steps *steps, weir_error *err)
{
    struct wr_fast_opening *o = arg;
    weir_comm *comm = steps->comm;
    bool able = true;
    for (int r = 0; r < comm->size; r++)
        able &= o->cards[r].able;
    if (!able) {
        steps->next = nothing_more;
        return WEIR_OK;
    }
    struct wr_fast *f = o->fast = calloc(1, sizeof *f);
    if (!f)
        return wr_steps_agree(steps, wr_error_memory(err, sizeof *f, "collectives"), err);
    f->state = o->state;
    f->shm = wr_engine_shm(comm->engine);
    f->n = comm->size;
    f->me = comm->rank;
    f->served = o->cards[0].served;
    f->lost = f->suspect = -1;
    wr_list_init(&f->queue);
    return wr_steps_agree(steps, WEIR_OK, err);
}

static weir_status begin_memory(void *arg, struct wr_steps *steps, weir_error *err)
{
    struct wr_fast_opening *o = arg;
    struct wr_mem_wish wish = {.kind = WR_MEM_ALLOC, .bytes = sizeof(struct wr_fast_part)};
    weir_status status = wr_mem_make(steps->comm, &wish, &o->mem, err);
    if (!status)
        steps->inner = wr_mem_making_steps(o->mem);
    return status;
}

static weir_status find_mates(void *arg, struct wr_steps *steps, weir_error *err)
{
    struct wr_fast_opening *o = arg;
    weir_status status = WEIR_OK;
    o->fast->mem = wr_mem_made(o->mem, true);
    o->mem = NULL;
    for (int r = 0; r < o->fast->n && !status; r++)
        status = find_mate(o->fast, r, err);
    return wr_steps_agree(steps, status, err);
}

weir_status wr_fast_open(struct wr_coll_state *s, struct wr_fast_opening **opening, weir_error *err)
{
    static const wr_step list[] = {look, tell_card, begin, begin_memory, find_mates, NULL};
    bool alone = s->topo.nnodes != 1 || s->comm->size < 2 || s->comm->size > WR_FAST_RANKS;
    struct wr_fast_opening *o = calloc(1, sizeof *o);
    if (!o)
        return wr_error_memory(err, sizeof *o, "collectives");
    o->state = s;
    wr_steps_init(&o->steps, s->comm, alone ? nothing_more : list, o);
    *opening = o;
    return WEIR_OK;
}

struct wr_steps *wr_fast_opening_steps(struct wr_fast_opening *o)
{
    return &o->steps;
}

void wr_fast_opened(struct wr_fast_opening *o, bool ok)
{
    if (!o)
        return;
    struct wr_coll_state *s = o->state;
    if (ok) {
        s->fast = o->fast;
        s->opened = true;
    } else {
        wr_mem_made(o->mem, false);
        if (o->fast && o->fast->mem)
            wr_mem_abandon(o->fast->mem); /* nobody has used it */
        free(o->fast);
    }
    free(o);
    uint64_t number = s->calls > WR_COLL_RECORDS ? s->calls - WR_COLL_RECORDS : 0;
    for (; s->fast && number < s->calls; number++) /* those that were made before */
        wr_fast_note(s->fast, number, &s->record[number % WR_COLL_RECORDS]);
}

weir_status wr_fast_close(struct wr_coll_state *s, weir_error *err)
{
    struct wr_fast *f = s->fast;
    weir_status status = WEIR_OK;
    if (f && wr_comm_lost(s->comm) >= 0)
        wr_mem_abandon(f->mem);
    else if (f)
        status = wr_mem_free(f->mem, err);
    s->fast = NULL;
    s->opened = false;
    free(f);
    return status;
}

void wr_fast_forget(struct wr_fast *f)
{
    free(f);
}

/* ---- comparing ---- */

void wr_fast_note(struct wr_fast *f, uint64_t number, const struct wr_coll_record *record)
{
    struct wr_fast_record *to = &f->mate[f->me].part->board[number % WR_COLL_RECORDS];
    wr_store_relaxed(&to->number_plus_one, 0); /* while it is written, it is nobody's */
    wr_fence_release();
    to->record = *record;
    wr_store_release(&to->number_plus_one, number + 1);
}

/* Copies what stands in a place of a rank's board; 0 when that is nothing, or changes meanwhile. */
static uint64_t read_board(const struct wr_fast_record *r, struct wr_coll_record *record)
{
    uint64_t number = wr_load_acquire(&r->number_plus_one);
    *record = r->record;
    wr_fence_acquire();
    return wr_load_relaxed(&r->number_plus_one) == number ? number : 0;
}

/* A rank's call of this number; false when it is not there (yet, or any more). */
static bool record_at(const struct wr_fast *f, int rank, uint64_t number, struct wr_coll_record *record)
{
    return read_board(&f->mate[rank].part->board[number % WR_COLL_RECORDS], record) == number + 1;
}

bool wr_fast_last(const struct wr_fast *f, int rank, uint64_t *calls, struct wr_coll_record *record)
{
    *calls = 0;
    for (int i = 0; i < WR_COLL_RECORDS; i++) {
        struct wr_coll_record r;
        uint64_t number = read_board(&f->mate[rank].part->board[i], &r);
        if (number > *calls) {
            *calls = number;
            *record = r;
        }
    }
    return *calls > 0;
}

/* Looks for a rank whose call of this number differs from that of rank 0, or of the lowest that has made it. */
static bool compare_call(struct wr_coll_state *s, uint64_t number, bool any)
{
    struct wr_coll_record first, other;
    int who = record_at(s->fast, 0, number, &first) ? 0 : -1;
    for (int r = 1; r < s->fast->n && (who >= 0 || any); r++) {
        if (!record_at(s->fast, r, number, &other))
            continue;
        if (who < 0) {
            first = other;
            who = r;
        } else if (memcmp(&first, &other, sizeof first) != 0) {
            wr_coll_disagree(s, number, who, &first, r, &other);
            return true;
        }
    }
    return false;
}

void wr_fast_look(struct wr_coll_state *s, bool any)
{
    struct wr_fast *f = s->fast;
    for (uint64_t number = s->calls > WR_COLL_RECORDS ? s->calls - WR_COLL_RECORDS : 0; number < s->calls; number++)
        if (compare_call(s, number, any))
            return;
    if (f->suspect < 0 || !any)
        return;
    s->broken = true; /* further back than the boards reach */
    wr_engine_stop(s->comm->engine, WEIR_ERR_MISMATCH, f->suspect,
                   "ranks %d and %d have made different collective calls, more than %d calls ago", f->me, f->suspect,
                   WR_COLL_RECORDS);
    wr_fast_break(f, WEIR_ERR_MISMATCH, -1);
}
