/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Checkpoints: tensors that are spread over ranks, in files that others can read.
 *
 * A checkpoint is a folder of *shards*, which are safetensors files (https://github.com/huggingface/safetensors), an index, which is a
 * JSON file, and a marker that is written last. Each rank writes its own bytes into one shard. A tensor that one rank has whole
 * stands there under its name and with its shape; a part of one is a vector named `NAME[first:end]`, in elements. The index says
 * which parts make which tensor. Checkpoints stand together in one folder, and the oldest make room for the newest:
 *
 *     folder/ckpt-00000007-step-1050/shard-00000-of-00004.safetensors ... index.json COMMITTED
 *
 * Every file is written under a temporary name, synced, renamed, and the folder synced; then the marker makes it *committed*.
 * Whenever a process is killed or the power fails, the checkpoints that were committed before stay whole, and what was being written
 * is not taken for one. The marker holds the checksum of the index, the index those of the shards' headers, these one for each
 * 256 KiB of data (XXH3, 64 bits): nothing that was cut or altered is read.
 *
 * Reading knows nothing of who wrote: any range of elements of any tensor is read by its name, from as many ranks as there are now,
 * and only the blocks of 256 KiB that it touches are read from the disk.
 *
 * All sizes and ranges are in elements unless bytes are said; elements are numbered in row-major order. Files are little-endian.
 * Without jansson or libxxhash at build time all calls return ::WEIR_ERR_UNSUPPORTED.
 */
#ifndef WEIR_CKPT_H
#define WEIR_CKPT_H

#include <stddef.h>
#include <stdint.h>

#include <weir/comm.h>
#include <weir/status.h>
#include <weir/type.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Most dimensions of a tensor. */
#define WEIR_CKPT_DIMS_MAX 16

/** Most bytes of a tensor's name. */
#define WEIR_CKPT_NAME_MAX 1000

/** Most bytes of an entry's value. */
#define WEIR_CKPT_ENTRY_MAX ((uint64_t)1 << 20)

/** The checkpoint that was committed last, in place of a step. */
#define WEIR_CKPT_LATEST UINT64_MAX

/**
 * Gives elements first .. first + n - 1 of a range (counted in the range) that is not in memory, in order, from a thread of the save. Returns
 * ::WEIR_OK, or what went wrong, with a sentence in `error`.
 */
typedef weir_status (*weir_ckpt_fetch_fn)(void *user, uint64_t first, uint64_t n, void *elements, weir_error *error);

/** A range of the elements of a tensor. Start from ::WEIR_CKPT_TENSOR_INIT. */
typedef struct weir_ckpt_tensor {
    size_t size;           /**< sizeof(weir_ckpt_tensor) */
    const char *name;      /**< UTF-8, 1 .. ::WEIR_CKPT_NAME_MAX bytes; "__metadata__" is taken */
    uint64_t type;         /**< a ::weir_type; ::WEIR_OPAQUE (reading only) for one that files have and weir has not */
    uint64_t ndims;        /**< 0 (one element) .. ::WEIR_CKPT_DIMS_MAX */
    const uint64_t *shape; /**< of the whole tensor, ndims numbers; not looked at when reading */
    uint64_t first;        /**< first element of the range */
    uint64_t count;        /**< number of its elements */
    void *data;            /**< these elements; saving only reads them */
    const char *dtype;     /**< reading only: the type as safetensors calls it, e.g. "BF16" */
    weir_ckpt_fetch_fn fetch; /**< saving only: gives the elements when data is NULL; a background save calls it before it returns */
    void *user;               /**< handed to it */
} weir_ckpt_tensor;

/** Initial value of a ::weir_ckpt_tensor. */
#define WEIR_CKPT_TENSOR_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(weir_ckpt_tensor), NULL, WEIR_FP32, 0, NULL, 0, 0, NULL, NULL, NULL, NULL                               \
    }

