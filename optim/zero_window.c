/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stage 3 on nodes of several ranks: a block is gathered once a node, into a window that its ranks share.
 *
 * The window has slots, and each block has one of them that is its own or that it shares with others. A slot has a word that says which
 * block it holds, of which step, and how many ranks use it; who finds it unused may put another block there. A rank that needs a
 * block whose slot is in use for another one gathers for itself: nobody waits for a slot.
 *
 * A block comes in parts, one for each owner and section, and each part is read by the rank that claims it first: ahead of its use a
 * rank claims its share, when it needs the block all that nobody has claimed. It then waits for those of the others, but not long,
 * for they may be computing or gone: after a while it reads the part, too, which writes the same bytes once more. A rank leaves a
 * slot only when its own reads are complete.
 *
 * A secondary group has a window of its own in which each block has its slot. Nothing displaces a block then, so what the first use in a
 * step has gathered is still there for the others: a slot without users keeps its key and its marks.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/error.h"
#include "optim/zero.h"

#define PATIENCE_NS ((int64_t)20000000)

/* The word of a slot: key, then a bit while its marks are cleared, then the number of users. */
enum { KEY_SHIFT = 16, CLEARING = 1 << 15, USERS = CLEARING - 1 };

/* Marks of a part. */
enum { FREE, CLAIMED, THERE };

struct head {
    uint64_t word;
    uint8_t marks[]; /* by part */
};

static struct head *head_of(const weir_zero *zero, uint64_t block)
{
    const struct wr_zero_window *w = &zero->live.window;
    return (struct head *)(void *)((unsigned char *)weir_mem_ptr(w->memory) + w->slots[w->slot_of[block]].head);
}

/* A block in the step in which it is as it is. */
static uint64_t key_of(const weir_zero *zero, uint64_t block)
{
    uint64_t epoch = zero->l.blocks[block].grad_n ? zero->epoch : zero->frozen_epoch;
    return (epoch & 0xfffffff) << 20 | (block + 1);
}

static uint64_t parts_of(const weir_zero *zero, uint64_t block)
{
    return zero->l.blocks[block].nsections * (uint64_t)zero->nshard;
}

/* ---- making ---- */

static int count_local(const weir_zero *zero, int *local)
{
    int n = 0;
    for (int r = 0; r < zero->nshard; r++) {
        if (r == zero->my_shard)
            *local = n;
        n += r == zero->my_shard || weir_mem_peer_ptr(zero->live.shards, r);
    }
    return n;
}

/*
 * Blocks of more than twice the mean, and all of a secondary group, have slots of their own, the others share `room` bytes. Returns the
 * bytes of the window.
 */
static uint64_t place(struct wr_zero_window *w, const weir_zero *zero, uint64_t room)
{
    uint64_t nblocks = zero->l.nblocks, limit = w->group ? 0 : 2 * zero->l.n / nblocks, size = 0, ncommon = 0, large = 0, parts = 1, at = 0;
    for (uint64_t b = 0; b < nblocks; b++) {
        uint64_t n = zero->l.blocks[b].n;
        parts = WR_MAX(parts, parts_of(zero, b));
        size = WR_MAX(size, n > limit ? 0 : n * zero->wsize);
        large += n > limit ? n * zero->wsize : 0;
        ncommon += n <= limit;
    }
    size = (size + 63) / 64 * 64;
    uint64_t common = size ? (room > large ? room - large : 0) / size : 1;
    common = WR_MIN(WR_MAX(common, 2), WR_MAX(ncommon, 1));
    uint64_t next = common, turn = 0;
    for (uint64_t b = 0; b < nblocks; b++) {
        bool own = zero->l.blocks[b].n > limit;
        w->slot_of[b] = own ? next++ : turn++ % common;
        w->slots[w->slot_of[b]].bytes = own ? (zero->l.blocks[b].n * zero->wsize + 63) / 64 * 64 : size;
    }
    for (uint64_t s = 0; s < next; s++) {
        w->slots[s].head = at;
        at += (sizeof(struct head) + parts + 63) / 64 * 64;
    }
    for (uint64_t s = 0; s < next; s++) {
        w->slots[s].data = at;
        at += w->slots[s].bytes;
    }
    return at;
}

/* The ranks of a secondary group, by the lowest of them; -1 when they are not all on this node. */
static int group_of(const weir_zero *zero)
{
    uint64_t n = zero->o.secondary_group;
    int first = n == WEIR_ZERO_NODE ? 0 : zero->my_shard / (int)n * (int)n, end = n == WEIR_ZERO_NODE ? zero->nshard : first + (int)n;
    int lowest = zero->my_shard;
    for (int r = first; r < end; r++) {
        bool near = r == zero->my_shard || weir_mem_peer_ptr(zero->live.shards, r);
        if (!near && n != WEIR_ZERO_NODE)
            return -1;
        lowest = near ? WR_MIN(lowest, r) : lowest;
    }
    return lowest;
}

