/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parameters that travel as int8 (stage 3). Beside its shard each rank keeps the same in int8, made anew whenever the shard has
 * changed. A part of a section is one packed range, and where it is follows from where its elements are, so a part is one read.
 *
 * What ranks of the node have is unpacked straight from their memory. What comes from other nodes comes into a staging room first, which
 * has place for what is gathered ahead, and for the largest block; a block that finds no place waits for those that are coming.
 */
#include "base/compiler.h"
#include "optim/zero.h"

/* ---- where everything is ---- */

/* In the shard of a rank: flat sections first, as in wr_zero_shard_at(). */
static uint64_t code_at(const weir_zero_options *o, const struct wr_zero_layout *l, const struct wr_zero_section *s, int rank)
{
    uint64_t before = (uint64_t)(s - l->sections) + (s->bounds ? l->nsections : 0);
    return wr_quant_before(wr_zero_shard_at(s, rank), before, o->quant_block);
}

uint64_t wr_zero_codes_bytes(const weir_zero_options *o, const struct wr_zero_layout *l, int rank)
{
    bool any = o->flags & WEIR_ZERO_QUANTIZED_PARAMS && l->ranks > 1;
    return any ? wr_quant_before(l->shard_n[rank], 2 * l->nsections, o->quant_block) : 0;
}

/* Of a block. */
static uint64_t staging_bytes(const weir_zero_options *o, const struct wr_zero_layout *l, uint64_t block)
{
    const struct wr_zero_block *b = &l->blocks[block];
    return (wr_quant_before(b->n, b->nsections * (uint64_t)l->ranks, o->quant_block) + 63) / 64 * 64;
}

uint64_t wr_zero_staging_room(const weir_zero_options *o, const struct wr_zero_layout *l)
{
    uint64_t most = 0, all = 0, size = weir_type_size((weir_type)o->param_type);
    if (!(o->flags & WEIR_ZERO_QUANTIZED_PARAMS) || l->ranks == 1)
        return 0;
    for (uint64_t b = 0; b < l->nblocks; b++) {
        uint64_t bytes = staging_bytes(o, l, b);
        most = WR_MAX(most, bytes);
        all += bytes;
    }
    return WR_MIN(most + o->prefetch_bytes / size, all);
}

static unsigned char *part_staging(const weir_zero *zero, uint64_t block, uint64_t part)
{
    const struct wr_zero_section *s = &zero->l.sections[zero->l.blocks[block].section + part / (uint64_t)zero->nshard];
    uint64_t at = s->at + wr_zero_bound(s, (int)(part % (uint64_t)zero->nshard));
    return zero->live.blocks[block].staging + wr_quant_before(at, part, zero->o.quant_block);
}

static unsigned char *part_data(const weir_zero *zero, uint64_t block, const struct wr_zero_section *s, int owner)
{
    return zero->live.blocks[block].data + (s->at + wr_zero_bound(s, owner)) * zero->wsize;
}

/* ---- making ---- */

static bool all_mapped(const weir_zero *zero)
{
    bool mapped = true;
    for (int r = 0; r < zero->nshard; r++)
        mapped &= r == zero->my_shard || weir_mem_peer_ptr(zero->live.codes, r);
    return mapped;
}

weir_status wr_zero_quant_create(weir_zero *zero)
{
    struct wr_zero_live *live = &zero->live;
    uint64_t codes = wr_zero_codes_bytes(&zero->o, &zero->l, zero->my_shard), room = wr_zero_staging_room(&zero->o, &zero->l);
    weir_status status = weir_mem_alloc(zero->shard, codes, 0, &live->codes);
    if (status != WEIR_OK)
        return wr_zero_comm_failed(zero, status);
    room = all_mapped(zero) ? 0 : room;
    status = weir_mem_alloc(zero->shard, room, 0, &live->staging);
    if (status != WEIR_OK)
        return wr_zero_comm_failed(zero, status);
    live->staging_room.base = room ? weir_mem_ptr(live->staging) : NULL;
    live->staging_room.bytes = room;
    wr_zero_count(zero, (int64_t)(codes + room));
    return WEIR_OK;
}

void wr_zero_quant_destroy(weir_zero *zero)
{
    if (zero->live.staging)
        weir_mem_free(zero->live.staging);
    if (zero->live.codes)
        weir_mem_free(zero->live.codes);
}

void wr_zero_quant_pack(weir_zero *zero, const struct wr_zero_section *s)
{
    unsigned char *to = (unsigned char *)weir_mem_ptr(zero->live.codes) + code_at(&zero->o, &zero->l, s, zero->my_shard);
    const unsigned char *from = (unsigned char *)weir_mem_ptr(zero->live.shards) + wr_zero_shard_at(s, zero->my_shard) * zero->wsize;
    wr_quant_pack(to, from, (weir_type)zero->o.param_type, wr_zero_part(s, zero->my_shard), zero->o.quant_block);
}

/* ---- gathering ---- */

bool wr_zero_quant_stage(weir_zero *zero, uint64_t block)
{
    struct wr_zero_live *live = &zero->live;
    if (!live->staging_room.bytes || live->blocks[block].staging)
        return true;
    live->blocks[block].staging = wr_zero_room_take(&live->staging_room, staging_bytes(&zero->o, &zero->l, block));
    return live->blocks[block].staging != NULL;
}

void wr_zero_quant_unstage(weir_zero *zero, uint64_t block)
{
    struct wr_zero_live_block *b = &zero->live.blocks[block];
    if (b->staging)
        wr_zero_room_give(&zero->live.staging_room, b->staging);
    b->staging = NULL;
}

weir_status wr_zero_quant_read(weir_zero *zero, uint64_t block, const struct wr_zero_section *s, int owner, weir_request **request)
{
    const struct wr_zero_live *live = &zero->live;
    uint64_t n = wr_zero_part(s, owner), from = code_at(&zero->o, &zero->l, s, owner), bytes = wr_quant_bytes(n, zero->o.quant_block);
    uint64_t section = (uint64_t)(s - zero->l.sections) - zero->l.blocks[block].section, part = section * (uint64_t)zero->nshard + (uint64_t)owner;
    const unsigned char *mapped = owner == zero->my_shard ? weir_mem_ptr(live->codes) : weir_mem_peer_ptr(live->codes, owner);
    *request = NULL;
    if (!n)
        return WEIR_OK;
    if (owner != zero->my_shard)
        wr_zero_count_read(zero, owner, bytes, mapped != NULL);
    if (mapped) {
        wr_quant_unpack(part_data(zero, block, s, owner), (weir_type)zero->o.param_type, mapped + from, n, zero->o.quant_block);
        return WEIR_OK;
    }
    live->blocks[block].packed[part] = 1;
    return weir_get(live->codes, part_staging(zero, block, part), bytes, owner, from, request);
}

void wr_zero_quant_arrived(weir_zero *zero, uint64_t block, uint64_t part)
{
    struct wr_zero_live_block *b = &zero->live.blocks[block];
    const struct wr_zero_section *s = &zero->l.sections[zero->l.blocks[block].section + part / (uint64_t)zero->nshard];
    int owner = (int)(part % (uint64_t)zero->nshard);
    if (b->packed[part])
        wr_quant_unpack(part_data(zero, block, s, owner), (weir_type)zero->o.param_type, part_staging(zero, block, part), wr_zero_part(s, owner),
                        zero->o.quant_block);
    b->packed[part] = 0;
}