/** What a checkpoint holds beside tensors, e.g. a generator's state or the position in the data: JSON or bytes under a key. */
typedef struct weir_ckpt_entry {
    size_t size;       /**< sizeof(weir_ckpt_entry) */
    const char *key;   /**< UTF-8, 1 .. ::WEIR_CKPT_NAME_MAX bytes */
    const char *json;  /**< any JSON value as text; NULL when it is bytes */
    const void *bytes; /**< the bytes; with json NULL */
    uint64_t nbytes;   /**< how many, at most ::WEIR_CKPT_ENTRY_MAX; json may be as long */
} weir_ckpt_entry;

/** Initial value of a ::weir_ckpt_entry. */
#define WEIR_CKPT_ENTRY_INIT                                                                                           \
    {                                                                                                                  \
        sizeof(weir_ckpt_entry), NULL, NULL, NULL, 0                                                                   \
    }

/** What a call says of a checkpoint. Set `size`. */
typedef struct weir_ckpt_info {
    size_t size;       /**< sizeof(weir_ckpt_info) */
    uint64_t number;   /**< checkpoints of a folder are numbered in the order in which they were begun, from 1 on; 0: a file from elsewhere */
    uint64_t step;     /**< as given to weir_ckpt_save() */
    uint64_t complete; /**< 1: committed; 0: it was being written, or is */
    int64_t saved;     /**< when, in seconds since 1970 (0 from weir_ckpt_list() for one that is not committed) */
    uint64_t ranks;    /**< that wrote it */
    uint64_t shards;   /**< files with tensors */
    uint64_t tensors;  /**< number of tensors */
    uint64_t bytes;    /**< of these files */
    char name[64];     /**< the folder's name, without the path */
} weir_ckpt_info;

/** @name Saving and resuming */
/** @{ */

/** A folder of checkpoints that some ranks save to together, opaque. */
typedef struct weir_ckpt weir_ckpt;

/** Options of weir_ckpt_open(). */
typedef struct weir_ckpt_options {
    size_t size;    /**< sizeof(weir_ckpt_options) */
    uint64_t flags; /**< none is defined yet: 0 */
    uint64_t keep;  /**< so many committed checkpoints stay, older ones are removed after each save; 0: all */
} weir_ckpt_options;

/** Initial value of ::weir_ckpt_options: the last two. */
#define WEIR_CKPT_OPTIONS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(weir_ckpt_options), 0, 2                                                                                \
    }

/** The memory of the tensors does not change until the save is done: a background save makes no copy of it. */
#define WEIR_CKPT_STABLE ((uint64_t)1)

/** What this rank gives to a checkpoint. Start from ::WEIR_CKPT_CONTENT_INIT. */
typedef struct weir_ckpt_content {
    size_t size;                     /**< sizeof(weir_ckpt_content) */
    uint64_t flags;                  /**< ::WEIR_CKPT_STABLE */
    uint64_t step;                   /**< the step that the state belongs to; must agree */
    uint64_t ntensors;               /**< number of ranges */
    const weir_ckpt_tensor *tensors; /**< the ranges: those of all ranks together cover each tensor exactly once */
    uint64_t nentries;               /**< number of entries */
    const weir_ckpt_entry *entries;  /**< keys that several ranks give must have the same value */
} weir_ckpt_content;

/** Initial value of a ::weir_ckpt_content. */
#define WEIR_CKPT_CONTENT_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(weir_ckpt_content), 0, 0, 0, NULL, 0, NULL                                                              \
    }

/**
 * Opens a folder of checkpoints. It is made, with those above it, when it is not there.
 *
 * Collective over comm: the checkpoints get a communicator of their own, so that a save in the background meets nothing else.
 *
 * @param comm       the ranks that save and resume; NULL: this process alone
 * @param folder     a path that all ranks can write to; rank 0's counts
 * @param options    NULL for the defaults; rank 0's count
 * @param[out] ckpt  to be closed by weir_ckpt_close()
 * @param[out] error description of a failure; may be NULL
 * @return the same on all ranks: ::WEIR_OK; ::WEIR_ERR_INVALID; ::WEIR_ERR_IO; ::WEIR_ERR_NO_MEMORY; those of weir_comm_dup()
 *
 * Thread safety: one collective call at a time for each communicator.
 */
