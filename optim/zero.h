/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ZeRO engine, inside. zero_layout.c says where everything is, zero.c makes and ends engines, zero_hooks.c follows the program
 * through its passes, zero_grad.c reduces gradients, zero_live.c gathers parameters (stage 3), zero_order.c remembers the order of
 * units, zero_step.c agrees on a step, zero_update.c applies the rules, zero_state.c lets others look at it, zero_report.c counts and
 * zero_trace.c remembers what it does. zero_quant.c and zero_quant_grad.c are parameters and gradients that travel as int8.
 *
 * Three communicators: `all` ranks; `shard`, among which everything is divided; `replica`, those that have the same shard. Stage 0
 * has shards of one rank and all ranks as replicas, so it needs no code of its own: a gradient is reduce-scattered over `shard`,
 * then all-reduced over `replica`, and each does nothing where there is one rank.
 *
 * What ranks must do together they do in one order that they have agreed on: reductions block by block, in
 * wr_zero_grads.order, all of them at the latest when the step ends, with zeros where a rank has nothing. Parameters with stage 3
 * are read from the shards of their owners, which needs no agreement. They change between the agreement of the step, when all have
 * read what they wanted, and the fence, when all have updated.
 */
#ifndef WR_ZERO_H
#define WR_ZERO_H

#include <weir/coll.h>
#include <weir/coll_v.h>
#include <weir/mem.h>
#include <weir/vector.h>

#include "base/compiler.h"
#include "optim/quant.h"
#include "optim/zero_layout.h"
#include "optim/zero_room.h"

/* Part of a tensor in this rank's shard. */
struct wr_zero_piece {
    struct wr_zero_tensor *tensor;
    uint64_t section;
    uint64_t first, n;  /* elements of the tensor */
    uint64_t at;        /* of its first element, in the block */
    float *master;      /* fp32, as it is updated; NULL: frozen, or on disk */
    void *param;        /* in param_type, as the program sees it; the same memory as master when that is fp32, and not apart */
    void *fresh;        /* where an update writes param_type: param, or, delayed, what becomes param in the next step */
    void *states[WEIR_RULE_STATES_MAX];
};

/* A piece's parameters (state -1) or one of its states. */
struct wr_zero_part_ref {
    uint64_t piece;
    int state;
};

/* ---- gradients (zero_grad.c, zero_reduce.c) ---- */

/* Memory in which the gradients of a block are added up. */
struct wr_zero_slot {
    unsigned char *data;
    uint64_t bytes;
    uint64_t reading;   /* reductions that have not completed */
    bool used;          /* it belongs to a block or to reductions */
    bool kept;          /* once: the block's own, for good */
    bool overflow;      /* mapped, for there was no room */
};

/* A block's gradients in this pass. */
struct wr_zero_grad_block {
    struct wr_zero_slot *slot; /* where they are being added; NULL: nothing was added */
    uint64_t open;             /* hooks that are open */
    uint64_t forwards;         /* forward uses in this pass */
    uint64_t uses, expected;   /* backward uses in this pass, and in the one before; expected 0: unknown */
    uint64_t last;             /* number of the last use, counted over all blocks */
    bool launched;             /* in this round */
    bool stale;                /* the slot holds what it had in the last step */
};

/* In the order of time; the first one only with quantised gradients. */
enum wr_zero_phase { WR_ZERO_IN_NODE, WR_ZERO_SCATTERING, WR_ZERO_SCATTERED, WR_ZERO_REDUCING };

/* A section on its way. */
struct wr_zero_job {
    uint64_t section;
    struct wr_zero_slot *slot;
    unsigned char *rows; /* reproducible: the gradients of all ranks for this one's part, one of wr_zero_grads.rows; else NULL */
    unsigned char *data; /* the section in the slot; in the end this rank's part of it, reduced */
    enum wr_zero_phase phase;
    uint64_t round;
    bool extra;          /* gradients that came after their block had left */
    int64_t started;
    weir_request *request;
};

enum { WR_ZERO_JOBS = 16 };

/* Quantised gradients (zero_quant_grad.c). */
struct wr_zero_quant {
    weir_comm *node, *rail; /* ranks of the node; those that have sums of nodes to exchange. NULL: none but this one */
    bool own_rail;          /* rail is not `shard` */
    bool equal;             /* all nodes have as many ranks: a rail is the ranks with one local rank, by node */
    const weir_topo *topo;  /* of `shard` */
    int my_node, local, nlocal, nnodes;
    weir_mem *memory;       /* WR_ZERO_QUANT_JOBS times `bytes` */
    uint64_t bytes;
    uint64_t *counts[4];    /* room for the numbers of a call: sent, where from, received, where to */
};

