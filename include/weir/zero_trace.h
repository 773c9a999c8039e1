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

/** What an engine remembers. */
typedef struct weir_zero_event {
    size_t size;       /**< set by the caller to sizeof(weir_zero_event) */
    const char *what;  /**< "forward" or "backward": the use of a unit; "reduce", "gather", "parameters": what was under way, beside others;
                            "wait", "update", "step" */
    const char *unit;  /**< its name, or that of the first unit that is concerned; "" for the last three; owned by the engine */
    int64_t begin_ns;  /**< of CLOCK_MONOTONIC */
    int64_t end_ns;    /**< likewise */
    uint64_t in_flight; /**< 1: what was under way */
    uint64_t bytes;    /**< of that */
} weir_zero_event;

/**
 * One of the events that this rank remembers, in the order in which they ended. Not collective.
 *
 * @param zero        an engine
 * @param index       from 0 on
 * @param[out] event  `event->size` must be set
 * @return ::WEIR_OK; ::WEIR_ERR_NOT_FOUND behind the last one; ::WEIR_ERR_INVALID
 */
weir_status weir_zero_trace_event(const weir_zero *zero, uint64_t index, weir_zero_event *event);

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
