/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The ZeRO engine: trains a model whose optimizer states, gradients and parameters are divided among the ranks of a communicator.
 *
 * A model is a list of *units* (usually layers), each a list of parameter tensors. The engine holds their memory. Before and after it
 * computes with a unit the program calls a hook; between the hooks the unit's parameters, and in the backward pass its gradients, are
 * where weir_zero_param() and weir_zero_grad() say. One step of training is
 *
 * @code
 * for (m = 0; m < accumulate; m++) {
 *     weir_zero_begin(zero, WEIR_ZERO_TRAIN);
 *     for (u = 0; u < nunits; u++) {
 *         weir_zero_before_forward(zero, u);   // now weir_zero_param(zero, u, t) is valid
 *         ... forward of unit u ...
 *         weir_zero_after_forward(zero, u);
 *     }
 *     for (u = nunits; u-- > 0;) {
 *         weir_zero_before_backward(zero, u);  // and weir_zero_grad(zero, u, t)
 *         ... backward of unit u: gradients are ADDED to weir_zero_grad() ...
 *         weir_zero_after_backward(zero, u);
 *     }
 *     weir_zero_end(zero);
 * }
 * weir_zero_step(zero, NULL, &report);
 * @endcode
 *
 * The program is the same for every stage and any number of ranks, and so are, up to rounding, the results:
 *
 * | stage | divided among the ranks | traffic of a step, bytes sent a parameter |
 * | 0 | nothing | 2 d X |
 * | 1 | optimizer states and fp32 masters | (d + w) X |
 * | 2 | and gradients | (d + w) X, or (M d + w) X with ::WEIR_ZERO_REDUCE_EVERY |
 * | 3 | and parameters | M (2 w + d) X |
 *
 * with X = (N - 1) / N, w and d the bytes of a parameter and of a gradient on the wire and M micro-batches. With a secondary group of G
 * ranks stage 3 gets (1 / G - 1 / N) w a step instead of 2 M w X, for a rank then gathers its share for the group. See Rajbhandari et al.,
 * "ZeRO: Memory optimizations toward training trillion parameter models", 2020; Zhao et al., "PyTorch FSDP", 2023.
 *
 * The gradient of a step is the mean over the ranks of the sums that were added to weir_zero_grad(), divided by the number of
 * training passes (see ::weir_zero_step_options for tokens). A rank that did not compute a unit contributes zero to it. Ranks
 * may use units in different orders, several times, or not at all: the engine never waits for what another rank may leave out
 * before the end of the step, where all ranks meet.
 *
 * Calls return a status; the sentence that belongs to it is weir_zero_error(). After an error of communication an engine only repeats
 * that error, and is to be freed.
 *
 * Thread safety: one thread at a time on an engine, unless a call says otherwise.
 */
#ifndef WEIR_ZERO_H
#define WEIR_ZERO_H

#include <stddef.h>
#include <stdint.h>

#include <weir/comm.h>
#include <weir/rule.h>
#include <weir/schedule.h>
#include <weir/type.h>

