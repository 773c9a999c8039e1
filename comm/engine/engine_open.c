/* SPDX-License-Identifier: BSD-3-Clause */
/* Choosing and opening the transports of a context, publishing and fetching addresses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/clock.h"
#include "base/str.h"
#include "comm/context_cards.h"
#include "comm/engine/choose.h"
#include "comm/engine/engine_impl.h"
#include "comm/transport/layer.h"
#include "topo/topo.h"

#define KEY_ADDRESS "engine.address"

#define WATCH       "watch"
#define HOST        "host"

/* How a published value begins: what follows are entries of a transport's name (8 bytes), a length (4) and the address; or,
 * when the rank could not open a transport, the reason. */
enum { CARD_ADDRESSES = 'A', CARD_FAILED = 'F', ENTRY_NAME = 8, ENTRY_HEAD = ENTRY_NAME + 4 };

/* ---- addresses ---- */

static weir_status fetch_card(struct wr_engine *e, int peer, weir_error *err)
{
    void *value;
    size_t len;
    weir_status status = wr_ctx_get(e->ctx, peer, KEY_ADDRESS, &value, &len, err);
    if (status)
        return status;
    const char *text = value;
    if (len < 1 || (text[0] != CARD_ADDRESSES && text[0] != CARD_FAILED)) {
        status = wr_error_set(err, WEIR_ERR_PROTOCOL, "use one version of weir on all ranks", "the address of rank %d is not understood", peer);
    } else if (text[0] == CARD_FAILED) {
        status = wr_error_set(err, WEIR_ERR_TRANSPORT, "look at that rank's error", "rank %d could not open its transport: %.*s", peer,
                              (int)WR_MIN(len - 1, (size_t)300), text + 1);
    } else {
        struct wr_engine_address *a = malloc(sizeof *a + len);
        if (!a) {
            status = wr_error_memory(err, len, "an address");
        } else {
            a->len = len;
            memcpy(a->bytes, value, len);
            e->address[peer] = a;
        }
    }
    free(value);
    return status;
}

static bool find_in_card(const struct wr_engine_address *card, const char *name, const void **address, size_t *len)
{
    const unsigned char *p = card->bytes + 1, *end = card->bytes + card->len;
    while (end - p >= ENTRY_HEAD) {
        uint32_t n;
        memcpy(&n, p + ENTRY_NAME, sizeof n);
        if (n > (size_t)(end - p - ENTRY_HEAD))
            break;
        if (!strncmp((const char *)p, name, ENTRY_NAME)) {
            *address = p + ENTRY_HEAD;
            *len = n;
            return true;
        }
        p += ENTRY_HEAD + n;
    }
    return false;
}

/* What a rank published under a name. */
static weir_status find_entry(struct wr_engine *e, int peer, const char *name, const void **address, size_t *len, weir_error *err)
{
    weir_status status = e->address[peer] ? WEIR_OK : fetch_card(e, peer, err);
    if (status || find_in_card(e->address[peer], name, address, len))
        return status;
    return wr_error_set(err, WEIR_ERR_TRANSPORT, "give all ranks the same WEIR_ settings and build of weir",
                        "rank %d has not opened the transport %s", peer, name);
}

const char *wr_engine_host(const struct wr_engine *e, int peer, char *buf, size_t size)
{
    weir_rank_info info = {.size = sizeof info};
    const void *name;
    size_t len;
    if (e->ctx->node_of[peer] == e->ctx->node_of[e->rank])
        wr_str_copy(buf, size, e->ctx->host);
    else if (e->address[peer] && find_in_card(e->address[peer], HOST, &name, &len)) /* fetching it now could wait */
        snprintf(buf, size, "%.*s", (int)len, (const char *)name);
    else if (e->ctx->topo && !weir_topo_rank_info(e->ctx->topo, peer, &info))
        wr_str_copy(buf, size, info.host);
    else
        return NULL;
    return buf;
}

static weir_status peer_address(void *arg, int peer, const void **address, size_t *len, weir_error *err)
{
    const struct wr_engine_link *link = arg;
    return find_entry(link->engine, peer, link->name, address, len, err);
}

