/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Pipeline schedules as data.
 *
 * A model that is cut into P stages trains on M micro-batches a step. What each stage does, and in which order, is a list of
 * instructions that a pure function writes; a checker proves the lists before anything runs, a simulator says how long they
 * take, and `weir-pipe` draws them. Nothing here communicates.
 *
 * **Parts.** Each stage holds V chunks of layers, so the layers are cut into P*V parts. ::WEIR_PIPE_LOOP gives chunk c of
 * stage s the part c*P + s; ::WEIR_PIPE_V (of ZB-V, two chunks) gives it part s, and 2P-1-s. Micro-batches go through the parts in
 * order and gradients come back; a message is needed only between parts of different stages.
 *
 * **Execution.** A stage executes its list in order. SEND_ACT and SEND_GRAD hand a message over and go on; RECV_ACT and RECV_GRAD
 * wait until theirs has come. UNSHARD and REDUCE_GRAD start something that the stage does not wait for until it must:
 * the first use of the chunk, and the end of the step. There is one channel for each kind of message and ordered pair of
 * stages; its messages arrive in the order in which they were sent.
 *
 * **Buffering.** A channel has some number of buffers. A SEND takes one and waits while none is free, the RECV of that
 * message gives it back. What the checker proves holds for the number in weir_pipe_lists::buffers; its report says
 * how many are needed at all, and with how many no SEND ever waits. Since each stage executes in order and each
 * channel has one sender and one receiver, whether the lists come to their end does not depend on timing (Kahn, The semantics
 * of a simple language for parallel programming, 1974): one run proves it for all.
 */
#ifndef WEIR_PIPE_H
#define WEIR_PIPE_H

#include <stddef.h>
#include <stdint.h>

#include <weir/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A set of lists made by weir_pipe_create(), opaque and immutable. */
typedef struct weir_pipe weir_pipe;

/**
 * The schedules. Bubbles are for equal costs of F, I and W and no communication; peaks are activations of micro-batch chunks
 * that a stage s holds at most.
 */
typedef enum weir_pipe_schedule {
    /** All forwards, then all backwards. Bubble (P-1)/(M+P-1), peak M. Huang et al., GPipe, NeurIPS 2019. */
    WEIR_PIPE_GPIPE = 0,
    /** One forward, one backward. Bubble (P-1)/(M+P-1), peak min(P-s, M). PipeDream-flush: Narayanan et al., Memory-efficient
        pipeline-parallel DNN training, ICML 2021; DAPPLE: Fan et al., PPoPP 2021. */
    WEIR_PIPE_1F1B = 1,
    /** 1F1B with V chunks a stage. Bubble (P-1)/(VM+P-1) when P divides M, peak min((V-1)P + 2(P-1-s) + 1, VM). Narayanan et
        al., Efficient large-scale language model training on GPU clusters using Megatron-LM, SC 2021. Where P does not divide M,
        groups of P to 2P-1 micro-batches take the place of those of P. */
    WEIR_PIPE_INTERLEAVED = 2,
    /** All micro-batches through one chunk after the other. Bubble (P-1)/(VM+P-1) when M >= P, peak VM; each chunk is gathered
        twice and reduced once a step. Lamy-Poirier, Breadth-first pipeline parallelism, MLSys 2023. */
    WEIR_PIPE_LOOPED_BFS = 3,
    /** Backward split in I and W, memory of 1F1B. Bubble (P-1)/(3M+P-1) when M >= P, peak P on every stage. Qi et al., Zero bubble
        pipeline parallelism, ICLR 2024. */
    WEIR_PIPE_ZB_H1 = 4,
    /** The same with more memory. No bubble when M >= 2P-1, peak 2P-1; with a limit between P and 2P-1 something between both. Stage
        s starts and ends s units after stage 0: see weir_pipe_result::bubble_barrier. Same source. */
    WEIR_PIPE_ZB_H2 = 5,
    /** Two chunks a stage in the shape of a V. No bubble when M >= 2P-1, peak 2P chunks of half a stage, so the memory of
        1F1B. Stages start one after the other, as in ZB-H2. Same source (appendix) and Qi et al., Pipeline parallelism with controllable
        memory, NeurIPS 2024. */
    WEIR_PIPE_ZB_V = 6
} weir_pipe_schedule;

/** How parts of the layers are given to stages. */
typedef enum weir_pipe_placement {
    WEIR_PIPE_LOOP = 0, /**< chunk c of stage s is part c*P + s */
    WEIR_PIPE_V = 1     /**< two chunks: chunk 0 of stage s is part s, chunk 1 is part 2P-1-s */
} weir_pipe_placement;

