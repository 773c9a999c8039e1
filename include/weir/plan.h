/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What is behind collectives: their plans, and the costs by which they are chosen.
 */
#ifndef WEIR_PLAN_H
#define WEIR_PLAN_H

#include <stddef.h>

#include <weir/comm.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * The path of the tuning file: WEIR_TUNING_FILE, or tuning.HOST in the user's cache folder. The file need not exist; weir-tune
 * writes it, and rank 0 of a communicator reads it before it chooses the first plan.
 *
 * @param ctx        a context
 * @param[out] path  the path, `size` bytes at most with its terminator; untouched on failure
 * @param size       bytes of path
 * @return ::WEIR_OK; ::WEIR_ERR_UNSUPPORTED when there is no place for one (WEIR_TUNING_FILE=off, WEIR_CACHE_DIR=off, no home), or it
 *         does not fit
 *
 * Thread safety: safe from any thread.
 */
weir_status weir_tuning_path(const weir_ctx *ctx, char *path, size_t size);

#ifdef __cplusplus
}
#endif

#endif