static void add_entry(struct wr_buf *card, const char *name, const void *address, size_t len)
{
    char field[ENTRY_NAME] = {0};
    uint32_t n = (uint32_t)len;
    memcpy(field, name, WR_MIN(strlen(name), sizeof field));
    wr_buf_add(card, field, sizeof field);
    wr_buf_add(card, &n, sizeof n);
    wr_buf_add(card, address, len);
}

static weir_status publish(struct wr_engine *e, const weir_error *failure, weir_error *err)
{
    struct wr_buf card = {0};
    weir_status status = WEIR_OK;
    if (failure) {
        wr_buf_printf(&card, "%c%s", CARD_FAILED, failure->message);
    } else {
        wr_buf_printf(&card, "%c", CARD_ADDRESSES);
        for (int i = 0; i < e->ntransports && !status; i++) {
            unsigned char address[WR_ADDRESS_MAX];
            size_t len = sizeof address;
            struct wr_transport *t = e->transport[i];
            status = t->ops->address(t, address, &len, err);
            add_entry(&card, wr_layer_bottom(t)->ops->name, address, len);
        }
        if (e->watch) {
            unsigned char address[256];
            size_t len = sizeof address;
            wr_watch_address(e->watch, address, &len);
            add_entry(&card, WATCH, address, len);
        }
        add_entry(&card, HOST, e->ctx->host, strlen(e->ctx->host));
    }
    if (!status && card.failed)
        status = wr_error_memory(err, card.cap * 2, "this rank's address");
    if (!status)
        status = wr_ctx_put(e->ctx, KEY_ADDRESS, card.data, card.len, err);
    wr_buf_free(&card);
    return status;
}

/* ---- opening ---- */

static void on_peer_lost(void *arg, int peer, const char *reason)
{
    struct wr_engine_link *link = arg;
    wr_engine_peer_lost(link->engine, peer, reason);
}

#define HANDLER(id)                                                                                          \
    static void on_message_##id(void *arg, int source, const void *data, size_t len)                         \
    {                                                                                                        \
        struct wr_engine *e = arg;                                                                           \
        if (e->handler[id])                                                                                  \
            e->handler[id](e->handler_arg[id], source, data, len);                                           \
    }
HANDLER(0)
HANDLER(1)
HANDLER(2)
HANDLER(3)
HANDLER(4)
HANDLER(5)
HANDLER(6)
HANDLER(7)
HANDLER(8)
HANDLER(9)
HANDLER(10)
HANDLER(11)
HANDLER(12)
HANDLER(13)

static weir_status open_one(struct wr_engine *e, const char *name, weir_error *err)
{
    const struct wr_transport_ops *ops = wr_transport_find(name);
    struct wr_engine_link *link = &e->link[e->ntransports];
    if (!ops)
        return wr_error_set(err, WEIR_ERR_UNSUPPORTED, "weir-info --transports lists what there is",
                            "the transport %s is not built in", name);
    *link = (struct wr_engine_link){e, ops->name};
    struct wr_transport_params params = {
        .config = &e->ctx->config,
        .env = &e->ctx->env,
        .log = &e->ctx->log,
        .rank = e->rank,
        .size = e->size,
        .node_rank = e->node_rank,
        .node_size = e->node_size,
        .node_ranks = e->node_ranks,
        .numa = e->numa,
        .nic = e->nic[0] ? e->nic : NULL,
        .peer_address = peer_address,
        .on_peer_lost = on_peer_lost,
        .arg = link,
        .am = {on_message_0, on_message_1, on_message_2, on_message_3, on_message_4, on_message_5, on_message_6, on_message_7, on_message_8, on_message_9,
               on_message_10, on_message_11, on_message_12, on_message_13},
        .am_arg = e,
        .signals = e->signals,
        .nsignals = e->nsignals,
        .timeout_ns = e->ctx->config.boot_timeout,
    };
    weir_status status = ops->open(&params, &e->transport[e->ntransports], err);
    if (!status)
        status = wr_layers_wrap(&e->transport[e->ntransports], err);
    if (!status)
        e->ntransports++;
    return status;
}