weir_status weir_ckpt_open(weir_comm *comm, const char *folder, const weir_ckpt_options *options, weir_ckpt **ckpt,
                           weir_error *error);

/**
 * Waits for a save in the background, then closes. Collective over the ranks that opened it, unless one of them was lost.
 *
 * @param ckpt  not to be used any more; NULL does nothing
 * @return ::WEIR_OK, or the failure of a save in the background that nobody has asked for
 *
 * Thread safety: one call at a time for each weir_ckpt.
 */
weir_status weir_ckpt_close(weir_ckpt *ckpt);

/**
 * Saves a checkpoint, and removes those that are too old. When it fails, those that were committed before are as they were.
 *
 * Collective over the ranks that opened it. Returns when the checkpoint is committed: all of it is on the disk.
 *
 * @param ckpt       from weir_ckpt_open()
 * @param content    this rank's part
 * @param[out] error description of a failure, the same on all ranks, with the rank that it concerns; may be NULL
 * @return the same on all ranks: ::WEIR_OK; ::WEIR_ERR_INVALID for a part that cannot be, a tensor with a gap, or one that two
 *         ranks gave, by name; ::WEIR_ERR_MISMATCH when types, shapes, steps or entries differ; ::WEIR_ERR_IO, ::WEIR_ERR_LIMIT when
 *         the disk is full; ::WEIR_ERR_NO_MEMORY; ::WEIR_ERR_PEER_LOST
 *
 * Thread safety: one call at a time for each weir_ckpt.
 */
weir_status weir_ckpt_save(weir_ckpt *ckpt, const weir_ckpt_content *content, weir_error *error);

/**
 * Starts what weir_ckpt_save() does in a thread of its own and returns. The tensors are copied first, unless they are
 * ::WEIR_CKPT_STABLE; all else is copied always. A save that is under way is waited for; when that one failed, its failure is
 * returned and nothing is started.
 *
 * Collective, but waits for nobody unless an earlier save is under way.
 *
 * @return ::WEIR_OK when it was started; otherwise as weir_ckpt_save(), but a failure of this call itself (::WEIR_ERR_INVALID,
 *         ::WEIR_ERR_NO_MEMORY, ::WEIR_ERR_SYSTEM) may be on this rank only; the others then get it from their save
 *
 * Thread safety: one call at a time for each weir_ckpt.
 */
weir_status weir_ckpt_isave(weir_ckpt *ckpt, const weir_ckpt_content *content, weir_error *error);

/** Whether a save in the background is done. @return ::WEIR_IN_PROGRESS, or as weir_ckpt_wait(). Thread safety: as weir_ckpt_save(). */
weir_status weir_ckpt_test(weir_ckpt *ckpt, weir_error *error);

/**
 * Waits for the save in the background.
 *
 * @return as weir_ckpt_save(); ::WEIR_OK when there is none. A failure is told once. Thread safety: as weir_ckpt_save().
 */
weir_status weir_ckpt_wait(weir_ckpt *ckpt, weir_error *error);

/** @} */
/**
 * @name Reading
 * By each process for itself. Different sources may be used by different threads at once.
 * @{
 */

/** A checkpoint, or a safetensors file from elsewhere, that is read from, opaque. */
typedef struct weir_ckpt_source weir_ckpt_source;

