/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where everything of a model is: pure arithmetic, the same on all ranks.
 *
 * The model is a row of *blocks*, each a flat array of elements in which tensors are views. A block is what is gathered, freed and
 * given to gradients as a whole: one unit with stage 3, else as many units as fit in a bucket. It consists of *sections*, each
 * shard-major: rank r's part of a section is the contiguous range bound(r) .. bound(r + 1). A section is what one collective
 * moves. Trainable sections come first, so that a block's gradients are its beginning.
 *
 * In a flat section all parts are equal. In a whole section each tensor is within one part, and parts differ.
 */
#ifndef WR_ZERO_LAYOUT_H
#define WR_ZERO_LAYOUT_H

#include <stdbool.h>

#include <weir/zero.h>

/* elements; 64 bytes of the smallest type */
enum { WR_ZERO_ALIGN = 32 };

/* Reproducible: reductions under way, each with the rows of all ranks. */
enum { WR_ZERO_ROWS = 2, WR_ZERO_TREE_MOST = 1024 };

/* Quantised gradients: reductions under way, each with room for what it sends and receives. */
enum { WR_ZERO_QUANT_JOBS = 2 };

struct wr_zero_tensor {
    weir_zero_tensor said;         /* as the program gave it; name and callbacks are not kept */
    char *name;                    /* "unit.tensor" */
    uint64_t unit, index, number; /* of the unit; in it; among all tensors */
    uint64_t n, rows, cols;        /* elements; folded to a matrix (rows 1: a vector) */
    bool frozen, whole;
    struct wr_zero_tensor *origin; /* itself, or what it is tied to */
    uint64_t norm_at;              /* its blocks of norms, among those of all tensors */
    uint64_t block, at;            /* where it is: the block, and its first element in it; not set when tied */
};

struct wr_zero_unit {
    char *name;
    struct wr_zero_tensor *tensors;
    uint64_t ntensors;
    uint64_t *blocks, nblocks; /* that it needs: its own, then those of tensors that its own are tied to */
};

struct wr_zero_section {
    uint64_t block, at, n;  /* elements of its block */
    bool trainable;
    uint64_t per;           /* flat: elements of each part */
    uint64_t *bounds;       /* whole: where parts begin, ranks + 1 numbers; else NULL */
    uint64_t *counts;       /* whole: elements of parts */
    uint64_t *shard_at_of;  /* whole: as shard_at, by rank */
    uint64_t shard_at;      /* flat: where this section begins in a rank's shard of the model */
};

struct wr_zero_block {
    uint64_t at, n;                 /* elements of the model */
    uint64_t grad_at, grad_n;       /* the trainable ones, counted by themselves */
    uint64_t unit, nunits;          /* whose tensors it has */
    uint64_t section, nsections;
};

struct wr_zero_layout {
    int ranks;                 /* among which sections are divided */
    uint64_t align;
    uint64_t nunits, nblocks, nsections, ntensors;
    struct wr_zero_unit *units;
    struct wr_zero_block *blocks;
    struct wr_zero_section *sections;
    uint64_t n, grad_n;        /* elements of all blocks */
    uint64_t norm_blocks;      /* of all tensors */
    uint64_t *shard_n;         /* elements of each rank's shard of the model */
    uint64_t parameters, trainable; /* without padding */
};

/* What a layout depends on beside the model; options as wr_zero_options_read() leaves them. */
weir_status wr_zero_layout_make(struct wr_zero_layout *layout, const weir_zero_options *options, const weir_zero_unit *units,
                                uint64_t nunits, int ranks, weir_error *err);
void wr_zero_layout_free(struct wr_zero_layout *layout);

/* A hash of everything that ranks must agree on. */
uint64_t wr_zero_layout_hash(const struct wr_zero_layout *layout);

/* Copies options of any size over the defaults and checks them; fills in what is to be chosen. */
weir_status wr_zero_options_read(const weir_zero_options *given, weir_zero_options *options, weir_error *err);

/* Whether `ranks` ranks can divide a model in the way that options say; only the secondary group depends on that. */
weir_status wr_zero_options_fit(const weir_zero_options *options, int ranks, weir_error *err);

/* Bytes of memory that an engine takes: for gradients, all of them (once) or those at work (every); for gathered parameters. */
uint64_t wr_zero_grad_room(const weir_zero_options *o, const struct wr_zero_layout *l);
uint64_t wr_zero_live_room(const weir_zero_options *o, const struct wr_zero_layout *l);

/* Quantised: a rank's shard of the model in int8, room for what comes from other nodes, for gradients that are sent and received. */
uint64_t wr_zero_codes_bytes(const weir_zero_options *o, const struct wr_zero_layout *l, int rank);
uint64_t wr_zero_staging_room(const weir_zero_options *o, const struct wr_zero_layout *l);
uint64_t wr_zero_quant_grad_room(const weir_zero_options *o, const struct wr_zero_layout *l);

/* Sums of gradients that are kept in a step: a level for each power of two of passes when it is reproducible, else one. */
static inline unsigned wr_zero_levels(const weir_zero_options *o)
{
    return o->flags & WEIR_ZERO_REPRODUCIBLE ? 1 + (unsigned)__builtin_ctzll(o->accumulate) : 1;
}

/* Part `rank` of a section: its first element in the section; of rank `ranks`: the end. */
static inline uint64_t wr_zero_bound(const struct wr_zero_section *s, int rank)
{
    return s->bounds ? s->bounds[rank] : s->per * (uint64_t)rank;
}

static inline uint64_t wr_zero_part(const struct wr_zero_section *s, int rank)
{
    return wr_zero_bound(s, rank + 1) - wr_zero_bound(s, rank);
}

/* Where it is in that rank's shard of the model. */
static inline uint64_t wr_zero_shard_at(const struct wr_zero_section *s, int rank)
{
    return s->bounds ? s->shard_at_of[rank] : s->shard_at;
}

static inline const weir_group *wr_zero_group(const weir_zero_options *options, const struct wr_zero_tensor *t)
{
    return &options->groups[t->said.group];
}

#endif