#ifdef __cplusplus
extern "C" {
#endif

/** An engine, opaque. */
typedef struct weir_zero weir_zero;

/** @name The model */
/** @{ */

/** Most dimensions of a tensor. */
#define WEIR_ZERO_DIMS 8

/** No weight decay for this tensor, whatever its group says. */
#define WEIR_ZERO_NO_DECAY ((uint64_t)1)
/** Never updated: no gradient, no master, no states. The same as a frozen group. */
#define WEIR_ZERO_FROZEN ((uint64_t)2)
/** Left out of the gradient's norm: another rank of weir_zero_options::norm_comm has the same tensor and counts it. */
#define WEIR_ZERO_NORM_ELSEWHERE ((uint64_t)4)

/** How a tensor begins: X(name, value, text). */
#define WEIR_ZERO_INIT_TABLE(X)                                                                                        \
    X(WEIR_ZERO_INIT_CONSTANT, 0, "constant")                                                                          \
    X(WEIR_ZERO_INIT_NORMAL, 1, "normal")                                                                              \
    X(WEIR_ZERO_INIT_UNIFORM, 2, "uniform")                                                                            \
    X(WEIR_ZERO_INIT_CALLBACK, 3, "callback")

/**
 * How a tensor begins: init_a everywhere; normal with mean init_a and standard deviation init_b; uniform in [init_a, init_b); or as
 * a callback says. Random numbers are those of a counter (Philox 4x32-10, Salmon et al., "Parallel random numbers: as easy as
 * 1, 2, 3", 2011): element i of a tensor has a value of its own, whoever makes it, and no rank makes more than its shard.
 */
typedef enum weir_zero_init {
#define WEIR_ZERO_INIT_ENUM(name, value, text) name = value,
    WEIR_ZERO_INIT_TABLE(WEIR_ZERO_INIT_ENUM)
#undef WEIR_ZERO_INIT_ENUM
} weir_zero_init;

/** Gives elements first .. first + n - 1 of a tensor (row by row) in fp32. Called for the elements that this rank needs, in any order. */
typedef void (*weir_zero_init_fn)(void *user, uint64_t unit, uint64_t tensor, uint64_t first, uint64_t n, float *values);

/** A parameter tensor. */
typedef struct weir_zero_tensor {
    size_t size;                    /**< set by ::WEIR_ZERO_TENSOR_INIT */
    const char *name;               /**< unique in its unit; copied */
    uint64_t ndim;                  /**< 0 .. ::WEIR_ZERO_DIMS */
    uint64_t shape[WEIR_ZERO_DIMS]; /**< sizes, the slowest first; none may be 0 */
    uint64_t flags;                 /**< WEIR_ZERO_NO_DECAY, ... */
    uint64_t group;                 /**< which of weir_zero_options::groups */
    int64_t tied_unit;              /**< this tensor is one of another unit (or an earlier one of this unit); -1: no */
    int64_t tied_tensor;            /**< and which; it has the same number of elements and is not itself tied */
    uint64_t init;                  /**< a ::weir_zero_init; not looked at when tied */
    double init_a;                  /**< constant, mean, or least value */
    double init_b;                  /**< standard deviation, or the value below which all are */
    weir_zero_init_fn init_fn;      /**< ::WEIR_ZERO_INIT_CALLBACK: called during weir_zero_create() only */
    void *init_user;                /**< handed to it */
} weir_zero_tensor;

/** A tensor of zeros, in group 0, tied to none; name and shape are to be set. */
#define WEIR_ZERO_TENSOR_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(weir_zero_tensor), NULL, 0, {0}, 0, 0, -1, -1, WEIR_ZERO_INIT_CONSTANT, 0.0, 0.0, NULL, NULL           \
    }

/** A unit. In an array of units or tensors each entry has the `size` of the first. */
typedef struct weir_zero_unit {
    size_t size;                     /**< set by ::WEIR_ZERO_UNIT_INIT */
    const char *name;                /**< unique; copied */
    const weir_zero_tensor *tensors; /**< copied */
    uint64_t ntensors;               /**< may be 0 */
} weir_zero_unit;

/** A unit without tensors. */
#define WEIR_ZERO_UNIT_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(weir_zero_unit), NULL, NULL, 0                                                                          \
    }

/** @} */
/** @name Options */
/** @{ */

/** How tensors are divided: X(name, value, text). */
#define WEIR_ZERO_PARTITION_TABLE(X)                                                                                   \
    X(WEIR_ZERO_FLAT, 0, "flat")                                                                                       \
    X(WEIR_ZERO_WHOLE_TENSOR, 1, "whole-tensor")

/**
 * How tensors are divided: flat (each rank has an equal part of each unit, wherever tensors begin and end; tensors whose rule has
 * access matrix are kept whole), or each tensor whole on one rank (the largest first, each to the rank that has least).
 */
typedef enum weir_zero_partition {
#define WEIR_ZERO_PARTITION_ENUM(name, value, text) name = value,
    WEIR_ZERO_PARTITION_TABLE(WEIR_ZERO_PARTITION_ENUM)
#undef WEIR_ZERO_PARTITION_ENUM
} weir_zero_partition;

/** When gradients are reduced: X(name, value, text). */
#define WEIR_ZERO_REDUCE_TABLE(X)                                                                                      \
    X(WEIR_ZERO_REDUCE_AUTO, 0, "auto")                                                                                \
    X(WEIR_ZERO_REDUCE_ONCE, 1, "once")                                                                                \
    X(WEIR_ZERO_REDUCE_EVERY, 2, "every")

/**
 * When gradients are reduced: in the last training pass of a step (which keeps the gradients of the whole model on each rank), or
 * in every pass (which keeps a shard of them in fp32, and those of the units at work). auto: once with stages 0 and 1, every with 2
 * and 3. every is not for stage 0.
 */
