/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small collective exchanges for set-up (sizes, keys, agreement), over messages in a space of their own. Not for speed: the
 * collectives proper are plans.
 *
 * An exchange is an object that goes on whenever it is asked; those that wait are made of it. The ranks of a communicator make one
 * exchange at a time, in the same order: what is started belongs to a set-up (steps.h), and those that wait let all set-ups of the
 * communicator come to their end first.
 *
 * All of it runs with the engine's lock held.
 */
#ifndef WR_EXCHANGE_H
#define WR_EXCHANGE_H

#include "comm/comm.h"

struct wr_agreement;

struct wr_exchange_buffer {
    struct wr_list link;
    char blocks[];
};

/* An exchange under way; all zeros: none is. */
struct wr_exchange {
    weir_comm *comm; /* NULL: nothing is under way */
    struct wr_exchange_buffer *buffer;
    char *blocks;    /* in it; `have` of them are known: block j is that of rank (rank + j) */
    char *to;        /* where they go in the end */
    size_t bytes;    /* of a block */
    int have;
    int32_t turn;
    weir_request *in, *out;         /* of this turn; NULL: it has ended */
    struct wr_agreement *agreement; /* NULL: the user's all-gather */
};

/*
 * Begins an all-gather of `bytes` a rank (0: a barrier), ordered by rank, in ceil(log2 n) turns. `send` is copied; `recv` is
 * written when the exchange has ended, and outlives it.
 */
weir_status wr_exchange_begin(struct wr_exchange *x, weir_comm *comm, const void *send, void *recv, size_t bytes, weir_error *err);

/*
 * Begins an agreement: all ranks learn whether all succeeded. It ends with the status of the lowest rank that failed, with its
 * sentence and rank in the error at every rank. `mine` is this rank's, and `err` its sentence.
 */
weir_status wr_exchange_begin_agree(struct wr_exchange *x, weir_comm *comm, weir_status mine, weir_error *err);

/*
 * Goes on: WEIR_IN_PROGRESS, or how it ended, with `err` filled; nothing is under way then. WEIR_OK when nothing was. Any member
 * that is lost ends it.
 */
weir_status wr_exchange_progress(struct wr_exchange *x, weir_error *err);

/* Gives it up. */
void wr_exchange_cancel(struct wr_exchange *x);

/* Frees what was kept of those that were given up while messages were on their way to it; after the transports have closed. */
void wr_exchange_free_strays(struct wr_comms *comms);

/*
 * Whether a message of a set-up has ended: WEIR_IN_PROGRESS, or its status; *request is NULL then, as it may be at once. When any
 * member is lost, it is taken back by `cancel`: the others may have given up.
 */
weir_status wr_exchange_await(const weir_comm *comm, weir_request **request, bool (*cancel)(weir_request *request),
                              weir_error *err);

/* Gives a message of a set-up back, which may be NULL or have ended; false: it cannot be taken back, and needs its buffer. */
bool wr_exchange_take_back(weir_request *request, bool (*cancel)(weir_request *request));

/* Waits until no set-up of the communicator is under way. */
weir_status wr_exchange_settle(weir_comm *comm, weir_error *err);

/* Those that wait: an all-gather, a barrier, an agreement. */
weir_status wr_exchange_allgather(weir_comm *comm, const void *send, void *recv, size_t bytes, weir_error *err);
weir_status wr_exchange_barrier(weir_comm *comm, weir_error *err);
weir_status wr_exchange_agree(weir_comm *comm, weir_status mine, weir_error *err);

#endif
