/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of the libfabric transport. One object owns, on each rail (network interface), one fabric, domain, completion
 * queue, address vector and reliable-datagram endpoint; nothing is shared between objects.
 *
 * How bytes move
 *  - Messages (active messages, bare signals and small put_signals, which carry their data) go through a pool of posted
 *    receive buffers on rail 0. A provider that does not keep messages of a pair in order gets sequence numbers.
 *  - Larger puts are RMA writes. Their signal is a write with remote CQ data, or a message where that is not right.
 *  - What does not fit one post (longer than the provider's limit, striped over rails, or followed by a message) is a
 *    "bulk": a small state machine that progress() pumps.
 *
 * How a put is known to be visible. A provider known to be one ordered stream for each pair ("stream") processes a read
 * after the writes before it: flush reads a word of the target's control region. Elsewhere each put asks for
 * FI_DELIVERY_COMPLETE and its completion says it. Data of small put_signals is copied by the target's progress(), which
 * counts it in the control word of the source; flush reads that word until it is high enough.
 *
 * What a rank uses of a NIC: one endpoint (one context) a rail; connection-oriented providers below (verbs;ofi_rxm) add
 * one queue pair for each peer that was connected, in either direction.
 */
#ifndef WR_OFI_H
#define WR_OFI_H

#include "base/libfabric.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

#include "base/error.h"
#include "base/list.h"
#include "base/pool.h"
#include "base/str.h"
#include "comm/transport/components.h"
#include "comm/transport/transport.h"

enum {
    WR_OFI_RAILS = 8,
    WR_OFI_VERSION = 1,          /* of the address, the keys and the messages */
    WR_OFI_PAYLOAD = 8192,       /* largest active message */
    WR_OFI_RX_BUFFERS = 128,     /* receives that are kept posted ... */
    WR_OFI_RX_LONG = 16,         /* ... where they have room for long messages */
    WR_OFI_RX_SPARE = 128,       /* more of them, for messages that wait for an earlier one (providers without order) */
    WR_OFI_TX_BUFFERS = 128,     /* messages and copied puts in flight */
    WR_OFI_REQUESTS = 2048,      /* operations in flight */
    WR_OFI_BULKS = 512,          /* operations in flight that need several steps */
    WR_OFI_CQ_BATCH = 16,        /* completions read at once */
    WR_OFI_PAGE = 4096,          /* receive buffers for long messages begin at such a boundary */
    WR_OFI_STRIPE_MIN = 1 << 18, /* a put shorter than this stays on one rail */
    WR_OFI_CHUNK_MAX = 1 << 30   /* no single post is longer */
};

/* What is known about providers, by name (ofi_info.c); everything else is asked of the provider. */
struct wr_ofi_quirks {
    const char *name;   /* the whole name, or its beginning or end with a '*' */
    int preference;     /* larger is tried first; unknown providers have 50; 0: never used */
    bool stream;        /* writes, reads and sends of a pair are processed in the order in which they were posted */
    bool node_only;     /* reaches ranks of this node only */
    bool bad_writedata; /* remote CQ data is not right */
    bool bad_inject;    /* fi_inject loses messages */
    size_t eager_put;   /* up to here a put_signal travels as a message */
    size_t long_am;     /* bytes of the longest message, where those are told in order, too; 0: WR_OFI_PAYLOAD */
};

enum wr_ofi_kind { WR_OFI_AM, WR_OFI_SIGNAL, WR_OFI_EAGER };

/* What every message starts with. Ranks of one job have the same byte order; the address says so (byte_order). */
struct wr_ofi_header {
    uint32_t source;
    uint32_t seq;
    uint8_t kind; /* enum wr_ofi_kind */
    uint8_t id;   /* handler of an AM */
    uint16_t reserved;
    uint32_t slot; /* of a SIGNAL or EAGER */
};

/* Follows the header of an EAGER message; the data comes after it. */
struct wr_ofi_eager {
    uint32_t index, generation; /* of the region */
    uint64_t offset;
};

enum { WR_OFI_BUFFER = WR_OFI_PAYLOAD + sizeof(struct wr_ofi_header) + sizeof(struct wr_ofi_eager) };

/* Immediate data: a kind in the upper 4 bits, the slot in the lower 28: fits every provider's 4 bytes. */
#define WR_OFI_IMMEDIATE(slot)      (0x50000000u | (slot))
#define WR_OFI_IMMEDIATE_OK(data)   (((data)&0xf0000000u) == 0x50000000u)
#define WR_OFI_IMMEDIATE_SLOT(data) ((uint32_t)(data)&0x0fffffffu)

struct wr_ofi;

/* What op_context points to; the provider may use the first member (FI_CONTEXT, FI_CONTEXT2). */
struct wr_ofi_context {
    struct fi_context2 provider;
    enum { WR_OFI_CTX_RX, WR_OFI_CTX_REQ } type;
};

struct wr_ofi_rx {
    struct wr_ofi_context ctx;
    struct wr_list link; /* in rx_idle, or held in order of seq */
    char *data;
    size_t len;
};

struct wr_ofi_req {
    struct wr_ofi_context ctx;
    struct wr_list link; /* in the peer's list */
    struct wr_ofi_peer *peer;
    struct wr_op *op;         /* NULL: nobody waits, or was told already */
    struct wr_ofi_bulk *bulk; /* of which it is a piece, or NULL */
    void *buffer;             /* tx buffer that is given back, or NULL */
    void *copy_to;            /* get without a region: where the buffer goes */
    size_t copy_len;
    uint8_t lane;
    uint8_t epoch;
    bool is_put;    /* counted in peer->open_puts[epoch] */
    bool is_sync;   /* a read of the control word for the peer's sync round */
    uint64_t round; /* which one */
};

enum wr_ofi_stage { WR_OFI_POST, WR_OFI_DRAIN, WR_OFI_VISIBLE, WR_OFI_NOTIFY, WR_OFI_END };

struct wr_ofi_bulk {
    struct wr_list link; /* in ofi->bulks */
    struct wr_ofi_peer *peer;
    struct wr_op *op;
    char *local;
    struct wr_region *region;
    struct wr_rkey *rkey;
    uint64_t offset;
    struct {
        uint64_t at, end; /* bytes of the operation that this lane moves */
    } lane[WR_OFI_RAILS];
    unsigned nlanes;
    unsigned inflight;
    uint32_t slot;
    bool write, signal, counted; /* counted: in peer->open_bulks */
    uint8_t epoch, reads_posted; /* reads_posted: bits of lanes, stage VISIBLE */
    enum wr_ofi_stage stage;
    weir_status status;
};

/* One waiter of a flush: on one peer, perhaps one of many of the same operation. */
struct wr_ofi_flush {
    struct wr_op *op;
    unsigned pending;
    weir_status status;
};

struct wr_ofi_waiter {
    struct wr_list link; /* in peer->waiters */
    struct wr_ofi_flush *flush;
    uint64_t round;
};

struct wr_ofi_peer {
    int rank;
    bool lost;
    /* Lanes: pairs of an own rail and one of its rails. Lane 0 ends at its rail 0, where messages are received. */
    unsigned nlanes;
    uint8_t own_rail[WR_OFI_RAILS], remote_rail[WR_OFI_RAILS]; /* this and the following by lane */
    fi_addr_t addr[WR_OFI_RAILS];
    uint64_t control_base[WR_OFI_RAILS], control_key[WR_OFI_RAILS]; /* its control region */
    bool control_mapped[WR_OFI_RAILS];                              /* the key came from fi_mr_map_raw */
    uint32_t seq;                                                   /* of the next message to it */
    uint64_t eager_sent, eager_acked;                               /* put_signals as messages */
    unsigned dirty;                       /* stream: lanes with puts that are not known to be visible */
    unsigned open_puts[2], open_bulks[2]; /* by epoch */
    uint8_t epoch;
    struct wr_list inflight; /* its requests */
    struct wr_list waiters;
    struct wr_list sync_link; /* in ofi->syncing while a round runs */
    bool syncing;
    uint64_t round;       /* rounds begun; a waiter wants one begun after its puts */
    uint64_t round_eager; /* eager puts that the round waits for */
    unsigned round_lanes; /* lanes whose read is still to be posted */
    unsigned round_reads; /* reads in flight */
    int64_t round_next;   /* when to read the control word again */
    int64_t round_pause;
};

struct wr_ofi_source {
    uint32_t expected;
    struct wr_list held; /* messages that came too early, by seq */
};

struct wr_ofi_rail {
    unsigned index;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_ep *ep;
    int wait_fd;
    bool stuck;           /* wait_fd is an epoll set that stays readable, by this entry (see ofi_wait.c) */
    uint64_t stuck_event;
    uint64_t next_key; /* where keys are ours to choose */
    uint64_t max_post; /* longest single transfer */
    size_t inject;
    unsigned tx_used, tx_max;
};

struct wr_region {
    void *addr;
    uint64_t len;
    unsigned flags;
    uint32_t index, generation; /* in ofi->regions; index UINT32_MAX: not for peers */
    struct fid_mr *mr[WR_OFI_RAILS];
};

struct wr_rkey {
    int peer;
    uint32_t index, generation;
    uint64_t len;
    uint64_t base[WR_OFI_RAILS], key[WR_OFI_RAILS]; /* by lane */
    bool mapped[WR_OFI_RAILS];
};

struct wr_ofi {
    struct wr_transport base;
    struct wr_ofi_rail rail[WR_OFI_RAILS];
    unsigned nrails;
    const struct wr_ofi_quirks *quirks;
    char provider[64], device[128];
    uint64_t mode; /* info->mode */
    int mr_mode;
    bool stream;            /* see above */
    bool delivery_complete; /* asked of each put */
    bool fence_flag;        /* FI_FENCE works */
    bool immediate;         /* fi_writedata signals */
    bool ordered_messages;  /* FI_ORDER_SAS */
    bool broken;            /* the completion queue failed */
    weir_error failure;     /* why */

    struct wr_ofi_peer **peers;    /* by rank, NULL: not connected */
    struct wr_ofi_source *sources; /* by rank, without ordered_messages */

    struct wr_region *buffers; /* covers the memory of tx and rx buffers */
    char *memory;
    size_t memory_len;
    void *tx_free; /* singly linked */
    struct wr_ofi_rx *rx;
    unsigned nrx;
    struct wr_list rx_idle; /* to be posted */
    unsigned rx_posted, rx_target;
    size_t rx_size;         /* bytes of a receive's buffer */

    struct wr_region *control_region;
    uint64_t *control; /* by source: eager puts that were handled */

    struct wr_region **regions; /* by index */
    uint32_t *generations;
    uint32_t nregions, free_region; /* free ones are chained through free_next */
    uint32_t *free_next;

    struct wr_pool reqs, bulk_pool, flush_pool, waiter_pool;
    struct wr_list bulks;
    struct wr_list syncing;
    int epoll_fd; /* over several rails or stuck ones, -1 */
    bool stuck;   /* one of the rails is */
};

static inline struct wr_ofi *wr_ofi_of(struct wr_transport *t)
{
    return WR_CONTAINER_OF(t, struct wr_ofi, base);
}

/* ---- ofi_info.c: which provider ---- */

struct wr_ofi_candidates {
    struct fi_info *list;  /* of fi_getinfo() */
    struct fi_info **info; /* usable ones, best provider first; interfaces of one provider stand together */
    size_t n;
};

/* Asks libfabric what there is, drops what cannot be used and orders the rest. WEIR_ERR_CONFIG lists what there is when
 * WEIR_OFI_PROVIDER matches nothing; WEIR_ERR_UNSUPPORTED when there is nothing. */
weir_status wr_ofi_candidates_find(const struct wr_transport_params *params, struct wr_ofi_candidates *c,
                                   weir_error *err);
void wr_ofi_candidates_free(struct wr_ofi_candidates *c);
const struct wr_ofi_quirks *wr_ofi_quirks_find(const char *provider);
/* Asks again for one interface, with `caps` and default operation flags added; NULL when the provider cannot. */
struct fi_info *wr_ofi_info_refine(const struct fi_info *info, uint64_t caps, uint64_t op_flags);

/* ---- ofi_nic.c: which interfaces ---- */

/* What is known of an interface from libfabric and /sys. */
struct wr_ofi_nic {
    int numa;     /* -1 unknown */
    int distance; /* from params->numa, 10 is local, as the kernel has it */
    bool physical, loopback, up;
};
void wr_ofi_nic_describe(const struct fi_info *info, int numa, struct wr_ofi_nic *nic);

/* Chooses the interfaces of this rank among those of one provider, the first being the main one. WEIR_ERR_CONFIG lists
 * what there is when WEIR_NIC matches nothing. */
weir_status wr_ofi_nics_choose(const struct wr_transport_params *params, struct fi_info *const *info, size_t n,
                               struct fi_info *chosen[WR_OFI_RAILS], unsigned *nchosen, weir_error *err);
/* The name that a person would give: domain name of fabrics with interfaces, e.g. "eth0", "mlx5_0". Returns buf. */
const char *wr_ofi_nic_name(const struct fi_info *info, char *buf, size_t size);

/* ---- ofi_rail.c ---- */
weir_status wr_ofi_rail_open(struct wr_ofi *ofi, unsigned index, struct fi_info *info, weir_error *err);
void wr_ofi_rail_close(struct wr_ofi_rail *rail);
void wr_ofi_rail_close_endpoint(struct wr_ofi_rail *rail);
/* WEIR_ERR_TRANSPORT with libfabric's words for `code` (negative, as it returns them). */
weir_status wr_ofi_error(const struct wr_ofi *ofi, weir_error *err, const char *what, long code);

/* ---- ofi_conn.c ---- */
weir_status wr_ofi_address(struct wr_transport *t, void *buf, size_t *len, weir_error *err);
weir_status wr_ofi_connect(struct wr_transport *t, int peer, weir_error *err);
bool wr_ofi_reaches(const struct wr_transport *t, int peer);
void wr_ofi_peer_free(struct wr_ofi *ofi, struct wr_ofi_peer *peer);
/* The connected peer, or NULL with `err` filled (*status). */
struct wr_ofi_peer *wr_ofi_peer_get(struct wr_ofi *ofi, int peer, weir_status *status, weir_error *err);
/* Everything in flight to it ends with WEIR_ERR_PEER_LOST. */
void wr_ofi_peer_lost(struct wr_ofi *ofi, struct wr_ofi_peer *peer, const char *reason);

/* ---- ofi_mr.c ---- */
weir_status wr_ofi_region_create(struct wr_ofi *ofi, void *addr, uint64_t len, unsigned flags, uint64_t access,
                                 bool for_peers, struct wr_region **region, weir_error *err);
void wr_ofi_region_destroy(struct wr_ofi *ofi, struct wr_region *region);
weir_status wr_ofi_reg(struct wr_transport *t, void *addr, uint64_t len, unsigned flags, struct wr_region **region,
                       weir_error *err);
void wr_ofi_dereg(struct wr_transport *t, struct wr_region *region);
weir_status wr_ofi_key_export(struct wr_transport *t, struct wr_region *region, void *buf, size_t *len,
                              weir_error *err);
weir_status wr_ofi_key_import(struct wr_transport *t, int peer, const void *key, size_t len, struct wr_rkey **rkey,
                              weir_error *err);
void wr_ofi_key_close(struct wr_transport *t, struct wr_rkey *rkey);
/* One registration's remote half on one rail, for addresses and keys: at most WR_OFI_RAIL_KEY bytes. */
enum { WR_OFI_RAIL_KEY = 96 };
weir_status wr_ofi_rail_key_write(struct wr_ofi *ofi, unsigned rail, const struct wr_region *region, void *buf,
                                  size_t *len, weir_error *err);
weir_status wr_ofi_rail_key_read(struct wr_ofi *ofi, unsigned rail, const void *buf, size_t len, uint64_t *base,
                                 uint64_t *key, bool *mapped, weir_error *err);
void *wr_ofi_desc(const struct wr_ofi *ofi, const struct wr_region *region, unsigned rail);

/* ---- ofi_rma.c ---- */
weir_status wr_ofi_put(struct wr_transport *t, int peer, const void *src, struct wr_region *region, uint64_t len,
                       struct wr_rkey *rkey, uint64_t offset, unsigned flags, struct wr_op *op, weir_error *err);
weir_status wr_ofi_put_signal(struct wr_transport *t, int peer, const void *src, struct wr_region *region, uint64_t len,
                              struct wr_rkey *rkey, uint64_t offset, uint32_t slot, unsigned flags, struct wr_op *op,
                              weir_error *err);
weir_status wr_ofi_get(struct wr_transport *t, int peer, void *dst, struct wr_region *region, uint64_t len,
                       struct wr_rkey *rkey, uint64_t offset, struct wr_op *op, weir_error *err);
/* One fi_write/fi_read; WEIR_OK: in flight as `req`, WEIR_ERR_BUSY: not now, or an error. */
struct wr_ofi_post {
    struct wr_ofi_req *req;
    void *local, *desc;
    uint64_t len, remote, key;
    uint64_t flags; /* FI_FENCE, FI_REMOTE_CQ_DATA */
    uint64_t data;
    bool write;
};
weir_status wr_ofi_post(struct wr_ofi *ofi, struct wr_ofi_peer *peer, unsigned lane, const struct wr_ofi_post *p,
                        weir_error *err);
struct wr_ofi_req *wr_ofi_req_get(struct wr_ofi *ofi, struct wr_ofi_peer *peer, unsigned lane, struct wr_op *op);
void wr_ofi_req_put(struct wr_ofi *ofi, struct wr_ofi_req *req);

/* ---- ofi_bulk.c ---- */
struct wr_ofi_bulk_args {
    char *local;
    struct wr_region *region;
    uint64_t len;
    struct wr_rkey *rkey;
    uint64_t offset;
    uint32_t slot;
    bool write, signal;
};
weir_status wr_ofi_bulk_start(struct wr_ofi *ofi, struct wr_ofi_peer *peer, const struct wr_ofi_bulk_args *args,
                              struct wr_op *op, weir_error *err);
/* A piece has completed. */
void wr_ofi_bulk_piece(struct wr_ofi_bulk *bulk, weir_status status);
/* Moves all bulks; returns how many have ended. */
int wr_ofi_bulk_pump(struct wr_ofi *ofi);

/* ---- ofi_flush.c ---- */
weir_status wr_ofi_flush(struct wr_transport *t, int peer, struct wr_op *op, weir_error *err);
/* Whether a fenced operation may be posted now; `rma`: it is a write, not a message. *use_flag: with FI_FENCE. */
bool wr_ofi_fence_ready(struct wr_ofi *ofi, struct wr_ofi_peer *peer, bool rma, bool *use_flag);
/* A read of the control word, for a round or a bulk. */
weir_status wr_ofi_sync_read(struct wr_ofi *ofi, struct wr_ofi_peer *peer, unsigned lane, struct wr_ofi_bulk *bulk,
                             weir_error *err);
void wr_ofi_sync_completed(struct wr_ofi *ofi, struct wr_ofi_req *req, weir_status status);
int wr_ofi_sync_pump(struct wr_ofi *ofi);
void wr_ofi_sync_fail(struct wr_ofi *ofi, struct wr_ofi_peer *peer, weir_status status);

/* ---- ofi_am.c ---- */
weir_status wr_ofi_am(struct wr_transport *t, int peer, unsigned id, const void *header, size_t header_len,
                      const void *payload, size_t len, unsigned flags, weir_error *err);
weir_status wr_ofi_am_long(struct wr_transport *t, int peer, unsigned id, const void *header, size_t header_len,
                           const void *src, struct wr_region *region, size_t len, struct wr_op *op, weir_error *err);
size_t wr_ofi_am_long_max(const struct wr_transport *t, int peer);
/* A bare signal, or one with its data. */
weir_status wr_ofi_send_signal(struct wr_ofi *ofi, struct wr_ofi_peer *peer, uint32_t slot, weir_error *err);
weir_status wr_ofi_send_eager(struct wr_ofi *ofi, struct wr_ofi_peer *peer, const void *data, size_t len,
                              const struct wr_rkey *rkey, uint64_t offset, uint32_t slot, weir_error *err);
/* A message has arrived in `rx`; gives the buffer back, now or when its turn has come. */
void wr_ofi_received(struct wr_ofi *ofi, struct wr_ofi_rx *rx, size_t len);
void wr_ofi_count_signal(struct wr_ofi *ofi, uint32_t slot);
/* Posts receives; WEIR_OK also when the provider wants to be asked later. */
weir_status wr_ofi_rx_post(struct wr_ofi *ofi, weir_error *err);
void *wr_ofi_tx_get(struct wr_ofi *ofi);
void wr_ofi_tx_put(struct wr_ofi *ofi, void *buffer);

/* ---- ofi_cq.c ---- */
int wr_ofi_progress(struct wr_transport *t);
/* Whether libfabric's error (positive) says clearly that the other side is gone. */
bool wr_ofi_says_lost(int error);
void wr_ofi_break(struct wr_ofi *ofi, const char *what, long code);

/* ---- ofi_wait.c ---- */
weir_status wr_ofi_wait_open(struct wr_ofi *ofi, weir_error *err);
void wr_ofi_wait_close(struct wr_ofi *ofi);
int wr_ofi_wait_fd(struct wr_transport *t);
bool wr_ofi_arm(struct wr_transport *t);
void wr_ofi_disarm(struct wr_transport *t);

#endif