typedef enum weir_zero_reduce {
#define WEIR_ZERO_REDUCE_ENUM(name, value, text) name = value,
    WEIR_ZERO_REDUCE_TABLE(WEIR_ZERO_REDUCE_ENUM)
#undef WEIR_ZERO_REDUCE_ENUM
} weir_zero_reduce;

/** What becomes of a step whose gradient is not finite: X(name, value, text). */
#define WEIR_ZERO_NONFINITE_TABLE(X)                                                                                   \
    X(WEIR_ZERO_SKIP, 0, "skip")                                                                                       \
    X(WEIR_ZERO_ERROR, 1, "error")

/** What becomes of a step whose gradient is not finite on any rank: it is left out on all, or weir_zero_step() fails on all. */
typedef enum weir_zero_nonfinite {
#define WEIR_ZERO_NONFINITE_ENUM(name, value, text) name = value,
    WEIR_ZERO_NONFINITE_TABLE(WEIR_ZERO_NONFINITE_ENUM)
#undef WEIR_ZERO_NONFINITE_ENUM
} weir_zero_nonfinite;

/**
 * Stage 3: each rank gathers parameters for itself. Without it the ranks of a node share a window (::WEIR_MEM_NODE_SHARED) in which
 * each unit is gathered once a node; max_live_bytes is then that of the node. Gathered parameters must not be written to.
 */
#define WEIR_ZERO_PRIVATE ((uint64_t)1)

/**
 * Results are the same bits for every stage, partition, bucket size, placement and number of ranks. The gradient of each pass is
 * reduced alone (as with ::WEIR_ZERO_REDUCE_EVERY), and gradients are added in fp32 in the complete binary tree over the number of
 * micro-batches that is pass * ranks + rank; norms are those of weir_norm_fold() over each tensor, added up tensor by tensor. Ranks and
 * accumulate are powers of two, there are no groups of shards, and gradients travel as they are. Tensors and parts are padded to
 * multiples of ::WEIR_NORM_BLOCK. The program's part: micro-batches that depend on their number alone, and computations that
 * give the same bits on every rank. Gradients that come after their unit has left are not covered.
 */
#define WEIR_ZERO_REPRODUCIBLE ((uint64_t)2)

/**
 * Stage 3: parameters travel as blocks of int8 with a scale in fp32 each (weir_zero_options::quant_block elements, 1 + 4 / quant_block bytes
 * a parameter), which each rank makes of its shard once a step. All ranks, the owner too, compute with what the blocks hold: a
 * parameter is off by at most 1/254 of the largest magnitude in its block (and, in bf16 and fp16, one rounding). Masters stay exact. Where
 * one rank has the whole shard nothing travels, and parameters are exact. Not with ::WEIR_ZERO_REPRODUCIBLE. See Wang et al., "ZeRO++:
 * Extremely efficient collective communication for giant model training", 2023.
 */
#define WEIR_ZERO_QUANTIZED_PARAMS ((uint64_t)4)

/**
 * Stages 1 to 3: gradients are reduced over the ranks that divide the model as such blocks, in two steps: each node adds up those of its
 * ranks in fp32, then sums of nodes go as int8 to the owners, who add them up in fp32. With A_r the largest magnitude of a block in
 * what rank r added, and B_k that of the sum of node k, a gradient (the sum over all ranks) is off by at most the sum of A_r and B_k over
 * other ranks and other nodes, divided by 254. A gradient that is not finite makes its whole block NaN, so such steps are found as ever.
 * The sum stays in fp32 where every pass reduces (::WEIR_ZERO_REDUCE_EVERY) and there are no replicas, else it becomes reduce_type, in which
 * replicas (weir_zero_options::shard_group) are summed up. Not with ::WEIR_ZERO_REPRODUCIBLE.
 */
#define WEIR_ZERO_QUANTIZED_GRADS ((uint64_t)8)

/** As weir_zero_options::secondary_group: the ranks of each node. */
#define WEIR_ZERO_NODE UINT64_MAX

/** weir_zero_options::offload: states of the rules, and masters where they are apart from the parameters, are in a file. */
#define WEIR_ZERO_OFFLOAD_STATES ((uint64_t)1)

/**
 * weir_zero_options::offload, stage 3: the parameters of the whole model are in a file of each rank, and in memory only while units are
 * gathered (max_live_bytes, prefetch_bytes). A gather is a read of the disk and no traffic; ranks move parameters once a step, when
 * they were updated. Each rank gathers for itself (as with ::WEIR_ZERO_PRIVATE); tensors and parts are padded to multiples of 4096
 * elements. Not with delayed updates, quantised parameters, or a secondary group.
 */