/**
 * The checkpoints of a folder, in the order in which they were begun; those that are not committed too.
 *
 * @param folder      a path
 * @param[out] infos  room for the last `room` of them; may be NULL when room is 0. Each has `size` set before.
 * @param room        how many fit
 * @param[out] count  how many there are; the first min(room, count) infos are filled in
 * @param[out] error  description of a failure; may be NULL
 * @return ::WEIR_OK; ::WEIR_ERR_NOT_FOUND when there is no such folder; ::WEIR_ERR_IO; ::WEIR_ERR_NO_MEMORY
 *
 * Thread safety: safe.
 */
weir_status weir_ckpt_list(const char *folder, weir_ckpt_info *infos, size_t room, size_t *count, weir_error *error);

/**
 * Opens for reading. `path` is one of: a folder of checkpoints, and then that of `step` which was committed last is taken; one
 * checkpoint's folder; a safetensors file; an index in the manner of `model.safetensors.index.json`, whose `weight_map` says which
 * file holds which tensor.
 *
 * Index and headers are read and checked, data are not.
 *
 * @param path        see above
 * @param step        with a folder of checkpoints: a step, or ::WEIR_CKPT_LATEST; with one checkpoint or file: ::WEIR_CKPT_LATEST
 * @param[out] source to be closed by weir_ckpt_source_close()
 * @param[out] error  description of a failure; may be NULL
 * @return ::WEIR_OK; ::WEIR_ERR_NOT_FOUND when there is none, or none that is committed; ::WEIR_ERR_IO when it cannot be read, is cut,
 *         altered or not what it should be, with what is wrong; ::WEIR_ERR_NO_MEMORY
 *
 * Thread safety: safe.
 */
weir_status weir_ckpt_source_open(const char *path, uint64_t step, weir_ckpt_source **source, weir_error *error);

/**
 * Opens a checkpoint of an open folder: as weir_ckpt_source_open(), and all ranks get the same one.
 *
 * Collective over the ranks that opened it; waits for a save in the background.
 *
 * @return the same on all ranks
 *
 * Thread safety: one call at a time for each weir_ckpt.
 */
weir_status weir_ckpt_resume(weir_ckpt *ckpt, uint64_t step, weir_ckpt_source **source, weir_error *error);

/** Closes; NULL does nothing. What the source has pointed to is gone. Thread safety: as free(). */
void weir_ckpt_source_close(weir_ckpt_source *source);

/** Describes the source. `info->size` must be set. @return ::WEIR_OK; ::WEIR_ERR_INVALID. Thread safety: safe. */
weir_status weir_ckpt_source_info(const weir_ckpt_source *source, weir_ckpt_info *info);

/**
 * Describes tensor `index`, 0 .. weir_ckpt_info::tensors - 1, in the order of their names: first is 0, count all its elements, data
 * NULL; name, shape and dtype belong to the source. `tensor->size` must be set.
 *
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID. Thread safety: safe.
 */
weir_status weir_ckpt_source_tensor(const weir_ckpt_source *source, uint64_t index, weir_ckpt_tensor *tensor);

/** The same for the tensor of a name. @return ::WEIR_OK; ::WEIR_ERR_NOT_FOUND; ::WEIR_ERR_INVALID. Thread safety: safe. */
weir_status weir_ckpt_source_find(const weir_ckpt_source *source, const char *name, weir_ckpt_tensor *tensor);

/**
 * Reads ranges of tensors into memory. Where the type differs from the file's, fp32, fp64, bf16 and fp16 are converted, rounding to
 * nearest even; types of one byte that weir has not (BOOL, F8_E4M3, ...) are read as ::WEIR_UINT8. Checksums are verified.
 *
 * @param source     an open one
 * @param ranges     name, type, first, count and data are looked at; data must have room for count elements
 * @param n          how many
 * @param[out] error description of a failure, with the tensor and the file; may be NULL
 * @return ::WEIR_OK; ::WEIR_ERR_NOT_FOUND for a name that is not there; ::WEIR_ERR_INVALID for a range outside the tensor or a type that
 *         it cannot become; ::WEIR_ERR_IO; ::WEIR_ERR_NO_MEMORY
 *
 * Thread safety: one call at a time for each source.
 */
