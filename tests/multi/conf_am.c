/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "tests/multi/conf_cases.h"

struct header {
    uint64_t sequence, len, seed;
};

struct am_state {
    uint64_t received[CONF_RANKS];
    uint64_t sent[CONF_RANKS];
    uint64_t total;
    unsigned char *copy; /* messages may be unaligned */
    bool deferred;       /* a reply that found the queue full */
    uint64_t deferred_hops;
};

static void check_message(struct conf_rank *r, int source, const void *data, size_t len)
{
    struct am_state *s = r->case_state;
    struct header h;
    CONF_ASSERT(r, len >= sizeof h, "a message of %zu bytes from rank %d", len, source);
    memcpy(&h, data, sizeof h);
    CONF_ASSERT(r, h.sequence == s->received[source], "message %llu of rank %d came as number %llu",
                (unsigned long long)h.sequence, source, (unsigned long long)s->received[source]);
    CONF_ASSERT(r, h.len == len - sizeof h, "a message of %llu bytes arrived with %zu",
                (unsigned long long)h.len, len - sizeof h);
    memcpy(s->copy, (const char *)data + sizeof h, h.len);
    int64_t bad = conf_check(s->copy, h.len, h.seed);
    CONF_ASSERT(r, bad < 0, "message %llu of rank %d (%llu bytes) is wrong at byte %lld",
                (unsigned long long)h.sequence, source, (unsigned long long)h.len, (long long)bad);
    s->received[source]++;
    s->total++;
}

static void am_open(struct conf_rank *r, struct am_state *s, conf_handler handler)
{
    memset(s, 0, sizeof *s);
    s->copy = malloc(r->t->caps.max_am);
    CONF_ASSERT(r, s->copy, "no memory");
    r->case_state = s;
    r->handler[0] = r->handler[15] = handler;
    conf_barrier(r);
}

static void am_close(struct conf_rank *r, struct am_state *s)
{
    conf_barrier(r);
    r->handler[0] = r->handler[15] = NULL;
    free(s->copy);
}

static void send_message(struct conf_rank *r, struct am_state *s, int peer, unsigned id, uint64_t len,
                         unsigned char *scratch)
{
    weir_error err;
    struct header h = {s->sent[peer], len, (uint64_t)r->rank << 40 | s->sent[peer] << 16};
    conf_fill(scratch, len, h.seed);
    weir_status status =
        CONF_START(r, &err, r->t->ops->am(r->t, peer, id, &h, sizeof h, scratch, len, 0, &err));
    CONF_ASSERT(r, status == WEIR_OK, "am() returned %s", weir_status_name(status));
    memset(scratch, 0xdd, len); /* copied: ours again */
    s->sent[peer]++;
}

static uint64_t expected_from_all(const struct conf_rank *r, uint64_t each)
{
    uint64_t n = 0;
    for (int peer = 0; peer < r->size; peer++)
        n += r->t->ops->reaches(r->t, peer) ? each : 0;
    return n;
}

void conf_am_sizes(struct conf_rank *r)
{
    struct am_state s;
    size_t most = r->t->caps.max_am - sizeof(struct header);
    unsigned char *scratch = malloc(most);
    uint64_t lens[] = {0, 1, 7, 8, 9, 40, 63, 64, 65, 100, 255, 256, 500, most / 2, most - 1, most};
    CONF_ASSERT(r, scratch && r->t->caps.max_am >= 1024, "max_am is %zu", r->t->caps.max_am);
    am_open(r, &s, check_message);
    for (size_t i = 0; i < WR_ARRAY_SIZE(lens); i++)
        for (int peer = 0; peer < r->size; peer++)
            if (r->t->ops->reaches(r->t, peer))
                send_message(r, &s, peer, i % 2 ? 0 : 15, lens[i], scratch);
    conf_wait(r, &s.total, expected_from_all(r, WR_ARRAY_SIZE(lens)), "messages of all sizes");
    am_close(r, &s);
    free(scratch);
}

