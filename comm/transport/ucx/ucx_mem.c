/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions and keys. A key is our own header, which puts in messages use, followed by UCX's packed key. */
#include <stdlib.h>
#include <sys/resource.h>

#include "base/error.h"
#include "base/str.h"
#include "comm/transport/ucx/ucx.h"

struct ucx_key_head {
    uint64_t base, len;
    uint32_t id, gen;
    uint32_t flags;
    uint32_t packed_len;
};

static weir_status map_failed(ucs_status_t s, uint64_t len, weir_error *err)
{
    struct rlimit lim;
    char want[32], have[32];
    /* devices report it as either; together with what is registered already, less than the limit may be too much */
    if (!getrlimit(RLIMIT_MEMLOCK, &lim) && lim.rlim_cur != RLIM_INFINITY &&
        (s == UCS_ERR_NO_MEMORY || s == UCS_ERR_IO_ERROR))
        return wr_error_set(err, WEIR_ERR_LIMIT,
                            "raise the limit of locked memory (ulimit -l unlimited; LimitMEMLOCK=infinity for a daemon "
                            "that starts jobs), or register less",
                            "registering %s with the network failed; RLIMIT_MEMLOCK allows %s",
                            wr_format_bytes(len, want, sizeof want), wr_format_bytes(lim.rlim_cur, have, sizeof have));
    return wr_ucx_error(s, NULL, "registering memory", err);
}

/* An entry of the table of regions that is free; grows the table. */
static weir_status region_slot(struct ucx *u, uint32_t *id, weir_error *err)
{
    for (uint32_t i = 0; i < u->nregions; i++)
        if (!u->regions[i]) {
            *id = i;
            return WEIR_OK;
        }
    uint32_t n = u->nregions ? 2 * u->nregions : 64;
    struct wr_region **table = realloc(u->regions, n * sizeof *table);
    if (!table)
        return wr_error_memory(err, n * sizeof *table, "the table of registered regions");
    memset(table + u->nregions, 0, (n - u->nregions) * sizeof *table);
    *id = u->nregions;
    u->regions = table;
    u->nregions = n;
    return WEIR_OK;
}

weir_status wr_ucx_reg(struct wr_transport *t, void *addr, uint64_t len, unsigned flags, struct wr_region **region,
                    weir_error *err)
{
    struct ucx *u = ucx_of(t);
    struct wr_region *r = calloc(1, sizeof *r);
    if (!r)
        return wr_error_memory(err, sizeof *r, "a registered region");
    weir_status status = region_slot(u, &r->id, err);
    if (status != WEIR_OK)
        goto free_region;
    if (len) {
        ucp_mem_map_params_t p = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                  .address = addr,
                                  .length = len};
        ucs_status_t s = ucp_mem_map(u->context, &p, &r->memh);
        if (s != UCS_OK) {
            status = map_failed(s, len, err);
            goto free_region;
        }
    }
    r->addr = addr;
    r->len = len;
    r->flags = flags;
    r->gen = ++u->next_gen;
    u->regions[r->id] = r;
    *region = r;
    return WEIR_OK;
free_region:
    free(r);
    return status;
}

void wr_ucx_dereg(struct wr_transport *t, struct wr_region *region)
{
    struct ucx *u = ucx_of(t);
    u->regions[region->id] = NULL;
    if (region->memh)
        ucp_mem_unmap(u->context, region->memh);
    free(region);
}

