/* SPDX-License-Identifier: BSD-3-Clause */
/* Matching of messages and receives: in order of posting and of arrival, by communicator, source and tag. */
#include <stdlib.h>
#include <string.h>

#include "comm/p2p/p2p_impl.h"

static bool matches(const struct p2p_recv *recv, int source, const struct p2p_envelope *envelope)
{
    return recv->envelope.comm == envelope->comm && (recv->source == WEIR_ANY_SOURCE || recv->source == source) &&
           (recv->envelope.tag == WEIR_ANY_TAG || recv->envelope.tag == envelope->tag);
}

static struct wr_list *posted_bin(struct wr_p2p *p2p, int source)
{
    return &p2p->posted[source == WEIR_ANY_SOURCE ? WR_P2P_BINS : p2p_bin(source)];
}

void wr_p2p_post(struct wr_p2p *p2p, struct p2p_recv *recv)
{
    recv->order = p2p->next_order++;
    wr_list_push_back(posted_bin(p2p, recv->source), &recv->link);
}

static struct p2p_recv *first_match(struct wr_list *bin, int source, const struct p2p_envelope *envelope)
{
    struct p2p_recv *recv;
    wr_list_for_each(recv, bin, link) if (matches(recv, source, envelope)) return recv;
    return NULL;
}

struct p2p_recv *wr_p2p_match_posted(struct wr_p2p *p2p, int source, const struct p2p_envelope *envelope)
{
    struct p2p_recv *named = first_match(posted_bin(p2p, source), source, envelope);
    struct p2p_recv *any = first_match(posted_bin(p2p, WEIR_ANY_SOURCE), source, envelope);
    struct p2p_recv *recv = !named || (any && any->order < named->order) ? any : named;
    if (recv)
        wr_list_remove(&recv->link);
    return recv;
}

static struct p2p_kept *first_kept(struct wr_list *bin, const struct p2p_recv *recv)
{
    struct p2p_kept *kept;
    wr_list_for_each(kept, bin, link) if (matches(recv, kept->source, &kept->envelope)) return kept;
    return NULL;
}

struct p2p_kept *wr_p2p_match_kept(struct wr_p2p *p2p, const struct p2p_recv *recv)
{
    struct p2p_kept *best = NULL;
    if (recv->source != WEIR_ANY_SOURCE) {
        best = first_kept(&p2p->kept[p2p_bin(recv->source)], recv);
    } else {
        for (int i = 0; i < WR_P2P_BINS; i++) {
            struct p2p_kept *kept = first_kept(&p2p->kept[i], recv);
            if (kept && (!best || kept->arrival < best->arrival))
                best = kept;
        }
    }
    if (best)
        wr_p2p_kept_take(p2p, best);
    return best;
}

void wr_p2p_kept_take(struct wr_p2p *p2p, struct p2p_kept *kept)
{
    wr_list_remove(&kept->link);
    p2p->kept_bytes -= sizeof *kept + (kept->is_ready ? 0 : kept->bytes);
}

static struct p2p_kept *kept_new(struct wr_p2p *p2p, uint64_t bytes)
{
    unsigned room = 0;
    while (room < WR_P2P_ROOMS && bytes > (uint64_t)WR_P2P_ROOM_MIN << room)
        room++;
    struct p2p_kept *kept = room < WR_P2P_ROOMS ? wr_pool_get(&p2p->rooms[room]) : malloc(sizeof *kept + bytes);
    if (kept)
        kept->room = room;
    return kept;
}

void wr_p2p_kept_free(struct wr_p2p *p2p, struct p2p_kept *kept)
{
    if (kept->room < WR_P2P_ROOMS)
        wr_pool_put(&p2p->rooms[kept->room], kept);
    else
        free(kept);
}

struct p2p_kept *wr_p2p_keep(struct wr_p2p *p2p, int source, const struct p2p_envelope *envelope, bool is_ready, uint64_t bytes,
                             uint64_t sender_id, const void *data)
{
    uint64_t room = is_ready ? 0 : bytes;
    struct p2p_kept *kept = kept_new(p2p, room);
    if (!kept)
        return NULL;
    kept->envelope = *envelope;
    kept->source = source;
    kept->is_ready = is_ready;
    kept->is_arriving = false;
    kept->bytes = bytes;
    kept->sender_id = sender_id;
    kept->arrival = p2p->next_arrival++;
    if (room && data)
        memcpy(kept->data, data, room);
    wr_list_push_back(&p2p->kept[p2p_bin(source)], &kept->link);
    p2p->kept_bytes += sizeof *kept + room;
    return kept;
}
