/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses, and what a rank knows of a peer once it is connected. libfabric itself connects when the first byte goes. */
#include "comm/transport/ofi/ofi.h"

#include <stdlib.h>
#include <string.h>

enum { WR_OFI_MAGIC = 0x57464f49, WR_OFI_NAME = 64, WR_OFI_FABRIC = 48, WR_OFI_EP_NAME = 256 };

/* The head, then for each rail a struct wr_ofi_address_rail. All ranks of a job have one byte order: the magic shows it. */
struct wr_ofi_address_head {
    uint32_t magic, version;
    uint32_t rank, size;
    uint32_t nrails;
    uint32_t immediate; /* 1: signals of puts are remote CQ data */
    uint32_t stream;
    uint32_t payload; /* largest message */
    char provider[WR_OFI_NAME];
};

struct wr_ofi_address_rail {
    char fabric[WR_OFI_FABRIC];
    uint32_t name_len, key_len;
    uint8_t name[WR_OFI_EP_NAME];
    uint8_t key[WR_OFI_RAIL_KEY];
};

_Static_assert(sizeof(struct wr_ofi_address_head) + WR_OFI_RAILS * sizeof(struct wr_ofi_address_rail) <= WR_ADDRESS_MAX,
               "an address of all rails must fit");

weir_status wr_ofi_address(struct wr_transport *t, void *buf, size_t *len, weir_error *err)
{
    struct wr_ofi *ofi = wr_ofi_of(t);
    struct wr_ofi_address_head head = {.magic = WR_OFI_MAGIC,
                                       .version = WR_OFI_VERSION,
                                       .rank = (uint32_t)t->params.rank,
                                       .size = (uint32_t)t->params.size,
                                       .nrails = ofi->nrails,
                                       .immediate = ofi->immediate,
                                       .stream = ofi->stream,
                                       .payload = WR_OFI_PAYLOAD};
    size_t need = sizeof head + ofi->nrails * sizeof(struct wr_ofi_address_rail);
    if (*len < need)
        return wr_error_set(err, WEIR_ERR_LIMIT, NULL, "the address needs %zu bytes, there are %zu", need, *len);
    wr_str_copy(head.provider, sizeof head.provider, ofi->provider);
    memcpy(buf, &head, sizeof head);
    for (unsigned i = 0; i < ofi->nrails; i++) {
        struct wr_ofi_address_rail rail;
        size_t name_len = sizeof rail.name, key_len = sizeof rail.key;
        memset(&rail, 0, sizeof rail);
        wr_str_copy(rail.fabric, sizeof rail.fabric, ofi->rail[i].info->fabric_attr->name);
        int rc = fi_getname(&ofi->rail[i].ep->fid, rail.name, &name_len);
        if (rc)
            return wr_ofi_error(ofi, err, "asking for the endpoint's address", rc);
        weir_status status = wr_ofi_rail_key_write(ofi, i, ofi->control_region, rail.key, &key_len, err);
        if (status)
            return status;
        rail.name_len = (uint32_t)name_len;
        rail.key_len = (uint32_t)key_len;
        memcpy((char *)buf + sizeof head + i * sizeof rail, &rail, sizeof rail);
    }
    *len = need;
    return WEIR_OK;
}

bool wr_ofi_reaches(const struct wr_transport *t, int peer)
{
    const struct wr_ofi *ofi = WR_CONTAINER_OF(t, const struct wr_ofi, base);
    if (peer < 0 || peer >= t->params.size)
        return false;
    if (!ofi->quirks->node_only)
        return true;
    for (int i = 0; i < t->params.node_size; i++)
        if (t->params.node_ranks[i] == peer)
            return true;
    return false;
}

/* ---- reading an address ---- */