weir_status weir_ckpt_source_read(weir_ckpt_source *source, const weir_ckpt_tensor *ranges, size_t n, weir_error *error);

/**
 * The entry of a key. `entry->size` must be set; json, or bytes and nbytes, belong to the source.
 *
 * @return ::WEIR_OK; ::WEIR_ERR_NOT_FOUND; ::WEIR_ERR_INVALID. Thread safety: safe.
 */
weir_status weir_ckpt_source_entry(const weir_ckpt_source *source, const char *key, weir_ckpt_entry *entry);

/** The key of entry `index`, in the order of keys; NULL from the last one on. Thread safety: safe. */
const char *weir_ckpt_source_key(const weir_ckpt_source *source, uint64_t index);

/**
 * Reads all data and compares the checksums. A file from elsewhere has none; of it only the layout is checked, when it is opened.
 *
 * @param source        an open one
 * @param[out] checked  bytes of data whose checksum was right; may be NULL
 * @param[out] error    description of a failure, with file and place; may be NULL
 * @return ::WEIR_OK; ::WEIR_ERR_IO; ::WEIR_ERR_NO_MEMORY. Thread safety: as weir_ckpt_source_read().
 */
weir_status weir_ckpt_source_verify(weir_ckpt_source *source, uint64_t *checked, weir_error *error);

/** @} */
/** @name Taking to other programs and back */
/** @{ */

/** How weir_ckpt_export() and weir_ckpt_import() choose and name tensors, and of which type they make them. */
typedef struct weir_ckpt_filter {
    size_t size;         /**< sizeof(weir_ckpt_filter) */
    uint64_t flags;      /**< none is defined yet: 0 */
    const char *prefix;  /**< only tensors whose names begin with it; NULL: all */
    const char *replace; /**< what stands in place of the prefix; NULL: the prefix itself */
    const char *dtype;   /**< what fp64, fp32, bf16 and fp16 tensors become: "F64", "F32", "BF16", "F16"; NULL: they stay */
} weir_ckpt_filter;

/** Initial value of a ::weir_ckpt_filter: all tensors as they are. */
#define WEIR_CKPT_FILTER_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(weir_ckpt_filter), 0, NULL, NULL, NULL                                                                  \
    }

/**
 * Writes the tensors of a source, whole and in plain names and shapes, to one safetensors file. Needs memory for a few MiB of
 * data, whatever their size. The file appears whole or not at all.
 *
 * @param source     an open one
 * @param file       path of the file; one that is there is replaced
 * @param filter     NULL: all tensors as they are
 * @param[out] error description of a failure; may be NULL
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID for a filter that nothing passes; ::WEIR_ERR_IO; ::WEIR_ERR_LIMIT when the disk is full;
 *         ::WEIR_ERR_NO_MEMORY
 *
 * Thread safety: as weir_ckpt_source_read().
 */
weir_status weir_ckpt_export(weir_ckpt_source *source, const char *file, const weir_ckpt_filter *filter, weir_error *error);

/**
 * Writes the tensors and entries of a source as a new checkpoint of a folder, as one shard; for files from elsewhere that are to be
 * resumed from, and for moving a checkpoint. Needs memory for a few MiB of data. Removes no older checkpoint.
 *
 * @param source     an open one
 * @param folder     a folder of checkpoints; it is made when it is not there
 * @param step       the step that the state belongs to
 * @param filter     NULL: all tensors as they are
 * @param[out] error description of a failure; may be NULL
 * @return as weir_ckpt_export()
 *
 * Thread safety: as weir_ckpt_source_read(); nobody else may save to the folder meanwhile.
 */
weir_status weir_ckpt_import(weir_ckpt_source *source, const char *folder, uint64_t step, const weir_ckpt_filter *filter,
                             weir_error *error);

/** @} */

#ifdef __cplusplus
}
#endif

#endif
