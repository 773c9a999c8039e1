/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The UCX transport. One UCP context and worker a transport; an endpoint a peer, made when it is first needed.
 *
 * A peer is reached in one of two ways, decided by this rank from the lanes that UCX chose for the endpoint:
 *  - rma:     puts and gets are UCX's, ordered by ucp_worker_fence() when everything goes over one lane, by
 *             ucp_ep_flush_nbx() otherwise. A small put with a signal travels in one message.
 *  - message: where UCX would emulate a put in software (tcp: 0.15 GB/s against 4 and more), data goes in eager messages
 *             which the receiving progress() copies into the region; a get asks the peer to send. Messages of a pair
 *             arrive in order, so that a signal in the last message of a put comes after the data.
 * A flush of what went in messages is a question that the peer answers when it has handled everything before it.
 *
 * Completions of UCX only put the request on a list; progress() works it off outside of UCX's callbacks.
 */
#ifndef WR_UCX_H
#define WR_UCX_H

#include "base/compiler.h"
#include "base/list.h"
#include "base/pool.h"
#include "comm/transport/transport.h"
#include "comm/transport/ucx/ucx_api.h"

enum {
    UCX_REQUESTS = 1024,          /* requests of one transport: bounds what is in flight */
    UCX_RESERVED = 64,            /* of these, kept for answers and for continuing what was started */
    UCX_INLINE = 256,             /* bytes that a request can copy */
    UCX_BUFFERS = 64,             /* messages above UCX_INLINE that are in flight */
    UCX_MAX_AM = 8192 + 64,       /* largest message: 8 KiB and what the layers above say of it */
    UCX_SMALL_SIGNAL = 2048,      /* rma: a put with a signal up to this size travels in a message */
    UCX_WINDOW = 4,               /* fragments of a stream in flight */
    UCX_STREAMS = 1024            /* long puts and flushes that are under way */
};
#define UCX_CHUNK ((uint64_t)1 << 30) /* largest single put or get that UCX is given */

/* What the header of a message says. All of it in the byte order of the machine: the ranks of a job have the same. */
enum ucx_kind {
    UCX_MSG,      /* a message of the layer above; id in `id` */
    UCX_PUT,      /* data for a region; slot is counted when has_signal */
    UCX_SIGNAL,   /* a bare signal */
    UCX_GET,      /* asks for data: token, key, offset, len */
    UCX_GET_DATA, /* answer: token, offset into the destination */
    UCX_GET_FAIL, /* answer: the key is not valid */
    UCX_FLUSH,    /* asks for an acknowledgement: token */
    UCX_ACK,      /* everything up to token has been handled; has_signal: a put was refused since the last one */
    UCX_HELLO,    /* first message of a pair: the sender's address */
    UCX_BYE       /* the sender closes its transport */
};

struct ucx_wire {
    uint8_t header_len; /* bytes of this header that are sent */
    uint8_t kind;
    uint8_t id;
    uint8_t has_signal;
    uint32_t source;
    /* the rest only where it is needed */
    uint32_t slot;
    uint32_t key_id;
    uint32_t key_gen;
    uint32_t unused;
    uint64_t offset;
    uint64_t token;
    uint64_t len;
};
#define UCX_WIRE_SHORT  offsetof(struct ucx_wire, slot)    /* MSG, HELLO, BYE */
#define UCX_WIRE_SIGNAL offsetof(struct ucx_wire, key_id)  /* SIGNAL */
#define UCX_WIRE_PUT    offsetof(struct ucx_wire, token)   /* PUT */
#define UCX_WIRE_TOKEN  offsetof(struct ucx_wire, len)     /* GET_DATA, GET_FAIL, FLUSH, ACK */
#define UCX_WIRE_FULL   sizeof(struct ucx_wire)            /* GET */

struct ucx;
struct ucx_peer;

/* A request: its address is the request handle given to UCX, whose own bytes stand before it. */
struct ucx_req {
    struct wr_list link; /* free, finished, or among a peer's waiting gets */
    struct ucx *u;
    struct ucx_peer *peer;
    void (*complete)(struct ucx_req *r, weir_status status); /* called once by progress() */
    struct wr_op *op;                                        /* of the layer above, NULL: nobody waits */
    struct ucx_req *next;                                    /* started after this one (a signal after its data) */
    struct ucx_stream *stream;                               /* whose fragment this is */
    struct ucx_group *group;                                 /* of a flush */
    void *buffer;                                            /* from u->buffers, or NULL */
    struct wr_rkey *rkey;
    char *local;                                             /* rma and get: what is left to transfer */
    uint64_t remote, left;
    uint64_t mark;   /* flush: what becomes visible */
    uint32_t serial; /* changes with each use, so that late answers are recognised */
    weir_status status;
    ucp_dt_iov_t iov[3];
    struct ucx_wire wire;
    char data[UCX_INLINE];
};