/** Kinds of instructions. */
typedef enum weir_pipe_op {
    WEIR_PIPE_OP_F = 0,         /**< forward of a micro-batch through a chunk; keeps its activation */
    WEIR_PIPE_OP_I = 1,         /**< gradient of the chunk's input */
    WEIR_PIPE_OP_W = 2,         /**< gradient of the chunk's weights, added to those of earlier micro-batches; frees the activation */
    WEIR_PIPE_OP_B = 3,         /**< I and W as one */
    WEIR_PIPE_OP_SEND_ACT = 4,  /**< sends the chunk's output to the stage of the next part */
    WEIR_PIPE_OP_RECV_ACT = 5,  /**< receives the chunk's input */
    WEIR_PIPE_OP_SEND_GRAD = 6, /**< sends the gradient of the chunk's input to the stage of the part before */
    WEIR_PIPE_OP_RECV_GRAD = 7, /**< receives the gradient of the chunk's output */
    WEIR_PIPE_OP_UNSHARD = 8,   /**< starts to gather the chunk's parameters; F, I and B of it wait for them, W needs none */
    WEIR_PIPE_OP_RESHARD = 9,   /**< drops the gathered parameters */
    WEIR_PIPE_OP_REDUCE_GRAD = 10 /**< starts to reduce the chunk's gradients over the data-parallel ranks; once a step, after its last W */
} weir_pipe_op;

/** One instruction. */
typedef struct weir_pipe_instr {
    int32_t op;    /**< ::weir_pipe_op */
    int32_t micro; /**< micro-batch; -1 for UNSHARD, RESHARD, REDUCE_GRAD */
    int32_t chunk; /**< chunk of the executing stage */
    int32_t peer;  /**< the other stage of a SEND or RECV, else -1 */
} weir_pipe_instr;

/** What something takes, in any unit of time. F, I and W are those of one micro-batch and one chunk. */
typedef struct weir_pipe_costs {
    size_t size;    /**< set by ::WEIR_PIPE_COSTS_INIT */
    double f;       /**< forward */
    double i;       /**< input gradient; B takes i + w */
    double w;       /**< weight gradient */
    double comm;    /**< from a SEND until its message has come; the stages compute meanwhile */
    double unshard; /**< one UNSHARD; those of a stage and its REDUCE_GRADs go one after the other, beside the computing */
    double reduce;  /**< one REDUCE_GRAD */
} weir_pipe_costs;

/** Equal costs, no communication. */
#define WEIR_PIPE_COSTS_INIT {sizeof(weir_pipe_costs), 1.0, 1.0, 1.0, 0.0, 0.0, 0.0}

/** What weir_pipe_create() is to write. */
typedef struct weir_pipe_options {
    size_t size;             /**< set by ::WEIR_PIPE_OPTIONS_INIT */
    int64_t schedule;        /**< ::weir_pipe_schedule */
    int64_t stages;          /**< P, 1 to 1024 */
    int64_t microbatches;    /**< M, 1 to 65536; P*V*M is at most 2^20 */
    int64_t chunks;          /**< V, 1 to 64; 0: what the schedule is made for (2 for interleaved, looped BFS and ZB-V, else 1) */
    int64_t max_activations; /**< activations of micro-batch chunks that a stage may hold; 0: what the schedule needs */
    int64_t zero;            /**< ZeRO stage inside the pipeline stages, 0 to 3; see weir_pipe_create() */
    int64_t max_unsharded;   /**< chunks of a stage whose parameters may be gathered at once with zero 3; 0: two, or all if fewer */
    int64_t buffers;         /**< buffers of a channel; 0: so many that no SEND waits */
} weir_pipe_options;

/** GPipe with one stage and one micro-batch: fill in the rest. */
#define WEIR_PIPE_OPTIONS_INIT {sizeof(weir_pipe_options), WEIR_PIPE_GPIPE, 1, 1, 0, 0, 0, 0, 0}

/** The lists of all stages, and what is claimed of them. */
typedef struct weir_pipe_lists {
    size_t size;                          /**< set by the caller to sizeof(weir_pipe_lists) */
    int64_t stages;                       /**< P */
    int64_t microbatches;                 /**< M */
    int64_t chunks;                       /**< V */
    int64_t placement;                    /**< ::weir_pipe_placement */
    int64_t zero;                         /**< ZeRO stage, as in weir_pipe_options */
    int64_t max_unsharded;                /**< claimed of every stage; 0: nothing is claimed */
    int64_t buffers;                      /**< of a channel; 0: as many as it takes */
    const weir_pipe_instr *const *instrs; /**< the list of each stage */
    const int64_t *lengths;               /**< and its length */
    const int64_t *activations;           /**< claimed peak of each stage, in micro-batch chunks; NULL: nothing is claimed */
} weir_pipe_lists;

