/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Levels of the network above the nodes (switches, groups), for the plans of collectives. Rank 0 works them out from the job's
 * topology, when a topology file or the launcher's addresses say something of switches, and all ranks take its word: their own
 * files need not be there, or equal.
 */
#ifndef WR_CONTEXT_LEVELS_H
#define WR_CONTEXT_LEVELS_H

#include "comm/context.h"

/* Rank 0 puts what it knows; other ranks do nothing. To be followed by a fence. What goes wrong is told to all who fetch. */
weir_status wr_ctx_put_levels(weir_ctx *ctx, weir_error *err);

/*
 * Fills in ctx->nlevels and ctx->level_groups, which wr_ctx_free_levels() frees. WEIR_ERR_CONFIG and others, the same at all ranks,
 * when rank 0 could not work them out.
 */
weir_status wr_ctx_fetch_levels(weir_ctx *ctx, weir_error *err);
void wr_ctx_free_levels(weir_ctx *ctx);

#endif
