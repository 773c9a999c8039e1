/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Options of the ZeRO engine from a JSON file in DeepSpeed's vocabulary.
 *
 * @code
 * weir_zero_config *config;
 * weir_zero_options options = WEIR_ZERO_OPTIONS_INIT;
 * weir_zero_config_read("ds.json", weir_comm_size(comm), &config, &error);
 * weir_zero_config_options(config, &options);
 * weir_zero_create(comm, &options, units, nunits, &zero, &error);
 * @endcode
 *
 * Sizes in such files count elements; weir's options count bytes: they are multiplied by the size of the type that the elements have.
 * A key that is not given leaves weir's own default. Unknown keys are errors that name the nearest known one; a key whose
 * feature weir has not is refused with a sentence, unless its value asks for what weir does anyway. doc/zero-config.md has the table
 * of all keys.
 */
#ifndef WEIR_ZERO_CONFIG_H
#define WEIR_ZERO_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include <weir/status.h>
#include <weir/zero.h>

#ifdef __cplusplus
extern "C" {
#endif

/** @name Presets */
/** @{ */

/** Settings that go together: X(name, value, text). */
#define WEIR_ZERO_PRESET_TABLE(X)                                                                                      \
    X(WEIR_ZERO_PRESET_DEFAULT, 0, "default")                                                                          \
    X(WEIR_ZERO_PRESET_HIGH_BANDWIDTH, 1, "high-bandwidth")                                                            \
    X(WEIR_ZERO_PRESET_LOW_BANDWIDTH, 2, "low-bandwidth")                                                              \
    X(WEIR_ZERO_PRESET_OFFLOAD, 3, "offload")                                                                          \
    X(WEIR_ZERO_PRESET_FULL_OFFLOAD, 4, "full-offload")

/**
 * Settings that go together. default: stage 3, all else as in ::WEIR_ZERO_OPTIONS_INIT. high-bandwidth: stage 3, and less memory, since
 * gathering again is cheap. low-bandwidth: stage 2, gradients once a step in large buckets and, from fp32, as bf16; parameters once a
 * step. offload: stage 3, states in files in weir_zero_options::offload_path, which is set before; full-offload: parameters, too.
 */
typedef enum weir_zero_preset {
#define WEIR_ZERO_PRESET_ENUM(name, value, text) name = value,
    WEIR_ZERO_PRESET_TABLE(WEIR_ZERO_PRESET_ENUM)
#undef WEIR_ZERO_PRESET_ENUM
} weir_zero_preset;

/** Its text, e.g. "low-bandwidth"; "unknown" for none. Thread safety: safe. */
const char *weir_zero_preset_name(weir_zero_preset preset);

/**
 * Sets stage, offload, reduce, reduce_type and the sizes of buckets and of gathered parameters in options that begin as
 * ::WEIR_ZERO_OPTIONS_INIT and whose types and flags are set; all else stays.
 *
 * @param[out] error  may be NULL
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID, also for the presets of offloading without offload_path. Thread safety: safe.
 */
weir_status weir_zero_preset_apply(weir_zero_preset preset, weir_zero_options *options, weir_error *error);

/** @} */

/** A configuration that was read, opaque and immutable. */
typedef struct weir_zero_config weir_zero_config;

/** Samples of a step; train = micro * accumulate * ranks. */
typedef struct weir_zero_batch {
    size_t size;         /**< set by the caller to sizeof(weir_zero_batch) */
    uint64_t train;      /**< of all ranks in one step */
    uint64_t micro;      /**< of one rank in one pass */
    uint64_t accumulate; /**< passes of a step */
} weir_zero_batch;

/**
 * Reads a file.
 *
 * @param path         a JSON file of at most 1 MiB
 * @param nranks       ranks among which the samples of a step are divided (data parallel ranks)
 * @param[out] config  to be freed by weir_zero_config_free()
 * @param[out] error   description of a failure, with the key; may be NULL
 * @return ::WEIR_OK; ::WEIR_ERR_CONFIG for what is no JSON, an unknown key, a value that cannot be, or batch sizes that do not agree;
 *         ::WEIR_ERR_UNSUPPORTED for what weir has not, or when it was built without jansson; ::WEIR_ERR_NOT_FOUND, ::WEIR_ERR_IO;
 *         ::WEIR_ERR_INVALID; ::WEIR_ERR_NO_MEMORY
 *
 * Thread safety: safe.
 */
weir_status weir_zero_config_read(const char *path, int nranks, weir_zero_config **config, weir_error *error);

/** The same from text of `length` bytes. Thread safety: safe. */
weir_status weir_zero_config_parse(const char *text, size_t length, int nranks, weir_zero_config **config, weir_error *error);

/** Frees; NULL does nothing. No engine that was made from it may be left. Thread safety: as free(). */
void weir_zero_config_free(weir_zero_config *config);

/** The batch sizes. `batch->size` must be set. @return ::WEIR_OK; ::WEIR_ERR_INVALID. Thread safety: safe. */
weir_status weir_zero_config_batch(const weir_zero_config *config, weir_zero_batch *batch);

/**
 * Sets what the file says in options that begin as ::WEIR_ZERO_OPTIONS_INIT. With an optimizer in the file, groups is its one group,
 * whose rule and schedule live as long as the configuration; without, groups stay as they are.
 *
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID for a size that cannot be. Thread safety: safe.
 */
weir_status weir_zero_config_options(const weir_zero_config *config, weir_zero_options *options);

#ifdef __cplusplus
}
#endif

#endif
