/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registration and keys. Registering pins nothing: a region is an entry in this rank's table, whose generation stands in
 * shared memory so that peers refuse a stale key by a plain load.
 */
#include "comm/transport/shm/impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

struct key {
    uint32_t magic;
    int32_t rank;
    uint32_t slot, generation;
    uint64_t addr, len;
    int32_t leader; /* of the segment, -1: in none */
    uint32_t reserved;
    uint64_t segment, segment_offset;
};

static weir_status find_slot(struct wr_shm *s, uint32_t *slot, weir_error *err)
{
    for (uint32_t i = 0; i < s->region_room; i++) {
        uint32_t k = (s->region_hint + i) % s->region_room;
        if (!s->region_table[k]) {
            *slot = k;
            s->region_hint = k + 1;
            return WEIR_OK;
        }
    }
    if (s->region_room == WR_SHM_REGIONS)
        return wr_error_set(err, WEIR_ERR_LIMIT, "deregister some, or register fewer and larger ones",
                            "a rank can register at most %d regions on the node", WR_SHM_REGIONS);
    uint32_t room = s->region_room ? 2 * s->region_room : 64;
    struct wr_region **table = realloc(s->region_table, room * sizeof(struct wr_region *));
    if (!table)
        return wr_error_memory(err, room * sizeof(struct wr_region *), "the table of regions");
    memset(table + s->region_room, 0, (room - s->region_room) * sizeof(struct wr_region *));
    *slot = s->region_room;
    s->region_table = table;
    s->region_hint = s->region_room + 1;
    s->region_room = room;
    return WEIR_OK;
}

weir_status wr_shm_reg(struct wr_transport *t, void *addr, uint64_t len, unsigned flags, struct wr_region **region,
                       weir_error *err)
{
    struct wr_shm *s = wr_shm_of(t);
    uint32_t slot = 0;
    (void)flags; /* the kernel knows one right for a whole process, and mapped memory is mapped for all */
    if (!s->block)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "start() comes before the first registration");
    struct wr_region *r = wr_pool_get(&s->region_pool);
    if (!r)
        return wr_error_memory(err, sizeof *r, "a region");
    memset(r, 0, sizeof *r);
    weir_status status = find_slot(s, &slot, err);
    if (status != WEIR_OK) {
        wr_pool_put(&s->region_pool, r);
        return status;
    }
    r->addr = addr;
    r->len = len;
    r->slot = slot;
    r->segment = wr_shm_segment_of(s, addr, len, &r->segment_offset);
    r->generation = wr_load_relaxed(&s->block->generations[slot]) + 1;
    wr_store_release(&s->block->generations[slot], r->generation);
    s->region_table[slot] = r;
    wr_list_push_back(&s->regions, &r->link);
    *region = r;
    return WEIR_OK;
}

void wr_shm_dereg(struct wr_transport *t, struct wr_region *region)
{
    struct wr_shm *s = wr_shm_of(t);
    wr_store_release(&s->block->generations[region->slot], region->generation + 1);
    s->region_table[region->slot] = NULL;
    wr_list_remove(&region->link);
    wr_pool_put(&s->region_pool, region);
}

struct wr_region *wr_shm_region_at(struct wr_shm *s, uint32_t slot, uint32_t generation, uint64_t offset, uint64_t len)
{
    struct wr_region *r = slot < s->region_room ? s->region_table[slot] : NULL;
    return r && r->generation == generation && offset <= r->len && len <= r->len - offset ? r : NULL;
}

weir_status wr_shm_key_export(struct wr_transport *t, struct wr_region *region, void *buf, size_t *len, weir_error *err)
{
    struct key key = {.magic = WR_SHM_MAGIC,
                      .rank = t->params.rank,
                      .slot = region->slot,
                      .generation = region->generation,
                      .addr = (uintptr_t)region->addr,
                      .len = region->len,
                      .leader = -1};
    if (*len < sizeof key)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "%zu bytes are too few for a key of %zu", *len, sizeof key);
    if (region->segment) {
        int leader;
        wr_shm_segment_name(region->segment, &leader, &key.segment);
        key.leader = leader;
        key.segment_offset = region->segment_offset;
    }
    memcpy(buf, &key, sizeof key);
    *len = sizeof key;
    return WEIR_OK;
}

weir_status wr_shm_key_import(struct wr_transport *t, int peer, const void *data, size_t len, struct wr_rkey **rkey,
                              weir_error *err)
{
    struct wr_shm *s = wr_shm_of(t);
    struct wr_shm_peer *p = wr_shm_peer_of(s, peer);
    struct key key = {0};
    if (len == sizeof key)
        memcpy(&key, data, sizeof key);
    if (!p || !s->block || len != sizeof key || key.magic != WR_SHM_MAGIC || key.rank != peer || key.slot >= WR_SHM_REGIONS)
        return wr_error_set(err, WEIR_ERR_PROTOCOL, "a key is valid on the node and for the rank that exported it",
                            "what came as a key of rank %d is none (%zu bytes)", peer, len);
    weir_status status = wr_shm_find_address(s, (int)(p - s->peers), err);
    if (status != WEIR_OK)
        return status;
    struct wr_rkey *k = wr_pool_get(&s->rkey_pool);
    if (!k)
        return wr_error_memory(err, sizeof *k, "a key");
    memset(k, 0, sizeof *k);
    k->peer = p;
    k->slot = key.slot;
    k->generation = key.generation;
    k->generation_word = &p->block->generations[key.slot];
    k->len = key.len;
    k->remote = key.addr;
    if (key.leader >= 0)
        k->segment = wr_shm_segment_find(s, key.leader, key.segment, key.segment_offset, key.len);
    if (k->segment) {
        k->segment_offset = key.segment_offset;
        k->mapped = wr_shm_segment_at(k->segment, key.segment_offset);
    } else if (p->same_process && !s->attach_off) {
        k->mapped = (char *)(uintptr_t)key.addr;
    }
    wr_list_push_back(&s->rkeys, &k->link);
    *rkey = k;
    return WEIR_OK;
}

void wr_shm_key_close(struct wr_transport *t, struct wr_rkey *rkey)
{
    wr_list_remove(&rkey->link);
    wr_pool_put(&wr_shm_of(t)->rkey_pool, rkey);
}
