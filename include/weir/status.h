/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Status codes and the description of an error.
 *
 * Every call of weir that can fail returns a ::weir_status. The code says what kind of failure it was; the
 * ::weir_error kept by the context says which rank, which host, what was asked and what to do about it.
 */
#ifndef WEIR_STATUS_H
#define WEIR_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/**
 * The one table of status codes: X(name, value, message). New codes are appended; values never change.
 */
#define WEIR_STATUS_TABLE(X)                                                                                 \
    X(WEIR_OK, 0, "success")                                                                                 \
    X(WEIR_IN_PROGRESS, 1, "operation has not completed yet")                                                \
    X(WEIR_ERR_INVALID, -1, "invalid argument")                                                              \
    X(WEIR_ERR_NO_MEMORY, -2, "out of memory")                                                               \
    X(WEIR_ERR_UNSUPPORTED, -3, "not supported")                                                             \
    X(WEIR_ERR_CONFIG, -4, "invalid configuration")                                                          \
    X(WEIR_ERR_NOT_FOUND, -5, "not found")                                                                   \
    X(WEIR_ERR_IO, -6, "input or output failed")                                                             \
    X(WEIR_ERR_SYSTEM, -7, "a system call failed")                                                           \
    X(WEIR_ERR_LAUNCHER, -8, "the launcher is missing or gave an error")                                     \
    X(WEIR_ERR_PROTOCOL, -9, "a peer sent something unexpected")                                             \
    X(WEIR_ERR_TIMEOUT, -10, "timed out")                                                                    \
    X(WEIR_ERR_PEER_LOST, -11, "a peer was lost")                                                            \
    X(WEIR_ERR_MISMATCH, -12, "ranks called different operations")                                           \
    X(WEIR_ERR_TRUNCATED, -13, "the message is longer than the buffer")                                      \
    X(WEIR_ERR_TRANSPORT, -14, "a transport failed")                                                         \
    X(WEIR_ERR_LIMIT, -15, "a limit was reached")                                                            \
    X(WEIR_ERR_STALE, -16, "a key or handle is no longer valid")                                             \
    X(WEIR_ERR_CANCELED, -17, "the operation was canceled")                                                  \
    X(WEIR_ERR_BUSY, -18, "resource is busy, try again")                                                     \
    X(WEIR_ERR_INTERNAL, -19, "internal error (a defect in weir)")                                           \
    X(WEIR_ERR_NOT_FINITE, -20, "a gradient is not finite")

/** Status codes. Zero is success, negative values are errors, ::WEIR_IN_PROGRESS is neither. */
typedef enum weir_status {
#define WEIR_STATUS_ENUM(name, value, message) name = value,
    WEIR_STATUS_TABLE(WEIR_STATUS_ENUM)
#undef WEIR_STATUS_ENUM
} weir_status;

/** What went wrong, where, and what to do. All strings are terminated; empty when unknown. */
typedef struct weir_error {
    weir_status status;  /**< the kind of failure; ::WEIR_OK when there was none */
    int rank;            /**< rank that the failure concerns, -1 when none in particular */
    char host[64];       /**< host name of that rank */
    char operation[128]; /**< what was asked, e.g. "weir_init" */
    char message[512];   /**< one sentence: what happened, with its numbers */
    char advice[384];    /**< one sentence: what to do about it */
} weir_error;

/**
 * The symbolic name of a status, for example "WEIR_ERR_INVALID".
 *
 * @param status  any value; unknown ones give "WEIR_ERR_UNKNOWN"
 * @return a constant string, owned by the library
 *
 * Thread safety: safe from any thread at any time.
 */
const char *weir_status_name(weir_status status);

/**
 * A short sentence for a status, for example "invalid argument".
 *
 * @param status  any value; unknown ones give "unknown status"
 * @return a constant string, owned by the library
 *
 * Thread safety: safe from any thread at any time.
 */
const char *weir_status_message(weir_status status);

#ifdef __cplusplus
}
#endif

#endif