struct wr_zero_grads {
    weir_mem *memory;          /* once: the gradients of the model; every: room for slots */
    struct wr_zero_room room;
    struct wr_zero_slot *slots;
    uint64_t nslots;
    struct wr_zero_grad_block *blocks;
    float *shard;              /* every: sums of reduced gradients, one for each trainable element of the shard and each level */
    uint64_t *shard_at;        /* by section: where it is in them */
    uint64_t shard_n;
    uint64_t *order, next;     /* blocks in the order in which they leave; the next one */
    uint64_t *seen;            /* blocks in the order in which they were ready in the last pass */
    uint64_t uses;             /* backward uses in this pass, of all blocks */
    bool leaving;              /* this pass reduces */
    uint64_t round, rounds;    /* reductions of all blocks that were begun in this step; that a step has */
    struct wr_zero_job jobs[WR_ZERO_JOBS]; /* a ring of those under way */
    unsigned char *rows[WR_ZERO_ROWS];     /* reproducible: room for them, made when it is needed first, and kept */
    uint64_t head, tail;
};

/* ---- order (zero_order.c) ---- */

enum { WR_ZERO_PASSES = 3 };

/* The units that a kind of pass used, in order. */
struct wr_zero_order {
    uint32_t *known, *now; /* of the last complete pass; of the present one */
    uint64_t nknown, nnow, cap_known, cap_now;
    uint64_t at;           /* the next use in `known`, while they agree */
    bool differs;
};

/* ---- gathered parameters (zero_live.c) ---- */

enum wr_zero_live_state { WR_ZERO_ABSENT, WR_ZERO_COMING, WR_ZERO_LIVE };

struct wr_zero_live_block {
    enum wr_zero_live_state state;
    unsigned char *data;
    uint64_t bytes;
    uint64_t pins;           /* hooks that are open */
    bool overflow;           /* mapped: there was no room */
    bool ahead;              /* begun before it was needed, and not used since */
    bool first;              /* it is updated before others, to be gathered while they are updated */
    int64_t started;
    bool shared;             /* in the window of the node */
    weir_request **requests; /* by part: section and owner; NULL where there is nothing to wait for */
    uint8_t *mine;           /* shared, by part: this rank reads it */
    uint8_t *packed;         /* quantised, by part: it comes as int8 and is to be unpacked */
    unsigned char *staging;  /* quantised, while it is coming: where parts come from other nodes */
    uint64_t nparts;
};

/* A window of the node, or of a secondary group, in which blocks are gathered for all of its ranks (zero_window.c). */
struct wr_zero_window {
    weir_mem *memory;
    weir_comm *group;   /* the secondary group; else NULL */
    bool shared;        /* there is one for this rank */
    int nlocal, local;  /* ranks that share it; which of them this one is */
    uint64_t *slot_of;  /* by block */
    struct {
        uint64_t head, data, bytes; /* where it is in the window */
    } *slots;
};

struct wr_zero_live {
    weir_mem *shards;         /* this rank's shard of the model, in param_type, for others to read */
    weir_mem *memory;         /* where blocks are gathered */
    weir_mem *codes;          /* quantised: this rank's shard as int8, for others to read */
    weir_mem *staging;        /* quantised: where blocks of other nodes come in */
    struct wr_zero_room staging_room;
    struct wr_zero_room room;
    uint64_t bytes, ahead_bytes; /* of blocks that are gathered; of those that nobody has used yet */
    struct wr_zero_window window;
    bool updating;            /* only the first blocks may be gathered */
    struct wr_zero_live_block *blocks;
};

/* ---- what is counted and remembered (zero_report.c, zero_trace.c) ---- */

/* Levels of the machine, and the shares of each in what collectives move. */
struct wr_zero_levels_of {
    uint64_t n;
    uint64_t kind[WEIR_ZERO_LEVELS];
    double of_shard[WEIR_ZERO_LEVELS], of_replica[WEIR_ZERO_LEVELS];
    uint8_t *of_peer; /* by rank of `shard`: the level that it has in common with this one */
};

