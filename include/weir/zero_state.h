/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The ZeRO engine beside its training loop: shards, gradients from elsewhere, replicas that are made the same, the state as bytes.
 *
 * What users of other systems look for, and where it is: create, step, reset, get options: weir/zero.h; presets: weir_zero_preset_apply(); the
 * learning rate: weir_zero_lr(); gradients of the last step: weir_zero_gather() and weir_zero_shard() with "grad"; given gradients:
 * weir_zero_scatter() with "grad", then weir_zero_apply(); full parameters: weir_zero_gather(); the local shard: weir_zero_shard(); early
 * stop: weir_zero_step_options::stop; what is on disk: weir_zero_state_read(); delayed updates: weir_zero_flush(); bytes: weir_zero_to_bytes(); files: weir/zero_ckpt.h.
 */
#ifndef WEIR_ZERO_STATE_H
#define WEIR_ZERO_STATE_H

#include <stddef.h>
#include <stdint.h>

#include <weir/status.h>
#include <weir/zero.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * The learning rate that a group had in the last step; before the first one, and after a state was loaded, that of its schedule.
 *
 * @return the rate, times the group's lr_scale; 0 for a group that is frozen, has no schedule and was in no step, or does not exist
 */
double weir_zero_lr(const weir_zero *zero, uint64_t group);

/**
 * What this rank holds of one array of a tensor: it may be in several parts, and in none. Not collective; outside a pass.
 *
 * @param zero       an engine
 * @param unit       of the tensor
 * @param tensor     a tensor; a tied one means the one it is tied to
 * @param kind       "param", the name of a state, or "grad": the reduced gradient of the last step, until the next pass, whose elements are
 *                   to be multiplied by `part->scale` to be the mean
 * @param index      number of the part, from 0 on
 * @param[out] part  `part->size` must be set
 * @return ::WEIR_OK; ::WEIR_ERR_NOT_FOUND behind the last part, and when the tensor has no such array; ::WEIR_ERR_INVALID
 */
weir_status weir_zero_shard(weir_zero *zero, uint64_t unit, uint64_t tensor, const char *kind, uint64_t index, weir_zero_part *part);

/**
 * A step with gradients that were set by weir_zero_scatter() as "grad" since the last step, instead of those of passes. They are the
 * mean already, so they are not divided by anything, nor by the loss scale; tensors without one have a gradient of zero. All else
 * is as in weir_zero_step(): norm, clipping, what becomes of one that is not finite, the update. Collective, outside a pass.
 *
 * @param zero         an engine; no pass of training since the last step
 * @param options      as for weir_zero_step(); weight and passes are not looked at
 * @param[out] report  as for weir_zero_step()
 * @return as weir_zero_step(); ::WEIR_ERR_INVALID when none were set
 */
weir_status weir_zero_apply(weir_zero *zero, const weir_zero_step_options *options, weir_zero_report *report);

/**
 * Parameters are made of the masters again, everywhere, and those of all replicas the same as those of the first. Where the program
 * has written to them (weir_zero_state_get()), or doubts that replicas are alike. Collective, outside a pass.
 *
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID inside a pass; errors of communication
 */
weir_status weir_zero_sync_params(weir_zero *zero);

/** The states of the rules of all replicas become those of the first, and the counters of all ranks those of rank 0. Otherwise the same. */
weir_status weir_zero_sync_states(weir_zero *zero);

/**
 * Completes a delayed update: from its return on the program sees the parameters of all steps so far. Without weir_zero_options::delayed it
 * does nothing. Collective, outside a pass.
 *
 * @return ::WEIR_OK; the error of the update; ::WEIR_ERR_INVALID inside a pass; errors of communication
 */
weir_status weir_zero_flush(weir_zero *zero);

/**
 * How long the disk alone takes for what a step moves: reads and writes back all that is offloaded, in the order and the buffers of a
 * step, and computes nothing. 0 when nothing is offloaded. Not collective; outside a pass.
 *
 * @param[out] ns     nanoseconds
 * @param[out] bytes  that were read and written; may be NULL
 * @return ::WEIR_OK; ::WEIR_ERR_IO; the error of a delayed update
 */
weir_status weir_zero_disk_time(weir_zero *zero, int64_t *ns, uint64_t *bytes);

/**
 * Reads elements of a part of the state, wherever they are. Not collective; outside a pass. With delayed updates after weir_zero_flush().
 *
 * @param index   of the part
 * @param first   the first element, counted in the part
 * @param n       how many
 * @param[out] values  room for them, in the part's type
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID; ::WEIR_ERR_IO
 */
weir_status weir_zero_state_read(weir_zero *zero, uint64_t index, uint64_t first, uint64_t n, void *values);

/** Writes them; weir_zero_state_loaded() is to follow. Otherwise as weir_zero_state_read(). */
weir_status weir_zero_state_write(weir_zero *zero, uint64_t index, uint64_t first, uint64_t n, const void *values);

/**
 * What this rank holds of the state (see weir_zero_state_get()), and the counters, in one piece of memory. Not collective; outside
 * a pass, and the same moment on all ranks when they are to be used together.
 *
 * @param zero        an engine
 * @param[out] bytes  NULL: only the size is asked for
 * @param size        bytes of room
 * @param[out] needed how many there are
 * @return ::WEIR_OK; ::WEIR_ERR_LIMIT when there is not enough room; ::WEIR_ERR_INVALID
 */
weir_status weir_zero_to_bytes(const weir_zero *zero, void *bytes, uint64_t size, uint64_t *needed);

/**
 * Sets the state of an engine from bytes of weir_zero_to_bytes(). Those of several ranks may stand one behind the other, in any
 * order, and each rank takes what it needs: those of all ranks make an engine with any number of ranks, stage and partition go on.
 * So do those of all ranks of the stages of a pipeline, for any number of stages. For the same kind of machine; files that others can read are those of weir/zero_ckpt.h.
 *
 * Collective, outside a pass.
 *
 * @param zero   an engine of the same units, tensors and rules
 * @param bytes  aligned to 8 bytes
 * @param size   how many
 * @return the same on all ranks, but ::WEIR_ERR_CANCELED on those that could: ::WEIR_OK; ::WEIR_ERR_PROTOCOL for what is no such state, is cut or
 *         altered; ::WEIR_ERR_NOT_FOUND when a part is missing, by name; ::WEIR_ERR_MISMATCH when ranks have bytes of different steps;
 *         ::WEIR_ERR_INVALID; errors of communication. After a failure the engine is as it was
 */
weir_status weir_zero_from_bytes(weir_zero *zero, const void *bytes, uint64_t size);

#ifdef __cplusplus
}
#endif

#endif