/* Which transport each rank is reached by: the first that is open and reaches it. */
static void make_routes(struct wr_engine *e)
{
    for (int peer = 0; peer < e->size; peer++) {
        e->route[peer] = WR_NO_ROUTE;
        for (int i = 0; i < e->ntransports && e->route[peer] == WR_NO_ROUTE; i++)
            if (e->transport[i]->ops->reaches(e->transport[i], peer))
                e->route[peer] = (uint8_t)i;
    }
}

static weir_status find_node(struct wr_engine *e, weir_error *err)
{
    const int *node_of = e->ctx->node_of;
    for (int r = 0; r < e->size; r++)
        e->node_size += node_of[r] == node_of[e->rank];
    e->node_ranks = malloc((size_t)e->node_size * sizeof *e->node_ranks);
    if (!e->node_ranks)
        return wr_error_memory(err, (size_t)e->node_size * sizeof *e->node_ranks, "the ranks of this node");
    for (int r = 0, n = 0; r < e->size; r++) {
        if (node_of[r] != node_of[e->rank])
            continue;
        if (r == e->rank)
            e->node_rank = n;
        e->node_ranks[n++] = r;
    }
    return WEIR_OK;
}

/* Where this rank is, and which interface it should use: the user's first, or the topology's choice. */
static void find_place(struct wr_engine *e)
{
    const char *asked = e->ctx->config.nic;
    struct wr_topo_local local;
    weir_error err;
    e->numa = wr_host_numa(NULL);
    if (asked) {
        snprintf(e->nic, sizeof e->nic, "%.*s", (int)strcspn(asked, ","), asked);
    } else if (wr_ctx_local(e->ctx, &local, &err)) { /* only a wish: the transports choose as well */
        wr_info(&e->ctx->log, TOPO, "no network interface is preferred: %s", err.message);
    } else {
        wr_str_copy(e->nic, sizeof e->nic, local.nic);
    }
}

static void watched_peer_lost(void *arg, int peer, const char *reason)
{
    wr_engine_peer_lost(arg, peer, reason);
}

void wr_engine_watch(struct wr_engine *e, int peer)
{
    const void *address;
    size_t len;
    weir_error err;
    if (e->watch && wr_engine_is_network(e, e->route[peer]) && !find_entry(e, peer, WATCH, &address, &len, &err))
        wr_watch_add(e->watch, peer, address, len);
}

static weir_status open_watch(struct wr_engine *e, weir_error *err)
{
    struct wr_watch_params params = {&e->ctx->log, e->ctx->config.peer_timeout, watched_peer_lost, e};
    return e->ctx->config.watch ? wr_watch_open(&params, &e->watch, err) : WEIR_OK;
}

static weir_status open_chosen(struct wr_engine *e, const struct wr_transport_choice *choice, weir_error *err)
{
    weir_status status = open_one(e, "self", err);
    if (!status && choice->shm && e->node_size > 1)
        status = open_one(e, "shm", err);
    if (!status && choice->network[0])
        status = open_one(e, choice->network, err);
    if (!status && choice->network[0])
        status = open_watch(e, err);
    return status;
}

static weir_status start_all(struct wr_engine *e, weir_error *err)
{
    weir_status status = wr_ctx_fence(e->ctx, err);
    for (int i = 0; i < e->ntransports && !status; i++)
        if (e->transport[i]->ops->start)
            status = e->transport[i]->ops->start(e->transport[i], err);
    return status;
}

static int waiter_progress(void *arg)
{
    return wr_engine_progress(arg);
}

static int waiter_poll(void *arg)
{
    return wr_engine_poll(arg);
}

static void waiter_release(void *arg)
{
    wr_engine_unlock(arg);
}

static void waiter_acquire(void *arg)
{
    wr_engine_lock(arg);
}

static bool waiter_wanted(void *arg)
{
    return wr_load_relaxed(&((struct wr_engine *)arg)->wanting) > 0;
}

