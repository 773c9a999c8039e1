/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Learning rates over time, and groups of parameters that share settings.
 */
#ifndef WEIR_SCHEDULE_H
#define WEIR_SCHEDULE_H

#include <stddef.h>
#include <stdint.h>

#include <weir/rule.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Schedules: X(name, value, text). */
#define WEIR_SCHEDULE_TABLE(X)                                                                                         \
    X(WEIR_SCHEDULE_CONSTANT, 0, "constant")                                                                           \
    X(WEIR_SCHEDULE_LINEAR, 1, "linear")                                                                               \
    X(WEIR_SCHEDULE_COSINE, 2, "cosine")                                                                               \
    X(WEIR_SCHEDULE_WSD, 3, "wsd")

/**
 * How the learning rate goes on after the warm-up, up to step `total`; after that it is final_lr (constant: lr). With
 * p = (t - warmup) / (total - warmup):
 * - constant: lr;
 * - linear: lr + (final_lr - lr) p;
 * - cosine: final_lr + (lr - final_lr) (1 + cos(pi p)) / 2. Loshchilov, Hutter, "SGDR", 2017, without restarts;
 * - wsd (warm-up, stable, decay): lr, and in the last `decay` steps, with q = (t - total + decay) / decay,
 *   final_lr + (lr - final_lr) (1 - q), or (1 - sqrt(q)) with ::WEIR_SCHEDULE_SQRT. Hu et al., "MiniCPM", 2024; the root: Haegele
 *   et al., "Scaling laws and compute-optimal training beyond fixed training durations", 2024.
 *
 * In the warm-up, t = 1 .. warmup: warmup_lr + (lr - warmup_lr) t / warmup.
 */
typedef enum weir_schedule_kind {
#define WEIR_SCHEDULE_ENUM(name, value, text) name = value,
    WEIR_SCHEDULE_TABLE(WEIR_SCHEDULE_ENUM)
#undef WEIR_SCHEDULE_ENUM
} weir_schedule_kind;

/** wsd: the decay is fast at first. */
#define WEIR_SCHEDULE_SQRT ((uint64_t)1)

/** A schedule. */
typedef struct weir_schedule {
    size_t size;      /**< sizeof(weir_schedule) */
    uint64_t kind;    /**< a ::weir_schedule_kind */
    uint64_t flags;   /**< WEIR_SCHEDULE_... */
    double lr;        /**< the learning rate after the warm-up */
    double warmup_lr; /**< what the warm-up begins from */
    double final_lr;  /**< what it ends with */
    uint64_t warmup;  /**< steps of the warm-up; 0: none */
    uint64_t total;   /**< steps in all; not looked at by constant */
    uint64_t decay;   /**< wsd: how many of them decay */
} weir_schedule;

/** Initial value of a ::weir_schedule: constant, without warm-up. */
#define WEIR_SCHEDULE_INIT                                                                                             \
    {                                                                                                                  \
        sizeof(weir_schedule), WEIR_SCHEDULE_CONSTANT, 0, 1e-3, 0.0, 0.0, 0, 0, 0                                      \
    }

/** The name of a kind, e.g. "cosine"; NULL for one that does not exist. Thread safety: safe. */
const char *weir_schedule_kind_name(weir_schedule_kind kind);

/** The kind of a name. @return ::WEIR_OK; ::WEIR_ERR_NOT_FOUND. Thread safety: safe. */
weir_status weir_schedule_kind_find(const char *name, weir_schedule_kind *kind);

/**
 * Whether a schedule makes sense.
 *
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID with what does not (error may be NULL). Thread safety: safe.
 */
weir_status weir_schedule_check(const weir_schedule *schedule, weir_error *error);

/** The learning rate of step t, t >= 1, of a schedule that weir_schedule_check() accepts. Thread safety: safe. */
double weir_schedule_lr(const weir_schedule *schedule, uint64_t t);

/** The group is not updated: it has no states, and its gradients are not looked at. */
#define WEIR_GROUP_FROZEN ((uint64_t)1)

/** Parameters that share settings. What it points to must live as long as it is used. */
typedef struct weir_group {
    size_t size;                   /**< sizeof(weir_group) */
    uint64_t flags;                /**< WEIR_GROUP_... */
    const weir_rule *rule;         /**< how it is updated; may be NULL when frozen */
    const weir_schedule *schedule; /**< its learning rate; may be NULL when frozen */
    double lr_scale;               /**< what the schedule's rate is multiplied by */
    double weight_decay;           /**< weight decay */
} weir_group;

/** Initial value of a ::weir_group; rule and schedule are to be set. */
#define WEIR_GROUP_INIT                                                                                                \
    {                                                                                                                  \
        sizeof(weir_group), 0, NULL, NULL, 1.0, 0.0                                                                    \
    }

/**
 * Fills in a step of a group.
 *
 * @param group       a group that is not frozen
 * @param t           the step, from 1 on, counted since these parameters are updated: states know no steps before
 * @param grad_scale  what gradients are multiplied by
 * @param[out] step   all fields are set; ratio is 1
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID. Thread safety: safe.
 */
weir_status weir_group_step(const weir_group *group, uint64_t t, double grad_scale, weir_rule_step *step);

/** Bytes of the states that a tensor (or a shard, as 1 times its length) of this group needs; 0 when frozen. Thread safety: safe. */
uint64_t weir_group_state_bytes(const weir_group *group, uint64_t rows, uint64_t cols);

#ifdef __cplusplus
}
#endif

#endif
