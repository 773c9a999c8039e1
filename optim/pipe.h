/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pipeline schedules, inside. A schedule (one file each) writes the order in which a stage computes; pipe_shard.c plans
 * when parameters are gathered, pipe_lower.c makes instructions of both and adds the messages, pipe_check.c and pipe_play.c prove
 * the result, pipe_simulate.c says how long it takes. All of it is pure: memory of its own and nothing else.
 */
#ifndef WR_PIPE_H
#define WR_PIPE_H

#include <stdbool.h>

#include <weir/pipe.h>

#include "base/compiler.h"

enum { WR_PIPE_STAGES_MAX = 1024, WR_PIPE_MICROS_MAX = 65536, WR_PIPE_CHUNKS_MAX = 64, WR_PIPE_TOTAL_MAX = 1 << 20 };

/* ---- orders ---- */

/* One F, I, W or B. */
struct wr_pipe_step {
    int32_t op, micro, chunk;
};

/* What a stage computes, one after the other; room for 3*M*V. */
struct wr_pipe_order {
    struct wr_pipe_step *step;
    size_t n;
};

static inline void wr_pipe_step(struct wr_pipe_order *order, weir_pipe_op op, int micro, int chunk)
{
    order->step[order->n++] = (struct wr_pipe_step){(int32_t)op, micro, chunk};
}

/* What a schedule is written for. */
struct wr_pipe_shape {
    int stages, micros, chunks;
    int64_t limit; /* activations that a stage may hold; 0 for the schedule's own */
};

/* One schedule: a constant in a file of its own. */
struct wr_pipe_builder {
    const char *name, *text;
    weir_pipe_placement placement;
    int chunks;     /* when the caller does not say */
    bool chunks_only; /* and it serves no other number */
    /* Writes the order of a stage. */
    void (*build)(const struct wr_pipe_shape *shape, int stage, struct wr_pipe_order *order);
    /* Activations that the stage holds at most. */
    int64_t (*peak)(const struct wr_pipe_shape *shape, int stage);
};
extern const struct wr_pipe_builder wr_pipe_gpipe, wr_pipe_1f1b, wr_pipe_interleaved, wr_pipe_looped_bfs, wr_pipe_zb_h1,
    wr_pipe_zb_h2, wr_pipe_zb_v;

/* ---- sharding ---- */

/* UNSHARD or RESHARD of a chunk, to be done before step `at` of the order (or at the end). */
struct wr_pipe_gather {
    size_t at;
    int32_t op, chunk;
};

struct wr_pipe_gathers {
    struct wr_pipe_gather *gather; /* sorted by when */
    size_t n, cap;
    bool failed; /* out of memory */
};

/* Plans the gathers of a stage: `zero` as in weir_pipe_options, at most `most` chunks at once with 3. */
void wr_pipe_shard(const struct wr_pipe_order *order, int chunks, int zero, int most, struct wr_pipe_gathers *gathers);

/* ---- instructions ---- */

/* The list of one stage, growing; starts zeroed. */
struct wr_pipe_list {
    weir_pipe_instr *instr;
    size_t n, cap;
    bool failed; /* out of memory */
};
void wr_pipe_list_add(struct wr_pipe_list *list, int op, int micro, int chunk, int peer);

/* Makes the list of a stage from its order and its gathers. */
void wr_pipe_lower(const struct wr_pipe_shape *shape, weir_pipe_placement placement, int stage, const struct wr_pipe_order *order,
                   const struct wr_pipe_gathers *gathers, struct wr_pipe_list *list);

/* The stage of a part, and the chunk that it is there. */
int wr_pipe_part_stage(int64_t placement, int stages, int part);
int wr_pipe_part_chunk(int64_t placement, int stages, int part);

static inline bool wr_pipe_is_send(int op)
{
    return op == WEIR_PIPE_OP_SEND_ACT || op == WEIR_PIPE_OP_SEND_GRAD;
}

static inline bool wr_pipe_is_recv(int op)
{
    return op == WEIR_PIPE_OP_RECV_ACT || op == WEIR_PIPE_OP_RECV_GRAD;
}

/* Numbers and pointers that everything below relies on. */
weir_status wr_pipe_lists_valid(const weir_pipe_lists *lists, weir_error *err);

/* Proves the list of one stage by itself; fills in what it holds at most. */
weir_status wr_pipe_check_stage(const weir_pipe_lists *lists, int stage, weir_pipe_stage_report *report, weir_error *err);

/* ---- playing ---- */

/* A message on its way. */
struct wr_pipe_message {
    int32_t micro, part; /* the part that receives */
    double time, freed;  /* for the player's user: when it arrives, and when it was received */
    const struct wr_pipe_message *before; /* the earlier one whose buffer it takes; NULL when that was free all the time */
    int64_t seen[2];     /* messages that the sender had received from the receiver by then, by kind */
};

struct wr_pipe_play {
    const weir_pipe_lists *lists;
    int64_t buffers; /* of a channel; 0 for as many as it takes */
    /* Called for each instruction that is executed, `message` being that of a SEND or RECV, else NULL. May be NULL. */
    void (*visit)(void *user, int stage, int64_t index, struct wr_pipe_message *message);
    void *user;
    int64_t messages, enough; /* results: number of messages; buffers with which no SEND waits, whatever the timing */
};

/*
 * Executes all lists, each as far as it goes, until all are at their end. WEIR_ERR_INVALID when they do not come there or a
 * message is another than the one expected. The lists need not be proven, but valid (wr_pipe_lists_valid).
 */
weir_status wr_pipe_play(struct wr_pipe_play *play, weir_error *err);

/* Starts an error's sentence: "stage 2, instruction 17 (F of micro-batch 3, chunk 0): ". Returns buf. */
const char *wr_pipe_where(const weir_pipe_lists *lists, int stage, int64_t index, char *buf, size_t size);

#endif