#define WEIR_ZERO_OFFLOAD_PARAMS ((uint64_t)2)

/** What reads and writes that file: X(name, value, text). */
#define WEIR_ZERO_IO_TABLE(X)                                                                                          \
    X(WEIR_ZERO_IO_AUTO, 0, "auto")                                                                                    \
    X(WEIR_ZERO_IO_URING, 1, "uring")                                                                                  \
    X(WEIR_ZERO_IO_THREAD, 2, "thread")

/** What reads and writes that file: io_uring, threads, or (auto) what WEIR_IO says, by default io_uring where it is allowed. */
typedef enum weir_zero_io {
#define WEIR_ZERO_IO_ENUM(name, value, text) name = value,
    WEIR_ZERO_IO_TABLE(WEIR_ZERO_IO_ENUM)
#undef WEIR_ZERO_IO_ENUM
} weir_zero_io;

/** How an engine is made; must agree on all ranks, but for pointers. */
typedef struct weir_zero_options {
    size_t size;              /**< set by ::WEIR_ZERO_OPTIONS_INIT */
    uint64_t stage;           /**< 0 .. 3 */
    uint64_t flags;           /**< ::WEIR_ZERO_PRIVATE, ::WEIR_ZERO_REPRODUCIBLE, ... */
    const weir_group *groups; /**< copied; rules and schedules must live as long as the engine */
    uint64_t ngroups;         /**< 1 or more */
    uint64_t param_type;      /**< WEIR_FP32, WEIR_BF16 or WEIR_FP16: of weir_zero_param(); with the others there are fp32 masters */
    uint64_t grad_type;       /**< WEIR_FP32, WEIR_BF16 or WEIR_FP16: of weir_zero_grad() */
    uint64_t reduce_type;     /**< of gradients on the wire: grad_type, or WEIR_BF16 or WEIR_FP16 when that is WEIR_FP32 */
    uint64_t partition;       /**< a ::weir_zero_partition */
    uint64_t reduce;          /**< a ::weir_zero_reduce */
    uint64_t accumulate;      /**< training passes of a step, 1 or more */
    uint64_t bucket_bytes;    /**< gradients that are reduced in one go; small units are put together, large ones divided */
    uint64_t prefetch_bytes;  /**< stage 3: parameters that may be gathered ahead of their use; 0: none */
    uint64_t max_live_bytes;  /**< stage 3: parameters that are gathered at once; more are when units at work need it */
    uint64_t reuse_bytes;     /**< stage 3: a unit stays gathered when less than that is gathered before it is used again */
    uint64_t persistent_bytes; /**< stage 3: units up to that size stay gathered until the step */
    uint64_t shard_group;     /**< that many ranks in a row divide everything, and the groups are replicas; 0: all ranks */
    double clip_norm;         /**< gradients whose norm is larger are scaled down to it; 0: never */
    weir_comm *norm_comm;     /**< the norm's square is summed over it, too (pipeline or tensor axes); NULL: none */
    double loss_scale;        /**< what the program multiplies its loss with, at first; gradients are divided by it */
    uint64_t scale_window;    /**< the loss scale doubles after so many good steps and halves after a bad one; 0: it stays */
    uint64_t nonfinite;       /**< a ::weir_zero_nonfinite */
    uint64_t seed;            /**< of random initial values */
    uint64_t quant_block;     /**< elements of a block of int8: a multiple of 32, at most 4096 */
    uint64_t secondary_group; /**< stage 3: that many ranks in a row, all on one node, keep together what a step has gathered until it is
                                   updated: a second copy of the model among them (hpZ), so that only the first gather of a unit in
                                   a step takes data from other nodes. ::WEIR_ZERO_NODE: the ranks of each node; 0 or 1: none. Takes
                                   the place of max_live_bytes; not with ::WEIR_ZERO_PRIVATE */
    uint64_t offload;         /**< ::WEIR_ZERO_OFFLOAD_STATES, ::WEIR_ZERO_OFFLOAD_PARAMS; 0: everything is in memory */
    const char *offload_path; /**< where each rank makes a file without a name, gone when the rank ends: a folder on a local disk; copied */
    uint64_t offload_bytes;   /**< of a sub-group of states, which passes through a buffer; a tensor that a rule must see whole may be larger */
    uint64_t offload_buffers; /**< buffers, 2 or more; with 3 reading, the rules, and writing go on at once */
    uint64_t offload_io;      /**< a ::weir_zero_io */
    uint64_t delayed;         /**< 1: updates are delayed by a step, see weir_zero_step(); 0: not */
} weir_zero_options;