/* What an event of a trace is: of a unit, of a block, of the engine. */
enum wr_zero_what {
    WR_ZERO_DID_FORWARD,
    WR_ZERO_DID_BACKWARD,
    WR_ZERO_DID_REDUCE,
    WR_ZERO_DID_GATHER,
    WR_ZERO_DID_PARAMS,
    WR_ZERO_DID_WAIT,
    WR_ZERO_DID_UPDATE,
    WR_ZERO_DID_STEP
};

struct wr_zero_event {
    int64_t begin, end;
    uint64_t bytes;
    uint32_t index; /* of the unit or block */
    uint32_t what;
};

struct wr_zero_trace {
    struct wr_zero_event *events; /* a ring */
    uint64_t room, n;             /* 0: nothing is remembered; events so far */
    int64_t *opened;              /* by unit: when the hook before it returned */
    int64_t since;
};

/* Persistent requests by section; NULL where there is nothing to do, or not at one place (zero_request.c). */
struct wr_zero_requests {
    weir_request **scatter, **sum; /* of gradients: over `shard`, over `replica` */
};

/* ---- the engine ---- */

struct wr_zero_offload; /* zero_offload.h */
struct wr_zero_delay;   /* zero_delay.h */
struct wr_zero_param_disk; /* zero_param_disk.h */

struct weir_zero {
    weir_zero_options o;
    weir_group *groups;          /* of o */
    char *offload_path;          /* of o */
    struct wr_zero_layout l;
    weir_comm *all, *shard, *replica; /* replica NULL: one rank; shard and replica may be `all` */
    bool own_shard, own_replica;
    int nranks, me, nshard, my_shard, nreplica, my_replica;
    size_t wsize, gsize, rsize;  /* bytes of a parameter, a gradient, and one on the wire */
    weir_mem *params;            /* stages 0 to 2: the model in param_type */
    weir_request **param_requests; /* by section: it is gathered; persistent */
    struct wr_zero_requests requests;
    weir_request *fences[2];     /* stage 3, persistent: all ranks have updated their shards of the first blocks; of all others */
    float *masters;              /* where they are not the parameters */
    struct wr_zero_piece *pieces;
    double *piece_sums; /* of the squares of their gradients, as they were reduced; apart from what a delayed update reads */
    uint64_t npieces;
    uint64_t *section_piece;     /* by section, and one more: its first piece */
    uint64_t *order_of_update;   /* sections */
    struct wr_zero_offload *offload; /* masters and states on disk; NULL: in memory */
    struct wr_zero_param_disk *param_disk; /* NULL: parameters are in memory */
    struct wr_zero_delay *delay; /* NULL: updates are made in the step */
    struct wr_zero_part_ref *parts;
    uint64_t nparts;
    struct wr_zero_grads g;
    struct wr_zero_live live;
    struct wr_zero_quant q;
    struct wr_zero_order order[WR_ZERO_PASSES];
    double *norm_blocks;         /* reproducible: sums of squares by block of each tensor, twice */
    double *tensor_sums;         /* access tensor: two for each tensor of the model */
    void *work;                  /* for rules that want it */
    bool in_pass;
    weir_zero_pass pass;
    uint64_t passes;             /* of training since the last step */
    bool given;                  /* gradients were set since the last step */
    double last_lr;              /* that the last step was given; negative: that of schedules */
    uint64_t step, skipped, good;
    uint64_t epoch, frozen_epoch; /* change when parameters do, together on all ranks */
    double loss_scale, grad_scale; /* of the last step: what its gradients were multiplied by, but for the clipping */
    weir_error error;
    bool broken;                 /* communication failed: error stays */
    weir_zero_report report;     /* of the step that is under way */
    int64_t begun;               /* when its first pass began; 0: not yet */
    uint64_t memory;             /* bytes held */
    uint64_t formula;            /* bytes that the estimate says */
    struct wr_zero_levels_of levels;
    uint64_t flights;            /* communications under way */
    int64_t flying;              /* since when there are some */
    uint64_t open_hooks;         /* units that the program computes with */
    int64_t left;                /* when it last left the engine */
    int64_t *param_started;      /* by section: when its distribution began; 0: none is under way */
    struct wr_zero_trace trace;
};

/* ---- zero.c ---- */

/* Sets the engine's error. Returns status. */
weir_status wr_zero_fail(weir_zero *zero, weir_status status, const char *advice, const char *fmt, ...) WR_PRINTF(4, 5);

/* The same for an error of communication, from which an engine does not recover. */
weir_status wr_zero_comm_failed(weir_zero *zero, weir_status status);

