/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Update rules: how an optimizer changes parameters, given their gradients.
 *
 * A rule works on a *flat shard*: the elements 0, 1, 2, ... of fp32 parameters (the masters), with the gradient, the rule's states
 * and, where wanted, a copy of the parameters in bf16 or fp16, each an array of its own with the same numbering. A rule owns no
 * memory and knows no ranks: who uses it allocates, shards, saves and moves the states, which weir_rule_state_info() describes.
 *
 * Rules differ in what they must see of a tensor, their *access* (::weir_access):
 * - element: each element is updated for itself. weir_rule_update() takes any range, across tensors;
 * - tensor: two sums over the whole tensor scale its step. weir_rule_prepare() is called on every part of the tensor, wherever the
 *   parts are, the sums are added up, weir_rule_ratio() makes one number of them, weir_rule_update() takes it in
 *   weir_rule_step::ratio;
 * - matrix: the whole tensor has to be in one place, for weir_rule_update_tensor().
 * weir_rule_update_tensor() drives any rule where a whole tensor is in one place.
 *
 * Everything is one pass over memory: the gradient (fp32, bf16 or fp16) is multiplied by weir_rule_step::grad_scale (which undoes a
 * loss scale and clips), the update is made in fp32, and the low-precision copy is rounded once, to nearest even.
 *
 * Results are the same bits for any division into ranges and on every instruction set, but for Muon (whose matrix products are
 * those of OpenBLAS) and for ranges that are said to begin at certain multiples. Nothing is filtered: an element whose gradient is
 * NaN or infinite becomes non-finite together with its states, and the others of its tensor too where the rule looks at the whole
 * tensor. Watch the norm of the gradient to skip such a step.
 *
 * In the formulas g is the scaled gradient, w the parameter, t the number of the step, lr the learning rate, wd the weight decay.
 */
#ifndef WEIR_RULE_H
#define WEIR_RULE_H

#include <stddef.h>
#include <stdint.h>

#include <weir/status.h>
#include <weir/type.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Rules: X(name, value, text). */
#define WEIR_RULE_TABLE(X)                                                                                             \
    X(WEIR_RULE_SGD, 0, "sgd")                                                                                         \
    X(WEIR_RULE_ADAGRAD, 1, "adagrad")                                                                                 \
    X(WEIR_RULE_ADAM, 2, "adam")                                                                                       \
    X(WEIR_RULE_ADAMW, 3, "adamw")                                                                                     \
    X(WEIR_RULE_LION, 4, "lion")                                                                                       \
    X(WEIR_RULE_LAMB, 5, "lamb")                                                                                       \
    X(WEIR_RULE_LARS, 6, "lars")                                                                                       \
    X(WEIR_RULE_ADAFACTOR, 7, "adafactor")                                                                             \
    X(WEIR_RULE_MUON, 8, "muon")                                                                                       \
    X(WEIR_RULE_ADAMW8, 9, "adamw8")

