/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gathered parameters (stage 3): a block is read from the shards of its owners when a unit needs it, or ahead of that, in the order
 * of the last pass, as long as the budgets allow. Reading takes nobody else, so ranks may differ in what they gather.
 *
 * With one rank the shard is the model, and blocks are where they are.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/error.h"
#include "optim/zero_param_disk.h"

enum { LOOK_AHEAD = 64 }; /* uses */

/*
 * Blocks, and bytes, whose reads are under way together when more are begun ahead: of more of them each would take longer, and the
 * one that is needed first would come as late as the last.
 */
enum { TOGETHER = 2, TOGETHER_BYTES = 256 << 10 };

static uint64_t block_bytes(const weir_zero *zero, uint64_t block)
{
    return zero->l.blocks[block].n * zero->wsize;
}

/* Always there: with one rank, and where there is nothing. */
static bool is_fixed(const weir_zero *zero, uint64_t block)
{
    return (zero->nshard == 1 && !wr_zero_params_on_disk(&zero->o)) || !zero->l.blocks[block].n;
}

/* ---- making ---- */

/* What the largest need of a unit takes, at least, and no more than all; all in a secondary group. */
uint64_t wr_zero_live_room(const weir_zero_options *o, const struct wr_zero_layout *l)
{
    uint64_t size = weir_type_size((weir_type)o->param_type), least = 0, all = l->n * size;
    if (o->stage < 3 || (l->ranks == 1 && !wr_zero_params_on_disk(o)))
        return 0;
    for (uint64_t u = 0; u < l->nunits; u++) {
        uint64_t need = 0;
        for (uint64_t i = 0; i < l->units[u].nblocks; i++)
            need += l->blocks[l->units[u].blocks[i]].n * size;
        least = WR_MAX(least, need);
    }
    return o->secondary_group > 1 ? all : WR_MIN(WR_MAX(least, o->max_live_bytes), all);
}

weir_status wr_zero_live_prepare(weir_zero *zero)
{
    struct wr_zero_live *live = &zero->live;
    uint64_t nblocks = zero->l.nblocks;
    if (zero->o.stage < 3)
        return WEIR_OK;
    live->blocks = calloc(nblocks, sizeof *live->blocks);
    live->room.spans = calloc(nblocks, sizeof *live->room.spans);
    live->room.cap = live->staging_room.cap = nblocks;
    live->staging_room.spans = calloc(nblocks, sizeof *live->staging_room.spans);
    if (!live->blocks || !live->room.spans || !live->staging_room.spans)
        return wr_error_memory(&zero->error, nblocks * sizeof *live->blocks, "the blocks of a model");
    for (uint64_t b = 0; b < nblocks; b++) {
        live->blocks[b].nparts = zero->l.blocks[b].nsections * (uint64_t)zero->nshard;
        live->blocks[b].requests = calloc(live->blocks[b].nparts + 1, sizeof(weir_request *));
        live->blocks[b].mine = calloc(live->blocks[b].nparts + 1, 1);
        live->blocks[b].packed = calloc(live->blocks[b].nparts + 1, 1);
        if (!live->blocks[b].requests || !live->blocks[b].mine || !live->blocks[b].packed)
            return wr_error_memory(&zero->error, live->blocks[b].nparts * sizeof(weir_request *), "the gathering of a block");
    }
    return wr_zero_window_prepare(zero);
}