/* Memory of the engine, zeroed and aligned to 64 bytes; NULL with the error set. */
void *wr_zero_alloc(weir_zero *zero, uint64_t bytes, const char *what);
void wr_zero_free(weir_zero *zero, void *memory, uint64_t bytes);

/* The same of whole pages, which go back to the system: for what is needed now and then. */
void *wr_zero_map(weir_zero *zero, uint64_t bytes, const char *what);
void wr_zero_unmap(weir_zero *zero, void *memory, uint64_t bytes);

/* Counts memory that is held (or, negative, given back). */
void wr_zero_count(weir_zero *zero, int64_t bytes);

/* Adds to the time in which the engine made the program wait. */
void wr_zero_exposed(weir_zero *zero, int64_t begin);

/* Waits for a request and counts the time as exposed. */
weir_status wr_zero_wait(weir_zero *zero, weir_request **request);

/* Waits until the parameters of a section are distributed (stages 0 to 2). */
weir_status wr_zero_params_wait(weir_zero *zero, uint64_t section);

/* A section's first element in the memory of all parameters (stages 0 to 2). */
unsigned char *wr_zero_section_params(const weir_zero *zero, const struct wr_zero_section *s);

/* ---- zero_request.c ---- */

/* Arrays of this rank; then, when all memory is there, the requests, which is collective. */
weir_status wr_zero_requests_prepare(weir_zero *zero);
weir_status wr_zero_requests_create(weir_zero *zero);
void wr_zero_requests_destroy(weir_zero *zero);

/* ---- zero_grad.c ---- */

/* Arrays of this rank, then memory, which is collective. */
weir_status wr_zero_grads_prepare(weir_zero *zero);
weir_status wr_zero_grads_create(weir_zero *zero);
void wr_zero_grads_destroy(weir_zero *zero);

/* A block's gradients may be added to from now on. */
weir_status wr_zero_grads_open(weir_zero *zero, uint64_t block);

/* A block is used in the forward pass. */
void wr_zero_grads_forward(weir_zero *zero, uint64_t block);

/* One use of a block in the backward pass is over. */
weir_status wr_zero_grads_used(weir_zero *zero, uint64_t block);

/* A pass of training begins, ends. */
void wr_zero_grads_begin(weir_zero *zero);
weir_status wr_zero_grads_end(weir_zero *zero);

/* Everything is reduced, also what no pass has done. */
weir_status wr_zero_grads_finish(weir_zero *zero);

/* Whether this rank has gradients that came too late; reduces those of all ranks. */
bool wr_zero_grads_late(const weir_zero *zero);
weir_status wr_zero_grads_extra(weir_zero *zero);

/* A new step begins: gradients are zero. */
void wr_zero_grads_reset(weir_zero *zero);

/* A hash of the order in which blocks were ready; takes it for the next step, when it is that of all ranks. */
uint64_t wr_zero_grads_seen(const weir_zero *zero);
void wr_zero_grads_adopt(weir_zero *zero);

/* The first unit of this rank that was ready at another time than all ranks have agreed on; -1: none. */
int64_t wr_zero_grads_differ(const weir_zero *zero);

/* ---- zero_reduce.c ---- */

/* Begins to reduce a section of a slot, which then belongs to the reduction, too. */
weir_status wr_zero_reduce(weir_zero *zero, uint64_t section, struct wr_zero_slot *slot, bool extra);

/* Goes on with reductions; completes the oldest one; completes all. */
weir_status wr_zero_reduce_progress(weir_zero *zero);
weir_status wr_zero_reduce_oldest(weir_zero *zero);
weir_status wr_zero_reduce_all(weir_zero *zero);

/* Waits for those under way before the engine ends, whatever comes of them. */
void wr_zero_reduce_abandon(weir_zero *zero);

/* The reduced gradient of this rank's part of a trainable section, or of a piece that is not frozen, and its type. */
void *wr_zero_grad_of(const weir_zero *zero, uint64_t section, weir_type *type);
void *wr_zero_piece_grad(const weir_zero *zero, const struct wr_zero_piece *p, weir_type *type);

/* Sums of squares of a trainable section's pieces, best while they are in the cache. */
void wr_zero_take_norms(weir_zero *zero, uint64_t section);

/* ---- zero_repro.c ---- */

static inline bool wr_zero_reproducible(const weir_zero *zero)
{
    return zero->o.flags & WEIR_ZERO_REPRODUCIBLE;
}

/* Starts to bring the gradients of all ranks for this rank's part of a section together. */
weir_status wr_zero_repro_collect(weir_zero *zero, struct wr_zero_job *job);