/* A flood of all to all with sizes at random: content and order of each pair. */
void conf_am_order(struct conf_rank *r)
{
    struct am_state s;
    size_t most = r->t->caps.max_am - sizeof(struct header);
    unsigned char *scratch = malloc(most);
    uint64_t each = (uint64_t)r->options->rounds * 20;
    CONF_ASSERT(r, scratch, "no memory");
    am_open(r, &s, check_message);
    for (uint64_t i = 0; i < each; i++)
        for (int k = 0; k < r->size; k++) {
            int peer = (r->rank + k) % r->size;
            uint64_t len = conf_random(r, 8) ? conf_random(r, 90) : conf_random(r, most + 1);
            if (r->t->ops->reaches(r->t, peer))
                send_message(r, &s, peer, 0, len, scratch);
        }
    conf_wait(r, &s.total, expected_from_all(r, each), "a flood of messages");
    am_close(r, &s);
    free(scratch);
}

enum { LONG_SLOTS = 8 };

/* One long message: its bytes are the transport's until it has ended. */
struct long_message {
    struct wr_op op;
    bool running;
    unsigned char *bytes;
    uint64_t len, seed;
};

static void long_done(struct wr_op *op, weir_status status)
{
    struct long_message *m = WR_CONTAINER_OF(op, struct long_message, op);
    m->running = status != WEIR_OK; /* a failure is a wait that does not end */
}

static void await_long(struct conf_rank *r, const struct long_message *m)
{
    int64_t deadline = wr_deadline(60 * INT64_C(1000000000));
    while (m->running) {
        conf_progress(r);
        CONF_ASSERT(r, !wr_deadline_passed(deadline), "a long message of %llu bytes has not left in 60 s",
                    (unsigned long long)m->len);
    }
    CONF_ASSERT(r, conf_check(m->bytes, m->len, m->seed) < 0, "the bytes of a long message were changed");
}

static void send_long(struct conf_rank *r, struct am_state *s, int peer, struct long_message *m, struct wr_region *region,
                      uint64_t len)
{
    weir_error err;
    struct header h = {s->sent[peer], len, (uint64_t)r->rank << 40 | s->sent[peer] << 16};
    await_long(r, m);
    m->len = len;
    m->seed = h.seed;
    m->op.done = long_done;
    conf_fill(m->bytes, len, h.seed);
    m->running = true;
    m->running = CONF_START(r, &err, r->t->ops->am_long(r->t, peer, 0, &h, sizeof h, m->bytes, region, len, &m->op, &err)) ==
                 WEIR_IN_PROGRESS;
    memset(&h, 0xdd, sizeof h); /* copied: ours again */
    s->sent[peer]++;
}

/* Long messages and others, of all to all, in turns: content and order of each pair. */
void conf_am_long(struct conf_rank *r)
{
    struct am_state s;
    struct long_message slot[LONG_SLOTS] = {0};
    size_t most = 0, room = 0;
    uint64_t each = (uint64_t)r->options->rounds * 4;
    weir_error err;
    for (int peer = 0; peer < r->size && r->t->ops->am_long_max; peer++)
        if (r->t->ops->reaches(r->t, peer))
            room = WR_MAX(room, r->t->ops->am_long_max(r->t, peer));
    am_open(r, &s, check_message);
    s.copy = room ? realloc(s.copy, WR_MAX(room, r->t->caps.max_am)) : s.copy;
    unsigned char *memory = calloc(LONG_SLOTS, room + 1), *scratch = malloc(r->t->caps.max_am);
    struct wr_region *region = NULL;
    CONF_ASSERT(r, s.copy && memory && scratch, "no memory");
    CONF_OK(r, r->t->ops->reg(r->t, memory, LONG_SLOTS * (room + 1), 0, &region, &err), &err);
    for (int i = 0; i < LONG_SLOTS; i++)
        slot[i].bytes = memory + (size_t)i * (room + 1); /* at odd addresses, too */
    for (uint64_t i = 0; i < each; i++)
        for (int k = 0; k < r->size; k++) {
            int peer = (r->rank + k) % r->size;
            if (!r->t->ops->reaches(r->t, peer))
                continue;
            most = room ? r->t->ops->am_long_max(r->t, peer) : 0;
            if (most > sizeof(struct header) && conf_random(r, 3)) {
                most -= sizeof(struct header);
                send_long(r, &s, peer, &slot[conf_random(r, LONG_SLOTS)], region,
                          i % 4 ? conf_random(r, most + 1) : i % 8 ? 0 : most);
            } else {
                send_message(r, &s, peer, 15, conf_random(r, 90), scratch);
            }
        }
    conf_wait(r, &s.total, expected_from_all(r, each), "long messages");
    for (int i = 0; i < LONG_SLOTS; i++)
        await_long(r, &slot[i]);
    am_close(r, &s);
    r->t->ops->dereg(r->t, region);
    free(memory);
    free(scratch);
}