/** Stage 0 in fp32; groups are to be set. */
#define WEIR_ZERO_OPTIONS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(weir_zero_options), 0, 0, NULL, 0, WEIR_FP32, WEIR_FP32, WEIR_FP32, WEIR_ZERO_FLAT, WEIR_ZERO_REDUCE_AUTO, \
            1, (uint64_t)25 << 20, (uint64_t)64 << 20, (uint64_t)1 << 30, (uint64_t)0, (uint64_t)64 << 10, 0, 0.0,     \
            NULL, 1.0, 0, WEIR_ZERO_SKIP, 0, (uint64_t)256, 0, 0, NULL, (uint64_t)16 << 20, 4, WEIR_ZERO_IO_AUTO, 0     \
    }

/** @} */
/** @name Making and ending */
/** @{ */

/**
 * Makes an engine and the model's initial values, shard by shard. Collective over comm.
 *
 * @param comm       a communicator; the engine makes its own of it, so that its traffic does not meet the program's
 * @param options    settings; copied
 * @param units      the model; copied
 * @param nunits     number of units, 1 or more
 * @param[out] zero  to be freed by weir_zero_free(); set on success only
 * @param[out] error may be NULL
 * @return ::WEIR_OK on all ranks, or an error on all: ::WEIR_ERR_INVALID with what is wrong; ::WEIR_ERR_MISMATCH when ranks gave
 *         different models or options; ::WEIR_ERR_NO_MEMORY; ::WEIR_ERR_LIMIT; ::WEIR_ERR_CANCELED when another rank had an error;
 *         ::WEIR_ERR_UNSUPPORTED; ::WEIR_ERR_PEER_LOST; ::WEIR_ERR_IO when there is no room for what is offloaded
 *
 * Thread safety: one collective call at a time for each communicator.
 */
weir_status weir_zero_create(weir_comm *comm, const weir_zero_options *options, const weir_zero_unit *units,
                             uint64_t nunits, weir_zero **zero, weir_error *error);

/** Frees an engine; NULL does nothing. Collective, unless a rank was lost. */
void weir_zero_free(weir_zero *zero);

/** The last call on this engine that failed; status ::WEIR_OK when none did. Owned by the engine. */
const weir_error *weir_zero_error(const weir_zero *zero);

/** The options that the engine works with; `options->size` must be set. Thread safety: safe. */
void weir_zero_get_options(const weir_zero *zero, weir_zero_options *options);

/** @} */
/** @name Passes and hooks. None is collective, but those at the end of the last pass may wait for other ranks to come there. */
/** @{ */

/** What a pass is. The order of units is remembered for each of them. */
typedef enum weir_zero_pass {
    WEIR_ZERO_TRAIN = 0, /**< forward and backward of one micro-batch */
    WEIR_ZERO_EVAL = 1,  /**< forward only */
    WEIR_ZERO_NO_GRAD = 2 /**< forward only, for another purpose than evaluation */
} weir_zero_pass;

/**
 * Begins a pass over the model. A pass of training is usually one micro-batch; a pipeline that mixes several of them makes
 * one pass of all.
 *
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID inside a pass, or for more training passes than weir_zero_options::accumulate since the
 *         last step
 */
weir_status weir_zero_begin(weir_zero *zero, weir_zero_pass pass);

/** Ends a pass: gradients of this pass are complete. @return ::WEIR_OK; ::WEIR_ERR_INVALID outside; errors of communication */
weir_status weir_zero_end(weir_zero *zero);

/**
 * From its return on until weir_zero_after_forward() the parameters of a unit are there. Pairs may nest, and come in any order and
 * number. @return ::WEIR_OK; ::WEIR_ERR_INVALID for a unit that does not exist or outside a pass; ::WEIR_ERR_NO_MEMORY; errors of
 * communication
 */
weir_status weir_zero_before_forward(weir_zero *zero, uint64_t unit);

/** The parameters are not needed for now, and were not changed. Otherwise as weir_zero_before_forward(). */
weir_status weir_zero_after_forward(weir_zero *zero, uint64_t unit);

