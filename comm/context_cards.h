/* SPDX-License-Identifier: BSD-3-Clause */
/* How a context publishes where its rank sits, and how it gets the topology. */
#ifndef WR_CONTEXT_CARDS_H
#define WR_CONTEXT_CARDS_H

#include "comm/context.h"

/*
 * Collective: puts this rank's card, finds out who shares a node, and puts the node's card on the lowest rank of each
 * node. Fills in node_of, nnodes and node_leader. A rank fetches cards of its own node only.
 */
weir_status wr_ctx_publish(weir_ctx *ctx, weir_error *err);

/* The job's topology, as weir_ctx_topo() gives it. Thread safe. */
weir_status wr_ctx_topo(weir_ctx *ctx, const weir_topo **topo, weir_error *err);

struct wr_topo_local;

/* What this rank's own node card says of it; after wr_ctx_publish(). */
weir_status wr_ctx_local(weir_ctx *ctx, struct wr_topo_local *local, weir_error *err);

#endif
