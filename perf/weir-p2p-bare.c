/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the node itself allows, in the memory that weir has mapped: a flag in a cache line is handed to the other core, after
 * the bytes where there are more than the flag holds; and memcpy between the two parts.
 */
#include <sched.h>
#include <string.h>

#include "perf/weir-p2p.h"

enum { FLAG_APART = 256, SPINS = 20000 };

/* The flag that `rank` waits for, as this process sees it. */
static uint64_t *flag_of(struct bench *b, int rank)
{
    char *part = weir_mem_peer_ptr(b->mem, rank);
    return (uint64_t *)(void *)(part + FLAG_APART);
}

bool has_bare(struct bench *b)
{
    return weir_mem_peer_ptr(b->mem, b->peer) && weir_mem_peer_ptr(b->mem, b->rank);
}

static void await(const uint64_t *flag, uint64_t value)
{
    for (unsigned i = 1; __atomic_load_n(flag, __ATOMIC_ACQUIRE) != value; i++)
        if (i % SPINS == 0)
            sched_yield(); /* the other one may have no core */
}

/* One hand-over to the peer. */
static void hand_over(struct bench *b, const struct command *c, uint64_t *flag, uint64_t stamp)
{
    char *own = weir_mem_peer_ptr(b->mem, b->rank), *theirs = weir_mem_peer_ptr(b->mem, b->peer);
    if (c->bytes > sizeof stamp) {
        uint64_t at = slot_at(b, c->bytes, b->turn++);
        memcpy(own + FLAGS + at, &stamp, sizeof stamp);
        memcpy(theirs + FLAGS + b->area + at, own + FLAGS + at, c->bytes);
    }
    __atomic_store_n(flag, stamp, __ATOMIC_RELEASE);
}

void bare_latency(struct bench *b, const struct command *c, double *results)
{
    uint64_t *mine = flag_of(b, b->rank), *theirs = flag_of(b, b->peer);
    char *own = weir_mem_peer_ptr(b->mem, b->rank), *other = weir_mem_peer_ptr(b->mem, b->peer);
    for (int i = 0; i < c->iterations; i++) {
        uint64_t stamp = c->stamp + (uint64_t)i, seen = stamp;
        if (c->method == GET) { /* the peer is passive */
            double start = now_us();
            for (int k = 0; k < GETS; k++) {
                uint64_t at = slot_at(b, c->bytes, b->turn++);
                memcpy(own + FLAGS + b->area + at, other + FLAGS + at, c->bytes);
                __atomic_signal_fence(__ATOMIC_SEQ_CST);
            }
            results[i] = (now_us() - start - b->clock_us) / GETS;
            continue;
        }
        double start = results ? now_us() : 0;
        if (b->rank == 0)
            hand_over(b, c, theirs, stamp);
        unsigned turn = b->turn;
        await(mine, stamp);
        if (c->bytes > sizeof stamp)
            memcpy(&seen, own + FLAGS + b->area + slot_at(b, c->bytes, b->rank ? turn : turn - 1), sizeof seen);
        if (b->rank)
            hand_over(b, c, theirs, stamp);
        if (results)
            results[i] = (now_us() - start - b->clock_us) / 2;
        b->failed |= seen != stamp;
    }
}

double bare_bandwidth(struct bench *b, const struct command *c)
{
    char *own = weir_mem_peer_ptr(b->mem, b->rank), *theirs = weir_mem_peer_ptr(b->mem, b->peer);
    double start = now_us();
    for (int i = 0; i < c->iterations * c->window; i++) {
        uint64_t at = slot_at(b, c->bytes, b->turn++);
        if (c->method == GET)
            memcpy(own + FLAGS + b->area + at, theirs + FLAGS + at, c->bytes);
        else
            memcpy(theirs + FLAGS + b->area + at, own + FLAGS + at, c->bytes);
    }
    unsigned fence = 0; /* an operation rather than a bare fence, which ThreadSanitizer does not know */
    __atomic_exchange_n(&fence, 1, __ATOMIC_SEQ_CST);
    return (double)c->bytes * c->iterations * c->window / (now_us() - start) * 1e-3;
}