/** As weir_zero_before_forward(); the gradients of the unit can be added to, too. In passes of training only. */
weir_status weir_zero_before_backward(weir_zero *zero, uint64_t unit);

/** The gradients of this use of the unit are complete, and begin to travel when it was the last one in this pass. */
weir_status weir_zero_after_backward(weir_zero *zero, uint64_t unit);

/**
 * Where a tensor's parameters are, in weir_zero_options::param_type, row by row, aligned to 64 bytes. Valid between the hooks of
 * its unit; NULL when it is not gathered or does not exist.
 */
void *weir_zero_param(weir_zero *zero, uint64_t unit, uint64_t tensor);

/**
 * Where gradients are to be added, in weir_zero_options::grad_type, aligned to 64 bytes. Valid between weir_zero_before_backward()
 * and weir_zero_after_backward(); NULL outside, and for a frozen tensor. Elements are zero, or hold what this rank added before in
 * this step.
 */
void *weir_zero_grad(weir_zero *zero, uint64_t unit, uint64_t tensor);

/** @} */
/** @name The step */
/** @{ */

/** What belongs to one step. */
typedef struct weir_zero_step_options {
    size_t size;     /**< set by ::WEIR_ZERO_STEP_INIT */
    double lr;       /**< learning rate, times the group's lr_scale; negative: that of the group's schedule */
    double weight;   /**< this rank's tokens (or samples) in this step, when gradients are sums over tokens: the sums of all ranks are
                          divided by the tokens of all ranks. 0 on all ranks: the mean over ranks and passes */
    uint64_t passes; /**< what sums are divided by beside the number of ranks; 0: weir_zero_options::accumulate */
    uint64_t stop;   /**< 1: this rank wants to end the training; weir_zero_report::stop tells it to all. 0: it does not */
    const double *losses; /**< the losses of this rank's training passes in this step, weir_zero_options::accumulate numbers, for
                               weir_zero_report::loss; NULL, on all ranks: none */
} weir_zero_step_options;

/** The schedule's rate, the mean over ranks and passes. */
#define WEIR_ZERO_STEP_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(weir_zero_step_options), -1.0, 0.0, 0, 0, NULL                                                          \
    }

/** Most levels of a machine that reports tell apart; what is beyond counts as the last of them. */
#define WEIR_ZERO_LEVELS 8

/** What a step was like. Bytes and times are this rank's, from the first pass after the last step on. */
typedef struct weir_zero_report {
    size_t size;             /**< set by the caller to sizeof(weir_zero_report) */
    uint64_t step;           /**< steps that were made, this one included unless it was skipped */
    uint64_t skipped;        /**< 1 when the gradient was not finite and nothing was updated */
    double norm;             /**< of the gradient, before it was clipped */
    double clip;             /**< what gradients were multiplied by for that */
    double loss_scale;       /**< of this step */
    double lr;               /**< of group 0 */
    int64_t total_ns;        /**< from the first pass to the end of the step */
    int64_t exposed_ns;      /**< in which the engine waited for or moved data */
    int64_t update_ns;       /**< in which rules were applied */
    int64_t hidden_ns;       /**< in which communication was under way (begun, and not seen to be complete), less exposed_ns */
    uint64_t gather_bytes;   /**< parameters that this rank got from others */
    uint64_t gather_node_bytes; /**< of these, from ranks whose memory is mapped here */
    uint64_t reduce_bytes;   /**< gradients that this rank sent, as the least that the operation takes */
    uint64_t memory_bytes;   /**< that the engine holds */
    uint64_t memory_peak;    /**< most of it so far */
    uint64_t live_peak;      /**< stage 3: most parameters that were gathered at once, in bytes */
    uint64_t gathers;        /**< stage 3: units that were gathered */
    uint64_t prefetched;     /**< of these, begun ahead of their use */
    int64_t differs_unit;    /**< a unit whose use was another than in the pass before or on other ranks; -1: none */
    int64_t compute_ns;      /**< that the program spent between the hooks before and after a unit */
    uint64_t memory_formula; /**< what weir_zero_estimate() says of this engine; beside memory_peak. Where ranks of a node gather into
                                  one window, a share of it */
    uint64_t levels;         /**< levels of the machine (weir_comm_topo()) that the next three tell apart, the innermost first */
    uint64_t level_kind[WEIR_ZERO_LEVELS];         /**< a ::weir_level_kind */
    uint64_t gather_level_bytes[WEIR_ZERO_LEVELS]; /**< of gather_bytes, those between ranks that have this level in common, and none
                                                        below it; a collective counts as one that combines level by level */
    uint64_t reduce_level_bytes[WEIR_ZERO_LEVELS]; /**< the same of reduce_bytes */
    uint64_t stop;           /**< ranks that want to end the training (of norm_comm, too); the same number on all */
    double loss;             /**< mean of the losses of all ranks and passes, reproducible when the step is; NaN when none were given */
    uint64_t disk_bytes;     /**< offloaded states that this rank read and wrote in the update that update_ns is about */
} weir_zero_report;