static weir_status create_waiter(struct wr_engine *e, weir_error *err)
{
    struct wr_waiter_params params = {.config = &e->ctx->config,
                                      .transports = e->transport,
                                      .ntransports = e->ntransports,
                                      .node_size = e->node_size,
                                      .progress = waiter_progress,
                                      .poll = waiter_poll,
                                      .release = waiter_release,
                                      .acquire = waiter_acquire,
                                      .wanted = waiter_wanted,
                                      .arg = e};
    weir_status status = wr_waiter_create(&params, &e->waiter, err);
    int launcher = wr_ctx_event_fd(e->ctx);
    if (!status && launcher >= 0)
        status = wr_waiter_add(e->waiter, launcher, err);
    if (!status && e->watch)
        status = wr_waiter_add(e->waiter, wr_watch_fd(e->watch), err);
    return status;
}

static weir_status allocate(struct wr_engine *e, uint32_t nsignals, weir_error *err)
{
    size_t n = (size_t)e->size;
    e->route = malloc(n);
    e->connected = calloc(n, 1);
    e->lost = calloc(n, 1);
    e->loss = calloc(n, sizeof *e->loss);
    e->address = calloc(n, sizeof *e->address);
    e->signals = calloc(nsignals, sizeof *e->signals);
    e->nsignals = nsignals;
    if (!e->route || !e->connected || !e->lost || !e->loss || !e->address || !e->signals)
        return wr_error_memory(err, n * (3 + sizeof *e->loss + sizeof *e->address) + nsignals * sizeof *e->signals, "the engine's tables");
    return WEIR_OK;
}

weir_status wr_engine_open(weir_ctx *ctx, uint32_t nsignals, struct wr_engine **engine, weir_error *err)
{
    struct wr_transport_choice choice;
    struct wr_engine *e = calloc(1, sizeof *e);
    if (!e)
        return wr_error_memory(err, sizeof *e, "the engine");
    e->ctx = ctx;
    e->rank = ctx->rank;
    e->size = ctx->size;
    e->numa = -1;
    e->handler[WR_AM_LOST] = wr_engine_on_lost;
    e->handler_arg[WR_AM_LOST] = e;
    pthread_mutex_init(&e->lock, NULL);
    weir_status status = allocate(e, nsignals, err);
    if (!status)
        status = find_node(e, err);
    if (!status)
        find_place(e);
    if (!status)
        status = wr_transport_choose(ctx, &choice, err);
    if (status)
        goto failed;
    e->shares_memory = choice.shm;
    e->unexpected_limit = choice.unexpected_limit;
    weir_error failure;
    weir_status opened = open_chosen(e, &choice, &failure);
    status = publish(e, opened ? &failure : NULL, err);
    if (opened) { /* the others learn of it from the card */
        wr_ctx_fence(ctx, NULL);
        *err = failure;
        status = opened;
    }
    if (!status)
        status = start_all(e, err);
    if (!status)
        status = create_waiter(e, err);
    if (status)
        goto failed;
    make_routes(e);
    e->both = wr_engine_shm(e) && wr_engine_is_network(e, e->ntransports - 1);
    *engine = e;
    return WEIR_OK;
failed:
    wr_engine_close(e);
    return status;
}

/* ---- closing ---- */

void wr_engine_mute(struct wr_engine *e)
{
    wr_engine_lock(e);
    memset(e->handler, 0, sizeof e->handler);
    e->nusers = 0;
    wr_engine_unlock(e);
}

void wr_engine_close(struct wr_engine *e)
{
    if (!e)
        return;
    wr_waiter_destroy(e->waiter);
    wr_watch_close(e->watch);
    while (e->ntransports > 0) {
        struct wr_transport *t = e->transport[--e->ntransports];
        t->ops->close(t);
    }
    for (int i = 0; e->address && i < e->size; i++)
        free(e->address[i]);
    for (int i = 0; e->loss && i < e->size; i++)
        free(e->loss[i]);
    free(e->address);
    free(e->loss);
    free(e->lost_order);
    free(e->told);
    free(e->flush);
    free(e->route);
    free(e->connected);
    free(e->lost);
    free(e->signals);
    free(e->node_ranks);
    pthread_mutex_destroy(&e->lock);
    free(e);
}