weir_status wr_zero_live_create(weir_zero *zero)
{
    struct wr_zero_live *live = &zero->live;
    bool disk = wr_zero_params_on_disk(&zero->o);
    uint64_t shard = disk ? 0 : zero->l.shard_n[zero->my_shard] * zero->wsize, room = wr_zero_live_room(&zero->o, &zero->l);
    weir_status status = weir_mem_alloc(zero->nshard > 1 ? zero->shard : zero->all, shard, 0, &live->shards);
    if (status != WEIR_OK)
        return wr_zero_comm_failed(zero, status);
    if (wr_zero_quantized_params(zero) && (status = wr_zero_quant_create(zero)) != WEIR_OK)
        return status;
    if (room && !disk && !(zero->o.flags & WEIR_ZERO_PRIVATE) && (status = wr_zero_window_create(zero, room)) != WEIR_OK)
        return status;
    room = live->window.shared ? 0 : room;
    status = weir_mem_alloc(zero->all, room, 0, &live->memory);
    if (status != WEIR_OK)
        return wr_zero_comm_failed(zero, status);
    wr_zero_count(zero, (int64_t)(shard + room));
    live->room.base = room ? weir_mem_ptr(live->memory) : NULL;
    live->room.bytes = room;
    for (uint64_t b = 0; b < zero->l.nblocks; b++)
        if (is_fixed(zero, b)) {
            live->blocks[b].data = (unsigned char *)weir_mem_ptr(live->shards) + (zero->nshard == 1 && !disk ? zero->l.blocks[b].at * zero->wsize : 0);
            live->blocks[b].state = WR_ZERO_LIVE;
        }
    return WEIR_OK;
}

void wr_zero_live_destroy(weir_zero *zero)
{
    struct wr_zero_live *live = &zero->live;
    wr_zero_param_disk_destroy(zero);
    for (uint64_t b = 0; live->blocks && b < zero->l.nblocks; b++) {
        if (live->blocks[b].requests)
            weir_waitall(live->blocks[b].nparts, live->blocks[b].requests);
        if (live->blocks[b].overflow)
            wr_zero_unmap(zero, live->blocks[b].data, live->blocks[b].bytes);
        free(live->blocks[b].requests);
        free(live->blocks[b].mine);
        free(live->blocks[b].packed);
    }
    wr_zero_window_destroy(zero);
    wr_zero_quant_destroy(zero);
    if (live->memory)
        weir_mem_free(live->memory);
    if (live->shards)
        weir_mem_free(live->shards);
    free(live->blocks);
    free(live->room.spans);
    free(live->staging_room.spans);
}

/* ---- one block ---- */

weir_status wr_zero_live_part(weir_zero *zero, uint64_t block, uint64_t part)
{
    weir_status status = wr_zero_wait(zero, &zero->live.blocks[block].requests[part]);
    if (status == WEIR_OK)
        wr_zero_quant_arrived(zero, block, part);
    return status;
}

/* A block is not coming any more. */
static void came(weir_zero *zero, uint64_t block)
{
    wr_zero_flight_end(zero);
    wr_zero_trace_add(zero, WR_ZERO_DID_GATHER, block, zero->live.blocks[block].started, block_bytes(zero, block));
}

static weir_status complete(weir_zero *zero, uint64_t block)
{
    struct wr_zero_live_block *b = &zero->live.blocks[block];
    weir_status status = WEIR_OK;
    if (b->state != WR_ZERO_COMING)
        return WEIR_OK;
    if (b->shared)
        status = wr_zero_window_complete(zero, block);
    if (zero->param_disk)
        status = wr_zero_param_disk_complete(zero, block);
    for (uint64_t i = 0; !b->shared && status == WEIR_OK && i < b->nparts; i++)
        status = wr_zero_live_part(zero, block, i);
    if (status != WEIR_OK)
        return status;
    wr_zero_quant_unstage(zero, block);
    came(zero, block);
    b->state = WR_ZERO_LIVE;
    return WEIR_OK;
}

static void used(weir_zero *zero, struct wr_zero_live_block *b)
{
    zero->live.ahead_bytes -= b->ahead ? b->bytes : 0;
    b->ahead = false;
}

/* Nobody uses it; it may be coming still. */
static weir_status drop(weir_zero *zero, uint64_t block)
{
    struct wr_zero_live_block *b = &zero->live.blocks[block];
    bool coming = b->shared && b->state == WR_ZERO_COMING;
    weir_status status = coming ? wr_zero_window_own(zero, block) : complete(zero, block);
    if (status != WEIR_OK)
        return status;
    wr_zero_quant_unstage(zero, block);
    if (coming)
        came(zero, block);
    used(zero, b);
    zero->live.bytes -= b->bytes;
    if (b->shared)
        wr_zero_window_give(zero, block);
    else if (b->overflow)
        wr_zero_unmap(zero, b->data, b->bytes);
    else
        wr_zero_room_give(&zero->live.room, b->data);
    b->overflow = false;
    b->data = NULL;
    b->state = WR_ZERO_ABSENT;
    return WEIR_OK;
}

