/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside of the shm transport.
 *
 * The ranks of a node share one *control segment*, a memfd that the node's first rank makes and mails to the others:
 *
 *     header | a block for each rank | a ring for each ordered pair of ranks
 *
 * It is reserved as address space; only what is used gets memory. A block holds what a rank shows to the others: its
 * sleeper word, who has begun to send to it, and the generations of its regions. A ring carries messages, signals and
 * staged data from one rank to one other.
 */
#ifndef WR_SHM_IMPL_H
#define WR_SHM_IMPL_H

#include "base/atomic.h"
#include "base/compiler.h"
#include "base/list.h"
#include "base/pool.h"
#include "comm/transport/shm/mail.h"
#include "comm/transport/shm/shm.h"

enum {
    WR_SHM_MAGIC = 0x77656972,
    WR_SHM_NODE_MAX = 1024,   /* ranks a node */
    WR_SHM_INLINE = 56,       /* bytes that travel in the line of their slot */
    WR_SHM_MAX_AM = 8192,     /* header and payload of a message */
    WR_SHM_REGIONS = 16384,   /* regions of one rank at a time */
    WR_SHM_REPLIES = 8,       /* requests (get, flush) in flight a pair, where a peer must answer */
    WR_SHM_PENDING = 4096,    /* operations in flight of a rank */
    WR_SHM_CHUNK = 256 << 10  /* bytes of cross-memory attach between two looks at the rings */
};

/* ---- shared memory ---- */

/* What a slot of a ring carries. */
enum wr_shm_kind {
    WR_SHM_MESSAGE = 1,
    WR_SHM_SIGNAL,      /* aux: slot of the signal */
    WR_SHM_PUT_DATA,    /* staged put: struct wr_shm_staged, then bytes */
    WR_SHM_GET_REQUEST, /* struct wr_shm_staged */
    WR_SHM_GET_DATA,    /* struct wr_shm_staged, then bytes */
    WR_SHM_GET_FAILED,  /* struct wr_shm_staged */
    WR_SHM_FLUSH,       /* struct wr_shm_staged */
    WR_SHM_FLUSHED      /* struct wr_shm_staged */
};

/*
 * One cache line. `word` is written last and read first: sequence number of the slot's lap in the low half, then length,
 * kind and message id. Up to WR_SHM_INLINE bytes stand in the line itself; longer ones stand in the ring's data area at
 * an offset that `data` begins with.
 */
struct wr_shm_slot {
    uint64_t word;
    unsigned char data[WR_SHM_INLINE];
} WR_ALIGNED(WR_CACHE_LINE);

struct wr_shm_ring {
    uint32_t consumed; /* slots that the receiver has handled; written by it, lazily */
    struct wr_shm_slot slots[] WR_ALIGNED(WR_FLAG_LINE);
};

/* Head of a record of a staged operation. */
struct wr_shm_staged {
    uint32_t id;         /* of the request, where there is an answer */
    uint32_t region;     /* slot of the region at its owner */
    uint32_t generation; /* of the region */
    uint32_t reserved;
    uint64_t offset, len;
};

/* How a rank sleeps. */
enum { WR_SHM_AWAKE, WR_SHM_IN_FUTEX, WR_SHM_IN_EPOLL };

struct wr_shm_block {
    /* written once, before `joined` */
    uint32_t joined;
    int32_t pid; /* in the owner's pid namespace */
    uint32_t expedited;      /* takes part in expedited global barriers: needs no fence when it sends ... */
    uint32_t barriers;       /* ... to a rank that asks for such a barrier before it sleeps */
    uint64_t probe;          /* address in the owner's private memory of `nonce` */
    uint8_t nonce[16];
    uint32_t closed; /* the owner has left in order */

    uint32_t sleeping WR_ALIGNED(WR_FLAG_LINE); /* WR_SHM_AWAKE ... */

    /* Ranks (by index on the node) that have begun to send. */
    uint64_t callers[WR_SHM_NODE_MAX / 64] WR_ALIGNED(WR_FLAG_LINE);

    /* Odd: the region lives. A key holds the value of its region's slot when it was made. */
    uint32_t generations[WR_SHM_REGIONS] WR_ALIGNED(4096);
};

struct wr_shm_control {
    uint32_t magic, nranks;
    uint32_t slots, data_bytes; /* of a ring; the slots are a power of two */
    uint64_t ring_bytes, rings_at;
};

/* ---- this process ---- */

