/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gradients: where they are added, and when they leave.
 *
 * A block leaves when the units that it belongs to were used backward as often as in the pass before (in the first one as often
 * as forward), and all blocks before it in the order have left. The order is the same on all ranks, so a rank that uses units otherwise delays its blocks, at the latest to
 * the end of the pass or of the step, and nobody waits for ever. What comes after its block has left is kept apart; it leaves with
 * the next micro-batch, or, when a rank has such gradients at the end of the step, in one more round of all ranks.
 */
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/error.h"
#include "optim/zero.h"

static bool once(const weir_zero_options *o)
{
    return o->reduce == WEIR_ZERO_REDUCE_ONCE;
}

static uint64_t block_bytes(const weir_zero *zero, uint64_t block)
{
    return zero->l.blocks[block].grad_n * zero->gsize;
}

/* ---- making ---- */

/* The largest block and two of the second: one that is added to, one on its way, and one that is held because it is tied. */
uint64_t wr_zero_grad_room(const weir_zero_options *o, const struct wr_zero_layout *l)
{
    uint64_t most = 0, second = 0, size = weir_type_size((weir_type)o->grad_type);
    if (once(o))
        return l->grad_n * size;
    for (uint64_t b = 0; b < l->nblocks; b++) {
        uint64_t n = l->blocks[b].grad_n;
        if (n > most) {
            second = most;
            most = n;
        } else if (n > second) {
            second = n;
        }
    }
    return WR_MIN(most + 2 * second, l->grad_n) * size;
}

weir_status wr_zero_grads_prepare(weir_zero *zero)
{
    struct wr_zero_grads *g = &zero->g;
    uint64_t nblocks = zero->l.nblocks;
    g->nslots = (once(&zero->o) ? nblocks : 0) + nblocks + WR_ZERO_JOBS;
    g->rounds = once(&zero->o) ? 1 : zero->o.accumulate;
    g->slots = calloc(g->nslots, sizeof *g->slots);
    g->blocks = calloc(nblocks, sizeof *g->blocks);
    g->order = calloc(nblocks, sizeof *g->order);
    g->seen = calloc(nblocks, sizeof *g->seen);
    g->shard_at = calloc(zero->l.nsections + 1, sizeof *g->shard_at);
    g->room.spans = calloc(g->nslots, sizeof *g->room.spans);
    g->room.cap = g->nslots;
    if (!g->slots || !g->blocks || !g->order || !g->seen || !g->shard_at || !g->room.spans)
        return wr_error_memory(&zero->error, nblocks * sizeof *g->blocks, "the gradients of a model");
    for (uint64_t b = 0; b < nblocks; b++)
        g->order[b] = g->seen[b] = nblocks - 1 - b;
    for (uint64_t s = 0; s < zero->l.nsections; s++) {
        g->shard_at[s] = g->shard_n;
        g->shard_n += zero->l.sections[s].trainable ? wr_zero_part(&zero->l.sections[s], zero->my_shard) : 0;
    }
    if (!once(&zero->o) && !(g->shard = wr_zero_alloc(zero, wr_zero_levels(&zero->o) * g->shard_n * sizeof(float), "sums of gradients")))
        return WEIR_ERR_NO_MEMORY;
    return wr_zero_quantized_grads(zero) ? wr_zero_quant_grad_prepare(zero) : WEIR_OK;
}

weir_status wr_zero_grads_create(weir_zero *zero)
{
    struct wr_zero_grads *g = &zero->g;
    uint64_t bytes = wr_zero_grad_room(&zero->o, &zero->l);
    weir_status status = weir_mem_alloc(zero->all, bytes, 0, &g->memory);
    if (status != WEIR_OK)
        return wr_zero_comm_failed(zero, status);
    wr_zero_count(zero, (int64_t)bytes);
    if (wr_zero_quantized_grads(zero) && (status = wr_zero_quant_grad_create(zero)) != WEIR_OK)
        return status;
    g->room.base = weir_mem_ptr(g->memory);
    g->room.bytes = once(&zero->o) ? 0 : bytes;
    for (uint64_t b = 0; once(&zero->o) && b < zero->l.nblocks; b++)
        g->slots[b] = (struct wr_zero_slot){.data = g->room.base + zero->l.blocks[b].grad_at * zero->gsize,
                                            .bytes = block_bytes(zero, b), .used = true, .kept = true};
    wr_zero_grads_reset(zero);
    for (uint64_t b = 0; b < zero->l.nblocks; b++)
        g->blocks[b].stale = false; /* new memory is zero */
    return WEIR_OK;
}

void wr_zero_grads_destroy(weir_zero *zero)
{
    struct wr_zero_grads *g = &zero->g;
    for (uint64_t i = 0; g->slots && i < g->nslots; i++)
        if (g->slots[i].overflow)
            wr_zero_unmap(zero, g->slots[i].data, g->slots[i].bytes);
    wr_zero_quant_grad_destroy(zero);
    if (g->memory)
        weir_mem_free(g->memory);
    free(g->slots);
    free(g->blocks);
    free(g->order);
    free(g->seen);
    free(g->shard_at);
    free(g->room.spans);
    free(g->shard);
}