/**
 * The rules.
 *
 * - sgd (element): g += wd w; with momentum b = momentum b + (1 - dampening) g (in step 1: b = g), and then g = b, or
 *   g + momentum b with ::WEIR_RULE_NESTEROV; w -= lr g. State with momentum: b. Sutskever et al., "On the importance of
 *   initialization and momentum in deep learning", 2013, in the form of PyTorch.
 * - adagrad (element): g += wd w; s += g^2; w -= lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps). State: s, at first `initial`.
 *   Duchi, Hazan, Singer, "Adaptive subgradient methods", 2011.
 * - adam (element): g += wd w; m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
 *   w -= lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps). States: m, v. Kingma, Ba, "Adam", 2015.
 * - adamw (element): w *= 1 - lr wd, then as adam without its first term. States: m, v. Loshchilov, Hutter, "Decoupled weight
 *   decay regularization", 2019.
 * - lion (element): c = beta1 m + (1 - beta1) g; w = (1 - lr wd) w - lr sign(c); m = beta2 m + (1 - beta2) g. State: m. (An
 *   infinite g counts by its sign, and m becomes infinite.) Chen et al., "Symbolic discovery of optimization algorithms", 2023.
 * - lamb (tensor): m and v as adam; u = (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps) + wd w; w -= lr r u with
 *   r = phi(|w|) / |u|, where phi limits to [norm_min, norm_max] if norm_max is not 0; r = 1 when |w| or |u| is 0. States: m, v. The
 *   sums are those of w^2 and u^2. You et al., "Large batch optimization for deep learning", 2020.
 * - lars (tensor): b = momentum b + lr r (g + wd w); w -= b, with r = trust |w| / (|g| + wd |w| + eps); r = 1 when |w| or |g| is 0.
 *   State: b. The sums are those of w^2 and g^2. You, Gitman, Ginsburg, "Large batch training of convolutional networks", 2017.
 * - adafactor (matrix): of a matrix R = B R + (1 - B) mean over the columns of (g^2 + eps), C the same over the rows, with
 *   B = 1 - t^-decay_exponent; u_ij = g_ij / sqrt(R_i C_j / mean(R)). Of a vector V = B V + (1 - B) (g^2 + eps), u = g / sqrt(V).
 *   w = (1 - p wd) w - a u / max(1, rms(u) / clip), with p = lr, or min(lr, 1 / sqrt(t)) with ::WEIR_RULE_RELATIVE_STEP, and a = p, or
 *   p max(eps2, rms(w)) with ::WEIR_RULE_SCALE_PARAMETER. With beta1, s = beta1 s + (1 - beta1) a u / max(1, rms(u) / clip) takes the
 *   place of that step. States: R, C (a matrix), V (a vector), and with beta1 s. Shazeer, Stern, "Adafactor", 2018,
 *   algorithms 4 and 5; lr is its rho, usually 0.01.
 * - muon (matrix): b = momentum b + g; u = b, or g + momentum b with ::WEIR_RULE_NESTEROV; X = u / |u|, then `iterations` times
 *   A = X X', X = 3.4445 X + (-4.775 A + 2.0315 A^2) X; w = (1 - lr wd) w - lr s X with s = sqrt(max(1, rows / cols)), or
 *   0.2 sqrt(max(rows, cols)) with ::WEIR_RULE_MATCH_ADAM. State: b. Meant for the matrices inside a network; embeddings, gains and
 *   biases are for another rule. Jordan et al., "Muon", 2024; the second s: Liu et al., "Muon is scalable for LLM training", 2025.
 *   Needs OpenBLAS, whose number of threads and processor may change the last bits.
 * - adamw8 (element, in blocks of 256): adamw with m and v in 8 bits: in each block divided by the largest magnitude, which is kept in
 *   fp32, then rounded to the nearest value of dynamic tree quantisation (7 bits and a sign, 8 bits). A v that is not 0 is rounded to 0
 *   never. The step itself uses the moments before they are rounded. A gradient that is not finite makes its block's states
 *   non-finite, and in the next step the parameters of the block. States: m, its scales, v, its scales. Dettmers et al., "8-bit
 *   optimizers via block-wise quantization", 2022.
 */
typedef enum weir_rule_kind {
#define WEIR_RULE_ENUM(name, value, text) name = value,
    WEIR_RULE_TABLE(WEIR_RULE_ENUM)
#undef WEIR_RULE_ENUM
} weir_rule_kind;

/** What a rule must see to update an element. */
typedef enum weir_access {
    WEIR_ACCESS_ELEMENT = 0, /**< that element */
    WEIR_ACCESS_TENSOR = 1,  /**< two sums over its tensor */
    WEIR_ACCESS_MATRIX = 2   /**< all of its tensor */
} weir_access;

/** sgd, muon (there the default): Nesterov's form of momentum. */
#define WEIR_RULE_NESTEROV ((uint64_t)1)
/** adafactor: the learning rate is at most 1 / sqrt(t). Default. */
#define WEIR_RULE_RELATIVE_STEP ((uint64_t)2)
/** adafactor: steps are in proportion to the parameter. Default. */
#define WEIR_RULE_SCALE_PARAMETER ((uint64_t)4)
/** muon: steps are as large as those of adamw usually are, so that its learning rates serve. */
#define WEIR_RULE_MATCH_ADAM ((uint64_t)8)

/**
 * adam, adamw: the largest v so far stands in place of v, in the form of PyTorch; a third state. Reddi, Kale, Kumar, "On the
 * convergence of Adam and beyond", 2018.
 */
#define WEIR_RULE_AMSGRAD ((uint64_t)16)