/**
 * Ends a step: waits until the gradients of all ranks are reduced, takes their norm, updates, and begins to distribute what
 * was updated. Collective.
 *
 * Delayed (weir_zero_options::delayed), it decides all of that (norm, clipping, whether the step is skipped, the learning rate) at once,
 * but the rules are applied by a thread while the program computes the next step, and the program sees the result one step later. With
 * w(0) the initial parameters and w(t) those after update t: the gradient g(t) of step t is computed with w(t - 2), in the first two
 * steps with w(0); update t makes w(t) of w(t - 1) and g(t); from the return of the call for step t on the program sees w(t - 1).
 * A step that is skipped makes no update; what was delayed before it is seen after it. Norms of tensors that rules need are taken in
 * the call. Calls that look at or change values or save them complete what is delayed, as weir_zero_flush() does, so a run that was
 * resumed goes on as the one that saved. Beside the usual memory it takes the gradients and parameters of a shard once more. A failure of the thread
 * is told by the next call.
 *
 * @param zero         an engine, outside a pass
 * @param options      NULL for ::WEIR_ZERO_STEP_INIT
 * @param[out] report  may be NULL; `report->size` must be set
 * @return ::WEIR_OK, also when the step was skipped; ::WEIR_ERR_NOT_FINITE with ::WEIR_ZERO_ERROR; ::WEIR_ERR_INVALID;
 *         ::WEIR_ERR_CANCELED when another rank had an error; errors of communication
 */
weir_status weir_zero_step(weir_zero *zero, const weir_zero_step_options *options, weir_zero_report *report);

/** Throws away the gradients since the last step. Collective, outside a pass. */
weir_status weir_zero_reset(weir_zero *zero);

/** What the loss of the next pass is to be multiplied by. */
double weir_zero_loss_scale(const weir_zero *zero);

/** @} */
/** @name Looking at and changing sharded values */
/** @{ */

/**
 * The whole of one array of a tensor, at every rank. Collective, outside a pass.
 *
 * @param zero    an engine
 * @param unit    of the tensor
 * @param tensor  a tensor; a tied one means the one it is tied to
 * @param kind    "param" (fp32: the master where there is one), "grad" (fp32: that of the last step, as the mean, not clipped; until
 *                the next pass), or the name of a state, e.g. "exp_avg", in its type
 * @param[out] values  room for all elements of the array, row by row
 * @return ::WEIR_OK; ::WEIR_ERR_NOT_FOUND when the tensor has no such array; ::WEIR_ERR_INVALID; errors of communication
 */
weir_status weir_zero_gather(weir_zero *zero, uint64_t unit, uint64_t tensor, const char *kind, void *values);

/**
 * Sets the whole of one array of a tensor: "param", a state, or, for weir_zero_apply(), "grad". All ranks give the same values. Otherwise
 * as weir_zero_gather().
 */
weir_status weir_zero_scatter(weir_zero *zero, uint64_t unit, uint64_t tensor, const char *kind, const void *values);

/** @} */
/**
 * @name State
 *
 * What has to be saved to go on later: for each tensor that is not tied an array "param" (fp32 masters; frozen ones in param_type) and
 * one for each state of its rule. Each rank lists the parts of them that it holds; over the ranks of replica 0 the parts of an
 * array cover it exactly once. An array, its shape and its total do not depend on stage or ranks, the parts do.
 * @{
 */

