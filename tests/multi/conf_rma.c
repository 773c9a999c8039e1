/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "tests/multi/conf_cases.h"

/* An operation whose completion is counted. */
struct counted {
    struct wr_op op;
    uint64_t *counter;
    struct conf_rank *r;
};

static void count_done(struct wr_op *op, weir_status status)
{
    struct counted *c = WR_CONTAINER_OF(op, struct counted, op);
    CONF_ASSERT(c->r, status == WEIR_OK, "an operation completed with %s", weir_status_name(status));
    ++*c->counter;
}

static struct counted counted_op(struct conf_rank *r, uint64_t *counter)
{
    return (struct counted){{count_done}, counter, r};
}

/* A window that peers reach, and a source buffer, both registered. */
struct windows {
    unsigned char *window, *source;
    uint64_t len;
    struct wr_region *window_region, *source_region;
    struct wr_rkey *rkey[CONF_RANKS];
};

static void windows_open(struct conf_rank *r, struct windows *w, uint64_t len)
{
    memset(w, 0, sizeof *w);
    w->len = len;
    w->window = malloc(len);
    w->source = malloc(len);
    CONF_ASSERT(r, w->window && w->source, "no memory for %llu bytes", (unsigned long long)len);
    memset(w->window, 0, len);
    memset(w->source, 0, len);
    w->window_region = conf_register(r, 0, w->window, len);
    w->source_region = conf_register(r, 1, w->source, len);
    conf_barrier(r);
    for (int peer = 0; peer < r->size; peer++)
        if (r->t->ops->reaches(r->t, peer))
            w->rkey[peer] = conf_import(r, peer, 0);
}

static void windows_close(struct conf_rank *r, struct windows *w)
{
    conf_barrier(r);
    for (int peer = 0; peer < r->size; peer++)
        if (w->rkey[peer])
            r->t->ops->key_close(r->t, w->rkey[peer]);
    conf_barrier(r); /* nobody uses a key of a region that is gone */
    r->t->ops->dereg(r->t, w->source_region);
    r->t->ops->dereg(r->t, w->window_region);
    free(w->source);
    free(w->window);
}

static void flush(struct conf_rank *r, int peer)
{
    weir_error err;
    uint64_t done = 0;
    struct counted c = counted_op(r, &done);
    if (CONF_START(r, &err, r->t->ops->flush(r->t, peer, &c.op, &err)) == WEIR_IN_PROGRESS)
        conf_wait(r, &done, 1, "a flush");
}

/* The ranks pair up so that at step `shift` everybody writes to one and is written by one. */
static int to_peer(const struct conf_rank *r, int shift)
{
    return (r->rank + shift) % r->size;
}

static int from_peer(const struct conf_rank *r, int shift)
{
    return (r->rank - shift + r->size) % r->size;
}

static const uint64_t sizes[] = {0,      1,       2,       3,       7,        8,       9,      31,
                                 64,     65,      127,     200,     511,      1024,    1999,   4096,
                                 4097,   8191,    16384,   16385,   65535,    65536,   100000, 262144,
                                 262145, 1048576, 1048579, 4194304, 16777219, 67108864};

static bool pair_is_reached(const struct conf_rank *r, int shift)
{
    return r->t->ops->reaches(r->t, to_peer(r, shift)) && r->t->ops->reaches(r->t, from_peer(r, shift));
}

void conf_put_sizes(struct conf_rank *r)
{
    struct windows w;
    weir_error err;
    windows_open(r, &w, r->options->max_bytes + 64);
    for (size_t i = 0; i < WR_ARRAY_SIZE(sizes) && sizes[i] <= r->options->max_bytes; i++)
        for (int shift = 0; shift < r->size; shift++) {
            uint64_t len = sizes[i], offset = (i * 7 + (uint64_t)shift) % 33, at = (i * 5) % 17, done = 0;
            uint64_t stream = i * 100 + (uint64_t)shift;
            struct counted c = counted_op(r, &done);
            if (!pair_is_reached(r, shift))
                continue;
            conf_fill(w.source + at, len, stream * 64 + (uint64_t)r->rank);
            w.window[offset + len] = 0x5a; /* must stay */
            conf_barrier(r);
            if (CONF_START(r, &err,
                           r->t->ops->put(r->t, to_peer(r, shift), w.source + at, w.source_region, len,
                                          w.rkey[to_peer(r, shift)], offset, 0, &c.op, &err)) ==
                WEIR_IN_PROGRESS)
                conf_wait(r, &done, 1, "a put");
            memset(w.source + at, 0xee, len); /* complete: ours again */
            flush(r, to_peer(r, shift));
            conf_barrier(r);
            int64_t bad = conf_check(w.window + offset, len, stream * 64 + (uint64_t)from_peer(r, shift));
            CONF_ASSERT(r, bad < 0, "put of %llu bytes from rank %d: byte %lld is wrong",
                        (unsigned long long)len, from_peer(r, shift), (long long)bad);
            CONF_ASSERT(r, w.window[offset + len] == 0x5a, "put of %llu bytes wrote past its end",
                        (unsigned long long)len);
            conf_barrier(r);
        }
    windows_close(r, &w);
}