/** What the checker finds out about one stage. */
typedef struct weir_pipe_stage_report {
    int64_t activations; /**< activations held at most, in micro-batch chunks: from F until W or B */
    int64_t deferred;    /**< micro-batch chunks at most whose I is done and whose W is not: their output gradients are kept */
    int64_t unsharded;   /**< chunks at most whose parameters are gathered */
    int64_t gradients;   /**< chunks at most whose gradients are being added up: from the first W or B until REDUCE_GRAD */
} weir_pipe_stage_report;

/** What the checker finds out about all. */
typedef struct weir_pipe_report {
    size_t size;            /**< set by the caller to sizeof(weir_pipe_report) */
    int64_t activations;    /**< of a stage at most, as in weir_pipe_stage_report */
    int64_t deferred;       /**< likewise */
    int64_t unsharded;      /**< likewise */
    int64_t gradients;      /**< likewise */
    int64_t messages;       /**< number of messages */
    int64_t buffers_least;  /**< with fewer buffers a channel the lists do not come to their end */
    int64_t buffers_enough; /**< with so many no SEND waits, whatever the timing */
} weir_pipe_report;

/** When something happened in a simulation. */
typedef struct weir_pipe_event {
    int64_t stage;         /**< where */
    int64_t index;         /**< in the list of the stage */
    weir_pipe_instr instr; /**< what stands there */
    double begin;          /**< RECV, SEND: since when the stage waited */
    double end;            /**< UNSHARD, REDUCE_GRAD: when it was complete, while the stage went on */
} weir_pipe_event;

/** Receives the events of a simulation, those of one stage in the order of its list. */
typedef void (*weir_pipe_event_fn)(void *user, const weir_pipe_event *event);

/** What a simulation says. */
typedef struct weir_pipe_result {
    size_t size;           /**< set by the caller to sizeof(weir_pipe_result) */
    double time;           /**< from the start of the first stage to the end of the last */
    double span;           /**< of the stage with the longest time from its first start to its last end */
    double work;           /**< of one stage: M*V*(f + i + w) */
    double bubble;         /**< 1 - work / span */
    double bubble_barrier; /**< 1 - work / time: with a barrier over all stages between two steps, see weir_pipe_simulate() */
} weir_pipe_result;

/**
 * The name of a schedule: "gpipe", "1f1b", "interleaved", "looped-bfs", "zb-h1", "zb-h2", "zb-v"; NULL when there is none.
 * Thread safety: safe.
 */
const char *weir_pipe_schedule_name(int64_t schedule);

/** One line about a schedule, for people; NULL when there is none. Thread safety: safe. */
const char *weir_pipe_schedule_text(int64_t schedule);

/**
 * The schedule of a name.
 *
 * @param name           as weir_pipe_schedule_name() gives it
 * @param[out] schedule  set on success only
 * @param[out] error     may be NULL
 * @return ::WEIR_OK; ::WEIR_ERR_NOT_FOUND with the names that there are
 *
 * Thread safety: safe.
 */
weir_status weir_pipe_schedule_find(const char *name, int64_t *schedule, weir_error *error);

/** The name of a kind of instruction: "F", "SEND_ACT" ...; NULL when there is none. Thread safety: safe. */
const char *weir_pipe_op_name(int64_t op);

/**
 * Writes an instruction for people: "SEND_ACT of micro-batch 3, chunk 0, to stage 2". Returns buf.
 * Thread safety: safe.
 */
const char *weir_pipe_instr_text(const weir_pipe_instr *instr, char *buf, size_t size);

/** The part of the layers that a chunk of a stage is: 0 .. stages*chunks-1. Thread safety: safe. */
int64_t weir_pipe_part(int64_t placement, int64_t stages, int64_t stage, int64_t chunk);

/**
 * Writes the lists of a schedule and proves them. The same options give the same lists, on every rank.
 *
 * RECVs stand before the instruction that needs them, SENDs after the one that made them (so the SEND of an input gradient
 * before its W). Sharding adds, with D data-parallel ranks that hold the same stage:
 * - zero 0: one REDUCE_GRAD a chunk, after its last W or B;
 * - zero 1 and 2: and one UNSHARD a chunk at the beginning: the parameters that the last step has updated shard by shard;
 * - zero 3: UNSHARD and RESHARD around the uses of each chunk, so that at most max_unsharded chunks are there at once. The
 *   next chunk is gathered as soon as another makes room; the chunk that makes room is the one that is needed last,
 *   but with two or more not the one in use just before, so that the gather goes on beside its computing, unless that is not
 *   needed any more.
 *
 * @param options    what to write
 * @param[out] pipe  to be given to weir_pipe_destroy(); set on success only
 * @param[out] error may be NULL
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID for numbers that the schedule does not serve, with the numbers that it does;
 *         ::WEIR_ERR_LIMIT when max_activations is too little, with what is needed on which stage, or when so few buffers
 *         would deadlock; ::WEIR_ERR_NO_MEMORY
 *
 * Thread safety: safe.
 */
