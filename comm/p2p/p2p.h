/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages with tags.
 *
 * Short ones (up to the transport's message size) are sent whole, those of middle length in pieces, many at a time, where the
 * transport has long messages. Their bytes are counted against a credit that each receiver gives each sender, so that what is
 * kept for later receives is bounded; without credit the send waits in the sender's queue, in order. Long ones are announced (READY), the receiver answers with where to put them (CLEAR), the sender puts them into the
 * receiver's memory and says so (FINISH). Where memory cannot be registered, the pieces travel as messages (DATA).
 *
 * Everything here runs with the engine's lock held.
 */
#ifndef WR_P2P_H
#define WR_P2P_H

#include <weir/p2p.h>

#include "base/list.h"
#include "base/pool.h"
#include "comm/engine/engine.h"
#include "comm/engine/request.h"

enum {
    WR_P2P_BINS = 64,               /* queues of waiting receives and kept messages, by source */
    WR_P2P_CREDIT_MIN = 16384,      /* bytes: what one receiver keeps for one sender, between these two, */
    WR_P2P_CREDIT_MAX = 1 << 20,    /* so that all senders together stay below WEIR_UNEXPECTED_LIMIT */
    /* bytes: longer messages are announced, which takes more time but copies nothing. Where a transport's pieces are short the
     * copying wins the less, the more there are: MOST of them, but for SHORT messages. */
    WR_P2P_IN_PIECES = 256 << 10,
    WR_P2P_PIECES_MOST = 2,
    WR_P2P_PIECES_SHORT = 32 << 10
};

struct wr_p2p;

/* How to find memory that is registered already (comm/mem). May be NULL. */
struct wr_p2p_memory {
    /* The registration that covers [addr, addr + len) on transport `t`, or NULL. */
    struct wr_region *(*find)(void *arg, struct wr_transport *t, const void *addr, uint64_t len, uint64_t *offset);
    void *arg;
};

weir_status wr_p2p_create(struct weir_ctx *ctx, struct wr_engine *engine, uint64_t unexpected_limit, struct wr_p2p **p2p,
                          weir_error *err);
void wr_p2p_destroy(struct wr_p2p *p2p);
void wr_p2p_set_memory(struct wr_p2p *p2p, const struct wr_p2p_memory *memory);

/* Messages of a communicator that do not meet each other; these bits are above those of a communicator's id. */
enum wr_p2p_space { WR_P2P_USER = 0, WR_P2P_PLANS = 0x40000000, WR_P2P_EXCHANGE = INT32_MIN };

/*
 * Starts a send or a receive between ranks of a communicator. WEIR_OK: `*request` is to be finished, or NULL when the operation
 * is complete already. Sources and tags of -1 match all. The group outlives the request.
 */
weir_status wr_p2p_send(struct wr_p2p *p2p, const struct wr_group *group, enum wr_p2p_space space, const void *buffer,
                        uint64_t bytes, int dest, int32_t tag, struct weir_request **request, weir_error *err);
weir_status wr_p2p_recv(struct wr_p2p *p2p, const struct wr_group *group, enum wr_p2p_space space, void *buffer,
                        uint64_t bytes, int source, int32_t tag, weir_message *message, struct weir_request **request,
                        weir_error *err);

/*
 * Take back a receive that no message has met yet, and a send that was not complete when it was started and that nobody has asked
 * for yet; false otherwise. The request is gone, then.
 */
bool wr_p2p_cancel_recv(struct weir_request *request);
bool wr_p2p_cancel_send(struct weir_request *request);

/* What could not be sent because a queue was full: called after each progress. */
void wr_p2p_progress(struct wr_p2p *p2p);

/* The list that wr_p2p_progress() works through. */
const struct wr_list *wr_p2p_work(const struct wr_p2p *p2p);

/* A rank is gone: everything that waits for it ends with WEIR_ERR_PEER_LOST. */
void wr_p2p_peer_lost(struct wr_p2p *p2p, int peer);

/* Bytes of messages that are kept until they are received. */
uint64_t wr_p2p_kept_bytes(const struct wr_p2p *p2p);

/* The handlers for WR_AM_EAGER .. WR_AM_CREDIT and WR_AM_PIECE; arg is the wr_p2p. */
void wr_p2p_on_eager(void *arg, int source, const void *data, size_t len);
void wr_p2p_on_ready(void *arg, int source, const void *data, size_t len);
void wr_p2p_on_clear(void *arg, int source, const void *data, size_t len);
void wr_p2p_on_data(void *arg, int source, const void *data, size_t len);
void wr_p2p_on_finish(void *arg, int source, const void *data, size_t len);
void wr_p2p_on_credit(void *arg, int source, const void *data, size_t len);
void wr_p2p_on_piece(void *arg, int source, const void *data, size_t len);

#endif