void conf_get_sizes(struct conf_rank *r)
{
    struct windows w;
    weir_error err;
    if (!r->t->caps.get)
        return;
    windows_open(r, &w, r->options->max_bytes + 64);
    conf_fill(w.window, w.len, (uint64_t)r->rank);
    conf_barrier(r);
    for (size_t i = 0; i < WR_ARRAY_SIZE(sizes) && sizes[i] <= r->options->max_bytes; i++)
        for (int shift = 0; shift < r->size; shift++) {
            /* offsets are multiples of 8, where the pattern can be checked; the local side is odd */
            uint64_t len = sizes[i], offset = (i * 8) % 40, at = (i * 5) % 17, done = 0;
            int peer = to_peer(r, shift);
            struct counted c = counted_op(r, &done);
            if (!r->t->ops->reaches(r->t, peer))
                continue;
            memset(w.source + at, 0xee, len + 1);
            if (CONF_START(r, &err,
                           r->t->ops->get(r->t, peer, w.source + at, w.source_region, len, w.rkey[peer],
                                          offset, &c.op, &err)) == WEIR_IN_PROGRESS)
                conf_wait(r, &done, 1, "a get");
            int64_t bad = conf_check(w.source + at, len, (uint64_t)peer + offset);
            CONF_ASSERT(r, bad < 0, "get of %llu bytes from rank %d: byte %lld is wrong",
                        (unsigned long long)len, peer, (long long)bad);
            CONF_ASSERT(r, w.source[at + len] == 0xee, "get of %llu bytes wrote past its end",
                        (unsigned long long)len);
        }
    windows_close(r, &w);
}

/*
 * Everybody writes to everybody at once; a receiver that sees the signal of a round must find the data of
 * that round. A credit (a bare signal back) keeps the next round from overwriting what is being checked.
 */
void conf_put_signal(struct conf_rank *r)
{
    static const uint64_t lens[] = {8, 1, 64, 1000, 5000, 40000, 262144, 13};
    struct windows w;
    weir_error err;
    uint64_t part = WR_MIN(262144, r->options->max_bytes), done = 0, started = 0;
    struct counted c[CONF_RANKS];
    windows_open(r, &w, part * (uint64_t)r->size);
    memset(r->signals, 0, sizeof r->signals);
    conf_barrier(r);
    for (int round = 0; round < r->options->rounds; round++) {
        uint64_t len = WR_MIN(lens[round % 8], part);
        for (int peer = 0; peer < r->size; peer++) {
            unsigned char *src = w.source + part * (uint64_t)peer;
            if (!w.rkey[peer])
                continue;
            conf_wait(r, &done, started, "the puts of the last round");
            conf_fill(src, len, (uint64_t)(round * 4096 + r->rank * 64 + peer) << 20);
        }
        for (int k = 0; k < r->size; k++) {
            int peer = to_peer(r, k);
            if (!w.rkey[peer])
                continue;
            c[peer] = counted_op(r, &done);
            if (CONF_START(r, &err,
                           r->t->ops->put_signal(r->t, peer, w.source + part * (uint64_t)peer,
                                                 w.source_region, len, w.rkey[peer], part * (uint64_t)r->rank,
                                                 (uint32_t)r->rank, 0, &c[peer].op, &err)) ==
                WEIR_IN_PROGRESS)
                started++;
        }
        for (int peer = 0; peer < r->size; peer++) {
            if (!w.rkey[peer])
                continue;
            conf_wait(r, &r->signals[peer], (uint64_t)round + 1, "a signal");
            int64_t bad = conf_check(w.window + part * (uint64_t)peer, len,
                                     (uint64_t)(round * 4096 + peer * 64 + r->rank) << 20);
            CONF_ASSERT(r, bad < 0, "round %d: the signal of rank %d came before byte %lld of %llu", round,
                        peer, (long long)bad, (unsigned long long)len);
        }
        conf_barrier(r);
    }
    conf_wait(r, &done, started, "the last puts");
    windows_close(r, &w);
}

