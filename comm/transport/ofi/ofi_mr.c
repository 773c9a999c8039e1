/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory. A region is registered on every rail; its key carries the number and generation by which messages
 * name it, and for each rail the address base and the key of libfabric.
 */
#include "comm/transport/ofi/ofi.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { WR_OFI_NO_INDEX = UINT32_MAX, WR_OFI_KEY_TRIES = 64 };

/* ---- one registration ---- */

static uint64_t wr_ofi_key_next(struct wr_ofi_rail *rail)
{
    size_t bytes = rail->info->domain_attr->mr_key_size;
    uint64_t key = rail->next_key++;
    return bytes && bytes < 8 ? key & ((UINT64_C(1) << (8 * bytes)) - 1) : key;
}

/* Keys that we choose count up, so that a freed one comes back as late as its width allows. */
static int wr_ofi_mr_open(struct wr_ofi *ofi, struct wr_ofi_rail *rail, struct wr_region *region, uint64_t access)
{
    struct fid_mr *mr = NULL;
    int rc = 0;
    bool own_keys = !(ofi->mr_mode & FI_MR_PROV_KEY);
    for (int i = 0; i < (own_keys ? WR_OFI_KEY_TRIES : 1); i++) {
        rc = fi_mr_reg(rail->domain, region->addr, region->len, access, 0, own_keys ? wr_ofi_key_next(rail) : 0, 0, &mr,
                       NULL);
        if (rc != -FI_ENOKEY)
            break;
    }
    if (rc)
        return rc;
    if (ofi->mr_mode & FI_MR_ENDPOINT) {
        rc = fi_mr_bind(mr, &rail->ep->fid, 0);
        if (!rc)
            rc = fi_mr_enable(mr);
        if (rc) {
            fi_close(&mr->fid);
            return rc;
        }
    }
    region->mr[rail->index] = mr;
    return 0;
}

void *wr_ofi_desc(const struct wr_ofi *ofi, const struct wr_region *region, unsigned rail)
{
    (void)ofi;
    return region && region->mr[rail] ? fi_mr_desc(region->mr[rail]) : NULL;
}

static weir_status wr_ofi_mr_error(struct wr_ofi *ofi, const struct wr_region *region, int rc, weir_error *err)
{
    char bytes[32];
    wr_format_bytes(region->len, bytes, sizeof bytes);
    if (rc == -FI_ENOMEM || rc == -FI_EAGAIN || rc == -FI_EPERM)
        return wr_error_set(err, WEIR_ERR_LIMIT,
                            "raise the limit of locked memory (ulimit -l, RLIMIT_MEMLOCK, or the launcher's limits)",
                            "libfabric provider %s refused to register %s of memory: %s", ofi->provider, bytes,
                            fi_strerror(-rc));
    return wr_error_set(err, WEIR_ERR_TRANSPORT, "FI_LOG_LEVEL=warn shows libfabric's own reason",
                        "libfabric provider %s failed to register %s of memory: %s", ofi->provider, bytes,
                        fi_strerror(-rc));
}

/* ---- the table of regions that messages name ---- */

static weir_status wr_ofi_regions_grow(struct wr_ofi *ofi, weir_error *err)
{
    uint32_t n = ofi->nregions ? ofi->nregions * 2 : 64;
    struct wr_region **regions = realloc(ofi->regions, n * sizeof *regions);
    if (regions)
        ofi->regions = regions;
    uint32_t *generations = realloc(ofi->generations, n * sizeof *generations);
    if (generations)
        ofi->generations = generations;
    uint32_t *next = realloc(ofi->free_next, n * sizeof *next);
    if (next)
        ofi->free_next = next;
    if (!regions || !generations || !next)
        return wr_error_memory(err, n * sizeof *regions, "the table of registered regions");
    for (uint32_t i = ofi->nregions; i < n; i++) {
        regions[i] = NULL;
        generations[i] = 0;
        next[i] = i + 1 < n ? i + 1 : WR_OFI_NO_INDEX;
    }
    ofi->free_region = ofi->nregions;
    ofi->nregions = n;
    return WEIR_OK;
}

static weir_status wr_ofi_region_number(struct wr_ofi *ofi, struct wr_region *region, weir_error *err)
{
    if (!ofi->nregions || ofi->free_region == WR_OFI_NO_INDEX) {
        weir_status status = wr_ofi_regions_grow(ofi, err);
        if (status)
            return status;
    }
    uint32_t i = ofi->free_region;
    ofi->free_region = ofi->free_next[i];
    ofi->regions[i] = region;
    region->index = i;
    region->generation = ++ofi->generations[i];
    return WEIR_OK;
}

