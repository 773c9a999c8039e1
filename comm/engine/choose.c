/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/engine/choose.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "comm/engine/measured.h"
#include "comm/transport/transport.h"

#define KEY_CHOICE "engine.choice"

/* Networks in order of preference, where none is faster. */
static const char *const names[] = {"ofi", "ucx"};

/* The networks that are built in, the fastest on this host first. */
static size_t list_networks(weir_ctx *ctx, struct wr_measured networks[WR_ARRAY_SIZE(names)])
{
    size_t n = 0;
    for (size_t i = 0; i < WR_ARRAY_SIZE(names); i++) {
        networks[n] = (struct wr_measured){.small_ns = 0};
        wr_str_copy(networks[n].name, sizeof networks[n].name, names[i]);
        n += wr_transport_find(names[i]) != NULL;
    }
    if (n > 1) {
        wr_measured_get(ctx, networks, n);
        wr_measured_order(networks, n);
    }
    return n;
}

/* Whether a transport opens on this rank; the reason goes to `why` when it does not. */
static bool opens(weir_ctx *ctx, const char *name, weir_error *why)
{
    const struct wr_transport_ops *ops = wr_transport_find(name);
    struct wr_transport *t;
    int self = ctx->rank;
    struct wr_transport_params params = {.config = &ctx->config, .env = &ctx->env, .log = &ctx->log, .rank = ctx->rank, .size = ctx->size,
                                         .node_size = 1, .node_ranks = &self, .numa = -1, .timeout_ns = ctx->config.boot_timeout};
    if (!ops) {
        wr_error_set(why, WEIR_ERR_UNSUPPORTED, NULL, "%s is not built in", name);
        return false;
    }
    if (ops->open(&params, &t, why))
        return false;
    t->ops->close(t);
    return true;
}

/* Rank 0's decision; an empty network with several nodes means that there is none, and `err` says why. */
static weir_status decide(weir_ctx *ctx, struct wr_transport_choice *choice, weir_error *err)
{
    char asked[8], network[8];
    bool several_nodes = ctx->nnodes > 1;
    wr_config_word("TRANSPORT", ctx->config.transport, asked, sizeof asked);
    wr_config_word("NETWORK", ctx->config.network, network, sizeof network);
    memset(choice, 0, sizeof *choice);
    if (!strcmp(asked, "shm") && several_nodes)
        return wr_error_set(err, WEIR_ERR_TRANSPORT, "set WEIR_TRANSPORT=auto, or start all ranks on one node",
                            "WEIR_TRANSPORT=shm serves one node only, and the ranks are on %d", ctx->nnodes);
    choice->shm = !strcmp(asked, "auto") || !strcmp(asked, "shm");
    if (!choice->shm) {
        memcpy(choice->network, asked, sizeof asked);
        return WEIR_OK;
    }
    if (!several_nodes)
        return WEIR_OK;
    if (strcmp(network, "auto") != 0) {
        memcpy(choice->network, network, sizeof network);
        return WEIR_OK;
    }
    struct wr_buf tried = {0};
    struct wr_measured networks[WR_ARRAY_SIZE(names)];
    size_t n = list_networks(ctx, networks);
    for (size_t i = 0; i < n && !choice->network[0]; i++) {
        weir_error why;
        if (opens(ctx, networks[i].name, &why))
            wr_str_copy(choice->network, sizeof choice->network, networks[i].name);
        else
            wr_buf_printf(&tried, "%s%s", tried.len ? "; " : "", why.message);
    }
    weir_status status = WEIR_OK;
    if (!choice->network[0])
        status = wr_error_set(err, WEIR_ERR_TRANSPORT, "weir-doctor shows which providers and transports open",
                              "no network opens between %d nodes: %s", ctx->nnodes, tried.data ? tried.data : "none is built in");
    wr_buf_free(&tried);
    return status;
}

weir_status wr_transport_choose(weir_ctx *ctx, struct wr_transport_choice *choice, weir_error *err)
{
    struct {
        int32_t failed;
        struct wr_transport_choice choice;
        char reason[400];
    } wire;
    memset(&wire, 0, sizeof wire);
    if (ctx->rank == 0) {
        weir_error why;
        wire.failed = decide(ctx, &wire.choice, &why);
        if (wire.failed)
            wr_str_copy(wire.reason, sizeof wire.reason, why.message);
        wire.choice.unexpected_limit = ctx->config.unexpected_limit;
        weir_status status = wr_ctx_put(ctx, KEY_CHOICE, &wire, sizeof wire, err);
        if (status)
            return status;
    }
    weir_status status = wr_ctx_fence(ctx, err);
    if (status)
        return status;
    if (ctx->rank != 0) {
        void *value;
        size_t len;
        status = wr_ctx_get(ctx, 0, KEY_CHOICE, &value, &len, err);
        if (status)
            return status;
        bool fits = len == sizeof wire;
        if (fits)
            memcpy(&wire, value, sizeof wire);
        free(value);
        if (!fits)
            return wr_error_set(err, WEIR_ERR_PROTOCOL, "use one version of weir on all ranks", "rank 0's choice of transports is not understood");
    }
    wire.reason[sizeof wire.reason - 1] = '\0';
    if (wire.failed)
        return wr_error_set(err, WEIR_ERR_TRANSPORT, "weir-doctor shows which providers and transports open", "%s", wire.reason);
    *choice = wire.choice;
    return WEIR_OK;
}
