/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided operations by messages, for memory that could not be registered with the network: the target's progress copies
 * the pieces. A piece names its memory by the communicator and a number that is the same on all its ranks and is never used
 * again; the target checks it, and the range, against the memory that is alive.
 *
 * Puts: pieces, as fast as the transport takes them; complete when all have been handed over. A piece that the target
 * refuses makes the next flush fail. Gets: up to WR_STAGED_WINDOW pieces of a rank are asked for at a time, so that what a
 * rank owes to another is bounded; the answer may be shorter than what was asked for, then the rest is asked for again.
 */
#ifndef WR_MEM_STAGED_H
#define WR_MEM_STAGED_H

#include "base/list.h"
#include "comm/engine/engine.h"

struct weir_comm;
struct weir_mem;
struct wr_mem_state;
struct wr_staged;

enum { WR_STAGED_WINDOW = 16 };

/* A get or a flush that runs; embedded by the caller, and its until `done`, which is called once from progress. */
struct wr_staged_op {
    struct wr_list link;
    void (*done)(struct wr_staged_op *op, weir_status status);
    struct weir_mem *mem; /* NULL: a flush */
    int rank, world;      /* the target in the memory's communicator (not of a flush), and in the job */
    unsigned char *local;
    uint64_t offset, bytes;
    uint64_t asked; /* bytes that pieces were made for */
    uint64_t mark;  /* of a flush: the puts that it covers */
    unsigned open;  /* pieces without an answer */
    weir_status status;
};

weir_status wr_staged_create(struct wr_mem_state *mem, struct wr_staged **staged, weir_error *err);
void wr_staged_destroy(struct wr_staged *s);

/*
 * Sends the pieces of a put from *moved on; signal -1: none. WEIR_ERR_BUSY: the transport has no room, call again;
 * *moved tells how far it came. The rank must be connected.
 */
weir_status wr_staged_put(struct wr_staged *s, const struct weir_mem *mem, int rank, const void *src, uint64_t bytes,
                          uint64_t offset, int signal, uint64_t *moved, weir_error *err);

/* Starts a get (mem, rank, world, local, offset, bytes > 0 and done are set) or, with mem NULL, a flush (world and done). */
void wr_staged_start(struct wr_staged *s, struct wr_staged_op *op);

/* Waits until the puts to `rank` that went by messages are in its memory. With the lock held. */
weir_status wr_staged_flush(struct wr_staged *s, const struct weir_comm *comm, int rank, weir_error *err);

/* For the engine, while there is something in the list: asks for what is wanted; answers. `staged` is a wr_staged. */
const struct wr_list *wr_staged_asking(const struct wr_staged *s);
void wr_staged_ask(void *staged);
const struct wr_list *wr_staged_owing(const struct wr_staged *s);
void wr_staged_answer(void *staged);

void wr_staged_peer_lost(struct wr_staged *s, int rank);

/* Bytes of this layer's tables. */
uint64_t wr_staged_bytes(const struct wr_staged *s);

/* Handlers of messages; `state` is the wr_mem_state. */
void wr_staged_on_put(void *state, int source, const void *data, size_t len);
void wr_staged_on_ask(void *state, int source, const void *data, size_t len);
void wr_staged_on_answer(void *state, int source, const void *data, size_t len);

#endif