static void reply_message(struct conf_rank *r, int source, const void *data, size_t len)
{
    struct am_state *s = r->case_state;
    uint64_t hops;
    weir_error err;
    CONF_ASSERT(r, len == sizeof hops, "a message of %zu bytes", len);
    memcpy(&hops, data, sizeof hops);
    s->total++;
    if (!hops)
        return;
    hops--;
    weir_status status = r->t->ops->am(r->t, source, 0, &hops, sizeof hops, NULL, 0, 0, &err);
    CONF_ASSERT(r, status == WEIR_OK || status == WEIR_ERR_BUSY, "a reply from a handler gave %s",
                weir_status_name(status));
    s->deferred = status == WEIR_ERR_BUSY;
    s->deferred_hops = hops;
}

/* Handlers that send: one message in flight a pair, back and forth. */
void conf_am_reply(struct conf_rank *r)
{
    struct am_state s;
    weir_error err;
    uint64_t hops = (uint64_t)r->options->rounds * 10;
    int peer = r->rank ^ 1;
    am_open(r, &s, reply_message);
    if (peer < r->size && r->t->ops->reaches(r->t, peer)) {
        uint64_t goal = hops / 2 + (r->rank > peer && hops % 2 == 0);
        int64_t deadline = wr_deadline(60 * INT64_C(1000000000));
        if (r->rank < peer)
            CONF_START(r, &err, r->t->ops->am(r->t, peer, 0, &hops, sizeof hops, NULL, 0, 0, &err));
        while (s.total < goal || s.deferred) {
            conf_progress(r);
            CONF_ASSERT(r, !wr_deadline_passed(deadline), "waited 60 s for replies: %llu of %llu",
                        (unsigned long long)s.total, (unsigned long long)goal);
            if (s.deferred && r->t->ops->am(r->t, peer, 0, &s.deferred_hops, 8, NULL, 0, 0, &err) == WEIR_OK)
                s.deferred = false;
        }
    }
    am_close(r, &s);
}

/* Sleeps on the descriptor until a message has come; a wake-up that is lost ends in the time limit. */
static void wait_blocking(struct conf_rank *r, struct am_state *s, uint64_t goal)
{
    int64_t deadline = wr_deadline(60 * INT64_C(1000000000));
    int fd = r->t->ops->wait_fd(r->t);
    while (s->total < goal) {
        CONF_ASSERT(r, !wr_deadline_passed(deadline), "a wake-up was lost: %llu of %llu messages",
                    (unsigned long long)s->total, (unsigned long long)goal);
        if (r->t->ops->progress(r->t))
            continue;
        if (fd < 0) {
            nanosleep(&(struct timespec){0, 50000}, NULL);
            continue;
        }
        if (r->t->ops->arm(r->t)) {
            struct pollfd p = {fd, POLLIN, 0};
            int n = poll(&p, 1, 20000);
            CONF_ASSERT(r, n != 0 || s->total >= goal,
                        "slept 20 s on the descriptor although a message was due");
            CONF_ASSERT(r, n > 0 || errno == EINTR, "poll failed");
        }
        r->t->ops->disarm(r->t);
    }
}

void conf_blocking(struct conf_rank *r)
{
    struct am_state s;
    weir_error err;
    uint64_t zero = 0;
    int peer = r->rank ^ 1;
    am_open(r, &s, reply_message);
    if (peer < r->size && r->t->ops->reaches(r->t, peer)) {
        for (uint64_t i = 0; i < (uint64_t)r->options->rounds; i++) {
            if (r->rank < peer)
                CONF_START(r, &err, r->t->ops->am(r->t, peer, 0, &zero, sizeof zero, NULL, 0, 0, &err));
            else
                wait_blocking(r, &s, i + 1);
            if (r->rank > peer)
                CONF_START(r, &err, r->t->ops->am(r->t, peer, 0, &zero, sizeof zero, NULL, 0, 0, &err));
            else
                wait_blocking(r, &s, i + 1);
        }
    }
    am_close(r, &s);
}
