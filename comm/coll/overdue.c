/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waits in collectives that take long: after WEIR_WARN_AFTER a warning tells which ranks have not come and what they called last,
 * after WEIR_TIMEOUT an error does.
 *
 * The ranks are asked first. One that is inside weir answers; of one that is not, what it has called last is seen in the memory
 * of the fast path, or follows from this rank's own calls: those that end only when all ranks have come.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/str.h"
#include "comm/coll/coll.h"

enum {
    LEAST_GRACE_NS = 50 * 1000 * 1000, /* for the answers */
    MOST_GRACE_NS = 1000 * 1000 * 1000,
    MOST_ASKED = 1024, /* of larger communicators only ranks that are connected are asked */
    MOST_NAMED = 4
};

struct overdue_message {
    uint32_t comm; /* its id comes first: it says whom the message is for */
    uint32_t is_answer;
    uint64_t steps, calls;
    struct wr_coll_record last;
    char doing[sizeof ((struct wr_coll_seen *)0)->doing];
};

static bool send_message(struct wr_coll_state *s, int rank, bool is_answer)
{
    struct overdue_message m = {.comm = s->comm->group.id, .is_answer = is_answer, .steps = s->comm->overdue.step, .calls = s->calls};
    int peer = wr_comm_world_rank(s->comm, rank);
    weir_error err;
    wr_str_copy(m.doing, sizeof m.doing, s->comm->doing ? s->comm->doing : "");
    if (s->calls)
        m.last = s->record[(s->calls - 1) % WR_COLL_RECORDS];
    if (!wr_engine_ready(s->comm->engine, peer))
        return false;
    struct wr_transport *t = wr_engine_route(s->comm->engine, peer);
    return !t->ops->am(t, peer, WR_AM_OVERDUE, &m, sizeof m, NULL, 0, 0, &err);
}

static void remember(struct wr_coll_seen *seen, const struct overdue_message *m)
{
    *seen = (struct wr_coll_seen){.answered = true, .steps = m->steps, .calls = m->calls, .last = m->last};
    memcpy(seen->doing, m->doing, sizeof seen->doing);
    seen->doing[sizeof seen->doing - 1] = '\0';
}

void wr_coll_on_overdue(struct wr_coll_state *s, int rank, const void *data, size_t len)
{
    struct overdue_message m;
    if (len != sizeof m)
        return;
    memcpy(&m, data, sizeof m);
    if (!m.is_answer)
        send_message(s, rank, true); /* without room for it, this rank counts as one that does not answer */
    else if (s->late.seen)
        remember(&s->late.seen[rank], &m);
}

/* Whether nobody gets past a call before all have come. */
static bool joins_all(const struct wr_coll_record *r)
{
    enum wr_collective coll = (enum wr_collective)r->key.coll;
    return coll == WR_COLL_BARRIER || coll == WR_COLL_ALLREDUCE || coll == WR_COLL_ALLGATHER ||
           coll == WR_COLL_REDUCE_SCATTER || coll == WR_COLL_ALLTOALL;
}

/* What this rank can tell without the other's answer. */
static void guess(const struct wr_coll_state *s, int rank, struct wr_coll_seen *seen)
{
    memset(seen, 0, sizeof *seen);
    if (s->fast && wr_fast_last(s->fast, rank, &seen->calls, &seen->last))
        return;
    /* the latest call is the one that is waited in, unless that is not one of these */
    uint64_t number = s->calls + !!s->comm->doing;
    for (int back = 2; number > 1 && back < WR_COLL_RECORDS; number--, back++) {
        const struct wr_coll_record *r = &s->record[(number - 2) % WR_COLL_RECORDS];
        if (r->form || !joins_all(r))
            continue;
        seen->calls = number - 1;
        seen->last = *r;
        return;
    }
}

static weir_status ask(struct wr_coll_state *s, weir_error *err)
{
    const weir_comm *comm = s->comm;
    if (!s->late.seen)
        s->late.seen = malloc((size_t)comm->size * sizeof *s->late.seen);
    if (!s->late.seen)
        return wr_error_memory(err, (size_t)comm->size * sizeof *s->late.seen, "the ranks that are waited for");
    memset(s->late.seen, 0, (size_t)comm->size * sizeof *s->late.seen);
    for (int r = 0; r < comm->size; r++) {
        weir_error unreachable; /* then it does not answer */
        if (r == comm->rank)
            continue;
        if (comm->size <= MOST_ASKED)
            wr_engine_member(comm->engine, &comm->group, r, &unreachable);
        send_message(s, r, false);
    }
    return WEIR_OK;
}

