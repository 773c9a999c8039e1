/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Executing a program on memory: exactly the steps that the verifier proves.
 *
 * Each execution object owns memory that all ranks of the communicator know: a control part (a flag for each rank of the node
 * and slot, 128 bytes apart, one writer each) and SCRATCH. On the node a signal is a release store of a counter into the
 * receiver's flag; between nodes it is the transport's. Counters go on from one execution to the next.
 *
 * Nothing is allocated between start and end. Everything runs with the engine's lock held.
 */
#ifndef WR_EXEC_H
#define WR_EXEC_H

#include "base/list.h"
#include "comm/comm.h"
#include "comm/kernel/kernel.h"
#include "comm/mem/mem.h"
#include "comm/plan/plan.h"

struct wr_exec;

/* Where a rank's buffers are: numbers of the memory handles that hold them, -1 for none, and where they begin in those. */
struct wr_exec_where {
    int64_t in_mem, out_mem;
    uint64_t in_offset, out_offset;
};

struct wr_exec_params {
    weir_comm *comm;
    const struct wr_plan_spec *spec; /* copied, but what it points to outlives the object */
    const struct wr_algorithm *algorithm;
    const struct wr_kernel *kernel; /* copied; NULL for collectives that combine nothing (elements are bytes then) */
    uint64_t divide_by;             /* the result is divided by this (avg), 1 for none */
    /* With spec->in_mapped / out_mapped / out_remote: memory in which all ranks' buffers are, and where this rank's begins in it. */
    struct weir_mem *in_mem, *out_mem;
    uint64_t in_offset, out_offset;
};

/*
 * Begins to make an object, collectively: the steps build the program, make memory, exchange what is needed. When they have
 * ended, wr_exec_made() gives the object.
 */
struct wr_exec_making;
weir_status wr_exec_make(const struct wr_exec_params *params, struct wr_exec_making **making, weir_error *err);
struct wr_steps *wr_exec_making_steps(struct wr_exec_making *m);
/* Frees what was needed: the object, or NULL where the steps have failed or were given up (`ok` is false). NULL is allowed. */
struct wr_exec *wr_exec_made(struct wr_exec_making *m, bool ok);

/*
 * Other numbers for a plan whose spec is local: builds this rank's program for `spec`, which differs from the one that it was
 * made for in its numbers only. The program that it was made for signals and waits in all the slots that any may use. Where
 * peers work in each other's buffers wr_exec_rebind() must follow. Not collective; must not be running.
 */
weir_status wr_exec_reshape(struct wr_exec *x, const struct wr_plan_spec *spec, weir_error *err);

/*
 * Other buffers of the same kind, by rank, for the next execution: what ranks of this node do in each other's. The handles are
 * this rank's own; they are not looked at where the buffers are not mapped.
 */
void wr_exec_rebind(struct wr_exec *x, struct weir_mem *in_mem, struct weir_mem *out_mem, const struct wr_exec_where *where);

/* Frees it without a word to the other ranks, when the context ends: its memory goes with the memory layer. NULL is allowed. */
void wr_exec_forget(struct wr_exec *x);

/* Whether the transport uses nothing of it. What other ranks put is here when an execution has ended: the plan waits for it. */
bool wr_exec_is_quiet(const struct wr_exec *x);

/*
 * The same when all ranks have ended their executions, or one is lost: its memory goes, too, unless the transport may still use
 * it. NULL is allowed.
 */
void wr_exec_abandon(struct wr_exec *x);

/* What it was made for. */
const struct wr_plan_spec *wr_exec_spec(const struct wr_exec *x);

/* Begins an execution with these buffers (ignored where they are mapped); must not be running. */
void wr_exec_start(struct wr_exec *x, const void *in, void *out);

/* Goes on as far as possible; true when something moved. */
bool wr_exec_progress(struct wr_exec *x);

/* Whether a lane that waits could go on: asked before sleeping. Cheap, changes nothing. */
bool wr_exec_can_move(const struct wr_exec *x);

bool wr_exec_done(const struct wr_exec *x);

/* WEIR_OK, or what went wrong in the execution that has ended. */
weir_status wr_exec_status(const struct wr_exec *x);

/* Ends a running execution: a rank is lost. The object cannot be started again. */
void wr_exec_break(struct wr_exec *x, weir_status status);

/* Bytes of SCRATCH and control that it holds, of the rank that has most. */
uint64_t wr_exec_bytes(const struct wr_exec *x);

#endif