weir_status wr_zero_live_read(weir_zero *zero, uint64_t block, const struct wr_zero_section *s, int owner, weir_request **request)
{
    if (wr_zero_quantized_params(zero))
        return wr_zero_quant_read(zero, block, s, owner, request);
    unsigned char *to = zero->live.blocks[block].data + (s->at + wr_zero_bound(s, owner)) * zero->wsize;
    uint64_t bytes = wr_zero_part(s, owner) * zero->wsize, from = wr_zero_shard_at(s, owner) * zero->wsize;
    *request = NULL;
    if (!bytes)
        return WEIR_OK;
    if (owner == zero->my_shard) {
        memcpy(to, (unsigned char *)weir_mem_ptr(zero->live.shards) + from, bytes);
        return WEIR_OK;
    }
    wr_zero_count_read(zero, owner, bytes, weir_mem_peer_ptr(zero->live.shards, owner) != NULL);
    return weir_get(zero->live.shards, to, bytes, owner, from, request);
}

/* For this rank alone. The neighbours first, so that not all ranks read from the same one. */
static weir_status begin_alone(weir_zero *zero, uint64_t block)
{
    struct wr_zero_live_block *b = &zero->live.blocks[block];
    const struct wr_zero_block *of = &zero->l.blocks[block];
    weir_status status = WEIR_OK;
    for (uint64_t s = 0; s < of->nsections; s++)
        for (int i = 0; status == WEIR_OK && i < zero->nshard; i++) {
            int owner = (zero->my_shard + 1 + i) % zero->nshard;
            status = wr_zero_live_read(zero, block, &zero->l.sections[of->section + s], owner, &b->requests[s * (uint64_t)zero->nshard + (uint64_t)owner]);
        }
    return status == WEIR_OK ? WEIR_OK : wr_zero_comm_failed(zero, status);
}

/* Room for what comes from other nodes; blocks that are coming are completed until there is some. */
static weir_status find_staging(weir_zero *zero, uint64_t block)
{
    weir_status status = WEIR_OK;
    for (uint64_t i = 0; status == WEIR_OK && !wr_zero_quant_stage(zero, block); i++)
        status = i < zero->l.nblocks ? complete(zero, i) : wr_zero_fail(zero, WEIR_ERR_INTERNAL, NULL, "no room for a block of int8");
    return status;
}

/* Begins to read a block that has memory. */
static weir_status begin(weir_zero *zero, uint64_t block)
{
    struct wr_zero_live_block *b = &zero->live.blocks[block];
    weir_status status = wr_zero_wait(zero, &zero->fences[b->first ? 0 : 1]);
    if (status == WEIR_OK)
        status = find_staging(zero, block);
    if (status != WEIR_OK)
        return status;
    b->started = wr_clock_ns();
    b->state = WR_ZERO_COMING;
    zero->report.gathers++;
    wr_zero_flight_begin(zero);
    if (zero->param_disk)
        status = wr_zero_param_disk_begin(zero, block);
    else
        status = b->shared ? wr_zero_window_begin(zero, block) : begin_alone(zero, block);
    wr_zero_exposed(zero, b->started);
    return status;
}

static void count(weir_zero *zero, struct wr_zero_live_block *b, uint64_t bytes)
{
    b->bytes = bytes;
    zero->live.bytes += bytes;
    zero->report.live_peak = WR_MAX(zero->report.live_peak, zero->live.bytes);
}

/* ---- room ---- */