void conf_bare_signal(struct conf_rank *r)
{
    weir_error err;
    uint64_t done = 0, started = 0, n = (uint64_t)r->options->rounds;
    memset(r->signals, 0, sizeof r->signals);
    conf_barrier(r);
    for (uint64_t i = 0; i < n; i++)
        for (int peer = 0; peer < r->size; peer++) {
            struct counted c = counted_op(r, &done);
            if (!r->t->ops->reaches(r->t, peer))
                continue;
            if (CONF_START(r, &err,
                           r->t->ops->put_signal(r->t, peer, NULL, NULL, 0, NULL, 0, 32 + (uint32_t)r->rank,
                                                 0, &c.op, &err)) == WEIR_IN_PROGRESS)
                conf_wait(r, &done, ++started, "a bare signal's completion");
        }
    for (int peer = 0; peer < r->size; peer++)
        if (r->t->ops->reaches(r->t, peer))
            conf_wait(r, &r->signals[32 + peer], n, "bare signals");
    conf_barrier(r);
    for (int peer = 0; peer < r->size; peer++)
        CONF_ASSERT(r, r->signals[32 + peer] == (r->t->ops->reaches(r->t, peer) ? n : 0),
                    "rank %d's signals were counted %llu times, not %llu", peer,
                    (unsigned long long)r->signals[32 + peer], (unsigned long long)n);
}

/* Thousands of operations outstanding both ways at once, put and get mixed. */
void conf_outstanding(struct conf_rank *r)
{
    enum { N = 3000, LEN = 96 };
    struct windows w;
    weir_error err;
    uint64_t done = 0, started = 0;
    struct counted *c = malloc(N * sizeof *c);
    CONF_ASSERT(r, c, "no memory");
    windows_open(r, &w, (uint64_t)N * LEN * 2);
    conf_fill(w.source, (uint64_t)N * LEN, (uint64_t)r->rank << 32);
    conf_fill(w.window + (uint64_t)N * LEN, (uint64_t)N * LEN, (uint64_t)(r->rank + 100) << 32);
    conf_barrier(r);
    int peer = to_peer(r, r->size > 1);
    int source = from_peer(r, r->size > 1);
    for (uint64_t i = 0; i < N && w.rkey[peer]; i++) {
        weir_status s;
        uint64_t k = i * 7 % N; /* not in order of address */
        c[i] = counted_op(r, &done);
        if (i % 3 == 2 && r->t->caps.get)
            s = CONF_START(r, &err,
                           r->t->ops->get(r->t, peer, w.source + (N + k) * LEN, w.source_region, LEN,
                                          w.rkey[peer], (N + k) * LEN, &c[i].op, &err));
        else
            s = CONF_START(r, &err,
                           r->t->ops->put(r->t, peer, w.source + k * LEN, w.source_region, LEN, w.rkey[peer],
                                          k * LEN, 0, &c[i].op, &err));
        started += s == WEIR_IN_PROGRESS;
    }
    conf_wait(r, &done, started, "thousands of operations");
    flush(r, -1);
    conf_barrier(r);
    for (uint64_t i = 0; i < N && w.rkey[peer]; i++) {
        uint64_t k = i * 7 % N;
        bool got = i % 3 == 2 && r->t->caps.get;
        int64_t bad =
            got ? conf_check(w.source + (N + k) * LEN, LEN, ((uint64_t)(peer + 100) << 32) + k * LEN)
                : conf_check(w.window + k * LEN, LEN, ((uint64_t)source << 32) + k * LEN);
        CONF_ASSERT(r, bad < 0, "%s %llu of %d is wrong at byte %lld", got ? "get" : "put",
                    (unsigned long long)i, N, (long long)bad);
    }
    windows_close(r, &w);
    free(c);
}

struct fence_state {
    struct windows w;
    uint64_t seen[CONF_RANKS];
    uint64_t part;
};

static void fence_message(struct conf_rank *r, int source, const void *data, size_t len)
{
    struct fence_state *s = r->case_state;
    uint64_t round;
    CONF_ASSERT(r, len == sizeof round, "a message of %zu bytes", len);
    memcpy(&round, data, sizeof round);
    CONF_ASSERT(r, round == s->seen[source], "message %llu of rank %d came as number %llu",
                (unsigned long long)round, source, (unsigned long long)s->seen[source]);
    for (int k = 0; k < 4; k++) {
        uint64_t at = s->part * (uint64_t)source + (uint64_t)k * (s->part / 4);
        int64_t bad = conf_check(s->w.window + at, s->part / 4,
                                 (round * 64 + (uint64_t)source) << 24 | (uint64_t)k << 20);
        CONF_ASSERT(r, bad < 0, "a fenced message came before put %d of round %llu (byte %lld)", k,
                    (unsigned long long)round, (long long)bad);
    }
    s->seen[source]++;
}