weir_status wr_ucx_key_export(struct wr_transport *t, struct wr_region *region, void *buf, size_t *len, weir_error *err)
{
    struct ucx *u = ucx_of(t);
    struct ucx_key_head head = {.base = (uint64_t)(uintptr_t)region->addr,
                                .len = region->len,
                                .id = region->id,
                                .gen = region->gen,
                                .flags = region->flags};
    void *packed = NULL;
    size_t packed_len = 0;
    if (region->memh) {
        ucs_status_t s = ucp_rkey_pack(u->context, region->memh, &packed, &packed_len);
        if (s != UCS_OK)
            return wr_ucx_error(s, NULL, "exporting a memory key", err);
    }
    weir_status status = WEIR_OK;
    if (*len < sizeof head + packed_len) {
        status = wr_error_set(err, WEIR_ERR_LIMIT, "restrict the network devices with UCX_NET_DEVICES or UCX_TLS",
                              "a memory key of UCX has %zu bytes, %zu fit", sizeof head + packed_len, *len);
    } else {
        head.packed_len = (uint32_t)packed_len;
        memcpy(buf, &head, sizeof head);
        if (packed_len)
            memcpy((char *)buf + sizeof head, packed, packed_len);
        *len = sizeof head + packed_len;
    }
    if (packed)
        ucp_rkey_buffer_release(packed);
    return status;
}

weir_status wr_ucx_key_import(struct wr_transport *t, int peer, const void *key, size_t len, struct wr_rkey **rkey,
                           weir_error *err)
{
    struct ucx_key_head head;
    if (peer < 0 || peer >= t->params.size)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "rank %d is not in 0..%d", peer, t->params.size - 1);
    if (len < sizeof head)
        return wr_error_set(err, WEIR_ERR_PROTOCOL, NULL, "a memory key of rank %d has only %zu bytes", peer, len);
    memcpy(&head, key, sizeof head);
    if (head.packed_len > len - sizeof head)
        return wr_error_set(err, WEIR_ERR_PROTOCOL, NULL, "a memory key of rank %d is cut: %u bytes of %zu", peer,
                            head.packed_len, len - sizeof head);
    struct wr_rkey *k = calloc(1, sizeof *k + head.packed_len);
    if (!k)
        return wr_error_memory(err, sizeof *k + head.packed_len, "a peer's memory key");
    k->peer = peer;
    k->base = head.base;
    k->len = head.len;
    k->id = head.id;
    k->gen = head.gen;
    k->packed_len = head.packed_len;
    memcpy(k->packed, (const char *)key + sizeof head, head.packed_len);
    /* Unpacked at once where it will be used, so that no operation has to. */
    struct ucx_peer *p = &ucx_of(t)->peers[peer];
    if (p->ep && !p->messages) {
        weir_status status = wr_ucx_rkey_check(p, k, 0, 0, true, err);
        if (status != WEIR_OK) {
            free(k);
            return status;
        }
    }
    *rkey = k;
    return WEIR_OK;
}

void wr_ucx_key_close(struct wr_transport *t, struct wr_rkey *k)
{
    (void)t;
    if (k->rkey)
        ucp_rkey_destroy(k->rkey);
    free(k);
}

char *wr_ucx_region_place(struct ucx *u, const struct ucx_wire *wire, uint64_t len, unsigned flags)
{
    struct wr_region *r = wire->key_id < u->nregions ? u->regions[wire->key_id] : NULL;
    if (!r || r->gen != wire->key_gen || (r->flags & flags) != flags || wire->offset > r->len ||
        len > r->len - wire->offset)
        return NULL;
    return r->addr + wire->offset;
}

weir_status wr_ucx_rkey_check(struct ucx_peer *p, struct wr_rkey *k, uint64_t offset, uint64_t len, bool unpack,
                           weir_error *err)
{
    if (!k || k->peer != p->rank)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "the memory key is not one of rank %d", p->rank);
    if (offset > k->len || len > k->len - offset)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL,
                            "bytes %llu..%llu of a region of rank %d that has %llu", (unsigned long long)offset,
                            (unsigned long long)(offset + len), p->rank, (unsigned long long)k->len);
    if (unpack && k->packed_len && k->ep != p->ep) {
        ucs_status_t s = ucp_ep_rkey_unpack(p->ep, k->packed, &k->rkey);
        if (s != UCS_OK)
            return wr_ucx_error(s, p, "unpacking a memory key", err);
        k->ep = p->ep;
    }
    return WEIR_OK;
}
