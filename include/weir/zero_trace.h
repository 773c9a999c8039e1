/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Steps of the ZeRO engine to look at: reports as lines of JSON, and a trace of what was computed and moved when.
 */
#ifndef WEIR_ZERO_TRACE_H
#define WEIR_ZERO_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include <weir/status.h>
#include <weir/zero.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Bytes in which weir_zero_report_json() has room for certain. */
#define WEIR_ZERO_REPORT_JSON 2048

/**
 * A report as one JSON object, without a line break: step, skipped, norm, clip, loss, loss_scale, lr; step_ms, compute_ms, exposed_ms,
 * hidden_ms, update_ms; gather_bytes, gather_node_bytes and reduce_bytes, gather_level_bytes and reduce_level_bytes with the bytes of
 * each level under its name ("node", "world"; "switch0" where there are several of a kind); mem, mem_peak, mem_formula, live_peak;
 * gathers, prefetched, differs_unit, stop. What is not a number is null.
 *
 * @param report     from weir_zero_step()
 * @param[out] text  the object with a terminator; untouched on failure
 * @param size       bytes of text; ::WEIR_ZERO_REPORT_JSON are enough
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID; ::WEIR_ERR_LIMIT when it does not fit; ::WEIR_ERR_NO_MEMORY. Thread safety: safe.
 */
weir_status weir_zero_report_json(const weir_zero_report *report, char *text, size_t size);

/**
 * From now on the engine remembers what it does: each use of a unit, each time in which the program waited, each reduction and
 * gathering from its start until it was seen to be complete, updates and steps. Of more than `room` of them (32 bytes each) the
 * latest are kept. Not collective.
 *
 * @param room  0: what was remembered is forgotten, and no more is remembered
 * @return ::WEIR_OK; ::WEIR_ERR_NO_MEMORY, and then it is as it was
 */
weir_status weir_zero_trace(weir_zero *zero, uint64_t room);

/**
 * Writes what all ranks remember to one file, for chrome://tracing or Perfetto: a process for each rank, in which one row shows what the program
 * did (compute, wait, update, step) and others what was under way. Times are in microseconds from the first event on; clocks of
 * different nodes are compared in a few barriers, so they agree as well as those are fast. Collective, outside a pass; what is
 * remembered stays.
 *
 * @param zero  an engine
 * @param path  where rank 0 writes; not looked at on other ranks
 * @return the same on all ranks: ::WEIR_OK; ::WEIR_ERR_IO when rank 0 could not write; ::WEIR_ERR_INVALID inside a pass;
 *         ::WEIR_ERR_NO_MEMORY; errors of communication
 */
weir_status weir_zero_trace_write(weir_zero *zero, const char *path);

#ifdef __cplusplus
}
#endif

#endif