weir_status wr_ofi_region_create(struct wr_ofi *ofi, void *addr, uint64_t len, unsigned flags, uint64_t access,
                                 bool for_peers, struct wr_region **out, weir_error *err)
{
    struct wr_region *region = calloc(1, sizeof *region);
    if (!region)
        return wr_error_memory(err, sizeof *region, "a registered region");
    region->addr = addr;
    region->len = len;
    region->flags = flags;
    region->index = WR_OFI_NO_INDEX;
    weir_status status = for_peers ? wr_ofi_region_number(ofi, region, err) : WEIR_OK;
    for (unsigned i = 0; !status && i < ofi->nrails; i++) {
        int rc = wr_ofi_mr_open(ofi, &ofi->rail[i], region, access);
        if (rc)
            status = wr_ofi_mr_error(ofi, region, rc, err);
    }
    if (status) {
        wr_ofi_region_destroy(ofi, region);
        return status;
    }
    *out = region;
    return WEIR_OK;
}

void wr_ofi_region_destroy(struct wr_ofi *ofi, struct wr_region *region)
{
    if (!region)
        return;
    for (unsigned i = 0; i < WR_OFI_RAILS; i++)
        if (region->mr[i])
            fi_close(&region->mr[i]->fid);
    if (region->index != WR_OFI_NO_INDEX) {
        ofi->regions[region->index] = NULL;
        ofi->free_next[region->index] = ofi->free_region;
        ofi->free_region = region->index;
    }
    free(region);
}

weir_status wr_ofi_reg(struct wr_transport *t, void *addr, uint64_t len, unsigned flags, struct wr_region **region,
                       weir_error *err)
{
    if (!addr || !len || (flags & ~(unsigned)(WR_REG_REMOTE_WRITE | WR_REG_REMOTE_READ)))
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "a region needs an address, a length and known flags");
    uint64_t access = FI_READ | FI_WRITE | FI_SEND | FI_RECV;
    if (flags & WR_REG_REMOTE_WRITE)
        access |= FI_REMOTE_WRITE;
    if (flags & WR_REG_REMOTE_READ)
        access |= FI_REMOTE_READ;
    return wr_ofi_region_create(wr_ofi_of(t), addr, len, flags, access, true, region, err);
}

void wr_ofi_dereg(struct wr_transport *t, struct wr_region *region)
{
    wr_ofi_region_destroy(wr_ofi_of(t), region);
}

/* ---- keys ---- */

/* [raw: u8][length: u8][base: u64][key: u64 or raw bytes] */
weir_status wr_ofi_rail_key_write(struct wr_ofi *ofi, unsigned rail, const struct wr_region *region, void *buf,
                                  size_t *len, weir_error *err)
{
    uint8_t *out = buf;
    struct fid_mr *mr = region->mr[rail];
    uint64_t base = ofi->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)region->addr : 0;
    if (*len < WR_OFI_RAIL_KEY)
        return wr_error_set(err, WEIR_ERR_LIMIT, NULL, "no room for the key of a region");
    out[0] = ofi->mr_mode & FI_MR_RAW ? 1 : 0;
    if (out[0]) {
        size_t size = WR_OFI_RAIL_KEY - 10;
        uint64_t raw_base = 0;
        int rc = fi_mr_raw_attr(mr, &raw_base, out + 10, &size, 0);
        if (rc)
            return wr_ofi_error(ofi, err, "asking for a raw key", rc);
        if (ofi->mr_mode & FI_MR_VIRT_ADDR)
            base = raw_base;
        out[1] = (uint8_t)size;
    } else {
        uint64_t key = fi_mr_key(mr);
        memcpy(out + 10, &key, sizeof key);
        out[1] = sizeof key;
    }
    memcpy(out + 2, &base, sizeof base);
    *len = 10u + out[1];
    return WEIR_OK;
}

weir_status wr_ofi_rail_key_read(struct wr_ofi *ofi, unsigned rail, const void *buf, size_t len, uint64_t *base,
                                 uint64_t *key, bool *mapped, weir_error *err)
{
    const uint8_t *in = buf;
    if (len < 18 || len < 10u + in[1] || (in[0] == 0 && in[1] != 8))
        return wr_error_set(err, WEIR_ERR_PROTOCOL, NULL, "the key of a region is damaged");
    memcpy(base, in + 2, sizeof *base);
    *mapped = in[0] != 0;
    if (!*mapped) {
        memcpy(key, in + 10, sizeof *key);
        return WEIR_OK;
    }
    uint8_t raw[WR_OFI_RAIL_KEY];
    memcpy(raw, in + 10, in[1]);
    int rc = fi_mr_map_raw(ofi->rail[rail].domain, *base, raw, in[1], key, 0);
    return rc ? wr_ofi_error(ofi, err, "importing a raw key", rc) : WEIR_OK;
}

