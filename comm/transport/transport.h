/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A transport moves bytes between ranks. Every transport (shm, ofi, ucx, self) and every layer that stands on another
 * one (trace, fault, contrary) is an ops table over the state of one rank; layers above see only this header.
 *
 * Rules that hold for all of them
 *  1. One thread at a time is inside a transport (the owner holds the context's lock). Callbacks run inside progress() or
 *     inside the call that caused them, and may start operations but not call progress(), connect() or close().
 *  2. An operation returns WEIR_OK (complete, `op` is not touched again), WEIR_IN_PROGRESS (op->done will be called once,
 *     from progress()), WEIR_ERR_BUSY (nothing happened: a queue is full or a fence is pending; call progress() and try
 *     again) or an error (nothing happened and op->done is not called). `err` is filled for errors other than BUSY.
 *  3. Complete means for put and put_signal: the local memory may be reused. It says nothing about the target; flush() and
 *     signals do. For get: the data is in local memory.
 *  4. Nothing is ordered, unless asked for: a put may become visible after a later put, signal or message. A signal of
 *     put_signal() is counted at the target only when its own data is visible there. WR_OP_FENCE makes an operation wait
 *     for all earlier puts of this rank to that peer. Messages of one pair arrive in the order in which they were sent.
 *  5. Between connect() and close() an operation does not allocate memory. On the node (caps.mapped) it makes no system
 *     call either, but for waking a sleeper and for cross-memory attach.
 *  6. Before the first operation on a peer, connect(). A transport connects to the peers that are used, not to all.
 *  7. Remote memory is named by an imported key and an offset into the region, never by an address.
 *  8. When a peer is found to be lost, on_peer_lost is called once, all operations in flight to it complete with
 *     WEIR_ERR_PEER_LOST, and later ones fail with it. Not every transport can tell.
 *  9. Lengths are 64-bit; an operation longer than caps.max_put is cut inside the transport.
 */
#ifndef WR_TRANSPORT_H
#define WR_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/status.h>

#include "base/config.h"
#include "base/log.h"

enum {
    WR_AM_HANDLERS = 16,    /* message handlers: ids 0..15 */
    WR_AM_LONG_HEADER = 64, /* most bytes of the header of am_long() */
    WR_ADDRESS_MAX = 4096,  /* most bytes of a transport's address */
    WR_KEY_MAX = 1024,      /* most bytes of an exported key */
    WR_SIGNAL_MAX = 1 << 20 /* slots fit the smallest immediate (4 bytes) with room for a kind */
};

/* Flags of operations. */
enum { WR_OP_FENCE = 1 };

/* Flags of reg(): what peers may do with the region. */
enum { WR_REG_REMOTE_WRITE = 1, WR_REG_REMOTE_READ = 2 };

/* The completion of one operation; embedded by the caller in an object that lives until `done` was called. */
struct wr_op {
    void (*done)(struct wr_op *op, weir_status status);
};

enum wr_signal_kind {
    WR_SIGNAL_MESSAGE,  /* a message follows the data, after a fence or flush */
    WR_SIGNAL_IMMEDIATE /* travels with the data */
};

struct wr_transport_caps {
    bool put, get;                   /* one-sided operations on registered memory */
    bool mapped;                     /* segments of peers can be mapped and used by plain loads and stores */
    bool ordered;                    /* the library below keeps put, signal and message of a pair in order */
    bool needs_local_region;         /* put and get above `inject` bytes need a registered local buffer (FI_MR_LOCAL) */
    bool detects_peer_loss;          /* rule 8 */
    enum wr_signal_kind signal_kind;
    unsigned immediate_bytes;        /* width of an immediate: 0, 4 or 8 */
    uint64_t max_put;                /* largest single transfer of the library below (see rule 9) */
    size_t max_am;                   /* largest message, header included; at least 1024 */
    size_t inject;                   /* put up to this size copies and completes at once when there is room */
    size_t eager_put;                /* up to this size a message is faster than a put (0: never) */
    unsigned memory_modes;           /* FI_MR_* bits or 0, for showing */
    unsigned rails;                  /* network interfaces in use, at least 1 */
    const char *provider;            /* e.g. "tcp;ofi_rxm", "rc_verbs", "memfd"; owned by the transport */
    const char *device;              /* e.g. "mlx5_0", "eth0"; "" when there is none */
};

struct wr_transport;
struct wr_region; /* local registration; each transport has its own definition */
struct wr_rkey;   /* imported key of a peer's region; likewise */

/* Handles a message. `data` (header and payload) is valid during the call only and may be unaligned. */
typedef void (*wr_am_handler)(void *arg, int source, const void *data, size_t len);

struct wr_transport_params {
    const struct wr_config *config;
    const struct wr_env *env;
    const struct wr_log *log;     /* may be NULL */
    int rank, size;               /* in the context's world */
    int node_rank, node_size;     /* this rank's index among the ranks that share memory with it, and their number */
    const int *node_ranks;        /* those ranks, ascending; node_ranks[node_rank] == rank */
    int numa;                     /* this rank's NUMA domain (OS index), -1 when unknown */
    const char *nic;              /* name of the network interface to prefer ("eth0", "mlx5_0"), NULL for any */
    /* The address that `peer` published; valid until close(). May block (asks the launcher the first time). */
    weir_status (*peer_address)(void *arg, int peer, const void **address, size_t *len, weir_error *err);
    /* The peer is lost (rule 8). May be NULL. */
    void (*on_peer_lost)(void *arg, int peer, const char *reason);
    void *arg;                        /* for the two above */
    wr_am_handler am[WR_AM_HANDLERS]; /* NULL: a message for it is a protocol error, logged and dropped */
    void *am_arg;
    /* Signal counters of this rank: a signal with slot s adds 1 to signals[s] from inside progress(), after its data is
     * visible. Slots out of range are a protocol error, logged and dropped. */
    uint64_t *signals;
    uint32_t nsignals;
    int64_t timeout_ns; /* for the waits of start() and connect(), WR_TIME_INF for none */
};

struct wr_transport_ops {
    const char *name; /* "shm", "ofi", "ucx", "self", "trace", "fault", "contrary" */

    /* Opens devices and makes this rank's address; talks to no other rank. WEIR_ERR_UNSUPPORTED: nothing to open here. */
    weir_status (*open)(const struct wr_transport_params *params, struct wr_transport **transport, weir_error *err);
    /* Writes this rank's address for others' peer_address(); *len is the room on entry (WR_ADDRESS_MAX suffices). */
    weir_status (*address)(struct wr_transport *t, void *buf, size_t *len, weir_error *err);
    /* After all ranks' addresses have been published: what needs the others, e.g. joining the node's segment. Collective
     * over the ranks that the transport reaches. May be NULL. */
    weir_status (*start)(struct wr_transport *t, weir_error *err);
    /* Not collective; peers may be gone already. From its beginning on nothing is called: operations still in flight do not
     * complete, messages that come are dropped, and losses are not told. */
    void (*close)(struct wr_transport *t);

    /* Whether this transport can reach a rank at all. */
    bool (*reaches)(const struct wr_transport *t, int peer);
    /* Makes a peer usable; cheap when it is already. May wait, with progress inside, at most timeout_ns. */
    weir_status (*connect)(struct wr_transport *t, int peer, weir_error *err);

    /* Registers [addr, addr + len) with WR_REG_* flags. */
    weir_status (*reg)(struct wr_transport *t, void *addr, uint64_t len, unsigned flags, struct wr_region **region,
                       weir_error *err);
    /* Operations in flight on the region must have completed. */
    void (*dereg)(struct wr_transport *t, struct wr_region *region);
    /* Writes a key for peers; *len is the room on entry (WR_KEY_MAX suffices). */
    weir_status (*key_export)(struct wr_transport *t, struct wr_region *region, void *buf, size_t *len, weir_error *err);
    weir_status (*key_import)(struct wr_transport *t, int peer, const void *key, size_t len, struct wr_rkey **rkey,
                              weir_error *err);
    void (*key_close)(struct wr_transport *t, struct wr_rkey *rkey);

    /* Writes `len` bytes to offset `offset` of the peer's region. `region` covers `src`, or is NULL. */
    weir_status (*put)(struct wr_transport *t, int peer, const void *src, struct wr_region *region, uint64_t len,
                       struct wr_rkey *rkey, uint64_t offset, unsigned flags, struct wr_op *op, weir_error *err);
    /* The same, then counts 1 at the peer's signal `slot`. len 0 (rkey may then be NULL) is a bare signal. */
    weir_status (*put_signal)(struct wr_transport *t, int peer, const void *src, struct wr_region *region, uint64_t len,
                              struct wr_rkey *rkey, uint64_t offset, uint32_t slot, unsigned flags, struct wr_op *op,
                              weir_error *err);
    /* Reads `len` bytes from offset `offset` of the peer's region. `region` covers `dst`, or is NULL. */
    weir_status (*get)(struct wr_transport *t, int peer, void *dst, struct wr_region *region, uint64_t len,
                       struct wr_rkey *rkey, uint64_t offset, struct wr_op *op, weir_error *err);
    /* Sends header and payload (together at most caps.max_am) to handler `id`; both are copied: WEIR_OK, BUSY or an error.
     * WR_OP_FENCE: handled after all earlier puts to that peer are visible there. */
    weir_status (*am)(struct wr_transport *t, int peer, unsigned id, const void *header, size_t header_len,
                      const void *payload, size_t len, unsigned flags, weir_error *err);
    /* The same for messages of up to am_long_max() bytes, header included, whose payload is read from the caller's memory
     * until the operation is complete (WEIR_OK, IN_PROGRESS, BUSY or an error). `region` covers `src`, or is NULL where local
     * memory need not be registered. The header has at most WR_AM_LONG_HEADER bytes and is copied. In order with am(). */
    weir_status (*am_long)(struct wr_transport *t, int peer, unsigned id, const void *header, size_t header_len,
                           const void *src, struct wr_region *region, size_t len, struct wr_op *op, weir_error *err);
    /* The most bytes that such a message may have to a peer that is connected; 0 where am_long() gains nothing or where it is
     * not there: both are NULL then. */
    size_t (*am_long_max)(const struct wr_transport *t, int peer);
    /* Completes when all earlier puts of this rank to `peer` (-1: to all peers) are visible there. */
    weir_status (*flush)(struct wr_transport *t, int peer, struct wr_op *op, weir_error *err);

    /* Moves everything that can move without blocking; returns the number of events handled. */
    int (*progress)(struct wr_transport *t);

    /* Blocking: wait_fd() gives a descriptor for epoll, or -1 (then the waiter polls with growing sleeps). Before blocking
     * on it, arm(): true when it is safe to block, false when there is something to progress. After waking, disarm().
     * wait_fd is NULL for a transport to which nothing comes from outside (self): arm() alone decides. */
    int (*wait_fd)(struct wr_transport *t);
    bool (*arm)(struct wr_transport *t);
    void (*disarm)(struct wr_transport *t);

    /* A cheaper way to block for a transport that is waited for alone; both may be NULL (layers leave them out). block()
     * arms, sleeps until something comes, unblock() or the time is over, and disarms; it can return early. Around the sleep
     * it gives the lock away by release(arg) and takes it back by acquire(arg), unless they are NULL. unblock() ends a
     * block() that runs or comes next, and may be called by any thread. */
    void (*block)(struct wr_transport *t, int64_t timeout_ns, void (*release)(void *arg), void (*acquire)(void *arg),
                  void *arg);
    void (*unblock)(struct wr_transport *t);
};

/* What every transport's state starts with. */
struct wr_transport {
    const struct wr_transport_ops *ops;
    struct wr_transport_caps caps;
    struct wr_transport_params params; /* a copy; the pointers inside outlive the transport */
    struct wr_transport *lower;        /* of a layer; NULL otherwise */
};

/* The transports that were built in, in order of preference, ended by NULL. */
extern const struct wr_transport_ops *const wr_transports[];

/* The one called `name`, or NULL. */
const struct wr_transport_ops *wr_transport_find(const char *name);

#endif
