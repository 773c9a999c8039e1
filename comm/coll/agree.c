/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Agreement on calls that find a plan again. Different calls have different plans and therefore different memory and counters,
 * so ranks that do not agree always wait for each other, and nothing is mixed up. A rank that waits for longer than a few
 * milliseconds tells rank 0 which call it is in, once; rank 0 compares it with its own call of the same number and, when they
 * differ, tells all ranks. The communicator cannot be used after that. Ranks that share a node see each other's calls in memory,
 * where the one that waits compares them.
 */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "comm/coll/coll.h"

enum { PATIENCE_NS = 5 * 1000 * 1000, LOOK_EVERY = 256 };
enum { PATIENCE_FIRST_NS = 500 * 1000 * 1000 }; /* until others are compared with each other, rank 0 not having come */

/* What travels: a call, and in a verdict also the one that it differs from. */
struct agree_message {
    uint32_t comm, unused; /* its id comes first: it says whom the message is for */
    uint64_t number;
    struct wr_coll_record mine, first;
    int32_t rank, verdict;
    int32_t first_rank, padding;
};

static bool same(const struct wr_coll_record *a, const struct wr_coll_record *b)
{
    return !memcmp(&a->key, &b->key, sizeof a->key) && a->form == b->form;
}

static uint64_t mix(uint64_t hash, const struct wr_coll_record *r)
{
    uint64_t word[sizeof *r / sizeof(uint64_t)];
    _Static_assert(sizeof word == sizeof *r, "records are made of words");
    memcpy(word, r, sizeof word);
    uint64_t sum = 0, factor = UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < WR_ARRAY_SIZE(word); i++) { /* at once, not one after the other */
        uint64_t x = (word[i] + i) * (factor + 2 * UINT64_C(0xbf58476d1ce4e5b9) * i);
        sum += x ^ (x >> 32);
    }
    hash = (hash ^ sum) * factor;
    return hash ^ (hash >> 32);
}

const char *wr_coll_form_text(enum wr_coll_form form)
{
    return form == WR_COLL_STARTED ? " (started)" : form == WR_COLL_PERSISTENT ? " (persistent)" : "";
}

void wr_coll_note(struct wr_coll_state *s, const struct wr_coll_call *call, enum wr_coll_form form)
{
    struct wr_coll_record *r = &s->record[s->calls % WR_COLL_RECORDS];
    memset(r, 0, sizeof *r);
    r->key = wr_coll_key(s->comm, call);
    r->form = (int32_t)form;
    s->hash = mix(s->hash, r);
    if (s->fast)
        wr_fast_note(s->fast, s->calls, r);
    s->calls++;
    wr_comm_step(s->comm, NULL);
    s->told = false;
    s->looks = 0;
    s->since = 0;
    if (s->comm->rank == 0 && s->nearly)
        wr_coll_look_back(s);
}

/* Nothing goes on: a rank's call differs from that of another. */
static void stop(struct wr_coll_state *s, const struct agree_message *m)
{
    char first[160], other[160];
    wr_coll_describe(&m->first.key, first, sizeof first);
    wr_coll_describe(&m->mine.key, other, sizeof other);
    s->broken = true;
    wr_engine_stop(s->comm->engine, WEIR_ERR_MISMATCH, m->rank,
                   "in collective call %llu rank %d called %s%s, rank %d called %s%s", (unsigned long long)m->number,
                   m->first_rank, first, wr_coll_form_text((enum wr_coll_form)m->first.form), m->rank, other,
                   wr_coll_form_text((enum wr_coll_form)m->mine.form));
    struct wr_coll_request *r;
    wr_list_for_each (r, &s->active, link)
        wr_exec_break(r->exec, WEIR_ERR_MISMATCH);
    wr_fast_break(s->fast, WEIR_ERR_MISMATCH, -1);
}

