/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of comm/p2p: peers, kept messages, long transfers, wire headers. */
#ifndef WR_P2P_IMPL_H
#define WR_P2P_IMPL_H

#include "comm/p2p/p2p.h"

/* ---- what travels ---- */

struct p2p_envelope {
    uint32_t comm;
    int32_t tag;
};

struct p2p_ready {
    struct p2p_envelope envelope;
    uint64_t bytes;
    uint64_t sender_id; /* the sender's transfer, given back in CLEAR */
};

struct p2p_clear {
    uint64_t sender_id, receiver_id;
    uint64_t offset, bytes; /* where in the region of the key, and how many bytes are wanted (0: none, the message is dropped) */
    uint32_t key_len;       /* 0: send pieces as messages; the key follows the struct */
    uint32_t unused;
};

struct p2p_data {
    uint64_t receiver_id, offset; /* the piece follows */
};

struct p2p_finish {
    uint64_t receiver_id;
    int64_t status; /* a weir_status: how it ended at the sender */
};

struct p2p_piece {
    struct p2p_envelope envelope;
    uint64_t bytes, offset; /* of the whole message, and where the piece that follows belongs in it */
};

struct p2p_credit {
    uint64_t consumed; /* bytes of this pair's messages that were consumed since the beginning */
};

/* Bytes that a message of `bytes` counts for, so that many empty ones are bounded too. */
#define P2P_OVERHEAD 64
static inline uint64_t p2p_cost(uint64_t bytes)
{
    return bytes + P2P_OVERHEAD;
}

/* ---- state ---- */

struct p2p_send;
struct p2p_recv;

/* What is known of one peer; made when it is first needed. */
struct p2p_peer {
    uint64_t sent, credited;     /* bytes sent as a whole or announced, and consumed by the peer according to its credits */
    uint64_t consumed, reported; /* bytes of the peer's that were consumed here, and what it was told */
    struct wr_list queue;        /* p2p_send that wait for credit or for room in a queue, in order */
    struct wr_list sends;        /* p2p_send in a long transfer to this peer */
    struct wr_list recvs;        /* p2p_recv in a long transfer from this peer */
    int rank;
    struct wr_list work_link; /* in wr_p2p.work */
    struct p2p_arriving {
        struct p2p_recv *recv; /* for whom the message that comes in pieces is, in `recvs`, or */
        struct p2p_kept *kept; /* where it is kept until a receive asks for it */
        uint64_t bytes, got;   /* of the message; bytes 0: none is coming */
    } arriving;
};

/* A message that came before its receive. */
struct p2p_kept {
    struct wr_list link; /* in wr_p2p.kept, of its bin, in order of arrival */
    struct p2p_envelope envelope;
    int source;
    bool is_ready; /* announced, not whole */
    bool is_arriving; /* pieces are still to come */
    uint64_t bytes;
    uint64_t sender_id;
    uint64_t arrival; /* number of arrival, for receives from any source */
    unsigned room;    /* which of wr_p2p.rooms it lies in; WR_P2P_ROOMS: in none */
    unsigned char data[];
};

enum p2p_send_state {
    SEND_QUEUED,  /* waits for credit */
    SEND_PIECES,  /* the first piece has been sent */
    SEND_READY,   /* announced */
    SEND_PUT,     /* the put is running, or waits for room */
    SEND_DATA,    /* pieces are being sent */
    SEND_FINISH,  /* FINISH waits for room */
    SEND_DONE
};

/* How a message travels. */
enum p2p_way { P2P_WHOLE, P2P_IN_PIECES, P2P_ANNOUNCED };

struct p2p_send {
    struct weir_request request;
    struct wr_op op; /* of the put, or of all pieces */
    struct wr_p2p *p2p;
    struct wr_list link; /* in the peer's queue, then in its sends */
    enum p2p_way way;
    enum p2p_send_state state;
    unsigned in_flight; /* operations with `op`: buffer, region and key are in use below */
    bool released;      /* by the user, while there were some */
    struct p2p_envelope envelope;
    const unsigned char *buffer;
    uint64_t bytes;
    uint64_t id, receiver_id;
    uint64_t wanted, offset, moved;
    struct wr_region *region;
    bool own_region;
    struct wr_rkey *rkey;
    weir_status result;
};

struct p2p_recv {
    struct weir_request request;
    struct wr_p2p *p2p;
    struct wr_list link; /* in the posted bin, then in the peer's recvs */
    struct p2p_envelope envelope;
    int source; /* asked for; then the real one */
    uint64_t order; /* number of posting, for messages that match receives in two bins */
    unsigned char *buffer;
    uint64_t room, bytes; /* of the buffer, of the message */
    uint64_t sender_id, id;
    struct wr_region *region;
    uint64_t region_offset;
    bool region_tried, own_region;
    bool clear_pending; /* CLEAR waits for room */
    bool is_arriving;   /* in pieces */
    weir_message *message;
};

