/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Passing on that a rank is lost. Who is connected to a rank that dies may notice it; who waits for somebody that has given up
 * because of it would not. So each loss is told once to every rank that is connected, which tells it to those that it is
 * connected to: it reaches all that work together.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "comm/engine/engine_impl.h"

struct lost_message {
    int32_t rank, unused;
    char host[64], reason[192];
};

void wr_engine_gossip(struct wr_engine *e)
{
    e->gossip = false;
    if (!e->told) /* no memory was left for it */
        return;
    for (int peer = 0; peer < e->size; peer++) {
        if (!wr_engine_ready(e, peer) || peer == e->rank)
            continue;
        struct wr_transport *t = wr_engine_route(e, peer);
        while (e->told[peer] < (uint32_t)e->nlost) {
            struct lost_message m = {.rank = e->lost_order[e->told[peer]]};
            weir_error err;
            if (e->loss[m.rank]) {
                wr_str_copy(m.host, sizeof m.host, e->loss[m.rank]->host);
                wr_str_copy(m.reason, sizeof m.reason, e->loss[m.rank]->reason);
            }
            if (t->ops->am(t, peer, WR_AM_LOST, &m, sizeof m, NULL, 0, 0, &err) == WEIR_ERR_BUSY) {
                e->gossip = true; /* there was no room */
                break;
            }
            e->told[peer]++;
        }
    }
}

void wr_engine_on_lost(void *arg, int source, const void *data, size_t len)
{
    struct wr_engine *e = arg;
    struct lost_message m;
    if (len != sizeof m)
        return;
    memcpy(&m, data, sizeof m);
    m.host[sizeof m.host - 1] = m.reason[sizeof m.reason - 1] = '\0';
    if (m.rank == e->rank)
        wr_engine_stop(e, WEIR_ERR_PEER_LOST, e->rank, "rank %d of the job takes this rank for lost: %s", source, m.reason);
    else
        wr_engine_lose(e, m.rank, m.host, m.reason);
}