void wr_coll_disagree(struct wr_coll_state *s, uint64_t number, int first, const struct wr_coll_record *first_record,
                      int other, const struct wr_coll_record *other_record)
{
    struct agree_message verdict = {.comm = s->comm->group.id,
                                    .number = number,
                                    .mine = *other_record,
                                    .first = *first_record,
                                    .rank = other,
                                    .verdict = 1,
                                    .first_rank = first};
    _Static_assert(sizeof verdict <= sizeof s->verdict, "room for a verdict");
    if (s->verdict_pending || s->broken)
        return;
    memcpy(s->verdict, &verdict, sizeof verdict);
    s->verdict_pending = true;
    s->verdict_next = 0;
    stop(s, &verdict);
}

/* Rank 0 compares; a call that it has not reached yet is kept. */
static void judge(struct wr_coll_state *s, const struct agree_message *m)
{
    if (m->number >= s->calls) {
        s->nearly += !s->early[m->rank].number_plus_one;
        s->early[m->rank] = (struct wr_coll_early){m->number + 1, m->mine};
        return;
    }
    const struct wr_coll_record *own = &s->record[m->number % WR_COLL_RECORDS];
    if (s->calls - m->number > WR_COLL_RECORDS || same(own, &m->mine) || s->verdict_pending || s->broken)
        return;
    wr_coll_disagree(s, m->number, 0, own, m->rank, &m->mine);
}

void wr_coll_look_back(struct wr_coll_state *s)
{
    for (int r = 0; r < s->comm->size; r++) {
        struct wr_coll_early e = s->early[r];
        if (!e.number_plus_one || e.number_plus_one > s->calls)
            continue;
        struct agree_message m = {.comm = s->comm->group.id,
                                  .number = e.number_plus_one - 1,
                                  .mine = e.record,
                                  .rank = r};
        s->early[r].number_plus_one = 0;
        s->nearly--;
        judge(s, &m);
    }
}

void wr_coll_on_agree(struct wr_coll_state *s, int rank, const void *data, size_t len)
{
    struct agree_message m;
    if (len != sizeof m)
        return;
    memcpy(&m, data, sizeof m);
    if (m.verdict && !s->broken)
        stop(s, &m);
    else if (!m.verdict && s->comm->rank == 0 && m.rank == rank)
        judge(s, &m);
}

/* Passes the verdict on, as far as there is room. */
static void send_verdict(struct wr_coll_state *s)
{
    weir_error err;
    while (s->verdict_next < s->comm->size) {
        if (s->verdict_next == s->comm->rank) {
            s->verdict_next++;
            continue;
        }
        int peer = wr_comm_world_rank(s->comm, s->verdict_next);
        struct wr_transport *t = wr_engine_peer(s->comm->engine, peer, &err);
        if (t && t->ops->am(t, peer, WR_AM_AGREE, s->verdict, sizeof(struct agree_message), NULL, 0, 0, &err) ==
                     WEIR_ERR_BUSY)
            return;
        s->verdict_next++;
    }
    s->verdict_pending = false;
}

void wr_coll_agree_progress(struct wr_coll_state *s)
{
    weir_error err;
    if (s->verdict_pending)
        send_verdict(s);
    if (s->told || s->broken || (s->comm->rank == 0 && !s->fast) || !s->calls || ++s->looks % LOOK_EVERY)
        return;
    int64_t now = wr_clock_ns();
    if (!s->since)
        s->since = now;
    if (now - s->since < PATIENCE_NS)
        return;
    if (s->fast) { /* all can see what the others have called */
        if (now - s->looked < PATIENCE_NS)
            return;
        s->looked = now;
        wr_fast_look(s, now - s->since >= PATIENCE_FIRST_NS);
        return;
    }
    int first = wr_comm_world_rank(s->comm, 0);
    struct agree_message m = {.comm = s->comm->group.id,
                              .number = s->calls - 1,
                              .mine = s->record[(s->calls - 1) % WR_COLL_RECORDS],
                              .rank = s->comm->rank};
    struct wr_transport *t = wr_engine_peer(s->comm->engine, first, &err);
    s->told = !t || t->ops->am(t, first, WR_AM_AGREE, &m, sizeof m, NULL, 0, 0, &err) != WEIR_ERR_BUSY;
}