/* What is sent piece by piece, in the order in which it was started: a long put, the answer to a get, a flush. */
struct ucx_stream {
    struct wr_list link; /* peer->streams until all is handed to UCX; a flush then waits in peer->awaiting */
    struct ucx_peer *peer;
    struct wr_op *op;
    struct ucx_group *group; /* of a flush */
    const char *src;
    uint64_t left;
    uint64_t mark; /* of a flush: peer->am_sent when it was asked for */
    unsigned in_flight;
    bool counted;   /* of the layer above, not an answer */
    bool signal;    /* of a put */
    weir_status status;
    struct ucx_wire wire;
};

/* One flush over one or all peers. */
struct ucx_group {
    struct wr_op *op;        /* NULL for a fence */
    struct ucx_peer *fenced; /* the peer whose fence this is */
    unsigned waiting;
    weir_status status;
};

struct ucx_peer {
    struct ucx *u;
    ucp_ep_h ep; /* NULL: not connected */
    int rank;
    bool connected;   /* connect() was called */
    bool messages;    /* data goes in messages (see above) */
    bool one_lane;    /* ucp_worker_fence() orders puts and messages */
    bool peer_errors; /* UCX reports errors of this endpoint */
    bool failed;      /* UCX reported one; handled by the next progress() */
    bool lost, departed;
    bool locks;           /* reached over a device that needs locked memory */
    bool proven;          /* something has left for it */
    int64_t silent_since; /* else when something was to leave first, where that is looked after (ucx_silent.c); 0 otherwise */
    bool fencing;     /* a fence is pending */
    bool refused;     /* a put of this peer had no valid key; told with the next acknowledgement */
    bool ack_owed;
    uint64_t ack_token;
    uint64_t am_sent, am_visible;   /* puts in messages: started, known to be visible */
    uint64_t rma_sent, rma_visible; /* puts of UCX */
    uint64_t flush_token;           /* last one sent */
    struct wr_list streams;         /* struct ucx_stream */
    struct wr_list awaiting;        /* flushes that wait for an acknowledgement */
    struct wr_list gets;            /* struct ucx_req that wait for data */
    struct wr_list busy;            /* in u->busy when there is something to send */
    struct wr_list link;            /* in u->connected when there is an endpoint */
    void *address;                  /* what it said in its hello */
    size_t address_len;
};

struct wr_region {
    char *addr;
    uint64_t len;
    unsigned flags;
    uint32_t id, gen;
    ucp_mem_h memh; /* NULL for an empty region */
};

struct wr_rkey {
    int peer;
    uint64_t base, len;
    uint32_t id, gen;
    ucp_rkey_h rkey; /* NULL until it is needed */
    ucp_ep_h ep;     /* that it was unpacked for */
    size_t packed_len;
    char packed[];
};

struct ucx {
    struct wr_transport base;
    ucp_context_h context;
    ucp_worker_h worker;
    struct ucx_api api;
    ucp_address_t *address;
    size_t address_len;
    int fd;                  /* of the worker, -1 when there is none */
    bool own_shm;            /* the user named UCX's shared memory in UCX_TLS */
    bool only_shm;           /* and nothing else */
    bool closing;
    uint64_t locked_limit;   /* of locked memory; UINT64_MAX: none */
    unsigned nsilent;        /* peers with silent_since */
    uint64_t fragment;       /* bytes of data in one message */
    char provider[32], device[32];
    struct ucx_peer *peers;
    struct wr_list connected; /* peers with an endpoint */
    struct wr_list busy;      /* peers with something to send */
    struct wr_list finished;  /* requests that UCX completed */
    struct wr_list ended;     /* streams, likewise */
    struct wr_list free;      /* requests */
    unsigned nfree;
    unsigned nstreams;        /* of the layer above */
    char *requests;           /* the array of them */
    size_t request_stride, request_before;
    struct wr_pool buffers, streams, groups;
    struct wr_region **regions; /* by id */
    uint32_t nregions, next_gen;
};

static inline struct ucx *ucx_of(const struct wr_transport *t)
{
    return (struct ucx *)(uintptr_t)t;
}

/* ucx.c */
/* Gives back requests that UCX completed without telling anybody: for close(). */
void wr_ucx_drop_finished(struct ucx *u);
weir_status wr_ucx_status(ucs_status_t status);
/* The error of a call of UCX on a peer (NULL: none in particular). */
weir_status wr_ucx_error(ucs_status_t status, const struct ucx_peer *peer, const char *what, weir_error *err);

/* ucx_config.c: opens the context with the user's settings and ours. */
weir_status wr_ucx_context_open(struct ucx *u, weir_error *err);

/* ucx_peer.c */
weir_status wr_ucx_connect(struct wr_transport *t, int peer, weir_error *err);
/* Makes the endpoint of a peer whose address is known; WEIR_OK when there is one. */
weir_status wr_ucx_peer_open(struct ucx_peer *p, const void *address, size_t len, weir_error *err);
/* Completes everything that waits for the peer with WEIR_ERR_PEER_LOST. */
void wr_ucx_peer_fail(struct ucx_peer *p, const char *reason);
void wr_ucx_peers_close(struct ucx *u);
/* Whether operations on the peer can be started; otherwise the error. */
weir_status wr_ucx_peer_usable(struct ucx *u, int peer, struct ucx_peer **p, weir_error *err);

