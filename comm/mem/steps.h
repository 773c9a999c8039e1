/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all ranks of a communicator set up together (memory, plans), as a list of steps. A step does what this rank can do by
 * itself, and begins what must have ended before the next step: an exchange with the other ranks, or a set-up inside this one.
 * Nothing waits: whoever drives a set-up calls it again when something has come, so that any number of them, of different
 * communicators, go on side by side. Those of one communicator go on one after the other, in the same order at all ranks.
 *
 * The object that is made owns the list and all that its steps leave behind; when they fail, or are given up, it takes that apart.
 * All of it runs with the engine's lock held.
 */
#ifndef WR_STEPS_H
#define WR_STEPS_H

#include "comm/mem/exchange.h"

struct wr_steps;

/*
 * A step: WEIR_OK, WEIR_IN_PROGRESS to be called again later, or an error, which ends the set-up here alone: one that the other
 * ranks must learn of is brought into an agreement instead, see wr_steps_agree().
 */
typedef weir_status (*wr_step)(void *arg, struct wr_steps *steps, weir_error *err);

struct wr_steps {
    weir_comm *comm;
    const wr_step *next;         /* ends with NULL */
    void *arg;                   /* of the steps */
    struct wr_exchange exchange; /* that was begun by the latest step */
    struct wr_steps *inner;      /* that was begun by it; ends before the exchange begins to count */
};

/* Before the first step. `list` ends with NULL. */
static inline void wr_steps_init(struct wr_steps *s, weir_comm *comm, const wr_step *list, void *arg)
{
    *s = (struct wr_steps){.comm = comm, .next = list, .arg = arg};
}

/* For a step: the next one follows when all ranks have succeeded so far; else all fail. `mine` and `err` are this rank's. */
static inline weir_status wr_steps_agree(struct wr_steps *s, weir_status mine, weir_error *err)
{
    return wr_exchange_begin_agree(&s->exchange, s->comm, mine, err);
}

/* For a step: the next one follows when `recv` holds what all ranks sent. */
static inline weir_status wr_steps_gather(struct wr_steps *s, const void *send, void *recv, size_t bytes, weir_error *err)
{
    return wr_exchange_begin(&s->exchange, s->comm, send, recv, bytes, err);
}

/* Goes on as far as possible: WEIR_IN_PROGRESS, or how it ended. */
weir_status wr_steps_progress(struct wr_steps *s, weir_error *err);

/* Takes back the messages that are under way. */
void wr_steps_cancel(struct wr_steps *s);

/* Waits, after the other set-ups of the communicator, until it has ended. */
weir_status wr_steps_run(struct wr_steps *s, weir_error *err);

#endif