static weir_status wr_ofi_address_read(struct wr_ofi *ofi, int peer, const void *data, size_t len,
                                       struct wr_ofi_address_head *head, struct wr_ofi_address_rail *rails,
                                       weir_error *err)
{
    static const char advice[] = "give all ranks the same build, WEIR_OFI_PROVIDER and kind of network";
    if (len < sizeof *head)
        return wr_error_set(err, WEIR_ERR_PROTOCOL, advice, "the address of rank %d has only %zu bytes", peer, len);
    memcpy(head, data, sizeof *head);
    head->provider[sizeof head->provider - 1] = '\0';
    if (head->magic != WR_OFI_MAGIC || head->version != WR_OFI_VERSION || head->payload != WR_OFI_PAYLOAD)
        return wr_error_set(err, WEIR_ERR_PROTOCOL, advice,
                            "the address of rank %d is of another version or byte order", peer);
    if (strcmp(head->provider, ofi->provider) || head->immediate != ofi->immediate || head->stream != ofi->stream)
        return wr_error_set(err, WEIR_ERR_MISMATCH, advice,
                            "rank %d uses libfabric provider %s with signals by %s, rank %d uses %s with signals by %s",
                            peer, head->provider, head->immediate ? "immediate data" : "message", ofi->base.params.rank,
                            ofi->provider, ofi->immediate ? "immediate data" : "message");
    if (head->rank != (uint32_t)peer || head->size != (uint32_t)ofi->base.params.size)
        return wr_error_set(err, WEIR_ERR_PROTOCOL, NULL, "the address of rank %d says rank %u of %u", peer, head->rank,
                            head->size);
    if (!head->nrails || head->nrails > WR_OFI_RAILS || len < sizeof *head + head->nrails * sizeof *rails)
        return wr_error_set(err, WEIR_ERR_PROTOCOL, advice, "the address of rank %d is damaged", peer);
    memcpy(rails, (const char *)data + sizeof *head, head->nrails * sizeof *rails);
    for (unsigned i = 0; i < head->nrails; i++) {
        rails[i].fabric[sizeof rails[i].fabric - 1] = '\0';
        if (rails[i].name_len > sizeof rails[i].name || rails[i].key_len > sizeof rails[i].key)
            return wr_error_set(err, WEIR_ERR_PROTOCOL, advice, "the address of rank %d is damaged", peer);
    }
    return WEIR_OK;
}

/* Interfaces reach each other surely when they are on the same network, which is what a fabric's name says. */
static bool wr_ofi_same_fabric(const struct wr_ofi *ofi, unsigned own, const struct wr_ofi_address_rail *rail)
{
    char name[WR_OFI_FABRIC];
    wr_str_copy(name, sizeof name, ofi->rail[own].info->fabric_attr->name);
    return !strcmp(name, rail->fabric);
}

/* Pairs own rails with the peer's: equal numbers first, each rail once. Lane 0 always exists. */
static void wr_ofi_lanes_pair(const struct wr_ofi *ofi, struct wr_ofi_peer *peer,
                              const struct wr_ofi_address_rail *rails, unsigned nrails)
{
    unsigned main = 0;
    while (main < ofi->nrails && !wr_ofi_same_fabric(ofi, main, &rails[0]))
        main++;
    if (main == ofi->nrails)
        main = 0; /* other networks: routed, or the first use tells */
    peer->own_rail[0] = (uint8_t)main;
    peer->remote_rail[0] = 0;
    peer->nlanes = 1;
    unsigned taken = 1;
    for (unsigned i = 0; i < ofi->nrails; i++) {
        if (i == main)
            continue;
        unsigned found = nrails;
        for (unsigned k = 0; k < nrails && found == nrails; k++) {
            unsigned j = (i + k) % nrails;
            if (!(taken & (1u << j)) && wr_ofi_same_fabric(ofi, i, &rails[j]))
                found = j;
        }
        if (found == nrails)
            continue;
        taken |= 1u << found;
        peer->own_rail[peer->nlanes] = (uint8_t)i;
        peer->remote_rail[peer->nlanes++] = (uint8_t)found;
    }
}

static weir_status wr_ofi_lanes_open(struct wr_ofi *ofi, struct wr_ofi_peer *peer,
                                     const struct wr_ofi_address_rail *rails, weir_error *err)
{
    for (unsigned i = 0; i < peer->nlanes; i++) {
        struct wr_ofi_rail *own = &ofi->rail[peer->own_rail[i]];
        const struct wr_ofi_address_rail *rail = &rails[peer->remote_rail[i]];
        int rc = fi_av_insert(own->av, rail->name, 1, &peer->addr[i], 0, NULL);
        if (rc != 1)
            return wr_ofi_error(ofi, err, "inserting a peer's address", rc < 0 ? rc : -FI_EINVAL);
        weir_status status =
            wr_ofi_rail_key_read(ofi, peer->own_rail[i], rail->key, rail->key_len, &peer->control_base[i],
                                 &peer->control_key[i], &peer->control_mapped[i], err);
        if (status)
            return status;
    }
    return WEIR_OK;
}

