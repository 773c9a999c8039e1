/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is left of a communicator when ranks are lost.
 *
 * The lowest rank that is left leads. Everybody reports to it whom it knows to be lost, and an id that it would give; when all
 * that are left have reported, the leader decides and tells all. When a leader dies, the next one leads: ranks that have no
 * decision report again, and ranks that have one pass it on to all, so that a decision that any survivor has is the only one.
 * Decisions of a leader that is known to be lost do not count. Whoever has decided goes on answering from progress.
 *
 * The new communicator is then made by each rank for itself. All of it runs with the engine's lock held.
 */
#include "comm/shrink.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"

enum { RANKS_A_MESSAGE = 48, MOST_ID = 1 << 30 };

enum kind { REPORT = 1, DECISION = 2 };

struct shrink_message {
    uint32_t comm; /* its id comes first: it says whom the message is for */
    uint32_t kind, id;
    int32_t total, first, n; /* lost ranks: in all, before these, these */
    int32_t rank[RANKS_A_MESSAGE];
};

struct wr_shrink {
    bool joined, decided;
    bool news;         /* something has changed since it was last looked whether all have reported */
    int nowed;         /* ranks that are owed something */
    int leader;        /* to whom this rank has reported, -1 */
    int losses;        /* of the engine, when they were looked at last */
    uint32_t id;       /* the largest that was proposed; the new one once it is decided */
    uint8_t *reported; /* by rank */
    uint8_t *owe;      /* by rank: the kind of message that it is to get */
    int *sent;         /* by rank: lost ranks that it got of it */
    int decider;       /* who has told the decision */
    int *lost, nlost;  /* that the decision says */
    int *heard, nheard, from; /* a decision that comes in, and from whom */
    int *known;               /* for a report */
};

static void free_state(struct wr_shrink *s)
{
    if (!s)
        return;
    free(s->reported);
    free(s->owe);
    free(s->sent);
    free(s->lost);
    free(s->heard);
    free(s->known);
    free(s);
}

void wr_shrink_free(struct weir_comm *comm)
{
    free_state(comm->shrink);
    comm->shrink = NULL;
}

static struct wr_shrink *state_of(struct weir_comm *comm)
{
    size_t n = (size_t)comm->size;
    struct wr_shrink *s = comm->shrink;
    if (s || !(s = calloc(1, sizeof *s)))
        return s;
    s->leader = s->decider = s->from = -1;
    s->reported = calloc(n, 1);
    s->owe = calloc(n, 1);
    s->sent = calloc(n, sizeof *s->sent);
    s->lost = calloc(n, sizeof *s->lost);
    s->heard = calloc(n, sizeof *s->heard);
    s->known = calloc(n, sizeof *s->known);
    if (!s->reported || !s->owe || !s->sent || !s->lost || !s->heard || !s->known) {
        free_state(s);
        return NULL;
    }
    return comm->shrink = s;
}

static bool is_lost(const struct weir_comm *comm, int rank)
{
    return comm->engine->lost[wr_comm_world_rank(comm, rank)];
}

static void owe(struct wr_shrink *s, int rank, enum kind kind)
{
    s->nowed += !s->owe[rank];
    s->owe[rank] = (uint8_t)kind;
    s->sent[rank] = 0;
}

static void owe_all(const struct weir_comm *comm, struct wr_shrink *s)
{
    for (int r = 0; r < comm->size; r++)
        if (r != comm->rank)
            owe(s, r, DECISION);
}

/* ---- sending ---- */

/* Sends what a rank is owed, as far as there is room. */
static void send_to(struct weir_comm *comm, struct wr_shrink *s, int rank)
{
    weir_error err;
    struct wr_engine *e = comm->engine;
    int known = 0, *list = s->lost;
    struct wr_transport *t = is_lost(comm, rank) ? NULL : wr_engine_member(e, &comm->group, rank, &err);
    if (!t) {
        s->nowed -= !!s->owe[rank];
        s->owe[rank] = 0;
        return;
    }
    if (s->owe[rank] == REPORT) {
        list = s->known;
        for (int r = 0; r < comm->size; r++)
            if (is_lost(comm, r))
                list[known++] = r;
    } else {
        known = s->nlost;
    }
    do {
        int at = s->sent[rank], n = WR_MIN(known - at, RANKS_A_MESSAGE);
        struct shrink_message m = {comm->group.id, s->owe[rank], s->id, known, at, n, {0}};
        memcpy(m.rank, list + at, (size_t)n * sizeof *list);
        weir_status status = t->ops->am(t, wr_comm_world_rank(comm, rank), WR_AM_SHRINK, &m, sizeof m, NULL, 0, 0, &err);
        if (status == WEIR_ERR_BUSY)
            return;
        s->sent[rank] += n;
    } while (s->sent[rank] < known);
    s->nowed--;
    s->owe[rank] = 0;
}

/* ---- deciding ---- */

static void decide(struct weir_comm *comm, struct wr_shrink *s)
{
    s->nlost = 0;
    for (int r = 0; r < comm->size; r++)
        if (is_lost(comm, r))
            s->lost[s->nlost++] = r;
    s->decided = true;
    s->decider = comm->rank;
    owe_all(comm, s);
}

static int lowest_left(const struct weir_comm *comm)
{
    for (int r = 0; r < comm->size; r++)
        if (!is_lost(comm, r))
            return r;
    return comm->rank;
}

static bool all_reported(const struct weir_comm *comm, const struct wr_shrink *s)
{
    for (int r = 0; r < comm->size; r++)
        if (!s->reported[r] && !is_lost(comm, r))
            return false;
    return true;
}