/* Adds them up, and to those of earlier passes. */
void wr_zero_repro_add(weir_zero *zero, struct wr_zero_job *job);

/* Keeps the sums of blocks of a piece: of its gradient, or the two of weir_rule_prepare(). */
void wr_zero_repro_keep(weir_zero *zero, const struct wr_zero_piece *p, const double *sums, int n);

/* All ranks get all sums of blocks; the sum of a tensor; of the gradient's squares. */
weir_status wr_zero_repro_share(weir_zero *zero);
double wr_zero_repro_tensor(const weir_zero *zero, const struct wr_zero_tensor *t, int which);
weir_status wr_zero_repro_norm(weir_zero *zero, double *norm); /* over norm_comm, too */

/* The mean of the losses of all ranks and passes. */
weir_status wr_zero_repro_loss(weir_zero *zero, const double *losses, double *mean);

/* ---- slots ---- */

/* A slot that no reduction reads and no block has any more. */
void wr_zero_slot_give(weir_zero *zero, struct wr_zero_slot *slot);

/* ---- zero_live.c ---- */

/* Arrays of this rank, then memory, which is collective. */
weir_status wr_zero_live_prepare(weir_zero *zero);
weir_status wr_zero_live_create(weir_zero *zero);
void wr_zero_live_destroy(weir_zero *zero);

/* A block is gathered, and stays until it is unpinned as often. */
weir_status wr_zero_live_pin(weir_zero *zero, uint64_t block);
weir_status wr_zero_live_unpin(weir_zero *zero, uint64_t block);

/* Chooses the first blocks of the next step. */
void wr_zero_live_choose_first(weir_zero *zero);

/* Begins to gather what is used next. */
weir_status wr_zero_live_ahead(weir_zero *zero);

/* Completes everything that was begun, and forgets what changes in a step. */
weir_status wr_zero_live_settle(weir_zero *zero);

/* The same of everything, when parameters were changed outside of a step. */
weir_status wr_zero_live_forget(weir_zero *zero);

/* Starts to read the part of a section that a rank owns; request NULL: it is there. */
weir_status wr_zero_live_read(weir_zero *zero, uint64_t block, const struct wr_zero_section *s, int owner, weir_request **request);

/* Waits for a part of a block that this rank reads. */
weir_status wr_zero_live_part(weir_zero *zero, uint64_t block, uint64_t part);

/* ---- zero_quant.c: parameters as int8 ---- */

static inline bool wr_zero_quantized_params(const weir_zero *zero)
{
    return zero->o.flags & WEIR_ZERO_QUANTIZED_PARAMS && zero->nshard > 1;
}

/* Memory, which is collective. */
weir_status wr_zero_quant_create(weir_zero *zero);
void wr_zero_quant_destroy(weir_zero *zero);

/* This rank's part of a section has changed. */
void wr_zero_quant_pack(weir_zero *zero, const struct wr_zero_section *s);

/* A block has room for what comes from other nodes; false when there is none. */
bool wr_zero_quant_stage(weir_zero *zero, uint64_t block);
void wr_zero_quant_unstage(weir_zero *zero, uint64_t block);

/* As wr_zero_live_read(), of a block that has been staged; and what there is to do when the request has completed. */
weir_status wr_zero_quant_read(weir_zero *zero, uint64_t block, const struct wr_zero_section *s, int owner, weir_request **request);
void wr_zero_quant_arrived(weir_zero *zero, uint64_t block, uint64_t part);

/* ---- zero_quant_grad.c: gradients as int8 ---- */

static inline bool wr_zero_quantized_grads(const weir_zero *zero)
{
    return zero->o.flags & WEIR_ZERO_QUANTIZED_GRADS && zero->nshard > 1;
}

/* Arrays of this rank, then communicators and memory, which is collective. */
weir_status wr_zero_quant_grad_prepare(weir_zero *zero);
weir_status wr_zero_quant_grad_create(weir_zero *zero);
void wr_zero_quant_grad_destroy(weir_zero *zero);

/* The first exchange of a job; the second, when that has completed; the sum, when both have: it stands where a reduction leaves it. */
weir_status wr_zero_quant_grad_begin(weir_zero *zero, struct wr_zero_job *job);
weir_status wr_zero_quant_grad_across(weir_zero *zero, struct wr_zero_job *job);
void wr_zero_quant_grad_end(weir_zero *zero, struct wr_zero_job *job);

/* Whether sums go at once, in fp32, to where they are kept. */
bool wr_zero_quant_grad_direct(const weir_zero *zero);