/** What a rule is made from: set `size`, call weir_rule_defaults(), change what you like. Fields that a rule does not name are ignored. */
typedef struct weir_rule_options {
    size_t size;     /**< sizeof(weir_rule_options) */
    uint64_t kind;   /**< a ::weir_rule_kind */
    uint64_t flags;  /**< WEIR_RULE_... */
    const char *isa; /**< kernels for "generic", "avx2" or "avx512"; NULL: the best of this processor. Not kept. */
    double beta1;    /**< adam, adamw, adamw8, lion, lamb: in [0, 1); 0.9; adafactor 0 */
    double beta2;    /**< adam, adamw, adamw8, lion, lamb: in [0, 1); 0.999, lion 0.99 */
    double
        eps; /**< in the denominator, >= 0; adagrad 1e-10, adam, adamw, adamw8 1e-8, lamb 1e-6, lars 0, adafactor 1e-30 */
    double momentum;       /**< sgd, lars, muon: in [0, 1); sgd 0 (and then there is no state), lars 0.9, muon 0.95 */
    double dampening;      /**< sgd: in [0, 1]; 0 */
    double lr_decay;       /**< adagrad: >= 0; 0 */
    double initial;        /**< adagrad: what the sum begins with, >= 0; 0 */
    double trust;          /**< lars: > 0; 0.001 */
    double norm_min;       /**< lamb: least norm of w that counts; 0 */
    double norm_max;       /**< lamb: largest norm of w that counts; 0: no limits */
    double eps2;           /**< adafactor: least rms(w) that counts, >= 0; 0.001 */
    double clip;           /**< adafactor: largest rms(u), > 0; 1 */
    double decay_exponent; /**< adafactor: in (0, 1]; 0.8 */
    uint64_t iterations;   /**< muon: 1 .. 100; 5 */
} weir_rule_options;

/** A rule with its settings; immutable. */
typedef struct weir_rule weir_rule;

/** The name of a rule, e.g. "adamw"; NULL for one that does not exist. Thread safety: safe. */
const char *weir_rule_kind_name(weir_rule_kind kind);

/**
 * The rule of a name, as weir_rule_kind_name() gives it.
 *
 * @return ::WEIR_OK; ::WEIR_ERR_NOT_FOUND. Thread safety: safe.
 */
weir_status weir_rule_kind_find(const char *name, weir_rule_kind *kind);

/**
 * Fills in the usual settings of a rule.
 *
 * @param kind             a rule
 * @param[in,out] options  `size` must be set; all else is overwritten
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID for a kind that does not exist or a size that cannot be. Thread safety: safe.
 */
weir_status weir_rule_defaults(weir_rule_kind kind, weir_rule_options *options);

/**
 * Makes a rule.
 *
 * @param options    settings; copied
 * @param[out] rule  to be freed by weir_rule_free()
 * @param[out] error description of a failure; may be NULL
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID for a setting out of its range, which is named; ::WEIR_ERR_UNSUPPORTED for kernels that this
 *         processor does not have; ::WEIR_ERR_NO_MEMORY
 *
 * Thread safety: safe.
 */
weir_status weir_rule_create(const weir_rule_options *options, weir_rule **rule, weir_error *error);

/** Frees a rule; NULL does nothing. Thread safety: as free(). */
void weir_rule_free(weir_rule *rule);

/**
 * @name Asking a rule
 * All are safe from any thread.
 * @{
 */

/** The settings that a rule was made with. `options->size` must be set; `isa` is the name of the kernels that were chosen. */
weir_status weir_rule_get_options(const weir_rule *rule, weir_rule_options *options);

/** What it must see. */
weir_access weir_rule_access(const weir_rule *rule);

/** Ranges begin at multiples of this many elements, and end there or at the end of the shard; 1 for most rules. */
uint64_t weir_rule_granule(const weir_rule *rule);

/** Most states that any rule has. */
#define WEIR_RULE_STATES_MAX 4

/** Number of states of a rule, 0 .. ::WEIR_RULE_STATES_MAX. */
unsigned weir_rule_nstates(const weir_rule *rule);

/** A state: an array beside the parameters. */
typedef struct weir_rule_state {
    size_t size;      /**< sizeof(weir_rule_state) */
    const char *name; /**< e.g. "exp_avg", owned by the library: for checkpoints */
    uint64_t type;    /**< ::weir_type of an entry */
    uint64_t
        span; /**< elements of the shard for each entry, counted from element 0 on; 0 when the count depends on the tensor's shape */
    double initial; /**< what every entry is before the first step */
} weir_rule_state;

/** Describes state `index`. `state->size` must be set. @return ::WEIR_OK; ::WEIR_ERR_INVALID */
weir_status weir_rule_state_info(const weir_rule *rule, unsigned index, weir_rule_state *state);

/**
 * Number of entries of state `index` for a tensor of `rows` times `cols` elements, or for a shard (1 times its length). 0 when
 * index is out of range, and where a state is not needed for such a tensor.
 */
uint64_t weir_rule_state_count(const weir_rule *rule, unsigned index, uint64_t rows, uint64_t cols);

/** @} */
/**
 * @name Updating
 * Calls on disjoint ranges may run at the same time from several threads. No call allocates memory.
 * @{
 */

