/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of the fast path. */
#ifndef WR_FAST_IMPL_H
#define WR_FAST_IMPL_H

#include "base/compiler.h"
#include "comm/coll/coll.h"
#include "comm/kernel/kernel.h"
#include "comm/kernel/loops_table.h"

enum {
    WR_FAST_SLOTS = 64,        /* calls that a rank can be ahead of the others ... */
    WR_FAST_AREAS = 8,         /* ... and such calls whose data do not stand beside the word */
    WR_FAST_INLINE = WR_FLAG_LINE - 8, /* bytes beside the word: slots stand that far apart anyway */
    WR_FAST_BYTES = 16 << 10,  /* that a slot holds */
    WR_FAST_READ = 64 << 10    /* that a rank reads in one call */
};

struct wr_fast_slot {
    uint64_t word; /* number of the call << 32 | hash */
    unsigned char inside[WR_FAST_INLINE];
} WR_ALIGNED(WR_FLAG_LINE);

struct wr_fast_area {
    unsigned char data[WR_FAST_BYTES];
    unsigned char gap[WR_CACHE_LINE]; /* areas do not all begin in the same set of the cache */
} WR_ALIGNED(WR_CACHE_LINE);

/* The latest calls of a rank, for the others to compare. */
struct wr_fast_record {
    uint64_t number_plus_one;
    struct wr_coll_record record;
} WR_ALIGNED(WR_CACHE_LINE);

/* What a rank shows to the others. */
struct wr_fast_part {
    struct wr_fast_record board[WR_COLL_RECORDS];
    struct wr_fast_slot slots[WR_FAST_SLOTS];
    struct wr_fast_area areas[WR_FAST_AREAS];
};

struct wr_fast {
    struct wr_coll_state *state;
    struct weir_mem *mem;
    struct wr_transport *shm;
    int n, me;
    uint32_t seq;   /* of the latest call that was posted */
    uint32_t floor; /* all have begun this one */
    bool fence;     /* a full fence before looking for sleepers */
    uint32_t served; /* a bit for each collective */
    struct wr_list queue; /* wr_coll_request, the first one is on its way */
    struct wr_fast_call *direct; /* the blocking call that waits in the engine */
    weir_status broken;
    int lost;
    int suspect; /* a rank whose calls differ from this one's, -1 for none */
    struct wr_fast_mate {
        struct wr_fast_part *part;
        const uint32_t *sleeping; /* not 0: to be woken after something was written for it */
        int rank;                 /* in the world */
    } mate[WR_FAST_RANKS];
    struct wr_kernel kernel[WR_KERNEL_TYPES][WR_KERNEL_OPS]; /* size 0: not looked for yet */
};

static inline struct wr_fast_slot *wr_fast_slot_of(const struct wr_fast *f, int rank, uint32_t seq)
{
    return &f->mate[rank].part->slots[seq % WR_FAST_SLOTS];
}

/* ---- fast_data.c: what goes into the slot and what comes out of the others' ---- */

/* Where a rank leaves `left` bytes in a call. */
static inline unsigned char *wr_fast_data_of(const struct wr_fast *f, int rank, uint32_t seq, uint64_t left)
{
    return left <= WR_FAST_INLINE ? wr_fast_slot_of(f, rank, seq)->inside : f->mate[rank].part->areas[seq % WR_FAST_AREAS].data;
}

/* Bytes that each rank leaves in its slot at most, and bytes that it reads: the same at all ranks. */
void wr_fast_sizes(const struct wr_fast *f, const struct wr_coll_call *call, uint64_t *left, uint64_t *read);
/* Fills in whom the call waits for. */
void wr_fast_prepare(struct wr_fast *f, struct wr_fast_call *c, const struct wr_coll_call *call);
void wr_fast_put_in(struct wr_fast *f, const struct wr_fast_call *c);
/* What a rank has for itself goes to its place, while the others' is on its way. */
void wr_fast_place_own(const struct wr_fast *f, const struct wr_fast_call *c);
void wr_fast_take_out(struct wr_fast *f, const struct wr_fast_call *c);

#endif
