/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Messages between two ranks, with tags.
 *
 * Messages from one rank to another with the same communicator are matched in the order in which they were sent. Any memory
 * can be sent and received; memory from weir_mem_alloc() and weir_mem_register() travels without an extra copy.
 * Messages that come before their receive are kept, in bounded memory: a sender that is too far ahead waits.
 */
#ifndef WEIR_P2P_H
#define WEIR_P2P_H

#include <stddef.h>
#include <stdint.h>

#include <weir/comm.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_ANY_SOURCE (-1) /**< receive from any rank */
#define WEIR_ANY_TAG    (-1) /**< receive any tag */

/** What was received. */
typedef struct weir_message {
    size_t size;    /**< set by the caller to sizeof(weir_message) */
    int64_t source; /**< rank of the sender */
    int64_t tag;    /**< its tag */
    uint64_t bytes; /**< its length in bytes, also when it was longer than the buffer */
} weir_message;

/**
 * Sends `bytes` bytes and waits until the buffer may be reused (which does not say that it was received).
 *
 * @param comm    a communicator
 * @param buffer  any memory; may be NULL when bytes is 0
 * @param bytes   length of the message
 * @param dest    rank in comm, this one included
 * @param tag     0..2^31-1
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID; ::WEIR_ERR_PEER_LOST; ::WEIR_ERR_TRANSPORT
 *
 * Thread safety: safe from any thread; the order of concurrent calls is undefined.
 */
weir_status weir_send(weir_comm *comm, const void *buffer, uint64_t bytes, int dest, int tag);

/**
 * Receives a message of at most `bytes` bytes.
 *
 * @param comm     a communicator
 * @param buffer   where the message goes; may be NULL when bytes is 0
 * @param bytes    room in the buffer
 * @param source   rank in comm, or ::WEIR_ANY_SOURCE
 * @param tag      or ::WEIR_ANY_TAG
 * @param[out] message  what was received; may be NULL
 * @return ::WEIR_OK; ::WEIR_ERR_TRUNCATED when the message was longer (the buffer then holds its beginning);
 *         ::WEIR_ERR_INVALID; ::WEIR_ERR_PEER_LOST; ::WEIR_ERR_TRANSPORT
 *
 * Thread safety: safe from any thread.
 */
weir_status weir_recv(weir_comm *comm, void *buffer, uint64_t bytes, int source, int tag, weir_message *message);

/** Starts what weir_send() does. The buffer must not be written until the request has completed. */
weir_status weir_isend(weir_comm *comm, const void *buffer, uint64_t bytes, int dest, int tag, weir_request **request);

/**
 * Starts what weir_recv() does. The buffer must not be touched until the request has completed; `message` (may be NULL) must
 * live until then and is written before.
 */
weir_status weir_irecv(weir_comm *comm, void *buffer, uint64_t bytes, int source, int tag, weir_message *message,
                       weir_request **request);

#ifdef __cplusplus
}
#endif

#endif