/* ---- zero_window.c ---- */

/* Arrays of this rank, then memory of about `room` bytes, which is collective; live.window.shared says whether there is some. */
weir_status wr_zero_window_prepare(weir_zero *zero);
weir_status wr_zero_window_create(weir_zero *zero, uint64_t room);
void wr_zero_window_destroy(weir_zero *zero);

/* A block's slot, when nobody uses it for another block. */
bool wr_zero_window_take(weir_zero *zero, uint64_t block);
void wr_zero_window_give(weir_zero *zero, uint64_t block);

/* Starts this rank's share of the reads; completes those that it has started; completes the block. */
weir_status wr_zero_window_begin(weir_zero *zero, uint64_t block);
weir_status wr_zero_window_own(weir_zero *zero, uint64_t block);
weir_status wr_zero_window_complete(weir_zero *zero, uint64_t block);

/* ---- zero_order.c ---- */

void wr_zero_order_begin(struct wr_zero_order *order);

/* A unit is used; `true` unless there was no memory to remember it. */
bool wr_zero_order_use(struct wr_zero_order *order, uint64_t unit);
void wr_zero_order_end(struct wr_zero_order *order);

/* The use that comes `ahead` uses later (0: the next one); false when it is not known. Goes round at the end. */
bool wr_zero_order_next(const struct wr_zero_order *order, uint64_t ahead, uint64_t *unit);
void wr_zero_order_free(struct wr_zero_order *order);

/* ---- zero_state.c ---- */

/* Outside a pass, when nobody reads parameters any more and everything that was begun is complete. */
weir_status wr_zero_quiet(weir_zero *zero);

/* All ranks have come here. */
weir_status wr_zero_meet(weir_zero *zero);

void wr_zero_set_counters(weir_zero *zero, const weir_zero_counters *counters);

/* ---- zero_apply.c ---- */

/* Sets the gradient of a tensor, for a step without passes. */
weir_status wr_zero_give(weir_zero *zero, const struct wr_zero_tensor *t, const float *values);

/* ---- zero_step.c ---- */

/* A step with gradients of passes, or with those that were given. */
weir_status wr_zero_step_any(weir_zero *zero, const weir_zero_step_options *options, weir_zero_report *to);

/* ---- zero_update.c ---- */

/* Parameters of the masters of this rank, everywhere: stages 0 to 2 gather them. */
weir_status wr_zero_distribute(weir_zero *zero, uint64_t section);

/* ---- zero_estimate.c ---- */

/* What the estimate says of this rank, with its share of a window. */
uint64_t wr_zero_formula(const weir_zero *zero);

/* ---- zero_report.c ---- */

/* Finds out about the levels of the machine. */
weir_status wr_zero_levels_find(weir_zero *zero);

/* Counts bytes that collectives over `shard`, or `replica`, move, and those that are read from a rank of `shard`. */
void wr_zero_count_reduce(weir_zero *zero, bool replica, uint64_t bytes);
void wr_zero_count_gather(weir_zero *zero, uint64_t bytes);
void wr_zero_count_read(weir_zero *zero, int owner, uint64_t bytes, bool mapped);

/* Counts bytes of gradients that are sent to a rank of the node, or of another one. */
void wr_zero_count_sent(weir_zero *zero, bool in_node, uint64_t bytes);

/* A communication begins; it was seen to be complete. */
void wr_zero_flight_begin(weir_zero *zero);
void wr_zero_flight_end(weir_zero *zero);

/* The program comes into a hook of a unit, and leaves it. */
void wr_zero_compute_end(weir_zero *zero);
void wr_zero_compute_begin(weir_zero *zero);

/* Completes the report, gives it away and begins a new one. */
void wr_zero_report_take(weir_zero *zero, weir_zero_report *to);

/* ---- zero_trace.c ---- */

void wr_zero_trace_free(weir_zero *zero);

/* Something that began at `begin` is over. */
void wr_zero_trace_add(weir_zero *zero, enum wr_zero_what what, uint64_t index, int64_t begin, uint64_t bytes);

/* The hook before a unit returns; the one after it is called. */
void wr_zero_trace_open(weir_zero *zero, uint64_t unit);
void wr_zero_trace_close(weir_zero *zero, uint64_t unit, bool backward);

/* ---- zero_init.c ---- */

/* Fills masters and parameters of this rank's shard with the initial values of the model. */
weir_status wr_zero_fill(weir_zero *zero);

#endif
