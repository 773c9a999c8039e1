/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The contrary layer makes any transport as awkward as the rules of transport.h allow, and as the worst hardware is:
 *  - plain puts, and puts with a signal, are held back for up to two milliseconds and then started in any order; a long
 *    put goes in pieces, in any order; whoever forgets a fence or a flush sees old data. A put that was copied is
 *    complete at once, or later, while its data is still here;
 *  - signals come out of order; bare ones overtake data;
 *  - memory modes LOCAL, ALLOCATED, PROV_KEY and ENDPOINT: local memory has to be registered, a key is random and
 *    checked, and a region cannot be reached before its key was made;
 *  - immediates of 4 bytes: a slot has to fit;
 *  - tiny queues: a few operations in flight, a few signals between two calls of progress(), and BUSY now and then.
 */
#ifndef WR_CONTRARY_H
#define WR_CONTRARY_H

#include "base/list.h"
#include "base/pool.h"
#include "comm/transport/layer.h"

enum {
    CONTRARY_JOBS = 16,     /* puts that are held or in flight */
    CONTRARY_COPY = 16384,  /* a put up to this size can be copied */
    CONTRARY_INJECT = 64,   /* a put up to this size always is */
    CONTRARY_PIECE = 8192,  /* smallest piece of a long put */
    CONTRARY_PIECES = 16,   /* most pieces of one */
    CONTRARY_SIGNALS = 4,   /* signals between two calls of progress() */
    CONTRARY_MAX_AM = 1024, /* largest message ... */
    CONTRARY_MAX_LONG = 3000, /* ... and long one */
    CONTRARY_HOLD_NS = 2000000
};

struct contrary {
    struct wr_transport base;
    uint64_t random;
    struct wr_pool jobs;
    char *copies;                    /* CONTRARY_JOBS times CONTRARY_COPY bytes */
    struct wr_region *copies_region; /* of the transport below, when it wants one */
    bool copy_used[CONTRARY_JOBS];
    struct wr_list held;    /* jobs with pieces that have not been started */
    struct wr_list flying;  /* jobs that were all started */
    unsigned signals;       /* since the last progress() */
    unsigned user_waits;    /* jobs whose user waits although the data was copied */
};

struct piece {
    struct wr_op op;
    struct job *job;
};

/* One put. */
struct job {
    struct wr_list link;
    struct contrary *c;
    struct wr_op *user; /* NULL once it was told */
    int copy;           /* index of the copy, -1: the user's memory is used */
    int peer;
    const char *src;
    struct wr_region *region; /* of the transport below */
    uint64_t len, offset;
    struct wr_rkey *rkey;
    bool signal, fence;
    uint32_t slot;
    int64_t release;
    unsigned npieces, started, pending;
    unsigned char order[CONTRARY_PIECES];
    struct piece piece[CONTRARY_PIECES];
    weir_status status;
};

struct wr_region {
    struct wr_region *lower;
    char *addr;
    uint64_t len;
};

static inline struct contrary *contrary_of(struct wr_transport *t)
{
    return (struct contrary *)t;
}

/* One chance in n. */
static inline bool contrary_chance(struct contrary *c, unsigned n)
{
    return wr_layer_random(&c->random) % n == 0;
}

/* contrary_jobs.c: puts that are held back. */
weir_status wr_contrary_hold(struct contrary *c, const struct job *model, weir_error *err);
/* Starts everything that is held for a peer (-1: all); false when the transport below is busy. */
bool wr_contrary_release(struct contrary *c, int peer);
/* Starts what has been held long enough, and tells users of copies. */
int wr_contrary_turn(struct contrary *c);

#endif
