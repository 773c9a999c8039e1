/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small collectives of ranks that share a node: no plan, each rank writes its data once for all others to read.
 *
 * Every rank has slots in memory that all know, a pair of cache lines each; a call takes the next one. A slot begins with a word: the
 * number of the call among the fast ones, and a hash of all collective calls so far. The word is written last, behind the data,
 * and is all that is waited for; few bytes stand beside it, more in one of a few areas. So ranks that do not agree always see it,
 * see fast_open.c.
 *
 * A rank is in one such call at a time; started ones form a queue. Whoever has begun a call has read all that he wanted of the
 * calls before, so a slot is free again when all have begun the call after the one that it served. Who waits for all knows that
 * at no cost; who waits for nobody, the root of a broadcast, looks from time to time.
 *
 * Everything runs with the engine's lock held. On the way there is no allocation, and no system call but to wake a sleeper.
 */
#ifndef WR_FAST_H
#define WR_FAST_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/coll.h>

enum { WR_FAST_RANKS = 64 }; /* most ranks */

struct wr_fast;
struct wr_coll_call;
struct wr_coll_record;
struct wr_coll_state;
struct wr_coll_request;

/* A call on its way. */
struct wr_fast_call {
    const struct wr_coll_call *call;
    uint64_t bytes;    /* of the vector, or of a share of it */
    uint32_t depth;    /* calls that this rank may be ahead of the others when it writes */
    uint64_t word;     /* what it writes and what it waits for; once it is posted */
    uint32_t hash, seq;
    int from, left;    /* ranks that it still waits for: `left` from this one on, around the circle */
    bool all, posted, done;
};

/*
 * Begins to open it, collectively, in the first call on a communicator; when the steps have ended, wr_fast_opened() sets
 * state->fast, NULL where the ranks do not share a node, and state->opened.
 */
struct wr_fast_opening;
weir_status wr_fast_open(struct wr_coll_state *state, struct wr_fast_opening **opening, weir_error *err);
struct wr_steps *wr_fast_opening_steps(struct wr_fast_opening *opening);
/* Frees the object; `ok`: the steps have ended well. NULL is allowed. */
void wr_fast_opened(struct wr_fast_opening *opening, bool ok);
/* Its end, collective, or without a word to the others when one of them is lost: state->fast is NULL then. */
weir_status wr_fast_close(struct wr_coll_state *state, weir_error *err);
/* Its end without a word to the others; its memory goes with the memory layer. NULL is allowed. */
void wr_fast_forget(struct wr_fast *f);

/* Whether it serves a call: the same answer at all ranks. */
bool wr_fast_serves(const struct wr_fast *f, const struct wr_coll_call *call);

/* A blocking call. */
weir_status wr_fast_run(struct wr_coll_state *state, const struct wr_coll_call *call, weir_error *err);
/* Starts a request, which may be complete when it returns. */
void wr_fast_start(struct wr_coll_request *request);
/* Polls for a request for a moment: its caller waits for nothing else. */
void wr_fast_hurry(struct weir_request *request);
/* Moves what was started, and the blocking call of a thread that may sleep. */
void wr_fast_progress(struct wr_fast *f);
/* Whether something could move: asked before sleeping. */
bool wr_fast_can_move(struct wr_fast *f);
/* All calls fail from now on. `peer` is the lost rank, -1 when the ranks do not agree. */
void wr_fast_break(struct wr_fast *f, weir_status status, int peer);


/* ---- agreement ---- */

/* Shows a call to the others. */
void wr_fast_note(struct wr_fast *f, uint64_t number, const struct wr_coll_record *record);
/* How many calls a rank has shown, and its latest; false when there is none. */
bool wr_fast_last(const struct wr_fast *f, int rank, uint64_t *calls, struct wr_coll_record *record);
/*
 * Compares the latest calls of all ranks with those of rank 0; a difference ends everything, see wr_coll_disagree(). `any`: also
 * calls that rank 0 has not made yet.
 */
void wr_fast_look(struct wr_coll_state *state, bool any);

#endif
