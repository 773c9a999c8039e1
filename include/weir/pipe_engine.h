/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The pipeline engine: executes the lists of weir/pipe.h.
 *
 * Each rank is one stage. The engine keeps the order of the list, moves activations and gradients between stages, and calls
 * the user for everything else. Messages travel by put-with-signal between buffers of registered memory: the receiver grants
 * buffers, the sender writes into them while the receiver computes, and the receiver uses what has come where it lies, without a
 * copy.
 */
#ifndef WEIR_PIPE_ENGINE_H
#define WEIR_PIPE_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include <weir/comm.h>
#include <weir/pipe.h>

#ifdef __cplusplus
extern "C" {
#endif

/** An engine, opaque. */
typedef struct weir_pipe_engine weir_pipe_engine;

/** What F, I, W or B of one micro-batch and one chunk works on. Buffers are aligned to 64 bytes. */
typedef struct weir_pipe_work {
    int64_t micro;           /**< micro-batch */
    int64_t chunk;           /**< chunk of this stage */
    int64_t part;            /**< part of the layers, 0 .. stages*chunks-1 */
    const void *input;       /**< activation from the part before, there from F until W or B has returned; NULL for part 0 */
    void *output;            /**< F: to be written, for the next part; NULL for the last part and for others than F */
    const void *grad_output; /**< I, W, B: gradient of the output, there until W or B has returned; NULL for the last part */
    void *grad_input;        /**< I, B: to be written, for the part before; NULL for part 0 and for others than I and B */
} weir_pipe_work;

/** What the user does. An error that one returns ends the run on all stages. */
typedef struct weir_pipe_callbacks {
    size_t size; /**< set by ::WEIR_PIPE_CALLBACKS_INIT */
    void *user;  /**< handed to all of them */
    /** Computes ::WEIR_PIPE_OP_F, I, W or B. */
    weir_status (*compute)(void *user, weir_pipe_op op, const weir_pipe_work *work);
    /** Starts ::WEIR_PIPE_OP_UNSHARD or REDUCE_GRAD of a chunk, or does RESHARD; NULL: nothing is to be done. */
    weir_status (*shard)(void *user, weir_pipe_op op, int64_t chunk);
    /** Waits for what `shard` started: UNSHARD before the chunk's first use after it, REDUCE_GRAD at the end of the run; may be NULL. */
    weir_status (*ready)(void *user, weir_pipe_op op, int64_t chunk);
    /** Told of each instruction after it was executed; may be NULL. */
    void (*executed)(void *user, int64_t index, const weir_pipe_instr *instr);
} weir_pipe_callbacks;

/** No callbacks yet; `compute` is needed. */
#define WEIR_PIPE_CALLBACKS_INIT {sizeof(weir_pipe_callbacks), NULL, NULL, NULL, NULL, NULL}

/** How an engine is made. */
typedef struct weir_pipe_engine_options {
    size_t size;               /**< set by ::WEIR_PIPE_ENGINE_OPTIONS_INIT */
    const int *ranks;          /**< the rank of each stage in the communicator; NULL: stage s is rank s */
    uint64_t activation_bytes; /**< of the activation of one micro-batch between two parts */
    uint64_t gradient_bytes;   /**< of its gradient; 0: the same */
} weir_pipe_engine_options;

/** Stage s is rank s; activation_bytes must be filled in. */
#define WEIR_PIPE_ENGINE_OPTIONS_INIT {sizeof(weir_pipe_engine_options), NULL, 0, 0}

/** What the last run of a stage was like. */
typedef struct weir_pipe_engine_report {
    size_t size;          /**< set by the caller to sizeof(weir_pipe_engine_report) */
    int64_t stage;        /**< this rank's */
    int64_t activations;  /**< micro-batch chunks at most that were held at once, from F until W or B */
    int64_t unsharded;    /**< chunks at most whose parameters were gathered at once */
    int64_t messages;     /**< sent */
    uint64_t bytes;       /**< sent */
    uint64_t buffer_bytes; /**< of registered memory that the engine holds */
    int64_t total_ns;     /**< from start to end */
    int64_t compute_ns;   /**< in callbacks */
    int64_t wait_ns;      /**< until messages and buffers came */
} weir_pipe_engine_report;

/**
 * Makes an engine. Collective over comm, whose ranks all give the same lists and bytes. Several pipelines may share a
 * communicator: each rank gives the ranks of its own one.
 *
 * Each channel has weir_pipe_lists::buffers buffers beside those in use. When that is 0, there are as many as can be of use:
 * with more the simulation, with equal costs and messages that take as long as a forward, would not be faster.
 *
 * @param comm         a communicator
 * @param pipe         the lists; must live as long as the engine
 * @param options      bytes and ranks
 * @param callbacks    what the user does; copied
 * @param[out] engine  to be given to weir_pipe_engine_destroy(); set on success only
 * @param[out] error   may be NULL
 * @return ::WEIR_OK on all ranks, or an error on all: ::WEIR_ERR_INVALID; ::WEIR_ERR_MISMATCH for different lists or bytes;
 *         ::WEIR_ERR_NO_MEMORY; ::WEIR_ERR_LIMIT; ::WEIR_ERR_CANCELED when another rank had an error; ::WEIR_ERR_PEER_LOST
 *
 * Thread safety: one collective call at a time for each communicator.
 */
weir_status weir_pipe_engine_create(weir_comm *comm, const weir_pipe *pipe, const weir_pipe_engine_options *options,
                                    const weir_pipe_callbacks *callbacks, weir_pipe_engine **engine, weir_error *error);

/**
 * Executes this stage's list once: one training step. The other stages do the same; nobody waits for more than its messages, so
 * stages may begin the next run while others are in this one.
 *
 * When a callback fails, or a message cannot be sent, every stage ends: this one with that error, the others with
 * ::WEIR_ERR_CANCELED, at the latest in their next run. The engine is then of no further use but to be destroyed.
 *
 * @param engine      made by weir_pipe_engine_create()
 * @param[out] error  may be NULL
 * @return ::WEIR_OK; what a callback returned; ::WEIR_ERR_CANCELED with the stage that failed; ::WEIR_ERR_PEER_LOST;
 *         ::WEIR_ERR_TRANSPORT
 *
 * Thread safety: one thread at a time on an engine.
 */
weir_status weir_pipe_engine_run(weir_pipe_engine *engine, weir_error *error);

/** What the last run was like. Thread safety: not during a run. */
void weir_pipe_engine_get_report(const weir_pipe_engine *engine, weir_pipe_engine_report *report);

/**
 * Frees an engine; NULL does nothing. Collective over its communicator; waits for the others' runs to end.
 *
 * Thread safety: one collective call at a time for each communicator.
 */
void weir_pipe_engine_destroy(weir_pipe_engine *engine);

#ifdef __cplusplus
}
#endif

#endif
