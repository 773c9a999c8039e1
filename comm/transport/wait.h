/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting politely: poll for a while, then give the core away, then block until a transport has something.
 *
 * A waiter serves the transports of one context. It blocks in one epoll set over their descriptors and one of its own, or,
 * when a transport with block() is waited for alone, in that. Transports without a descriptor are polled with growing
 * sleeps.
 *
 * Threads: all calls but wr_waiter_kick() are made by the owner of the context's lock, which `release` and `acquire` give
 * away while a thread blocks. Several threads can wait then: one blocks in the transports, the others behind it.
 */
#ifndef WR_WAIT_H
#define WR_WAIT_H

#include "comm/transport/transport.h"

struct wr_waiter;

struct wr_waiter_params {
    const struct wr_config *config;
    struct wr_transport *const *transports; /* started; they outlive the waiter, the array need not */
    int ntransports;
    int node_size; /* ranks that share this machine's cores */
    /* Moves everything: NULL calls progress() of each transport. Returns the number of events. */
    int (*progress)(void *arg);
    /* The same for a tight loop: it may leave out, for most of its calls, what takes long to look at. NULL: progress. */
    int (*poll)(void *arg);
    /* Give away and take back the lock; both NULL where only one thread ever comes. */
    void (*release)(void *arg);
    void (*acquire)(void *arg);
    /* Whether a thread wants the lock, for wr_waiter_serve(). May be NULL. */
    bool (*wanted)(void *arg);
    void *arg; /* for those above */
};

weir_status wr_waiter_create(const struct wr_waiter_params *params, struct wr_waiter **waiter, weir_error *err);
/* Adds a descriptor that ends a sleep when it is readable, at the latest after a quarter of a second; who reads it is
 * progress(). */
weir_status wr_waiter_add(struct wr_waiter *w, int fd, weir_error *err);
/* Nobody waits. NULL is allowed. */
void wr_waiter_destroy(struct wr_waiter *w);

/* Moves everything that can move, without waiting; returns the number of events. */
int wr_waiter_progress(struct wr_waiter *w);

/* Makes progress until ended(arg) is true: WEIR_OK, or WEIR_ERR_TIMEOUT at the deadline (the caller knows what it waited
 * for and makes the error). ended() is called under the lock, often, and must be cheap. */
weir_status wr_waiter_wait(struct wr_waiter *w, bool (*ended)(void *arg), void *arg, int64_t deadline);

/*
 * Moves everything until ended(arg), for a thread that waits for nothing itself: it sleeps whenever nothing moves. It then leads
 * the others, who need not wake it for what they move themselves. At most one.
 */
void wr_waiter_serve(struct wr_waiter *w, bool (*ended)(void *arg), void *arg);

/* Makes all waits look at ended() again. From any thread, at any time. */
void wr_waiter_kick(struct wr_waiter *w);

/* For tests and for showing: how often this waiter has blocked, and whether ranks outnumber the cores. */
uint64_t wr_waiter_blocked(const struct wr_waiter *w);
bool wr_waiter_crowded(const struct wr_waiter *w);
/* Whether other ranks seem to want this core now: polling before a wait takes it from them. */
bool wr_waiter_wanted(const struct wr_waiter *w);

#endif