struct wr_ofi_key_head {
    uint32_t version, owner, index, generation;
    uint64_t len;
    uint32_t flags, nrails;
};

/* The head, then for each rail of the owner a length (u16) and its rail key. */
weir_status wr_ofi_key_export(struct wr_transport *t, struct wr_region *region, void *buf, size_t *len, weir_error *err)
{
    struct wr_ofi *ofi = wr_ofi_of(t);
    struct wr_ofi_key_head head = {WR_OFI_VERSION, (uint32_t)t->params.rank,
                                   region->index,  region->generation,
                                   region->len,    region->flags,
                                   ofi->nrails};
    uint8_t *out = buf;
    size_t at = sizeof head;
    if (*len < at)
        return wr_error_set(err, WEIR_ERR_LIMIT, NULL, "no room for the key of a region");
    memcpy(out, &head, sizeof head);
    for (unsigned i = 0; i < ofi->nrails; i++) {
        size_t room = *len > at + 2 ? *len - at - 2 : 0;
        weir_status status = wr_ofi_rail_key_write(ofi, i, region, out + at + 2, &room, err);
        if (status)
            return status;
        uint16_t size = (uint16_t)room;
        memcpy(out + at, &size, sizeof size);
        at += 2 + room;
    }
    *len = at;
    return WEIR_OK;
}

static weir_status wr_ofi_key_rails(struct wr_ofi *ofi, const struct wr_ofi_peer *peer, const uint8_t *in, size_t len,
                                    unsigned nrails, struct wr_rkey *key, weir_error *err)
{
    size_t start[WR_OFI_RAILS], size[WR_OFI_RAILS], at = 0;
    for (unsigned i = 0; i < nrails; i++) {
        uint16_t n;
        if (at + 2 > len)
            return wr_error_set(err, WEIR_ERR_PROTOCOL, NULL, "a key from rank %d is cut off", peer->rank);
        memcpy(&n, in + at, sizeof n);
        if (at + 2 + n > len)
            return wr_error_set(err, WEIR_ERR_PROTOCOL, NULL, "a key from rank %d is cut off", peer->rank);
        start[i] = at + 2;
        size[i] = n;
        at += 2u + n;
    }
    for (unsigned i = 0; i < peer->nlanes; i++) {
        unsigned r = peer->remote_rail[i];
        if (r >= nrails)
            return wr_error_set(err, WEIR_ERR_PROTOCOL, NULL, "a key from rank %d has only %u rails", peer->rank,
                                nrails);
        weir_status status = wr_ofi_rail_key_read(ofi, peer->own_rail[i], in + start[r], size[r], &key->base[i],
                                                  &key->key[i], &key->mapped[i], err);
        if (status)
            return status;
    }
    return WEIR_OK;
}

weir_status wr_ofi_key_import(struct wr_transport *t, int rank, const void *data, size_t len, struct wr_rkey **out,
                              weir_error *err)
{
    struct wr_ofi *ofi = wr_ofi_of(t);
    struct wr_ofi_key_head head;
    weir_status status = wr_ofi_connect(t, rank, err); /* which rails reach it is known only then */
    if (status)
        return status;
    if (len < sizeof head)
        return wr_error_set(err, WEIR_ERR_PROTOCOL, NULL, "a key from rank %d has only %zu bytes", rank, len);
    memcpy(&head, data, sizeof head);
    if (head.version != WR_OFI_VERSION || head.owner != (uint32_t)rank || head.nrails > WR_OFI_RAILS)
        return wr_error_set(err, WEIR_ERR_PROTOCOL, NULL,
                            "a key does not belong to rank %d (version %" PRIu32 ", rank %" PRIu32 ")", rank,
                            head.version, head.owner);
    struct wr_rkey *key = calloc(1, sizeof *key);
    if (!key)
        return wr_error_memory(err, sizeof *key, "an imported key");
    key->peer = rank;
    key->index = head.index;
    key->generation = head.generation;
    key->len = head.len;
    status = wr_ofi_key_rails(ofi, ofi->peers[rank], (const uint8_t *)data + sizeof head, len - sizeof head,
                              head.nrails, key, err);
    if (status) {
        wr_ofi_key_close(t, key);
        return status;
    }
    *out = key;
    return WEIR_OK;
}

void wr_ofi_key_close(struct wr_transport *t, struct wr_rkey *rkey)
{
    struct wr_ofi *ofi = wr_ofi_of(t);
    for (unsigned i = 0; rkey && i < WR_OFI_RAILS; i++)
        if (rkey->mapped[i])
            fi_mr_unmap_key(ofi->rail[ofi->peers[rkey->peer]->own_rail[i]].domain, rkey->key[i]);
    free(rkey);
}
