/* SPDX-License-Identifier: BSD-3-Clause */
/* Making communicators from communicators, and freeing them. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/coll/coll.h"
#include "comm/mem/exchange.h"

enum {
    STALE_KEPT = 64,   /* freed communicators that stay readable */
    MOST_ID = 1 << 30, /* the bits above tell kinds of messages apart */
    MOST_TURNS = 1000  /* of agreeing on an id */
};

/* ---- splitting ---- */

/* What the ranks tell each other. */
struct split_card {
    int32_t color, key;
    uint32_t id; /* that this rank would give */
};

struct member {
    int32_t key;
    int rank; /* in the communicator that is split */
};

static int by_key(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* The world ranks of the members of this rank's colour, in their new order. */
static int *members_of(const weir_comm *comm, const struct split_card *cards, int *size)
{
    size_t n = (size_t)comm->size;
    struct member *m = malloc(n * sizeof *m);
    int *world = malloc(n * sizeof *world);
    *size = 0;
    for (int r = 0; m && world && r < comm->size; r++)
        if (cards[r].color == cards[comm->rank].color)
            m[(*size)++] = (struct member){cards[r].key, r};
    if (m && world)
        qsort(m, (size_t)*size, sizeof *m, by_key);
    for (int i = 0; m && world && i < *size; i++)
        world[i] = wr_comm_world_rank(comm, m[i].rank);
    if (!m) {
        free(world);
        world = NULL;
    }
    free(m);
    return world;
}

static weir_status check_colors(const weir_comm *comm, const struct split_card *cards, weir_error *err)
{
    for (int r = 0; r < comm->size; r++) {
        if (cards[r].color >= 0 || cards[r].color == WEIR_COLOR_NONE)
            continue;
        wr_error_set(err, WEIR_ERR_INVALID, "give 0 or more, or WEIR_COLOR_NONE", "rank %d gave the color %d", r,
                     (int)cards[r].color);
        err->rank = r;
        return WEIR_ERR_INVALID;
    }
    return WEIR_OK;
}

weir_status wr_comm_make(weir_comm *from, uint32_t id, const int *world, int size, struct weir_comm **out, weir_error *err)
{
    struct wr_comms *c = from->ctx->comms;
    struct weir_comm *comm;
    weir_status status = wr_comm_new(c, from->ctx, id, world, size, &comm, err);
    if (status)
        return status;
    status = wr_coll_create(comm, &comm->coll, err);
    if (status) {
        wr_comm_free(comm);
        return status;
    }
    wr_list_push_back(&c->alive, &comm->link);
    *out = comm;
    return WEIR_OK;
}

static void unmake(struct weir_comm *comm)
{
    if (!comm)
        return;
    wr_coll_destroy(comm->coll);
    wr_comm_free(comm);
}

/* The id that the ranks agree on: the largest that one of them would give, so that none knows it from elsewhere. */
static weir_status choose_id(struct weir_comm *comm, const struct split_card *cards, uint32_t *id, weir_error *err)
{
    struct wr_comms *c = comm->ctx->comms;
    *id = 0;
    for (int r = 0; r < comm->size; r++)
        *id = WR_MAX(*id, cards[r].id);
    if (*id >= MOST_ID)
        return wr_error_set(err, WEIR_ERR_LIMIT, "keep communicators instead of making them again and again",
                            "%d communicators have been made", MOST_ID);
    c->next_id = WR_MAX(c->next_id, *id + 1);
    return WEIR_OK;
}

static bool is_taken(const struct wr_comms *c, uint32_t id)
{
    const struct weir_comm *comm;
    wr_list_for_each (comm, &c->alive, link)
        if (comm->group.id == id)
            return true;
    wr_list_for_each (comm, &c->stale, link) /* something may still be on its way to it */
        if (comm->group.id == id)
            return true;
    return false;
}

/*
 * One attempt; WEIR_ERR_BUSY at all ranks when another thread of one has just given the id to a communicator. When it returns
 * WEIR_OK, all ranks know the new one.
 */
static weir_status try_split(weir_comm *comm, int color, int key, struct split_card *cards, struct weir_comm **made,
                             weir_error *err)
{
    struct wr_comms *c = comm->ctx->comms;
    struct split_card card = {color, key, c->next_id++};
    uint32_t id;
    weir_status status = wr_exchange_allgather(comm, &card, cards, sizeof card, err);
    *made = NULL;
    if (!status)
        status = check_colors(comm, cards, err);
    if (!status)
        status = choose_id(comm, cards, &id, err);
    if (status)
        return status;
    if (color != WEIR_COLOR_NONE && is_taken(c, id)) {
        status = wr_error_set(err, WEIR_ERR_BUSY, "make communicators in one thread at a time",
                              "the ranks found no id for a communicator");
    } else if (color != WEIR_COLOR_NONE) {
        int size, *world = members_of(comm, cards, &size);
        status = world ? wr_comm_make(comm, id, world, size, made, err)
                       : wr_error_memory(err, (size_t)comm->size * sizeof *world, "the split of a communicator");
        free(world);
    }
    status = wr_exchange_agree(comm, status, err);
    if (status)
        unmake(*made);
    return status;
}

weir_status wr_comm_split(weir_comm *comm, int color, int key, struct weir_comm **made, weir_error *err)
{
    struct split_card *cards = malloc((size_t)comm->size * sizeof *cards);
    weir_status status = WEIR_ERR_BUSY;
    if (!cards)
        return wr_error_memory(err, (size_t)comm->size * sizeof *cards, "the split of a communicator");
    for (int turn = 0; status == WEIR_ERR_BUSY && turn < MOST_TURNS; turn++)
        status = try_split(comm, color, key, cards, made, err);
    free(cards);
    return status;
}

static weir_status split_public(weir_comm *comm, int color, int key, weir_comm **out, const char *operation)
{
    weir_error err = {.rank = -1};
    struct weir_comm *made = NULL;
    wr_engine_lock(comm->engine);
    weir_status status = wr_comm_check_alive(comm, &err);
    wr_comm_step(comm, operation);
    if (!status)
        status = wr_comm_split(comm, color, key, &made, &err);
    wr_engine_unlock(comm->engine);
    if (status)
        return wr_comm_fail(comm, &err, operation);
    *out = made;
    return WEIR_OK;
}

weir_status weir_comm_split(weir_comm *comm, int color, int key, weir_comm **out)
{
    return split_public(comm, color, key, out, "weir_comm_split");
}

weir_status weir_comm_dup(weir_comm *comm, weir_comm **out)
{
    return split_public(comm, 0, comm->rank, out, "weir_comm_dup");
}

/* ---- freeing ---- */

/* Takes it out of use; it stays readable until STALE_KEPT others have been freed after it. */
static void retire(struct weir_comm *comm)
{
    struct wr_comms *c = comm->ctx->comms;
    wr_coll_destroy(comm->coll);
    comm->coll = NULL;
    wr_list_remove(&comm->link);
    wr_list_push_back(&c->stale, &comm->link);
    if (++c->nstale > STALE_KEPT) {
        wr_comm_free(wr_list_first(&c->stale, struct weir_comm, link));
        c->nstale--;
    }
}

static weir_status free_locked(weir_comm *comm, weir_error *err)
{
    weir_status status = wr_comm_check_alive(comm, err);
    if (status)
        return status;
    if (comm == comm->ctx->comms->world)
        return wr_error_set(err, WEIR_ERR_INVALID, "weir_finalize() frees it", "the communicator of all ranks cannot be freed");
    wr_comm_step(comm, "weir_comm_free");
    if (wr_comm_lost(comm) >= 0)
        wr_coll_abandon_plans(comm->coll);
    else
        status = wr_coll_drop_plans(comm->coll, err);
    if (!status)
        status = wr_fast_close(comm->coll, err);
    if (status)
        return status;
    if (wr_coll_in_use(comm->coll) || comm->nmems)
        return wr_error_set(err, WEIR_ERR_BUSY, "complete requests, and free persistent ones and memory before the communicator",
                            "the communicator is in use: %u requests and %u memory handles", wr_coll_in_use(comm->coll),
                            comm->nmems);
    if (wr_comm_lost(comm) < 0)
        status = wr_exchange_barrier(comm, err); /* nobody waits for an answer any more */
    if (!status || wr_comm_lost(comm) >= 0)
        retire(comm);
    return wr_comm_lost(comm) >= 0 ? WEIR_OK : status;
}

weir_status weir_comm_free(weir_comm *comm)
{
    weir_error err = {.rank = -1};
    if (!comm)
        return WEIR_OK;
    struct wr_engine *e = comm->engine;
    wr_engine_lock(e);
    weir_status status = free_locked(comm, &err);
    wr_engine_unlock(e);
    return status ? wr_comm_fail(comm, &err, "weir_comm_free") : WEIR_OK;
}