void wr_zero_grads_reset(weir_zero *zero)
{
    struct wr_zero_grads *g = &zero->g;
    g->round = g->next = 0;
    if (zero->norm_blocks)
        memset(zero->norm_blocks, 0, 2 * zero->l.norm_blocks * sizeof *zero->norm_blocks);
    for (uint64_t b = 0; b < zero->l.nblocks; b++) {
        struct wr_zero_grad_block *gb = &g->blocks[b];
        if (gb->slot && !gb->slot->kept) {
            gb->slot->used = false;
            wr_zero_slot_give(zero, gb->slot);
        }
        gb->slot = once(&zero->o) ? &g->slots[b] : NULL;
        gb->stale = once(&zero->o);
        gb->launched = false;
    }
}

/* ---- slots ---- */

void wr_zero_slot_give(weir_zero *zero, struct wr_zero_slot *slot)
{
    if (slot->kept || slot->used || slot->reading)
        return;
    if (slot->overflow)
        wr_zero_unmap(zero, slot->data, slot->bytes);
    else
        wr_zero_room_give(&zero->g.room, slot->data);
    *slot = (struct wr_zero_slot){0};
}

/* Room for a slot; reductions are completed until there is some. */
static weir_status find_room(weir_zero *zero, struct wr_zero_slot *slot)
{
    struct wr_zero_grads *g = &zero->g;
    weir_status status = WEIR_OK;
    while (!(slot->data = wr_zero_room_take(&g->room, slot->bytes)) && g->head != g->tail && status == WEIR_OK)
        status = wr_zero_reduce_oldest(zero);
    if (status != WEIR_OK || slot->data)
        return status;
    slot->overflow = true;
    slot->data = wr_zero_map(zero, slot->bytes, "gradients that units at work hold");
    return slot->data ? WEIR_OK : WEIR_ERR_NO_MEMORY;
}

/* Gives a block a slot of zeros. */
static weir_status take_slot(weir_zero *zero, uint64_t block)
{
    struct wr_zero_grads *g = &zero->g;
    struct wr_zero_slot *slot = NULL;
    for (uint64_t i = 0; !slot && i < g->nslots; i++)
        if (!g->slots[i].used && !g->slots[i].reading && !g->slots[i].kept)
            slot = &g->slots[i];
    if (!slot)
        return wr_zero_fail(zero, WEIR_ERR_INTERNAL, NULL, "gradients of more blocks are held than there are");
    slot->bytes = block_bytes(zero, block);
    slot->used = true;
    weir_status status = find_room(zero, slot);
    if (status != WEIR_OK) {
        *slot = (struct wr_zero_slot){0};
        return status;
    }
    memset(slot->data, 0, slot->bytes);
    g->blocks[block].slot = slot;
    return WEIR_OK;
}

/* The block has a slot that holds what this step has added to it. */
static weir_status have_slot(weir_zero *zero, uint64_t block)
{
    struct wr_zero_grad_block *gb = &zero->g.blocks[block];
    if (!gb->slot)
        return take_slot(zero, block);
    if (gb->stale)
        memset(gb->slot->data, 0, gb->slot->bytes);
    gb->stale = false;
    return WEIR_OK;
}

/* ---- leaving ---- */

static weir_status launch(weir_zero *zero, uint64_t block, bool extra)
{
    struct wr_zero_grad_block *gb = &zero->g.blocks[block];
    const struct wr_zero_block *b = &zero->l.blocks[block];
    gb->launched = true;
    if (!b->grad_n)
        return WEIR_OK;
    weir_status status = have_slot(zero, block);
    struct wr_zero_slot *slot = gb->slot;
    if (status != WEIR_OK)
        return status;
    slot->reading++; /* until all of its sections are on their way */
    slot->used = false;
    gb->slot = NULL;
    for (uint64_t s = b->section; status == WEIR_OK && s < b->section + b->nsections; s++)
        if (zero->l.sections[s].trainable)
            status = wr_zero_reduce(zero, s, slot, extra);
    slot->reading--;
    wr_zero_slot_give(zero, slot);
    return status;
}

static bool is_ready(const weir_zero *zero, uint64_t block)
{
    const struct wr_zero_grad_block *gb = &zero->g.blocks[block];
    uint64_t wanted = gb->expected ? gb->expected : gb->forwards;
    return !zero->l.blocks[block].grad_n || (wanted && gb->uses >= wanted && !gb->open);
}

static weir_status launch_ready(weir_zero *zero)
{
    struct wr_zero_grads *g = &zero->g;
    weir_status status = WEIR_OK;
    while (status == WEIR_OK && g->leaving && g->next < zero->l.nblocks && is_ready(zero, g->order[g->next]))
        status = launch(zero, g->order[g->next++], false);
    return status;
}