/* Four puts, then a message that is fenced: its handler must find all four. */
void conf_fence(struct conf_rank *r)
{
    struct fence_state s = {.part = 16384};
    weir_error err;
    uint64_t done = 0, started = 0;
    struct counted c[4];
    windows_open(r, &s.w, s.part * (uint64_t)r->size);
    r->case_state = &s;
    r->handler[1] = fence_message;
    conf_barrier(r);
    int peer = to_peer(r, r->size > 1), source = from_peer(r, r->size > 1);
    for (uint64_t round = 0; round < (uint64_t)r->options->rounds && s.w.rkey[peer]; round++) {
        for (uint64_t k = 0; k < 4; k++) {
            uint64_t quarter = s.part / 4;
            conf_fill(s.w.source + k * quarter, quarter, (round * 64 + (uint64_t)r->rank) << 24 | k << 20);
            c[k] = counted_op(r, &done);
            started +=
                CONF_START(r, &err,
                           r->t->ops->put(r->t, peer, s.w.source + k * quarter, s.w.source_region, quarter,
                                          s.w.rkey[peer], s.part * (uint64_t)r->rank + k * quarter, 0,
                                          &c[k].op, &err)) == WEIR_IN_PROGRESS;
        }
        CONF_START(r, &err, r->t->ops->am(r->t, peer, 1, &round, sizeof round, NULL, 0, WR_OP_FENCE, &err));
        conf_wait(r, &s.seen[source], round + 1, "a fenced message");
        conf_wait(r, &done, started, "puts before a fence");
        conf_barrier(r); /* before the next round overwrites the window */
    }
    windows_close(r, &s.w);
    r->handler[1] = NULL;
}

/* Many regions, made and given back while others live; a key always means the region that it was made for. */
void conf_regions(struct conf_rank *r)
{
    enum { LEN = 5000 };
    weir_error err;
    int peer = to_peer(r, r->size > 1), source = from_peer(r, r->size > 1);
    unsigned char *memory = malloc(CONF_KEYS * LEN);
    CONF_ASSERT(r, memory, "no memory");
    if (!r->t->ops->reaches(r->t, peer) || !r->t->ops->reaches(r->t, source)) {
        free(memory);
        return;
    }
    for (int round = 0; round < r->options->rounds / 4 + 1; round++) {
        struct wr_region *region[CONF_KEYS];
        struct wr_rkey *rkey[CONF_KEYS];
        memset(memory, 0, CONF_KEYS * LEN);
        for (int k = 0; k < CONF_KEYS; k++)
            region[k] = conf_register(r, k, memory + k * LEN, LEN);
        conf_barrier(r);
        for (int k = 0; k < CONF_KEYS; k++)
            rkey[k] = conf_import(r, peer, k);
        for (int k = CONF_KEYS - 1; k >= 0; k--) {
            uint64_t done = 0, value = (uint64_t)(round * 64 + r->rank * 8 + k);
            struct counted c = counted_op(r, &done);
            if (CONF_START(r, &err,
                           r->t->ops->put(r->t, peer, &value, NULL,
                                          r->t->caps.needs_local_region ? WR_MIN(8, r->t->caps.inject) : 8,
                                          rkey[k], LEN - 8, 0, &c.op, &err)) == WEIR_IN_PROGRESS)
                conf_wait(r, &done, 1, "a put to one of several regions");
        }
        flush(r, peer);
        conf_barrier(r);
        for (int k = 0; k < CONF_KEYS; k++) {
            uint64_t value;
            memcpy(&value, memory + k * LEN + LEN - 8, 8);
            if (r->t->caps.needs_local_region && r->t->caps.inject < 8)
                continue;
            CONF_ASSERT(r, value == (uint64_t)(round * 64 + source * 8 + k), "region %d holds %llu", k,
                        (unsigned long long)value);
        }
        for (int k = 0; k < CONF_KEYS; k++)
            r->t->ops->key_close(r->t, rkey[k]);
        conf_barrier(r);
        for (int k = 0; k < CONF_KEYS; k++)
            r->t->ops->dereg(r->t, region[k]);
    }
    free(memory);
}
