/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/context_levels.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/context_cards.h"
#include "topo/topo.h"
#include "topo/wire.h"

#define KEY_LEVELS "levels"

enum { LEVELS_MAX = 64 };

/* ---- rank 0 ---- */

static bool says_something(const weir_ctx *ctx)
{
    return ctx->nnodes > 1 && (ctx->config.topology_file || wr_env_get(&ctx->env, "SLURM_TOPOLOGY_ADDR"));
}

/* Whether a level lies above the nodes and below the world. */
static bool is_above(const weir_topo *topo, int index)
{
    weir_level level = {.size = sizeof level};
    return !weir_topo_level(topo, index, &level) && (level.kind == WEIR_LEVEL_SWITCH || level.kind == WEIR_LEVEL_GROUP);
}

/* The number of levels, innermost first, and for each the group of each node. */
static void encode(const weir_ctx *ctx, const weir_topo *topo, struct wr_buf *buf)
{
    int levels = 0;
    for (int i = 0; i < weir_topo_nlevels(topo); i++)
        levels += is_above(topo, i);
    levels = WR_MIN(levels, LEVELS_MAX);
    wr_put_u(buf, (uint64_t)levels);
    for (int i = 0; levels > 0; i++) {
        if (!is_above(topo, i))
            continue;
        for (int node = 0; node < ctx->nnodes; node++)
            wr_put_u(buf, (uint64_t)weir_topo_group(topo, i, ctx->node_leader[node]));
        levels--;
    }
}

weir_status wr_ctx_put_levels(weir_ctx *ctx, weir_error *err)
{
    const weir_topo *topo = NULL;
    struct wr_buf buf = {0};
    weir_error why;
    if (ctx->rank != 0 || ctx->nnodes < 2)
        return WEIR_OK;
    weir_status status = says_something(ctx) ? wr_ctx_topo(ctx, &topo, &why) : WEIR_OK;
    wr_put_u(&buf, (uint32_t)status);
    if (status) {
        wr_put_text(&buf, why.message);
        wr_put_text(&buf, why.advice);
    } else if (topo) {
        encode(ctx, topo, &buf);
    } else {
        wr_put_u(&buf, 0);
    }
    status = buf.failed ? wr_error_memory(err, buf.len, "the levels of the network")
                        : wr_ctx_put(ctx, KEY_LEVELS, buf.data, buf.len, err);
    wr_buf_free(&buf);
    return status;
}

/* ---- all ranks ---- */

static weir_status decode(weir_ctx *ctx, const void *value, size_t len, weir_error *err)
{
    struct wr_reader reader = wr_reader(value, len);
    size_t nodes = (size_t)ctx->nnodes;
    weir_status status = (weir_status)(int32_t)wr_get_u(&reader, UINT32_MAX);
    if (status && !reader.bad) {
        char message[sizeof err->message], advice[sizeof err->advice];
        wr_get_text(&reader, message, sizeof message);
        wr_get_text(&reader, advice, sizeof advice);
        return wr_error_set(err, status, advice[0] ? advice : NULL, "rank 0: %s", message);
    }
    size_t levels = (size_t)wr_get_u(&reader, LEVELS_MAX);
    int *group = levels ? malloc(levels * nodes * sizeof *group) : NULL;
    if (levels && !group)
        return wr_error_memory(err, levels * nodes * sizeof *group, "the levels of the network");
    for (size_t i = 0; i < levels * nodes; i++)
        group[i] = (int)wr_get_u(&reader, nodes - 1);
    if (reader.bad || wr_get_left(&reader)) {
        free(group);
        return wr_error_set(err, WEIR_ERR_PROTOCOL, "use the same version of weir everywhere",
                            "rank 0 put levels of the network that are not understood");
    }
    ctx->nlevels = (int)levels;
    ctx->level_groups = group;
    return WEIR_OK;
}

weir_status wr_ctx_fetch_levels(weir_ctx *ctx, weir_error *err)
{
    void *value = NULL;
    size_t len = 0;
    if (ctx->nnodes < 2)
        return WEIR_OK;
    weir_status status = wr_ctx_get(ctx, 0, KEY_LEVELS, &value, &len, err);
    if (!status)
        status = decode(ctx, value, len, err);
    free(value);
    return status;
}

void wr_ctx_free_levels(weir_ctx *ctx)
{
    free(ctx->level_groups);
    ctx->level_groups = NULL;
    ctx->nlevels = 0;
}
