/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/context_cards.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/boot/mapping.h"
#include "comm/boot/wire.h"
#include "topo/topo.h"

#define KEY_HOST      "host"
#define KEY_NODES     "nodes"
#define KEY_RANK_CARD "rank-card"
#define KEY_NODE_CARD "node-card"

/* ---- who shares a node ---- */

/* Numbers hosts by their identities, which the ranks have put. */
static weir_status gather_hosts(weir_ctx *ctx, int *host_of, weir_error *err)
{
    struct wr_host_id *ids = malloc((size_t)ctx->size * sizeof *ids);
    weir_status status = ids ? WEIR_OK : wr_error_memory(err, (size_t)ctx->size * sizeof *ids, "the hosts' identities");
    for (int rank = 0; status == WEIR_OK && rank < ctx->size; rank++) {
        void *value = NULL;
        size_t len = 0;
        status = wr_ctx_get(ctx, rank, KEY_HOST, &value, &len, err);
        if (status == WEIR_OK && len != sizeof *ids) {
            status = wr_error_set(err, WEIR_ERR_PROTOCOL, "use the same version of weir everywhere",
                                  "the host identity of rank %d has %zu bytes instead of %zu", rank, len, sizeof *ids);
        } else if (status == WEIR_OK) {
            memcpy(&ids[rank], value, len);
            /* usually the host of the rank before; else search */
            int same = rank - 1;
            while (same >= 0 && memcmp(&ids[same], &ids[rank], sizeof *ids))
                same--;
            host_of[rank] = same < 0 ? rank : host_of[same];
        }
        free(value);
    }
    free(ids);
    return status;
}

/*
 * The launcher did not say who shares a node. Rank 0 reads all identities and tells the result, so that the traffic grows
 * with the ranks and not with their square; where gets are local, every rank looks for itself.
 */
static weir_status exchange_hosts(weir_ctx *ctx, int *host_of, int *leader, weir_error *err)
{
    struct wr_buf frame = {0};
    struct wr_frame parsed;
    void *value = NULL;
    size_t len = 0;
    weir_status status = WEIR_OK;
    bool local = ctx->boot->info.gets_are_local;
    if (local || ctx->rank == 0)
        status = gather_hosts(ctx, host_of, err);
    if (status != WEIR_OK || local)
        return status;
    if (ctx->rank == 0) {
        if (wr_node_map_join(ctx->size, host_of, NULL, host_of, leader) < 0)
            return wr_error_memory(err, (size_t)ctx->size, "the node map");
        wr_wire_write_nodes(&frame, host_of, ctx->size);
        status = frame.failed ? wr_error_memory(err, frame.len, "the node map")
                              : wr_ctx_put(ctx, KEY_NODES, frame.data, frame.len, err);
        wr_buf_free(&frame);
    }
    if (status == WEIR_OK)
        status = wr_ctx_fence(ctx, err);
    if (status != WEIR_OK || ctx->rank == 0)
        return status;
    status = wr_ctx_get(ctx, 0, KEY_NODES, &value, &len, err);
    if (status == WEIR_OK && (wr_wire_frame(value, len, WR_WIRE_PAYLOAD_MAX, &parsed) != 1 ||
                              !wr_wire_read_nodes(&parsed, host_of, ctx->size)))
        status = wr_error_set(err, WEIR_ERR_PROTOCOL, "use the same version of weir everywhere",
                              "rank 0 put a malformed node map");
    free(value);
    return status;
}

/* Fills in the context's node map; the identities have been put and fenced when the launcher gave no map. */
static weir_status map_nodes(weir_ctx *ctx, weir_error *err)
{
    size_t bytes = (size_t)ctx->size * sizeof(int);
    int *hosts = malloc(bytes), *virtual_nodes = malloc(bytes);
    const int *launcher = ctx->boot->info.node_of;
    weir_status status = WEIR_OK;
    ctx->node_of = malloc(bytes);
    ctx->node_leader = malloc(bytes);
    if (!hosts || !virtual_nodes || !ctx->node_of || !ctx->node_leader) {
        status = wr_error_memory(err, 4 * bytes, "the node map");
        goto free_maps;
    }
    if (!launcher) {
        status = exchange_hosts(ctx, hosts, ctx->node_leader, err);
        launcher = hosts;
    }
    if (status == WEIR_OK && ctx->config.nodes)
        status = wr_placement_nodes(ctx->config.nodes, ctx->config.placement ? ctx->config.placement : "block", ctx->size,
                                    virtual_nodes, err);
    if (status != WEIR_OK)
        goto free_maps;
    ctx->nnodes = wr_node_map_join(ctx->size, launcher, ctx->config.nodes ? virtual_nodes : NULL, ctx->node_of,
                                   ctx->node_leader);
    if (ctx->nnodes < 0)
        status = wr_error_memory(err, bytes, "the node map");
free_maps:
    free(hosts);
    free(virtual_nodes);
    return status;
}

/* ---- cards ---- */

static void free_cards(struct wr_card *cards, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free((void *)cards[i].data);
    free(cards);
}

