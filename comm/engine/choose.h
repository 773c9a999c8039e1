/* SPDX-License-Identifier: BSD-3-Clause */
/* What all ranks must have alike: decided by rank 0, sent to the others. */
#ifndef WR_ENGINE_CHOOSE_H
#define WR_ENGINE_CHOOSE_H

#include "comm/context.h"

struct wr_transport_choice {
    bool shm;        /* use shm where several ranks share a node */
    char network[8]; /* the transport between nodes, "" when none is needed */
    uint64_t unexpected_limit; /* rank 0's WEIR_UNEXPECTED_LIMIT: senders and receivers count by it */
};

/* Collective. WEIR_ERR_TRANSPORT on all ranks when what was asked for cannot serve this job. */
weir_status wr_transport_choose(weir_ctx *ctx, struct wr_transport_choice *choice, weir_error *err);

#endif
