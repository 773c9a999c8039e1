/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of comm/engine. */
#ifndef WR_ENGINE_IMPL_H
#define WR_ENGINE_IMPL_H

#include "comm/engine/engine.h"

/* What a rank published: a transport's address, or why it could not open one. */
struct wr_engine_address {
    size_t len;
    unsigned char bytes[];
};

/* A flush of everything, before closing. */
struct wr_engine_flush {
    struct wr_op op;
    bool done;
};

/* As wr_engine_peer_lost(); `host` may be NULL. */
void wr_engine_lose(struct wr_engine *e, int peer, const char *host, const char *reason);

/* Tells ranks of losses, as far as there is room; and the handler of WR_AM_LOST. */
void wr_engine_gossip(struct wr_engine *e);
void wr_engine_on_lost(void *engine, int source, const void *data, size_t len);

/* Begins to watch a rank that has just been connected, when it is reached through a network. */
void wr_engine_watch(struct wr_engine *e, int peer);

#endif