void wr_shrink_progress(struct weir_comm *comm)
{
    struct wr_shrink *s = comm->shrink;
    if (s->losses != comm->engine->nlost) {
        s->losses = comm->engine->nlost;
        s->news = true;
        if (s->decided && s->decider != comm->rank && is_lost(comm, s->decider)) {
            s->decider = comm->rank; /* it may not have told all */
            owe_all(comm, s);
        }
    }
    if (s->joined && !s->decided && s->news) {
        s->news = false;
        int leader = lowest_left(comm);
        if (leader != s->leader) {
            s->leader = leader;
            s->reported[comm->rank] = true;
            if (leader != comm->rank)
                owe(s, leader, REPORT);
        }
        if (leader == comm->rank && all_reported(comm, s))
            decide(comm, s);
    }
    for (int r = 0; r < comm->size && s->nowed; r++)
        if (s->owe[r])
            send_to(comm, s, r);
}

static void on_report(struct weir_comm *comm, struct wr_shrink *s, int rank, const struct shrink_message *m)
{
    for (int i = 0; i < m->n; i++)
        if (m->rank[i] >= 0 && m->rank[i] < comm->size && m->rank[i] != comm->rank)
            wr_engine_peer_lost(comm->engine, wr_comm_world_rank(comm, m->rank[i]), "another rank found it lost");
    if (m->first + m->n < m->total)
        return;
    s->reported[rank] = true;
    s->news = true;
    if (s->decided)
        owe(s, rank, DECISION);
    else
        s->id = WR_MAX(s->id, m->id);
}

static void on_decision(struct weir_comm *comm, struct wr_shrink *s, int rank, const struct shrink_message *m)
{
    if (s->decided || is_lost(comm, rank))
        return;
    if (m->first == 0) {
        s->from = rank;
        s->nheard = 0;
    }
    if (s->from != rank || m->first != s->nheard || m->total > comm->size)
        return;
    memcpy(s->heard + s->nheard, m->rank, (size_t)m->n * sizeof *s->heard);
    s->nheard += m->n;
    if (s->nheard < m->total)
        return;
    memcpy(s->lost, s->heard, (size_t)s->nheard * sizeof *s->lost);
    s->nlost = s->nheard;
    s->id = m->id;
    s->decider = rank;
    s->decided = true;
    for (int r = 0; r < comm->size; r++) /* those who reported here, taking this rank for the leader */
        if (s->reported[r] && r != comm->rank)
            owe(s, r, DECISION);
}

void wr_shrink_on_message(struct weir_comm *comm, int rank, const void *data, size_t len)
{
    struct shrink_message m;
    struct wr_shrink *s = state_of(comm);
    if (len != sizeof m || !s)
        return;
    memcpy(&m, data, sizeof m);
    if (m.n < 0 || m.n > RANKS_A_MESSAGE || m.first < 0 || m.total < 0 || m.first > m.total - m.n)
        return;
    if (m.kind == REPORT)
        on_report(comm, s, rank, &m);
    else if (m.kind == DECISION)
        on_decision(comm, s, rank, &m);
}

/* ---- the call ---- */

static bool is_decided(void *arg)
{
    struct weir_comm *comm = arg;
    wr_shrink_progress(comm);
    return comm->shrink->decided;
}

/* Makes the communicator of those that the decision leaves. */
static weir_status make_new(struct weir_comm *comm, const struct wr_shrink *s, struct weir_comm **made, weir_error *err)
{
    size_t n = (size_t)comm->size;
    uint8_t *gone = calloc(n, 1);
    int *world = malloc(n * sizeof *world), size = 0;
    weir_status status = gone && world ? WEIR_OK : wr_error_memory(err, n * sizeof *world, "a communicator");
    for (int i = 0; i < s->nlost && !status; i++)
        if (s->lost[i] >= 0 && s->lost[i] < comm->size)
            gone[s->lost[i]] = 1;
    for (int r = 0; r < comm->size && !status; r++)
        if (!gone[r])
            world[size++] = wr_comm_world_rank(comm, r);
    if (!status && gone[comm->rank])
        status = wr_error_set(err, WEIR_ERR_PEER_LOST, "end this process", "the other ranks take this one for lost");
    if (!status && s->id >= MOST_ID)
        status = wr_error_set(err, WEIR_ERR_LIMIT, NULL, "%d communicators have been made", MOST_ID);
    if (!status)
        status = wr_comm_make(comm, s->id, world, size, made, err);
    free(gone);
    free(world);
    return status;
}

static weir_status shrink(weir_comm *comm, struct weir_comm **made, weir_error *err)
{
    struct wr_comms *c = comm->ctx->comms;
    weir_status status = wr_comm_check_alive(comm, err);
    if (status)
        return status;
    struct wr_shrink *s = state_of(comm);
    if (!s)
        return wr_error_memory(err, (size_t)comm->size * 16, "the shrinking of a communicator");
    if (s->joined)
        return wr_error_set(err, WEIR_ERR_INVALID, "shrink the communicator that came of it",
                            "the communicator was shrunk already");
    wr_comm_step(comm, "weir_comm_shrink");
    s->joined = s->news = true;
    if (!s->decided)
        s->id = WR_MAX(s->id, c->next_id++);
    status = wr_comm_wait(comm, is_decided, comm, err);
    if (status)
        return status;
    c->next_id = WR_MAX(c->next_id, s->id + 1);
    return make_new(comm, s, made, err);
}

weir_status weir_comm_shrink(weir_comm *comm, weir_comm **made)
{
    weir_error err = {.rank = -1};
    struct weir_comm *left = NULL;
    wr_engine_lock(comm->engine);
    weir_status status = shrink(comm, &left, &err);
    wr_engine_unlock(comm->engine);
    if (status)
        return wr_comm_fail(comm, &err, "weir_comm_shrink");
    *made = left;
    return WEIR_OK;
}