/** A part of an array. */
typedef struct weir_zero_part {
    size_t size;                    /**< set by the caller to sizeof(weir_zero_part) */
    const char *name;               /**< "unit.tensor", owned by the engine */
    const char *kind;               /**< "param", or the name of a state */
    uint64_t unit;                  /**< whose it is: the unit */
    uint64_t tensor;                /**< and the tensor in it */
    uint64_t type;                  /**< ::weir_type of an element */
    uint64_t ndim;                  /**< of the whole array */
    uint64_t shape[WEIR_ZERO_DIMS]; /**< of the whole array: the tensor's where there is an entry for each element, else {total} */
    uint64_t total;                 /**< elements of the whole array */
    uint64_t first;                 /**< the part: its first element */
    uint64_t count;                 /**< the part: elements, 1 or more */
    uint64_t replica;               /**< 0: this rank saves it; others hold the same values */
    void *data;                     /**< the part's elements, to be read and written; NULL when they are on disk
                                         (weir_zero_state_read()). Delayed updates: see weir_zero_flush() */
    double scale;                   /**< what elements are to be multiplied by: 1, but for a gradient of weir_zero_shard() */
    uint64_t flags;                 /**< of the tensor: ::WEIR_ZERO_NORM_ELSEWHERE, ... */
} weir_zero_part;

/** Number of parts on this rank. */
uint64_t weir_zero_state_count(const weir_zero *zero);

/** Part `index`; `part->size` must be set. @return ::WEIR_OK; ::WEIR_ERR_INVALID */
weir_status weir_zero_state_get(const weir_zero *zero, uint64_t index, weir_zero_part *part);

/** The rest of the state. */
typedef struct weir_zero_counters {
    size_t size;        /**< set by the caller to sizeof(weir_zero_counters) */
    uint64_t step;      /**< updates so far */
    uint64_t skipped;   /**< steps that were skipped so far */
    double loss_scale;  /**< present */
    uint64_t good;      /**< steps since it was changed */
} weir_zero_counters;

/** Reads the counters; `counters->size` must be set. */
void weir_zero_state_counters(const weir_zero *zero, weir_zero_counters *counters);

/**
 * Says that the parts were written to by the program (a checkpoint was read, on every rank and replica) and sets the counters: the
 * parameters are made of the masters again, everywhere. Collective, outside a pass. The engine must not be in use in between.
 *
 * @param counters  NULL: they stay
 */
weir_status weir_zero_state_loaded(weir_zero *zero, const weir_zero_counters *counters);

/** @} */
/** @name Before a run */
/** @{ */

/** Bytes of a rank (the one that has most), and traffic. */
typedef struct weir_zero_budget {
    size_t size;             /**< set by the caller to sizeof(weir_zero_budget) */
    uint64_t parameters;     /**< elements of the model, tied ones once */
    uint64_t trainable;      /**< of these, not frozen */
    uint64_t param_bytes;    /**< parameters, padded: all of them, or a shard with stage 3 */
    uint64_t master_bytes;   /**< fp32 masters beside them, in memory */
    uint64_t state_bytes;    /**< states of the rules, in memory */
    uint64_t grad_bytes;     /**< gradients: all, or a shard and the units at work */
    uint64_t live_bytes;     /**< stage 3: room for gathered parameters, where ranks do not share it */
    uint64_t total_bytes;    /**< all of these, buffer_bytes and delay_bytes */
    uint64_t gather_bytes;   /**< a step: parameters that a rank gets */
    uint64_t reduce_bytes;   /**< a step: gradients that a rank sends */
    uint64_t buffer_bytes;   /**< buffers of an offload */
    uint64_t delay_bytes;    /**< delayed updates: gradients, and parameters in half types, once more (masters count as such) */
    uint64_t disk_bytes;     /**< on disk; not in total_bytes */
} weir_zero_budget;

/**
 * What an engine would hold and move: pure arithmetic. Options as for weir_zero_create(); initial values are not looked at.
 *
 * @param nranks       ranks of the communicator
 * @param[out] budget  `budget->size` must be set
 * @param[out] error   may be NULL
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID; ::WEIR_ERR_NO_MEMORY. Thread safety: safe.
 */
weir_status weir_zero_estimate(const weir_zero_options *options, const weir_zero_unit *units, uint64_t nunits,
                               int nranks, weir_zero_budget *budget, weir_error *error);

/**
 * The initial values of elements first .. first + n - 1 of a tensor, as an engine with this seed makes them.
 *
 * @param tensor  its init, init_a and init_b are looked at, with ::WEIR_ZERO_INIT_CALLBACK its callback
 * @param unit    number of its unit
 * @param index   number of the tensor in it
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID. Thread safety: safe, if the callback is.
 */
weir_status weir_zero_init_values(const weir_zero_tensor *tensor, uint64_t seed, uint64_t unit, uint64_t index,
                                  uint64_t first, uint64_t n, float *values);

/** @} */

#ifdef __cplusplus
}
#endif

#endif