/* Appends what is known of a rank that has not come. */
static void describe_rank(const struct wr_coll_state *s, int rank, char *text, size_t size)
{
    char host[64], call[160] = "", line[320];
    struct wr_coll_seen seen = s->late.seen[rank];
    bool answered = seen.answered;
    const char *where = wr_engine_host(s->comm->engine, wr_comm_world_rank(s->comm, rank), host, sizeof host);
    if (!answered)
        guess(s, rank, &seen);
    if (seen.calls)
        wr_coll_describe(&seen.last.key, call, sizeof call);
    snprintf(line, sizeof line, "%srank %d on host %s (", *text ? ", " : "", rank, where ? where : "?");
    wr_str_append(text, size, line);
    if (seen.doing[0])
        snprintf(line, sizeof line, "its last call is %s)", seen.doing);
    else if (seen.calls)
        snprintf(line, sizeof line, "%s call %llu, %s%s%s)", answered || s->fast ? "its last is" : "the last known is",
                 (unsigned long long)(seen.calls - 1), call, wr_coll_form_text((enum wr_coll_form)seen.last.form),
                 answered ? "" : "; it is outside of weir");
    else
        snprintf(line, sizeof line, "%s)", answered ? "it has made no call" : "no call of it is known; it is outside of weir");
    wr_str_append(text, size, line);
}

/* Writes who has not come; the lowest of them, -1 for none, and whether this rank is the lowest that has. */
static int describe(const struct wr_coll_state *s, uint64_t step, char *text, size_t size, int *missing, bool *first)
{
    int lowest = -1;
    char more[40];
    text[0] = '\0';
    *missing = 0;
    *first = true;
    for (int r = 0; r < s->comm->size; r++) {
        if (r == s->comm->rank || s->comm->engine->lost[wr_comm_world_rank(s->comm, r)])
            continue;
        if (s->late.seen[r].answered && s->late.seen[r].steps >= step) {
            *first &= r > s->comm->rank;
            continue;
        }
        lowest = lowest < 0 ? r : lowest;
        if (++*missing <= MOST_NAMED)
            describe_rank(s, r, text, size);
    }
    if (*missing > MOST_NAMED) {
        snprintf(more, sizeof more, " and %d more", *missing - MOST_NAMED);
        wr_str_append(text, size, more);
    }
    return lowest;
}

/* Nothing can be called any more on the communicator, and what runs on it ends. */
static void give_up(struct wr_coll_state *s, const weir_error *err)
{
    s->gave_up = *err;
    wr_coll_break_plans(s);
    wr_fast_break(s->fast, WEIR_ERR_TIMEOUT, -1);
    while (!wr_list_empty(&s->active)) {
        struct wr_coll_request *r = wr_list_first(&s->active, struct wr_coll_request, link);
        wr_exec_break(r->exec, WEIR_ERR_TIMEOUT);
        wr_list_remove(&r->link);
        wr_request_complete(&r->request, WEIR_ERR_TIMEOUT);
    }
    if (s->fast)
        wr_fast_progress(s->fast);
    wr_coll_setup_progress(s);
}

/* The call that this rank is in. */
static void describe_own(const struct wr_coll_state *s, char *text, size_t size)
{
    char call[160];
    if (s->comm->doing || !s->calls) {
        wr_str_copy(text, size, s->comm->doing ? s->comm->doing : "a set-up");
        return;
    }
    wr_coll_describe(&s->record[(s->calls - 1) % WR_COLL_RECORDS].key, call, sizeof call);
    snprintf(text, size, "call %llu, %s", (unsigned long long)(s->calls - 1), call);
}

static weir_status report(struct wr_coll_state *s, uint64_t step, int64_t waited, bool fatal, weir_error *err)
{
    char who[400], call[200], host[64];
    int missing;
    bool first;
    int lowest = describe(s, step, who, sizeof who, &missing, &first);
    describe_own(s, call, sizeof call);
    const char *text = missing == 1 ? "has not come" : missing ? "have not come" : "all ranks have come, and it goes on";
    if (!fatal) {
        s->late.warned = true;
        if (first)
            wr_warn(&s->comm->ctx->log, COLL, "waiting for %.1f s in %s: %s%s%s", (double)waited * 1e-9, call, who,
                    missing ? " " : "", text);
        return WEIR_OK;
    }
    wr_error_set(err, WEIR_ERR_TIMEOUT, "look at what these ranks do, or raise WEIR_TIMEOUT",
                 "after %.1f s in %s: %s%s%s", (double)waited * 1e-9, call, who, missing ? " " : "", text);
    if (lowest >= 0)
        wr_error_at(err, lowest, wr_engine_host(s->comm->engine, wr_comm_world_rank(s->comm, lowest), host, sizeof host));
    give_up(s, err);
    return WEIR_ERR_TIMEOUT;
}

weir_status wr_coll_overdue(const struct wr_overdue *o, int64_t since, int64_t *next, weir_error *err)
{
    struct wr_coll_state *s = o->arg;
    const struct wr_config *config = &s->comm->ctx->config;
    int64_t now = wr_clock_ns(), waited = now - since;
    if (s->late.since != since) {
        s->late.since = since;
        s->late.asked = s->late.warned = false;
    }
    if (!s->late.asked) {
        s->late.asked = true;
        *next = now + WR_MIN(WR_MAX(o->after_ns / 4, (int64_t)LEAST_GRACE_NS), (int64_t)MOST_GRACE_NS);
        return ask(s, err);
    }
    s->late.asked = false;
    bool fatal = waited >= config->timeout;
    weir_status status = fatal || !s->late.warned ? report(s, o->step, waited, fatal, err) : WEIR_OK;
    *next = config->timeout == WR_TIME_INF ? WR_TIME_INF : WR_MAX(since + config->timeout, now);
    return status;
}
