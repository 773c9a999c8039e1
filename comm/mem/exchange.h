/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small collective exchanges for set-up (sizes, keys, agreement), over messages in a space of their own. Not for speed: the
 * collectives proper are plans.
 */
#ifndef WR_EXCHANGE_H
#define WR_EXCHANGE_H

#include "comm/comm.h"

/* All-gather of `bytes` a rank, ordered by rank, in ceil(log2 n) steps. With the engine's lock held. */
weir_status wr_exchange_allgather(weir_comm *comm, const void *send, void *recv, size_t bytes, weir_error *err);

/* Waits for a message of such an exchange; when any member is lost, it is taken back by `cancel`. With the engine's lock held. */
weir_status wr_exchange_finish(const weir_comm *comm, weir_request *request, bool (*cancel)(weir_request *request),
                               weir_error *err);

/* Returns when all ranks have come. With the engine's lock held. */
weir_status wr_exchange_barrier(weir_comm *comm, weir_error *err);

/*
 * All ranks learn whether all succeeded: returns the status of the lowest rank that failed, with its sentence and rank in
 * `err` at every rank. `mine` and `err` are this rank's. With the engine's lock held.
 */
weir_status wr_exchange_agree(weir_comm *comm, weir_status mine, weir_error *err);

#endif