weir_status weir_pipe_create(const weir_pipe_options *options, weir_pipe **pipe, weir_error *error);

/** Frees the lists; NULL does nothing. Thread safety: as free(). */
void weir_pipe_destroy(weir_pipe *pipe);

/**
 * The lists, and what is claimed of them. They belong to `pipe`.
 *
 * @param pipe        made by weir_pipe_create()
 * @param[out] lists  its size set by the caller
 *
 * Thread safety: safe.
 */
void weir_pipe_get_lists(const weir_pipe *pipe, weir_pipe_lists *lists);

/**
 * Proves lists, be they from weir_pipe_create() or the caller's own:
 * - each micro-batch goes through every chunk of every stage once, forward, and backward either as B or as I and later W; what an
 *   instruction reads has been computed or received before it, and each result that another stage needs is sent to it once;
 * - sends and receives of each channel agree in order, and no timing leads to a deadlock with the buffers given;
 * - parameters are gathered when F, I and B need them, dropped only when gathered, and with zero 3 dropped in the end; gradients
 *   are reduced once, after the last W or B of the chunk;
 * - activations and gathered chunks stay within what is claimed.
 *
 * @param lists        what to prove
 * @param[out] report  what was found out, its size set by the caller; may be NULL
 * @param[out] stages  an array of one entry a stage; may be NULL
 * @param[out] error   names stage, instruction and reason; may be NULL
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID for lists that are wrong; ::WEIR_ERR_LIMIT for a claim that does not hold;
 *         ::WEIR_ERR_NO_MEMORY
 *
 * Thread safety: safe.
 */
weir_status weir_pipe_check(const weir_pipe_lists *lists, weir_pipe_report *report, weir_pipe_stage_report *stages,
                            weir_error *error);

/**
 * Says how long lists take. SENDs take nothing of the stage's time, unless they wait for a buffer.
 *
 * In ZB-H2 and ZB-V stage s starts and ends a step later than stage 0, so steps follow each other without a gap only if
 * no stage waits for all others at the step's end. Gradient clipping and the check for gradients that are not finite seem to need
 * just that, a sum over all stages. There are two ways: count it, then weir_pipe_result::bubble_barrier is the bubble; or
 * validate afterwards: each stage updates with the sums of the stages before it, the full sum follows during the next
 * warm-up, and the few stages for which it changes something (clipping takes effect, a value is not finite) roll their update back and
 * repeat it (Qi et al. 2024, section 4); then weir_pipe_result::bubble is the bubble.
 *
 * @param lists        that weir_pipe_check() accepts
 * @param costs        what things take; NULL: ::WEIR_PIPE_COSTS_INIT
 * @param event        called for every instruction; may be NULL
 * @param user         handed to it
 * @param[out] result  its size set by the caller
 * @param[out] error   may be NULL
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID for costs below 0 or lists that do not come to their end; ::WEIR_ERR_NO_MEMORY
 *
 * Thread safety: safe.
 */
weir_status weir_pipe_simulate(const weir_pipe_lists *lists, const weir_pipe_costs *costs, weir_pipe_event_fn event, void *user,
                               weir_pipe_result *result, weir_error *error);

/**
 * Cuts layers into parts of neighbours, none empty, so that the heaviest part is as light as can be; among those cuts
 * the squares of the parts' weights have the least sum. Exact, by dynamic programming.
 *
 * @param weights     of the layers: parameters, measured times, or NULL for all the same
 * @param layers      their number, 1 to 2048
 * @param parts       1 to layers
 * @param[out] first  parts+1 entries: part p has the layers first[p] .. first[p+1]-1
 * @param[out] error  may be NULL
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID for fewer layers than parts, or a weight that is negative or not finite;
 *         ::WEIR_ERR_NO_MEMORY
 *
 * Thread safety: safe.
 */
weir_status weir_pipe_cut(const double *weights, int64_t layers, int64_t parts, int64_t *first, weir_error *error);

#ifdef __cplusplus
}
#endif

#endif