/* Fetches the card of each of `n` ranks. */
static weir_status fetch_cards(weir_ctx *ctx, const char *key, const int *ranks, size_t n, struct wr_card **out,
                               weir_error *err)
{
    struct wr_card *cards = calloc(n, sizeof *cards);
    weir_status status = cards ? WEIR_OK : wr_error_memory(err, n * sizeof *cards, "cards");
    for (size_t i = 0; status == WEIR_OK && i < n; i++) {
        void *value = NULL;
        status = wr_ctx_get(ctx, ranks[i], key, &value, &cards[i].len, err);
        cards[i].rank = ranks[i];
        cards[i].data = value;
    }
    if (status != WEIR_OK) {
        if (cards)
            free_cards(cards, n);
        return status;
    }
    *out = cards;
    return WEIR_OK;
}

/* The lowest rank of a node makes the node's card from the cards of its ranks. */
static weir_status put_node_card(weir_ctx *ctx, weir_error *err)
{
    int *ranks = malloc((size_t)ctx->size * sizeof *ranks), node = ctx->node_of[ctx->rank];
    struct wr_card *cards = NULL;
    struct wr_buf card = {0};
    size_t n = 0;
    if (!ranks)
        return wr_error_memory(err, (size_t)ctx->size * sizeof *ranks, "the node's ranks");
    for (int rank = ctx->rank; rank < ctx->size; rank++)
        if (ctx->node_of[rank] == node)
            ranks[n++] = rank;
    weir_status status = fetch_cards(ctx, KEY_RANK_CARD, ranks, n, &cards, err);
    free(ranks);
    if (status != WEIR_OK)
        return status;
    status = wr_topo_node_card(&ctx->config, &ctx->env, &ctx->log, cards, n, &card, err);
    if (status == WEIR_OK && card.failed)
        status = wr_error_memory(err, card.len, "the node card");
    if (status == WEIR_OK)
        status = wr_ctx_put(ctx, KEY_NODE_CARD, card.data, card.len, err);
    wr_buf_free(&card);
    free_cards(cards, n);
    return status;
}

weir_status wr_ctx_publish(weir_ctx *ctx, weir_error *err)
{
    struct wr_buf card = {0};
    weir_status status = wr_topo_rank_card(&ctx->config, &ctx->env, ctx->rank, &card, err);
    if (status == WEIR_OK && card.failed)
        status = wr_error_memory(err, card.len, "the rank card");
    if (status == WEIR_OK)
        status = wr_ctx_put_on_node(ctx, KEY_RANK_CARD, card.data, card.len, err);
    wr_buf_free(&card);
    if (status == WEIR_OK && !ctx->boot->info.node_of) {
        struct wr_host_id identity;
        wr_host_id_self(&identity);
        status = wr_ctx_put(ctx, KEY_HOST, &identity, sizeof identity, err);
    }
    if (status == WEIR_OK)
        status = wr_ctx_fence(ctx, err);
    if (status == WEIR_OK)
        status = map_nodes(ctx, err);
    if (status == WEIR_OK && ctx->node_leader[ctx->node_of[ctx->rank]] == ctx->rank)
        status = put_node_card(ctx, err);
    if (status == WEIR_OK)
        status = wr_ctx_fence(ctx, err);
    return status;
}

weir_status wr_ctx_local(weir_ctx *ctx, struct wr_topo_local *local, weir_error *err)
{
    struct wr_card *cards = NULL;
    weir_status status = fetch_cards(ctx, KEY_NODE_CARD, &ctx->node_leader[ctx->node_of[ctx->rank]], 1, &cards, err);
    if (status != WEIR_OK)
        return status;
    status = wr_topo_local(cards, ctx->rank, ctx->size, local, err);
    free_cards(cards, 1);
    return status;
}

static weir_status build_topo(weir_ctx *ctx, weir_error *err)
{
    struct wr_card *cards = NULL;
    size_t n = (size_t)ctx->nnodes;
    weir_status status = fetch_cards(ctx, KEY_NODE_CARD, ctx->node_leader, n, &cards, err);
    if (status != WEIR_OK)
        return status;
    status = wr_topo_build(&ctx->config, &ctx->log, ctx->rank, ctx->size, cards, n, &ctx->topo, err);
    free_cards(cards, n);
    return status;
}

weir_status wr_ctx_topo(weir_ctx *ctx, const weir_topo **topo, weir_error *err)
{
    pthread_mutex_lock(&ctx->topo_lock);
    weir_status status = ctx->topo ? WEIR_OK : build_topo(ctx, err);
    if (status == WEIR_OK)
        *topo = ctx->topo;
    pthread_mutex_unlock(&ctx->topo_lock);
    return status;
}

weir_status weir_ctx_topo(weir_ctx *ctx, const weir_topo **topo)
{
    weir_error err;
    wr_error_clear(&err);
    weir_status status = wr_ctx_topo(ctx, topo, &err);
    return status == WEIR_OK ? WEIR_OK : wr_ctx_fail(ctx, &err, "weir_ctx_topo");
}