weir_status wr_ofi_connect(struct wr_transport *t, int rank, weir_error *err)
{
    struct wr_ofi *ofi = wr_ofi_of(t);
    if (rank < 0 || rank >= t->params.size)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "there is no rank %d among %d", rank, t->params.size);
    if (ofi->peers[rank])
        return WEIR_OK;
    if (!wr_ofi_reaches(t, rank))
        return wr_error_set(err, WEIR_ERR_UNSUPPORTED, "choose a provider that leaves the node",
                            "libfabric provider %s does not reach rank %d, which is on another node", ofi->provider,
                            rank);
    const void *data;
    size_t len;
    weir_status status = t->params.peer_address(t->params.arg, rank, &data, &len, err);
    if (status)
        return status;
    struct wr_ofi_address_head head;
    struct wr_ofi_address_rail rails[WR_OFI_RAILS];
    status = wr_ofi_address_read(ofi, rank, data, len, &head, rails, err);
    if (status) {
        wr_error_at(err, rank, NULL);
        return status;
    }
    struct wr_ofi_peer *peer = calloc(1, sizeof *peer);
    if (!peer)
        return wr_error_memory(err, sizeof *peer, "a connected peer");
    peer->rank = rank;
    wr_list_init(&peer->inflight);
    wr_list_init(&peer->waiters);
    wr_list_init(&peer->sync_link);
    for (unsigned i = 0; i < WR_OFI_RAILS; i++)
        peer->addr[i] = FI_ADDR_UNSPEC;
    wr_ofi_lanes_pair(ofi, peer, rails, head.nrails);
    status = wr_ofi_lanes_open(ofi, peer, rails, err);
    /* a flush waits on each peer, perhaps several times: room for it is made here, not on the way of an operation */
    if (!status) {
        ofi->waiter_pool.max += 4;
        status = wr_pool_reserve(&ofi->waiter_pool, ofi->waiter_pool.max - ofi->waiter_pool.in_use, err);
    }
    if (status) {
        wr_ofi_peer_free(ofi, peer);
        return status;
    }
    ofi->peers[rank] = peer;
    wr_debug(t->params.log, TRANSPORT, "ofi: connected to rank %d by %u of %u rails", rank, peer->nlanes, ofi->nrails);
    return WEIR_OK;
}

void wr_ofi_peer_free(struct wr_ofi *ofi, struct wr_ofi_peer *peer)
{
    if (!peer)
        return;
    for (unsigned i = 0; i < peer->nlanes; i++)
        if (peer->control_mapped[i])
            fi_mr_unmap_key(ofi->rail[peer->own_rail[i]].domain, peer->control_key[i]);
    free(peer); /* addresses go with the address vector */
}

struct wr_ofi_peer *wr_ofi_peer_get(struct wr_ofi *ofi, int rank, weir_status *status, weir_error *err)
{
    struct wr_ofi_peer *peer = NULL;
    if (WR_UNLIKELY(ofi->broken)) {
        if (err)
            *err = ofi->failure;
        *status = ofi->failure.status;
        return NULL;
    }
    if (WR_LIKELY(rank >= 0 && rank < ofi->base.params.size))
        peer = ofi->peers[rank];
    if (WR_UNLIKELY(!peer)) {
        *status = wr_error_set(err, WEIR_ERR_INVALID, "call connect() first", "rank %d is not connected", rank);
        return NULL;
    }
    if (WR_UNLIKELY(peer->lost)) {
        *status = wr_error_set(err, WEIR_ERR_PEER_LOST, NULL, "rank %d was lost", rank);
        wr_error_at(err, rank, NULL);
        return NULL;
    }
    *status = WEIR_OK;
    return peer;
}

void wr_ofi_peer_lost(struct wr_ofi *ofi, struct wr_ofi_peer *peer, const char *reason)
{
    if (peer->lost)
        return;
    peer->lost = true;
    wr_warn(ofi->base.params.log, TRANSPORT, "ofi: rank %d was lost: %s", peer->rank, reason);
    /* Requests stay taken until the provider gives them back; only their owners are told now. */
    struct wr_ofi_req *req;
    wr_list_for_each (req, &peer->inflight, link) {
        struct wr_op *op = req->op;
        req->op = NULL;
        req->copy_to = NULL;
        if (op)
            op->done(op, WEIR_ERR_PEER_LOST);
    }
    struct wr_ofi_bulk *bulk;
    wr_list_for_each (bulk, &ofi->bulks, link) {
        struct wr_op *op = bulk->op;
        if (bulk->peer != peer)
            continue;
        bulk->status = WEIR_ERR_PEER_LOST;
        bulk->op = NULL;
        if (op)
            op->done(op, WEIR_ERR_PEER_LOST);
    }
    wr_ofi_sync_fail(ofi, peer, WEIR_ERR_PEER_LOST);
    if (ofi->base.params.on_peer_lost)
        ofi->base.params.on_peer_lost(ofi->base.params.arg, peer->rank, reason);
}
