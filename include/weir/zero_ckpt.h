/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Checkpoints of the ZeRO engine: each rank saves its own shards, and any number of ranks, with any stage and partition, goes on.
 *
 * A checkpoint of an engine has a tensor `KIND/UNIT.TENSOR` for each array of its state: `param/layer.0.weight` is a parameter (the fp32
 * master where there is one), `exp_avg/layer.0.weight` a state of its rule; and an entry `weir.zero` with the counters. So
 * `weir-ckpt merge FOLDER model.safetensors --prefix param/ --replace ''` gives a model for other programs, and
 * `weir-ckpt convert model.safetensors FOLDER --prefix '' --replace param/` one to begin from with ::WEIR_ZERO_MODEL.
 */
#ifndef WEIR_ZERO_CKPT_H
#define WEIR_ZERO_CKPT_H

#include <stdint.h>

#include <weir/ckpt.h>
#include <weir/status.h>
#include <weir/zero.h>

#ifdef __cplusplus
extern "C" {
#endif

/** weir_zero_save(): the save goes on in the background; weir_ckpt_wait() on the folder tells how it ended. The state is copied before;
 * states that are offloaded to disk have no room for a copy, and with them the save is made before the call returns. */
#define WEIR_ZERO_BACKGROUND ((uint64_t)1)

/**
 * weir_zero_save(): the ranks that opened the folder are those of several engines, which save together: the stages of a pipeline. Units have
 * different names on different stages. What two stages have (a tied embedding) is marked ::WEIR_ZERO_NORM_ELSEWHERE on one of them, and saved
 * by the other.
 */
#define WEIR_ZERO_PIPELINE ((uint64_t)2)

/** weir_zero_load(): parameters only; states and counters stay as they are. */
#define WEIR_ZERO_MODEL ((uint64_t)1)

/**
 * Saves the state of an engine. The checkpoint's step is the number of updates so far.
 *
 * Collective over the ranks that opened the folder: those of the engine or, with ::WEIR_ZERO_PIPELINE, those of the engines of all
 * stages, which must have made as many updates; outside a pass.
 *
 * @param zero       an engine
 * @param ckpt       a folder of checkpoints
 * @param more       further tensors and entries of the program (its `step` is not looked at); NULL: none. Names and keys must not begin as
 *                   those above do
 * @param flags      ::WEIR_ZERO_BACKGROUND, ::WEIR_ZERO_PIPELINE
 * @param[out] error description of a failure; may be NULL
 * @return as weir_ckpt_save(), in the background as weir_ckpt_isave()
 *
 * Thread safety: one thread at a time on an engine, and one call at a time for each weir_ckpt.
 */
weir_status weir_zero_save(weir_zero *zero, weir_ckpt *ckpt, const weir_ckpt_content *more, uint64_t flags, weir_error *error);

/**
 * Reads the state of an engine from a checkpoint; each rank reads the bytes of its shards only. Types may differ where
 * weir_ckpt_source_read() converts them. What the checkpoint has beside is not looked at.
 *
 * It does not matter whether the checkpoint is of one engine or of the stages of a pipeline, nor of how many: each engine finds its tensors
 * by name. Collective over the ranks that opened the folder, be they those of one engine or of the engines of all stages; outside a pass.
 *
 * @param zero         an engine of the same units and tensors, and, but with ::WEIR_ZERO_MODEL, the same rules
 * @param ckpt         a folder of checkpoints
 * @param step         a step, or ::WEIR_CKPT_LATEST
 * @param flags        ::WEIR_ZERO_MODEL
 * @param[out] source  for the program's own tensors and entries, to be closed by weir_ckpt_source_close(); may be NULL
 * @param[out] error   description of a failure; may be NULL
 * @return the same on all ranks: ::WEIR_OK; ::WEIR_ERR_NOT_FOUND when there is no such checkpoint, or a tensor is not in it, by name;
 *         ::WEIR_ERR_INVALID when one has another number of elements; ::WEIR_ERR_IO; errors of communication. After a failure the
 *         parameters of the engine may be partly those of the checkpoint
 *
 * Thread safety: as weir_zero_save().
 */
weir_status weir_zero_load(weir_zero *zero, weir_ckpt *ckpt, uint64_t step, uint64_t flags, weir_ckpt_source **source, weir_error *error);

#ifdef __cplusplus
}
#endif

#endif
