/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Masters and states on disk. This rank's part of the model is cut into *sub-groups*, each with a place in a file, which pass through a
 * few buffers: while the rules work on one, the next are being read and those before are being written. In a sub-group the arrays
 * of a range of a piece, a *view*, stand one after the other. zero_subs.c cuts (pure arithmetic), zero_offload.c moves.
 */
#ifndef WR_ZERO_OFFLOAD_H
#define WR_ZERO_OFFLOAD_H

#include "optim/disk.h"
#include "optim/zero_pieces.h"

struct wr_zero_view {
    uint64_t piece;
    uint64_t first, n;                   /* elements of the piece */
    uint64_t at[1 + WEIR_RULE_STATES_MAX]; /* bytes in the sub-group: of the master, when it is on disk, and of the states */
    uint64_t bytes[1 + WEIR_RULE_STATES_MAX];
};

struct wr_zero_sub {
    uint64_t view, nviews;
    uint64_t at, bytes; /* in the file */
};

struct wr_zero_subs {
    struct wr_zero_view *views; /* in the order of pieces */
    struct wr_zero_sub *subs;   /* in the order of sections */
    uint64_t nviews, nsubs;
    uint64_t *section_sub; /* by section, and one more: its first sub-group */
    uint64_t *piece_view;  /* by piece, and one more: its first view */
    uint64_t *view_sub;    /* by view */
    uint64_t bytes, most;  /* of all; of the largest one */
};

/*
 * Cuts pieces (see wr_zero_list_pieces()) into sub-groups of about o->offload_bytes: each within a section, cut where the rule
 * lets them be cut, so that updating them one by one gives the same bits.
 */
weir_status wr_zero_subs_make(struct wr_zero_subs *subs, const weir_zero_options *o, const struct wr_zero_piece *pieces,
                              const uint64_t *section_piece, uint64_t nsections, weir_error *err);
void wr_zero_subs_free(struct wr_zero_subs *subs);

struct wr_zero_offload {
    struct wr_zero_subs subs;
    bool masters; /* they are on disk, too */
    struct wr_disk *disk;
    unsigned char *memory; /* the buffers */
    uint64_t buffer_bytes, nbuffers;
    struct wr_disk_op *ops; /* by buffer */
    /* A way through sub-groups. The i-th one passes through buffer i % nbuffers. */
    uint64_t *order, n;
    uint64_t at, ahead; /* the one at work; the next to be read */
    bool reads, writes, under_way;
    /* Apart from that buffer 0 holds one sub-group that was looked at; UINT64_MAX: none. */
    uint64_t held;
    bool dirty;
    uint64_t moved; /* bytes read and written */
};

/* What others see of the masters: whether they have memory or a file of their own, and whether that is a file. */
static inline bool wr_zero_masters_apart(const weir_zero_options *o)
{
    return o->param_type != WEIR_FP32 || o->delayed || o->offload & WEIR_ZERO_OFFLOAD_PARAMS;
}

static inline bool wr_zero_masters_on_disk(const weir_zero_options *o)
{
    return o->offload & WEIR_ZERO_OFFLOAD_STATES && (o->param_type != WEIR_FP32 || o->offload & WEIR_ZERO_OFFLOAD_PARAMS);
}

/* What reads and writes files: as the options or WEIR_IO say. */
weir_status wr_zero_choose_io(const weir_zero_options *o, enum wr_disk_kind *kind, weir_error *err);

/* Makes file and buffers for the pieces of an engine. */
weir_status wr_zero_offload_create(weir_zero *zero);
void wr_zero_offload_destroy(weir_zero *zero);

/*
 * Begins a way through the sub-groups of all sections in an order (NULL: as they are), in which each is then visited by
 * wr_zero_visit_section(); without an offload nothing is done. `writes`: what visitors change is written back. wr_zero_offload_end() must follow, in any case, and tells
 * whether everything was written.
 */
weir_status wr_zero_offload_begin(const weir_zero *zero, const uint64_t *sections, bool reads, bool writes, weir_error *err);
weir_status wr_zero_offload_end(const weir_zero *zero, weir_error *err);

/* Bytes that were read and written since this was asked last. */
uint64_t wr_zero_offload_moved(const weir_zero *zero);

/*
 * Sees a piece, or the part of it from its element `from` on that is in memory now: a piece with fewer elements, whose pointers stand
 * at the first one.
 */
typedef weir_status (*wr_zero_visitor)(void *arg, const struct wr_zero_piece *part, uint64_t piece, uint64_t from);

weir_status wr_zero_visit_section(const weir_zero *zero, uint64_t section, wr_zero_visitor visit, void *arg, weir_error *err);

/* The same for all sections, with begin and end. */
weir_status wr_zero_visit_all(const weir_zero *zero, bool reads, bool writes, wr_zero_visitor visit, void *arg, weir_error *err);

/*
 * Copies `n` entries from entry `first` of a piece on: of its parameters (state -1: the master, or, frozen, what there is) or of a state,
 * wherever they are.
 */
weir_status wr_zero_array_read(const weir_zero *zero, uint64_t piece, int state, uint64_t first, uint64_t n, void *to, weir_error *err);
weir_status wr_zero_array_write(const weir_zero *zero, uint64_t piece, int state, uint64_t first, uint64_t n, const void *from, weir_error *err);

/* Where they are in memory; NULL when they are on disk. */
void *wr_zero_array(const weir_zero *zero, uint64_t piece, int state);

#endif