static weir_status make_group(weir_zero *zero)
{
    struct wr_zero_window *w = &zero->live.window;
    int color = group_of(zero);
    uint64_t bad = color < 0;
    weir_status status = weir_allreduce(zero->all, WEIR_IN_PLACE, &bad, 1, WEIR_UINT64, WEIR_MAX);
    if (status == WEIR_OK && !bad)
        status = weir_comm_split(zero->shard, color, zero->my_shard, &w->group);
    if (status != WEIR_OK)
        return wr_zero_comm_failed(zero, status);
    if (bad)
        return wr_zero_fail(zero, WEIR_ERR_INVALID, "take a divisor of the ranks of a node, or WEIR_ZERO_NODE",
                            "the ranks of a secondary group of %llu are on several nodes", (unsigned long long)zero->o.secondary_group);
    w->nlocal = weir_comm_size(w->group);
    w->local = weir_comm_rank(w->group);
    return WEIR_OK;
}

/* Whether there are nodes with windows. The ranks of a node decide alike, but allocating takes those of all. */
static weir_status find_local(weir_zero *zero, uint64_t *shared)
{
    struct wr_zero_window *w = &zero->live.window;
    w->nlocal = count_local(zero, &w->local);
    *shared = w->nlocal > 1;
    weir_status status = weir_allreduce(zero->shard, WEIR_IN_PLACE, shared, 1, WEIR_UINT64, WEIR_MAX);
    return status == WEIR_OK ? WEIR_OK : wr_zero_comm_failed(zero, status);
}

weir_status wr_zero_window_create(weir_zero *zero, uint64_t room)
{
    struct wr_zero_window *w = &zero->live.window;
    uint64_t shared = 1;
    weir_status status = zero->o.secondary_group > 1 ? make_group(zero) : find_local(zero, &shared);
    if (status != WEIR_OK || !shared)
        return status;
    w->shared = w->group || w->nlocal > 1;
    uint64_t bytes = w->shared ? place(w, zero, room) : 0;
    status = weir_mem_alloc(w->group ? w->group : zero->shard, bytes, WEIR_MEM_NODE_SHARED, &w->memory);
    if (status != WEIR_OK)
        return wr_zero_comm_failed(zero, status);
    wr_zero_count(zero, (int64_t)(bytes / (uint64_t)w->nlocal));
    return WEIR_OK;
}

weir_status wr_zero_window_prepare(weir_zero *zero)
{
    struct wr_zero_window *w = &zero->live.window;
    uint64_t nblocks = zero->l.nblocks;
    w->slot_of = calloc(nblocks, sizeof *w->slot_of);
    w->slots = calloc(2 * nblocks + 2, sizeof *w->slots);
    return w->slot_of && w->slots ? WEIR_OK : wr_error_memory(&zero->error, nblocks * sizeof *w->slots, "the window of a node");
}

void wr_zero_window_destroy(weir_zero *zero)
{
    struct wr_zero_window *w = &zero->live.window;
    if (w->memory)
        weir_mem_free(w->memory);
    if (w->group)
        weir_comm_free(w->group);
    free(w->slot_of);
    free(w->slots);
}

/* ---- slots ---- */

static void pause_for(int turn)
{
    struct timespec nap = {.tv_nsec = 50000};
    if (turn < 64)
        sched_yield();
    else
        nanosleep(&nap, NULL);
}