/* ucx_mem.c */
weir_status wr_ucx_reg(struct wr_transport *t, void *addr, uint64_t len, unsigned flags, struct wr_region **region,
                    weir_error *err);
void wr_ucx_dereg(struct wr_transport *t, struct wr_region *region);
weir_status wr_ucx_key_export(struct wr_transport *t, struct wr_region *region, void *buf, size_t *len, weir_error *err);
weir_status wr_ucx_key_import(struct wr_transport *t, int peer, const void *key, size_t len, struct wr_rkey **rkey,
                           weir_error *err);
void wr_ucx_key_close(struct wr_transport *t, struct wr_rkey *rkey);
/* The place in a region that a message names, NULL when key, bounds or permission are not right. */
char *wr_ucx_region_place(struct ucx *u, const struct ucx_wire *wire, uint64_t len, unsigned flags);
/* Checks peer and bounds; unpacks the key for the endpoint when `unpack`. */
weir_status wr_ucx_rkey_check(struct ucx_peer *p, struct wr_rkey *k, uint64_t offset, uint64_t len, bool unpack,
                           weir_error *err);

/* ucx_req.c: requests and sending. */
struct ucx_req *wr_ucx_req_get(struct ucx *u, struct ucx_peer *p, bool reserved);
void wr_ucx_req_put(struct ucx_req *r);
uint64_t wr_ucx_req_token(const struct ucx_req *r);
struct ucx_req *wr_ucx_req_find(struct ucx *u, uint64_t token);
weir_status wr_ucx_requests_open(struct ucx *u, weir_error *err);
void wr_ucx_requests_close(struct ucx *u);
/* Sends r->wire and data; consumes the request when it returns UCS_OK or an error. */
ucs_status_t wr_ucx_send(struct ucx_req *r, const void *data, size_t len);
/* The same with the bytes in r->data before the data, `start_len` of them. */
ucs_status_t wr_ucx_send_behind(struct ucx_req *r, size_t start_len, const void *data, size_t len);
void wr_ucx_complete_op(struct ucx_req *r, weir_status status);
void wr_ucx_header(struct ucx_req *r, enum ucx_kind kind, size_t header_len);

/* ucx_rma.c, ucx_message.c: data over UCX's puts and gets, and in messages. */
weir_status wr_ucx_rma_put(struct ucx_peer *p, const void *src, uint64_t len, struct wr_rkey *k, uint64_t offset,
                        struct wr_op *op, const uint32_t *slot, weir_error *err);
weir_status wr_ucx_rma_get(struct ucx_peer *p, void *dst, uint64_t len, struct wr_rkey *k, uint64_t offset,
                        struct wr_op *op, weir_error *err);
weir_status wr_ucx_message_put(struct ucx_peer *p, const void *src, uint64_t len, struct wr_rkey *k, uint64_t offset,
                            struct wr_op *op, const uint32_t *slot, weir_error *err);
weir_status wr_ucx_message_get(struct ucx_peer *p, void *dst, uint64_t len, struct wr_rkey *k, uint64_t offset,
                            struct wr_op *op, weir_error *err);
weir_status wr_ucx_signal_send(struct ucx_peer *p, uint32_t slot, weir_error *err);

/* ucx_stream.c */
/* Takes a stream at the end of the peer's queue; NULL when there are too many. */
struct ucx_stream *wr_ucx_stream_new(struct ucx_peer *p, bool counted);
void wr_ucx_stream_free(struct ucx_stream *s);
/* Hands to UCX what fits; called by whoever queued something and by progress(). */
void wr_ucx_pump(struct ucx_peer *p);
/* Ends a stream that needs nothing more; called by progress(). */
void wr_ucx_stream_end(struct ucx_stream *s);
void wr_ucx_has_work(struct ucx_peer *p);

/* ucx_flush.c */
weir_status wr_ucx_flush(struct wr_transport *t, int peer, struct wr_op *op, weir_error *err);
/* WEIR_OK when the next operation (a message or not) comes after all earlier puts; BUSY while that is being arranged. */
weir_status wr_ucx_fence(struct ucx_peer *p, bool message, weir_error *err);
void wr_ucx_group_done(struct ucx *u, struct ucx_group *g, weir_status status);
void wr_ucx_acked(struct ucx_peer *p, uint64_t token, bool refused);

/* ucx_silent.c */
/* Bytes of memory that this process may lock; UINT64_MAX where there is no limit. */
uint64_t wr_ucx_locked_limit(void);
/* Whether a transport of UCX ("rc_verbs") needs locked memory. */
bool wr_ucx_locks_memory(const char *transport);
/* Something has left for a peer, of which nothing had; or the first is to leave. */
void wr_ucx_note_sent(struct ucx_peer *p, bool left);
/* Gives up those to which nothing has left for too long; how many. */
int wr_ucx_look_for_silent(struct ucx *u);

/* ucx_receive.c */
void wr_ucx_receive(void *arg, const void *header, size_t header_len, const void *data, size_t len);

#endif