/** What belongs to one step. */
typedef struct weir_rule_step {
    size_t size;         /**< sizeof(weir_rule_step) */
    uint64_t step;       /**< 1 in the first step of these parameters */
    double lr;           /**< learning rate */
    double weight_decay; /**< weight decay */
    double grad_scale;   /**< gradients are multiplied by it: 1 / (loss scale), times weir_clip_factor() */
    double ratio;        /**< access tensor: from weir_rule_ratio() */
} weir_rule_step;

/** Initial value of a ::weir_rule_step; lr is to be set. */
#define WEIR_RULE_STEP_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(weir_rule_step), 1, 0.0, 0.0, 1.0, 1.0                                                                  \
    }

/**
 * The arrays of a shard. Pointers stand at element 0 and are aligned to their element's size; arrays do not overlap. All memory is
 * the caller's.
 */
typedef struct weir_rule_data {
    size_t size;                        /**< sizeof(weir_rule_data) */
    float *master;                      /**< parameters, in and out */
    const void *grad;                   /**< gradients */
    uint64_t grad_type;                 /**< WEIR_FP32, WEIR_BF16 or WEIR_FP16 */
    void *out;                          /**< receives the parameters in low precision; NULL: none */
    uint64_t out_type;                  /**< WEIR_BF16 or WEIR_FP16 */
    void *states[WEIR_RULE_STATES_MAX]; /**< in the order of weir_rule_state_info() */
} weir_rule_data;

/** Initial value of a ::weir_rule_data: fp32 gradients, no low-precision copy. */
#define WEIR_RULE_DATA_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(weir_rule_data), NULL, NULL, WEIR_FP32, NULL, WEIR_BF16,                                                \
        {                                                                                                              \
            NULL, NULL, NULL, NULL                                                                                     \
        }                                                                                                              \
    }

/**
 * Updates elements first .. first + n - 1. For rules with access element; with access tensor after weir_rule_prepare() and
 * weir_rule_ratio().
 *
 * @param rule   a rule
 * @param step   the step
 * @param data   the shard
 * @param first  first element
 * @param n      number of elements; 0 does nothing
 * @param[out] error description of a failure; may be NULL
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID for a missing or misaligned pointer, a type that is not allowed, step 0, a range that begins
 *         between multiples of weir_rule_granule(), or a rule with access matrix; nothing was changed then
 *
 * Thread safety: safe on disjoint ranges.
 */
weir_status weir_rule_update(const weir_rule *rule, const weir_rule_step *step, const weir_rule_data *data,
                             uint64_t first, uint64_t n, weir_error *error);

/**
 * Access tensor, the first half of an update: updates states as far as they do not depend on the ratio, and gives what the ratio
 * depends on. To be called exactly once a step for every element of the tensor; then weir_rule_update() follows.
 *
 * @param[out] sums  two arrays of weir_norm_blocks(first, n): the partial sums, block by block, counted from element 0 of the shard
 *                   as by weir_norm_partials(). The same bits as for the undivided tensor come out when each part is at a
 *                   multiple of ::WEIR_NORM_BLOCK in its shard as it would be in the whole; add them by weir_norm_fold()
 * Otherwise as weir_rule_update().
 */
weir_status weir_rule_prepare(const weir_rule *rule, const weir_rule_step *step, const weir_rule_data *data,
                              uint64_t first, uint64_t n, double *sums, weir_error *error);

/**
 * Access tensor: the ratio for weir_rule_step::ratio, from the two sums over the whole tensor. 1 for other rules. Sums that are not
 * finite give a ratio that is not, or 0. Thread safety: safe.
 */
double weir_rule_ratio(const weir_rule *rule, const weir_rule_step *step, double sum0, double sum1);

/** Bytes of working memory that weir_rule_update_tensor() needs for a tensor. Thread safety: safe. */
uint64_t weir_rule_work_bytes(const weir_rule *rule, uint64_t rows, uint64_t cols);

/**
 * Updates a tensor that is wholly here, by any rule: elements first .. first + rows * cols - 1, row by row. A tensor of more
 * dimensions is folded to two. With access tensor it makes the calls above; step->ratio is not looked at.
 *
 * @param first  its first element in master, grad, out and in states with a span; a state whose size depends on the shape
 *               belongs to this tensor alone, and its pointer stands at its first entry
 * @param rows   rows, 1 for a vector
 * @param cols   columns
 * @param work   weir_rule_work_bytes() bytes, aligned to 64; its content does not matter before and after
 * Otherwise as weir_rule_update().
 *
 * Thread safety: safe on disjoint ranges, each call with its own work.
 */
weir_status weir_rule_update_tensor(const weir_rule *rule, const weir_rule_step *step, const weir_rule_data *data,
                                    uint64_t first, uint64_t rows, uint64_t cols, void *work, weir_error *error);

/** @} */

#ifdef __cplusplus
}
#endif

#endif