/* A mapping that the ranks of one process share: it ends with the last of them. */
struct wr_shm_mapping {
    int refs;
    char *base;
    uint64_t len;
    void *reserved; /* what to unmap: `base` may be aligned inside it */
    uint64_t reserved_len;
};

/* What address() gives. Plain data. */
struct wr_shm_address {
    uint32_t magic;
    int32_t rank, pid;
    uint32_t uid;
    uint64_t pid_namespace;
    struct wr_mail_address mail;
};

enum wr_shm_attach { WR_SHM_ATTACH_UNKNOWN, WR_SHM_ATTACH_DIRECT, WR_SHM_ATTACH_CMA, WR_SHM_ATTACH_NONE };

/* A request of a peer that waits for room in the ring to it. */
struct wr_shm_reply {
    int kind; /* of the answer */
    struct wr_shm_staged head;
    uint64_t done;
};

struct wr_shm_peer {
    struct wr_shm_block *block;
    /* sending */
    struct wr_shm_ring *tx;
    uint32_t sent, tx_seen; /* slots written; `consumed` as last seen */
    uint64_t data_at;       /* bytes of the data area ever used, padding included */
    uint64_t *data_after;   /* data_at after each slot of a lap */
    bool fence;             /* a full fence before the look at the peer's sleeper word */
    bool connected, starved;
    /* receiving */
    struct wr_shm_ring *rx;
    uint32_t received, published;
    uint32_t unpublished_bytes;
    bool active, receiving;
    /* operations */
    unsigned pending;  /* puts in the pending list */
    unsigned awaiting; /* requests in it that wait for an answer */
    uint32_t passed;   /* pass over the pending list in which it was served */
    uint32_t staged, arrived; /* staged puts; those that are known to have arrived */
    unsigned nreplies;
    struct wr_shm_reply replies[WR_SHM_REPLIES];
    /* the process */
    int rank;
    pid_t pid; /* as seen from here, 0: not visible */
    enum wr_shm_attach attach;
    int life; /* pidfd or tie, -1: not watched */
    bool same_process, lost;
    bool known; /* `address` is filled in */
    struct wr_shm_address address;
};

struct wr_region {
    struct wr_list link;
    char *addr;
    uint64_t len;
    uint32_t slot, generation;
    struct wr_shm_segment *segment; /* that it lies in, or NULL */
    uint64_t segment_offset;
};

struct wr_rkey {
    struct wr_list link;
    struct wr_shm_peer *peer;
    const uint32_t *generation_word;
    uint32_t slot, generation;
    uint64_t len;
    char *mapped;     /* the region in this process's memory, or NULL */
    uint64_t remote;  /* the region's address in its owner's */
    struct wr_shm_segment *segment;
    uint64_t segment_offset;
    bool stale; /* its segment was freed here */
};

enum wr_shm_pending_kind { WR_SHM_PEND_PUT, WR_SHM_PEND_GET, WR_SHM_PEND_FLUSH };

struct wr_shm_pending {
    struct wr_list link;
    enum wr_shm_pending_kind kind;
    bool requested; /* an answer is awaited */
    bool staged;    /* through the rings */
    bool signal;    /* to be counted at signal_slot afterwards */
    uint32_t id, signal_slot, region, generation;
    uint32_t mark; /* flush: `staged` of the peer when it was sent */
    struct wr_shm_peer *peer;
    char *local;
    uint64_t remote; /* address of the region in the peer's memory */
    char *mapped;
    uint64_t offset, len, done;
    struct wr_op *op;
    struct wr_shm_pending *whole; /* the flush of all peers that this one is a part of ... */
    unsigned parts;               /* ... and how many parts that one has left */
    weir_status status;           /* of the parts that have ended */
};