/* The unit that is used `ahead` uses later. After the last pass of a step nothing is worth keeping or gathering. */
static bool next_use(const weir_zero *zero, uint64_t ahead, uint64_t *unit)
{
    const struct wr_zero_order *order = &zero->order[zero->pass];
    bool last = zero->pass != WEIR_ZERO_TRAIN || zero->passes == zero->o.accumulate;
    if (last && order->at + ahead >= order->nknown)
        return false;
    return wr_zero_order_next(order, ahead, unit);
}

/* The use of a block that comes next, in bytes that are gathered before it; UINT64_MAX when none is known. */
static uint64_t distance(const weir_zero *zero, uint64_t block)
{
    uint64_t unit, bytes = 0;
    for (uint64_t i = 0; next_use(zero, i, &unit); i++) {
        const struct wr_zero_unit *u = &zero->l.units[unit];
        for (uint64_t k = 0; k < u->nblocks; k++) {
            if (u->blocks[k] == block)
                return bytes;
            bytes += block_bytes(zero, u->blocks[k]);
        }
    }
    return UINT64_MAX;
}

/* Whether dropping a block makes room for another one. */
static bool in_the_way(const weir_zero *zero, uint64_t block, uint64_t of)
{
    const struct wr_zero_live_block *b = &zero->live.blocks[block];
    const struct wr_zero_window *w = &zero->live.window;
    if (b->state == WR_ZERO_ABSENT || b->pins || b->overflow || is_fixed(zero, block))
        return false;
    return !w->shared || w->slot_of[block] == w->slot_of[of];
}

/* Drops the block that is used last of those that nobody uses now; false when there is none. */
static bool make_room(weir_zero *zero, uint64_t of, weir_status *status)
{
    uint64_t last = UINT64_MAX, farthest = 0;
    for (uint64_t i = 0; i < zero->l.nblocks; i++) {
        if (!in_the_way(zero, i, of))
            continue;
        uint64_t d = distance(zero, i);
        if (last == UINT64_MAX || d > farthest) {
            last = i;
            farthest = d;
        }
    }
    *status = last == UINT64_MAX ? WEIR_OK : drop(zero, last);
    return last != UINT64_MAX && *status == WEIR_OK;
}

/* Memory for a block where gathered blocks usually are. */
static bool place(weir_zero *zero, uint64_t block)
{
    struct wr_zero_live *live = &zero->live;
    if (live->window.shared)
        return wr_zero_window_take(zero, block);
    live->blocks[block].data = wr_zero_room_take(&live->room, block_bytes(zero, block));
    return live->blocks[block].data != NULL;
}