/* One user more of a slot that holds the block; false when that has changed meanwhile. */
static bool join(struct head *head, uint64_t key)
{
    int64_t deadline = wr_clock_ns() + PATIENCE_NS;
    for (int turn = 0;; turn++) {
        uint64_t word = __atomic_load_n(&head->word, __ATOMIC_ACQUIRE);
        if (word >> KEY_SHIFT != key || (word & USERS) == USERS || wr_clock_ns() > deadline)
            return false;
        if (word & CLEARING)
            pause_for(turn);
        else if (__atomic_compare_exchange_n(&head->word, &word, word + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return true;
    }
}

/* A slot that nobody uses. */
static bool capture(struct head *head, uint64_t key, uint64_t parts)
{
    uint64_t word = __atomic_load_n(&head->word, __ATOMIC_ACQUIRE);
    if (word & (USERS | CLEARING) ||
        !__atomic_compare_exchange_n(&head->word, &word, key << KEY_SHIFT | CLEARING | 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return false;
    for (uint64_t i = 0; i < parts; i++)
        __atomic_store_n(&head->marks[i], FREE, __ATOMIC_RELAXED);
    __atomic_and_fetch(&head->word, ~(uint64_t)CLEARING, __ATOMIC_RELEASE);
    return true;
}

bool wr_zero_window_take(weir_zero *zero, uint64_t block)
{
    struct wr_zero_window *w = &zero->live.window;
    struct head *head = head_of(zero, block);
    uint64_t key = key_of(zero, block);
    if (!join(head, key) && !capture(head, key, parts_of(zero, block)) && !join(head, key))
        return false;
    zero->live.blocks[block].data = (unsigned char *)weir_mem_ptr(w->memory) + w->slots[w->slot_of[block]].data;
    zero->live.blocks[block].shared = true;
    return true;
}

void wr_zero_window_give(weir_zero *zero, uint64_t block)
{
    __atomic_sub_fetch(&head_of(zero, block)->word, 1, __ATOMIC_ACQ_REL);
    zero->live.blocks[block].shared = false;
}

/* ---- parts ---- */

static weir_status read_part(weir_zero *zero, uint64_t block, uint64_t part)
{
    const struct wr_zero_section *s = &zero->l.sections[zero->l.blocks[block].section + part / (uint64_t)zero->nshard];
    return wr_zero_live_read(zero, block, s, (int)(part % (uint64_t)zero->nshard), &zero->live.blocks[block].requests[part]);
}

/* Starts to read the parts that nobody has claimed: all of them, or this rank's share. */
static weir_status claim(weir_zero *zero, uint64_t block, bool all)
{
    const struct wr_zero_window *w = &zero->live.window;
    struct wr_zero_live_block *b = &zero->live.blocks[block];
    struct head *head = head_of(zero, block);
    weir_status status = WEIR_OK;
    for (uint64_t i = 0; status == WEIR_OK && i < parts_of(zero, block); i++) {
        uint8_t mark = FREE;
        if (!all && i % (uint64_t)w->nlocal != (uint64_t)w->local)
            continue;
        if (!__atomic_compare_exchange_n(&head->marks[i], &mark, CLAIMED, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            continue;
        b->mine[i] = 1;
        status = read_part(zero, block, i);
    }
    return status == WEIR_OK ? WEIR_OK : wr_zero_comm_failed(zero, status);
}

weir_status wr_zero_window_begin(weir_zero *zero, uint64_t block)
{
    memset(zero->live.blocks[block].mine, 0, parts_of(zero, block));
    return claim(zero, block, false);
}

weir_status wr_zero_window_own(weir_zero *zero, uint64_t block)
{
    struct wr_zero_live_block *b = &zero->live.blocks[block];
    struct head *head = head_of(zero, block);
    weir_status status = WEIR_OK;
    for (uint64_t i = 0; status == WEIR_OK && i < parts_of(zero, block); i++) {
        if (!b->mine[i])
            continue;
        status = wr_zero_live_part(zero, block, i);
        b->mine[i] = 0;
        if (status == WEIR_OK)
            __atomic_store_n(&head->marks[i], THERE, __ATOMIC_RELEASE);
    }
    return status;
}

/* A part that another rank has claimed; read once more when that takes long. */
static weir_status wait_part(weir_zero *zero, uint64_t block, uint64_t part, int64_t deadline)
{
    struct head *head = head_of(zero, block);
    for (int turn = 0; __atomic_load_n(&head->marks[part], __ATOMIC_ACQUIRE) != THERE; turn++) {
        if (wr_clock_ns() > deadline) {
            weir_status status = read_part(zero, block, part);
            zero->live.blocks[block].mine[part] = 1;
            return status == WEIR_OK ? wr_zero_window_own(zero, block) : wr_zero_comm_failed(zero, status);
        }
        weir_signal_read(zero->live.shards, 0); /* others read from this rank meanwhile */
        pause_for(turn);
    }
    return WEIR_OK;
}

weir_status wr_zero_window_complete(weir_zero *zero, uint64_t block)
{
    weir_status status = claim(zero, block, true);
    if (status == WEIR_OK)
        status = wr_zero_window_own(zero, block);
    int64_t begin = wr_clock_ns();
    for (uint64_t i = 0; status == WEIR_OK && i < parts_of(zero, block); i++)
        status = wait_part(zero, block, i, begin + PATIENCE_NS);
    wr_zero_exposed(zero, begin);
    return status;
}