struct wr_shm {
    struct wr_transport base;
    struct wr_mailbox mail;
    struct wr_shm_address address;
    uint8_t nonce[16]; /* read by peers that probe cross-memory attach */
    int me, n;         /* index on the node, ranks there */
    struct wr_shm_mapping *mapping;
    struct wr_shm_control *control;
    struct wr_shm_block *block; /* this rank's */
    struct wr_shm_peer *peers;
    uint64_t *data_after;
    bool one_block; /* node ranks are consecutive numbers */
    bool expedited, barriers;
    bool attach_off;
    /* progress */
    uint64_t known[WR_SHM_NODE_MAX / 64];
    struct wr_shm_peer **active;
    int nactive;
    int nreplying; /* peers with replies that wait for room */
    struct wr_list pending;
    struct wr_pool pool;
    uint32_t next_id, pass;
    uint32_t removed; /* entries ever taken out of `pending` */
    bool (*user_pending)(void *arg); /* of wr_shm_set_pending(), may be NULL */
    void *user_pending_arg;
    bool restless; /* operations in flight may move without anything coming in */
    bool look;     /* look for dead peers at the next occasion */
    unsigned idle;
    int64_t life_checked;
    int events; /* epoll set: bell, letters, lives of peers */
    uint32_t kicked; /* unblock() was called; by any thread */
    /* memory */
    struct wr_list segments, regions, rkeys;
    struct wr_pool region_pool, rkey_pool;
    uint64_t next_segment;
    struct wr_region **region_table;
    uint32_t region_room, region_hint;
};

static inline struct wr_shm *wr_shm_of(const struct wr_transport *t)
{
    return WR_CONTAINER_OF(t, struct wr_shm, base);
}

/* ---- control.c: joining the node ---- */

weir_status wr_shm_join(struct wr_shm *s, weir_error *err);
/* This rank's address book: fills in peers[index].address. */
weir_status wr_shm_find_address(struct wr_shm *s, int index, weir_error *err);
/* Makes the ring to a peer usable for sending (local, no waiting). */
weir_status wr_shm_open_ring(struct wr_shm *s, struct wr_shm_peer *p, weir_error *err);
uint64_t wr_shm_block_bytes(void);

/* Memory of a descriptor: maps all of it, aligned to `align`. */
weir_status wr_shm_map(int fd, uint64_t len, uint64_t align, struct wr_shm_mapping **mapping, weir_error *err);
void wr_shm_unmap(struct wr_shm_mapping *mapping);
/* Reserves and populates [addr, addr + len) = [at, at + len) of fd; WEIR_ERR_NO_MEMORY when it cannot be had. */
weir_status wr_shm_populate(int fd, char *addr, uint64_t at, uint64_t len, weir_error *err);
/* Hands `mapping` (and fd, for those in other processes) to a rank of the node, or tells it of a failure. */
weir_status wr_shm_hand_over(struct wr_shm *s, int index, int kind, uint64_t tag, uint64_t value, int fd,
                             struct wr_shm_mapping *mapping, weir_status failure, weir_error *err);
/* Takes what wr_shm_hand_over() of `index` sent; *fd is -1 when the mapping came with it. */
weir_status wr_shm_take_over(struct wr_shm *s, int index, int kind, uint64_t tag, uint64_t *value, int *fd,
                             struct wr_shm_mapping **mapping, weir_error *err);

/* ---- ring.c: messages ---- */

/* Writes a record, from two pieces. WEIR_OK, WEIR_ERR_BUSY or WEIR_ERR_PEER_LOST (err is filled then). */
weir_status wr_shm_send(struct wr_shm *s, struct wr_shm_peer *p, int kind, unsigned id, const void *a, size_t alen,
                        const void *b, size_t blen, weir_error *err);
/* Handles at most `budget` records of a peer; returns how many. */
int wr_shm_receive(struct wr_shm *s, struct wr_shm_peer *p, int budget);
/* Whether a record of `len` bytes can be sent now; when not, the peer counts as starved. */
bool wr_shm_has_room(struct wr_shm *s, struct wr_shm_peer *p, size_t len);
/* Whether a record of that peer waits. */
bool wr_shm_has_record(const struct wr_shm *s, const struct wr_shm_peer *p);
/* Whether the ring to a peer that was found full has room again. */
bool wr_shm_has_credit(struct wr_shm *s, struct wr_shm_peer *p);
/* Wakes a peer if it sleeps. */
void wr_shm_wake(struct wr_shm *s, struct wr_shm_peer *p);

/* ---- rma.c and staged.c: one-sided operations ---- */

weir_status wr_shm_put(struct wr_transport *t, int peer, const void *src, struct wr_region *region, uint64_t len,
                       struct wr_rkey *rkey, uint64_t offset, unsigned flags, struct wr_op *op, weir_error *err);
weir_status wr_shm_put_signal(struct wr_transport *t, int peer, const void *src, struct wr_region *region, uint64_t len,
                              struct wr_rkey *rkey, uint64_t offset, uint32_t slot, unsigned flags, struct wr_op *op,
                              weir_error *err);
weir_status wr_shm_get(struct wr_transport *t, int peer, void *dst, struct wr_region *region, uint64_t len,
                       struct wr_rkey *rkey, uint64_t offset, struct wr_op *op, weir_error *err);