/* Everything that has not left in this round. */
static weir_status launch_rest(weir_zero *zero)
{
    struct wr_zero_grads *g = &zero->g;
    weir_status status = WEIR_OK;
    while (status == WEIR_OK && g->next < zero->l.nblocks)
        status = launch(zero, g->order[g->next++], false);
    g->round++;
    g->next = 0;
    return status;
}

/* ---- what the program does ---- */

weir_status wr_zero_grads_open(weir_zero *zero, uint64_t block)
{
    if (!zero->l.blocks[block].grad_n)
        return WEIR_OK;
    weir_status status = have_slot(zero, block);
    if (status == WEIR_OK)
        zero->g.blocks[block].open++;
    return status;
}

void wr_zero_grads_forward(weir_zero *zero, uint64_t block)
{
    zero->g.blocks[block].forwards++;
}

weir_status wr_zero_grads_used(weir_zero *zero, uint64_t block)
{
    struct wr_zero_grad_block *gb = &zero->g.blocks[block];
    if (gb->open)
        gb->open--;
    gb->uses++;
    gb->last = ++zero->g.uses;
    weir_status status = launch_ready(zero);
    return status == WEIR_OK ? wr_zero_reduce_progress(zero) : status;
}

void wr_zero_grads_begin(weir_zero *zero)
{
    struct wr_zero_grads *g = &zero->g;
    g->leaving = !once(&zero->o) || zero->passes == zero->o.accumulate;
    g->uses = 0;
    for (uint64_t b = 0; b < zero->l.nblocks; b++) {
        g->blocks[b].forwards = g->blocks[b].uses = g->blocks[b].last = 0;
        g->blocks[b].launched = false;
    }
}

/* The order of the last uses of blocks in this pass; those that were not used come last, from the last on. */
static void look_back(weir_zero *zero)
{
    struct wr_zero_grads *g = &zero->g;
    uint64_t n = 0;
    for (uint64_t b = zero->l.nblocks; b-- > 0;) {
        uint64_t last = g->blocks[b].last, i = n++;
        for (; i > 0; i--) {
            uint64_t other = g->blocks[g->seen[i - 1]].last;
            if (!last || (other && other < last))
                break;
            g->seen[i] = g->seen[i - 1];
        }
        g->seen[i] = b;
        g->blocks[b].expected = g->blocks[b].uses;
    }
}

weir_status wr_zero_grads_end(weir_zero *zero)
{
    look_back(zero);
    if (!zero->g.leaving)
        return WEIR_OK;
    weir_status status = launch_rest(zero);
    zero->g.leaving = false;
    return status == WEIR_OK ? wr_zero_reduce_progress(zero) : status;
}

weir_status wr_zero_grads_finish(weir_zero *zero)
{
    struct wr_zero_grads *g = &zero->g;
    weir_status status = WEIR_OK;
    while (status == WEIR_OK && g->round < g->rounds)
        status = launch_rest(zero);
    return status == WEIR_OK ? wr_zero_reduce_all(zero) : status;
}

/* ---- gradients that came too late ---- */

static bool is_late(const weir_zero *zero, uint64_t block)
{
    const struct wr_zero_slot *slot = zero->g.blocks[block].slot;
    return slot && zero->l.blocks[block].grad_n;
}

bool wr_zero_grads_late(const weir_zero *zero)
{
    for (uint64_t b = 0; b < zero->l.nblocks; b++)
        if (is_late(zero, b))
            return true;
    return false;
}

weir_status wr_zero_grads_extra(weir_zero *zero)
{
    uint64_t nblocks = zero->l.nblocks;
    uint8_t *late = calloc(nblocks, 1);
    if (!late)
        return wr_error_memory(&zero->error, nblocks, "a step");
    for (uint64_t b = 0; b < nblocks; b++)
        late[b] = is_late(zero, b);
    weir_status status = weir_allreduce(zero->all, WEIR_IN_PLACE, late, nblocks, WEIR_UINT8, WEIR_MAX);
    if (status != WEIR_OK)
        status = wr_zero_comm_failed(zero, status);
    for (uint64_t i = 0; status == WEIR_OK && i < nblocks; i++)
        if (late[zero->g.order[i]])
            status = launch(zero, zero->g.order[i], true);
    free(late);
    return status == WEIR_OK ? wr_zero_reduce_all(zero) : status;
}

/* ---- the order of all ranks ---- */

uint64_t wr_zero_grads_seen(const weir_zero *zero)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (uint64_t i = 0; i < zero->l.nblocks; i++)
        h = (h ^ zero->g.seen[i]) * 0x100000001b3u;
    return h;
}

void wr_zero_grads_adopt(weir_zero *zero)
{
    memcpy(zero->g.order, zero->g.seen, zero->l.nblocks * sizeof *zero->g.order);
}

int64_t wr_zero_grads_differ(const weir_zero *zero)
{
    for (uint64_t i = 0; i < zero->l.nblocks; i++)
        if (zero->g.seen[i] != zero->g.order[i])
            return (int64_t)zero->l.blocks[zero->g.seen[i]].unit;
    return -1;
}