static weir_status find_room(weir_zero *zero, uint64_t block)
{
    struct wr_zero_live_block *b = &zero->live.blocks[block];
    weir_status status = WEIR_OK;
    bool placed;
    while (!(placed = place(zero, block)) && make_room(zero, block, &status))
        ;
    if (placed || status != WEIR_OK)
        return status;
    b->data = wr_zero_map(zero, block_bytes(zero, block), "units that are at work together");
    b->overflow = b->data != NULL;
    return b->data ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

/* ---- what hooks do ---- */

weir_status wr_zero_live_pin(weir_zero *zero, uint64_t block)
{
    struct wr_zero_live_block *b = &zero->live.blocks[block];
    uint64_t bytes = block_bytes(zero, block);
    weir_status status = WEIR_OK;
    if (b->state == WR_ZERO_ABSENT) {
        status = find_room(zero, block);
        if (status != WEIR_OK)
            return status;
        count(zero, b, bytes);
        status = begin(zero, block);
    } else if (b->ahead) {
        zero->report.prefetched++;
    }
    if (status == WEIR_OK)
        status = complete(zero, block);
    if (status != WEIR_OK)
        return status;
    used(zero, b);
    b->pins++;
    return WEIR_OK;
}

static bool stays(const weir_zero *zero, uint64_t block, uint64_t bytes)
{
    return is_fixed(zero, block) || bytes <= zero->o.persistent_bytes || distance(zero, block) < zero->o.reuse_bytes;
}

weir_status wr_zero_live_unpin(weir_zero *zero, uint64_t block)
{
    struct wr_zero_live_block *b = &zero->live.blocks[block];
    if (b->pins && --b->pins == 0 && (b->overflow || !stays(zero, block, b->bytes)))
        return drop(zero, block);
    return WEIR_OK;
}

/* Reads of this rank that are under way. */
struct traffic {
    uint64_t blocks, bytes;
};

static weir_status look_at(weir_zero *zero, struct traffic *t)
{
    *t = (struct traffic){0};
    for (uint64_t i = 0; i < zero->l.nblocks; i++) {
        struct wr_zero_live_block *b = &zero->live.blocks[i];
        weir_status status = WEIR_OK;
        for (uint64_t part = 0; b->state == WR_ZERO_COMING && status == WEIR_OK && part < b->nparts; part++)
            status = b->requests[part] ? weir_test(&b->requests[part]) : WEIR_OK;
        if (status != WEIR_OK && status != WEIR_IN_PROGRESS)
            return wr_zero_comm_failed(zero, status);
        t->blocks += status == WEIR_IN_PROGRESS;
        t->bytes += status == WEIR_IN_PROGRESS ? block_bytes(zero, i) : 0;
    }
    return WEIR_OK;
}

/* Begins to gather a block ahead; false when a budget is used up, or enough is coming. */
static bool ahead(weir_zero *zero, uint64_t block, struct traffic *coming, weir_status *status)
{
    struct wr_zero_live *live = &zero->live;
    struct wr_zero_live_block *b = &live->blocks[block];
    uint64_t bytes = block_bytes(zero, block);
    if (b->state != WR_ZERO_ABSENT)
        return true;
    if ((live->updating && !b->first) || (coming->blocks >= TOGETHER && coming->bytes + bytes > TOGETHER_BYTES))
        return false;
    if (live->ahead_bytes + bytes > zero->o.prefetch_bytes || !wr_zero_quant_stage(zero, block))
        return false;
    if (!place(zero, block)) {
        wr_zero_quant_unstage(zero, block);
        return false;
    }
    count(zero, b, bytes);
    b->ahead = true;
    live->ahead_bytes += bytes;
    coming->blocks++;
    coming->bytes += bytes;
    *status = begin(zero, block);
    return *status == WEIR_OK;
}

/*
 * All ranks must take the same ones, for the fence says that they are updated everywhere: those whose gradients leave last, in the
 * order of all ranks.
 */
void wr_zero_live_choose_first(weir_zero *zero)
{
    uint64_t bytes = 0;
    for (uint64_t i = zero->l.nblocks; i-- > 0;) {
        uint64_t block = zero->g.order[i];
        bytes += block_bytes(zero, block);
        zero->live.blocks[block].first = bytes <= zero->o.prefetch_bytes;
    }
}

weir_status wr_zero_live_ahead(weir_zero *zero)
{
    struct traffic coming;
    bool more = zero->nshard > 1 || zero->param_disk;
    weir_status status = more ? look_at(zero, &coming) : WEIR_OK;
    uint64_t unit;
    more = more && status == WEIR_OK;
    for (uint64_t i = 0; more && i < LOOK_AHEAD && next_use(zero, i, &unit); i++)
        for (uint64_t k = 0; more && k < zero->l.units[unit].nblocks; k++)
            more = ahead(zero, zero->l.units[unit].blocks[k], &coming, &status);
    return status;
}

static weir_status drop_all(weir_zero *zero, bool frozen)
{
    weir_status status = WEIR_OK;
    for (uint64_t i = 0; zero->o.stage == 3 && status == WEIR_OK && i < zero->l.nblocks; i++)
        if (zero->live.blocks[i].state != WR_ZERO_ABSENT && !is_fixed(zero, i) && (frozen || zero->l.blocks[i].grad_n))
            status = drop(zero, i);
    return status;
}

weir_status wr_zero_live_settle(weir_zero *zero)
{
    return drop_all(zero, false);
}

weir_status wr_zero_live_forget(weir_zero *zero)
{
    zero->epoch++;
    zero->frozen_epoch++;
    return drop_all(zero, true);
}