weir_status wr_shm_flush(struct wr_transport *t, int peer, struct wr_op *op, weir_error *err);
/* Moves operations that are in flight; returns how many steps were made. */
int wr_shm_push_pending(struct wr_shm *s);
/* Ends all operations in flight to a peer that is lost. */
void wr_shm_fail_pending(struct wr_shm *s, struct wr_shm_peer *p);
/* Ends one operation in flight. */
void wr_shm_pending_end(struct wr_shm *s, struct wr_shm_pending *e, weir_status status);

/* One step of a staged operation: WEIR_IN_PROGRESS (it waits for an answer or has more to send), WEIR_ERR_BUSY (no room),
 * or how it ended. */
weir_status wr_shm_staged_step(struct wr_shm *s, struct wr_shm_pending *e);
/* The same by cross-memory attach. WEIR_ERR_UNSUPPORTED: it turned out to be forbidden, nothing has moved. */
weir_status wr_shm_attach_step(struct wr_shm *s, struct wr_shm_pending *e);
/* A record of a staged operation came in. */
void wr_shm_staged_record(struct wr_shm *s, struct wr_shm_peer *p, int kind, const char *data, size_t len);
/* Answers that wait for room. */
int wr_shm_push_replies(struct wr_shm *s);

/* ---- region.c: registration and keys ---- */

weir_status wr_shm_reg(struct wr_transport *t, void *addr, uint64_t len, unsigned flags, struct wr_region **region,
                       weir_error *err);
void wr_shm_dereg(struct wr_transport *t, struct wr_region *region);
weir_status wr_shm_key_export(struct wr_transport *t, struct wr_region *region, void *buf, size_t *len, weir_error *err);
weir_status wr_shm_key_import(struct wr_transport *t, int peer, const void *key, size_t len, struct wr_rkey **rkey,
                              weir_error *err);
void wr_shm_key_close(struct wr_transport *t, struct wr_rkey *rkey);
/* The living region in a slot of this rank, when [offset, offset + len) lies in it; or NULL. */
struct wr_region *wr_shm_region_at(struct wr_shm *s, uint32_t slot, uint32_t generation, uint64_t offset, uint64_t len);

/* ---- segment.c ---- */

/* The segment that [addr, addr + len) lies in, or NULL. */
struct wr_shm_segment *wr_shm_segment_of(struct wr_shm *s, const void *addr, uint64_t len, uint64_t *offset);
/* The segment that a key names, or NULL when this rank has not joined it. */
struct wr_shm_segment *wr_shm_segment_find(struct wr_shm *s, int leader, uint64_t id, uint64_t offset, uint64_t len);
void wr_shm_segment_name(const struct wr_shm_segment *seg, int *leader, uint64_t *id);
char *wr_shm_segment_at(const struct wr_shm_segment *seg, uint64_t offset);
/* Makes page table entries for a range before it is used, where that was not done yet. */
void wr_shm_segment_prepare(struct wr_shm_segment *seg, uint64_t offset, uint64_t len);
void wr_shm_segments_close(struct wr_shm *s);

/* ---- life.c: loss of peers, sleeping ---- */

/* Begins to watch the process of a peer. */
weir_status wr_shm_watch(struct wr_shm *s, struct wr_shm_peer *p, weir_error *err);
/* Looks for the end of peers; returns the number of those that were found lost. */
int wr_shm_check_lives(struct wr_shm *s);
void wr_shm_lose(struct wr_shm *s, struct wr_shm_peer *p, const char *reason);
weir_status wr_shm_error_lost(const struct wr_shm_peer *p, weir_error *err);
/* Finds out how peers reach each other's private memory. */
void wr_shm_probe_attach(struct wr_shm *s, struct wr_shm_peer *p);

int wr_shm_wait_fd(struct wr_transport *t);
bool wr_shm_arm(struct wr_transport *t);
void wr_shm_disarm(struct wr_transport *t);
void wr_shm_block_on(struct wr_transport *t, int64_t timeout_ns, void (*release)(void *arg), void (*acquire)(void *arg),
                     void *arg);
void wr_shm_unblock(struct wr_transport *t);

/* ---- shm.c ---- */

/* The node's rank `rank`, or NULL. */
struct wr_shm_peer *wr_shm_peer_of(const struct wr_shm *s, int rank);
int wr_shm_progress(struct wr_transport *t);

#endif