/* Numbers for objects that a peer names: an index and a generation, so that a late or wrong number finds nothing. */
struct p2p_ids {
    struct p2p_id_slot {
        void *object; /* NULL: free */
        uint32_t generation;
        uint32_t next_free;
    } *slot;
    uint32_t n, first_free;
};
bool wr_p2p_id_new(struct p2p_ids *ids, void *object, uint64_t *id);
void *wr_p2p_id_find(const struct p2p_ids *ids, uint64_t id);
void wr_p2p_id_free(struct p2p_ids *ids, uint64_t id);

/* Kept messages lie in pools of objects with room for 128 bytes, 256 ... 256 KiB; longer ones are allocated. */
enum { WR_P2P_ROOMS = 12, WR_P2P_ROOM_MIN = 128 };

struct wr_p2p {
    struct weir_ctx *ctx;
    struct wr_engine *engine;
    int size; /* of the world */
    struct wr_p2p_memory memory;
    struct wr_pool sends, recvs;
    struct p2p_ids send_ids, recv_ids;
    struct wr_list posted[WR_P2P_BINS + 1]; /* receives; the last bin is for any source */
    struct wr_list kept[WR_P2P_BINS];       /* messages */
    struct wr_pool rooms[WR_P2P_ROOMS];
    struct wr_list work;                    /* peers with queued sends or pending control messages */
    uint64_t next_order, next_arrival;
    uint64_t kept_bytes, credit;
    struct p2p_peer **peer; /* by world rank */
};

static inline unsigned p2p_bin(int source)
{
    return (unsigned)source % WR_P2P_BINS;
}

struct p2p_peer *wr_p2p_peer(struct wr_p2p *p2p, int rank);

/* Puts a peer on the list that wr_p2p_progress() works through. */
void wr_p2p_need_work(struct wr_p2p *p2p, struct p2p_peer *peer);

/* Counts a message as consumed and tells the sender when half of its credit is used up. */
void wr_p2p_consumed(struct wr_p2p *p2p, int source, uint64_t cost);

/* ---- match.c ---- */

/* The first posted receive that a message matches, taken out of its list, or NULL. */
struct p2p_recv *wr_p2p_match_posted(struct wr_p2p *p2p, int source, const struct p2p_envelope *envelope);
/* The first kept message that a receive matches, taken out, or NULL. */
struct p2p_kept *wr_p2p_match_kept(struct wr_p2p *p2p, const struct p2p_recv *recv);
void wr_p2p_post(struct wr_p2p *p2p, struct p2p_recv *recv);
/* Keeps a message; NULL when memory is exhausted. `data` NULL: the caller fills it in. */
struct p2p_kept *wr_p2p_keep(struct wr_p2p *p2p, int source, const struct p2p_envelope *envelope, bool is_ready, uint64_t bytes,
                             uint64_t sender_id, const void *data);
/* Takes a message out, and gives one back that was taken out. */
void wr_p2p_kept_take(struct wr_p2p *p2p, struct p2p_kept *kept);
void wr_p2p_kept_free(struct wr_p2p *p2p, struct p2p_kept *kept);

/* ---- pieces.c ---- */

/* Whether a message is to go in pieces; *region is then what covers the buffer, where the transport insists on it. */
bool wr_p2p_in_pieces(struct wr_p2p *p2p, struct wr_transport *t, int rank, const void *buffer, uint64_t bytes,
                      struct wr_region **region);
/* Whether there is credit for all of them. */
bool wr_p2p_may_send_pieces(const struct wr_p2p *p2p, const struct p2p_peer *peer, const struct p2p_send *send);
/* Sends pieces of the first send of a peer's queue: WEIR_OK when all have been handed over, BUSY when there is no room, or an
 * error. */
weir_status wr_p2p_send_pieces(struct wr_p2p *p2p, struct p2p_peer *peer, struct p2p_send *send);
/* A piece has left. */
void wr_p2p_piece_done(struct p2p_send *send, weir_status status);
/* A receive has met a message of which pieces are still to come. */
void wr_p2p_recv_rest(struct wr_p2p *p2p, struct p2p_recv *recv, struct p2p_kept *kept);
/* The peer is lost: no more will come. Receives are ended elsewhere. */
void wr_p2p_drop_arriving(struct wr_p2p *p2p, struct p2p_peer *peer);

/* ---- long.c: transfers that are announced ---- */

/* The completion of a send's put, or of one of its pieces. */
void wr_p2p_op_done(struct wr_op *op, weir_status status);
/* Takes a send that was announced further; called again after progress while it returns false (no room). */
bool wr_p2p_send_advance(struct wr_p2p *p2p, struct p2p_send *send);
/* A receive has met an announced message: answers with CLEAR. */
void wr_p2p_recv_long(struct wr_p2p *p2p, struct p2p_recv *recv, int source, uint64_t bytes, uint64_t sender_id);
/* Sends the CLEAR of a receive to a peer that is connected; false when there is no room. */
bool wr_p2p_send_clear(struct wr_p2p *p2p, struct p2p_recv *recv);
void wr_p2p_recv_end(struct wr_p2p *p2p, struct p2p_recv *recv, weir_status status);
void wr_p2p_send_end(struct wr_p2p *p2p, struct p2p_send *send, weir_status status);
/* Gives back what the transfer held in the transport. */
void wr_p2p_send_clean(struct wr_p2p *p2p, struct p2p_send *send);

#endif
