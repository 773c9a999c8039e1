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
 * Tells in one line what was chosen for a collective: the call, the algorithm and its parameters, the time that the cost model
 * predicts, the time that this rank's executions took (the last and the best), and which share of the physical limit that is:
 * the least time that any algorithm needs for the bytes that must cross the network and the memory of the nodes. The words are
 * for people and may change.
 *
 * The times of executions are taken for persistent requests, and for others when WEIR_LOG has plan:debug. With WEIR_LOG=plan:info
 * the same line is logged by rank 0 for every new plan, with plan:debug after every execution.
 *
 * @param request    a request of a collective that has not been freed
 * @param[out] text  the line, cut where it does not fit
 * @param size       bytes of text with its terminator, at least 1
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID for a request of something else
 *
 * Thread safety: safe from any thread while the request is not being freed.
 */
weir_status weir_explain(const weir_request *request, char *text, size_t size);

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
