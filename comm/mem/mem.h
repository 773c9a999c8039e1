/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that all ranks of a communicator know: allocated (mapped on the node, registered with the network) or registered by
 * the user. Keys are exchanged once, when the memory is made.
 *
 * A handle that was freed stays readable for a while (as "stale"), so that its late use is an error and not a crash.
 */
#ifndef WR_MEM_H
#define WR_MEM_H

#include <weir/mem.h>

#include "base/list.h"
#include "base/pool.h"
#include "comm/comm.h"
#include "comm/mem/staged.h"
#include "comm/mem/steps.h"

struct wr_shm_segment;

/* What a rank tells the others about its part; the keys follow, each as long as it says. */
struct wr_mem_card {
    uint64_t bytes;
    uint32_t signal_base;                   /* first of its WEIR_SIGNALS slots */
    uint32_t refused;                       /* 1 when the network refused to register it */
    uint32_t key_len[WR_ENGINE_TRANSPORTS]; /* by kind of transport (self, shm, network), 0 for none */
};

/* What is kept of another rank's card. */
struct wr_mem_peer {
    uint64_t bytes;
    uint32_t signal_base;
    int segment_index;    /* part of the node's segment, -1 when not mapped */
    struct wr_rkey *rkey; /* imported when it is first needed */
    uint32_t key_len;
    unsigned char *key; /* of the transport that reaches the rank; NULL: none, it goes by messages (staged.h) */
};

struct weir_mem {
    weir_comm *comm;
    uint64_t id; /* the same on all ranks of the communicator, never used again */
    bool alive, user_owned, node_shared;
    void *addr;
    uint64_t bytes;
    uint32_t signal_base;
    struct wr_shm_segment *segment; /* of the node, when allocated there */
    void *private_memory;           /* when allocated without a segment */
    size_t private_bytes;
    uint64_t allocated;                             /* bytes that count against the limit */
    uint64_t mapped;                                /* bytes of others in this process */
    struct wr_region *region[WR_ENGINE_TRANSPORTS]; /* by transport of the engine; NULL where refused or not needed */
    uint64_t registered;                            /* bytes that were registered with the network */
    struct wr_mem_peer *peer;
    uint64_t outstanding; /* one-sided operations that were started and have not completed */
    struct wr_list link;  /* in wr_mem_state.alive or .stale */
};

/* What the memory layer keeps for a context. */
struct wr_mem_state {
    struct wr_engine *engine;
    struct wr_list alive, stale;
    int nstale;
    struct wr_list waiting; /* operations that found no room, in order */
    struct wr_pool ops;
    uint8_t *signal_used; /* by block of WEIR_SIGNALS slots */
    uint32_t signal_blocks;
    struct weir_mem **by_block; /* who uses a block; how messages find memory */
    struct wr_staged *staged;
    uint64_t allocated, mapped, registered;
    unsigned windows; /* node-shared handles that are alive */
};

weir_status wr_mem_state_create(struct wr_engine *engine, struct wr_mem_state **state, weir_error *err);
void wr_mem_state_destroy(struct wr_mem_state *state);

/* Bytes of an operation's object, for the pool. */
size_t wr_mem_op_size(void);

/* Waits until all puts to `rank` (-1: to all) are visible there. With the lock held. */
weir_status wr_mem_flush(struct weir_mem *mem, int rank, weir_error *err);

/* For the engine: starts operations that wait for room, ends those whose rank is lost. */
void wr_mem_progress(void *state);
void wr_mem_peer_lost(void *state, int rank);

/* ---- make.c ---- */

enum wr_mem_kind { WR_MEM_ALLOC = 1, WR_MEM_REGISTER };

/* What a rank wants. */
struct wr_mem_wish {
    void *addr; /* of WR_MEM_REGISTER */
    uint64_t bytes, flags;
    enum wr_mem_kind kind;
};

/* Begins to make memory, with the lock held; when the steps have ended, wr_mem_made() gives the handle. */
struct wr_mem_making;
weir_status wr_mem_make(weir_comm *comm, const struct wr_mem_wish *wish, struct wr_mem_making **making, weir_error *err);
struct wr_steps *wr_mem_making_steps(struct wr_mem_making *m);
/* Frees the object: the memory, or NULL where the steps have failed or were given up (`ok` is false). NULL is allowed. */
struct weir_mem *wr_mem_made(struct wr_mem_making *m, bool ok);

/* Takes the parts of a handle away that is in no list. */
void wr_mem_close_part(struct weir_mem *mem);

/* The end of memory; collective, with the lock held. */
weir_status wr_mem_free(struct weir_mem *mem, weir_error *err);

/* Its end without a word to the other ranks: nobody uses it any more, or one of them is lost. */
void wr_mem_abandon(struct weir_mem *mem);

/* A number that is the same at all ranks that know the memory, and that no other memory has; not negative. */
static inline uint64_t wr_mem_number(const struct weir_mem *mem)
{
    return (uint64_t)mem->comm->group.id << 32 | (mem->id & UINT32_MAX);
}

/* The memory handle that holds [addr, addr + len) and every rank knows, or NULL. */
struct weir_mem *wr_mem_containing(struct wr_mem_state *state, const void *addr, uint64_t len, uint64_t *offset);

/* Another rank's part in this process, NULL when it is not mapped; with the lock held. */
void *wr_mem_peer_address(struct weir_mem *mem, int rank);

/* The number of a rank of another communicator in the memory's own, -1 when it does not know the memory. */
int wr_mem_member(const struct weir_mem *mem, const weir_comm *comm, int rank);

/* The same as wr_mem_peer_address() for a rank of another communicator; NULL also when it does not know the memory. */
void *wr_mem_member_address(struct weir_mem *mem, const weir_comm *comm, int rank);

/* Whether the part of a rank of another communicator can be put to: its key is known. */
bool wr_mem_has_key(const struct weir_mem *mem, const weir_comm *comm, int rank);

/* `n` signal slots of this rank in a row, zeroed, and their return. */
weir_status wr_mem_take_signals(struct wr_mem_state *state, uint32_t n, uint32_t *first, weir_error *err);
void wr_mem_give_signals(struct wr_mem_state *state, uint32_t first, uint32_t n);

/* The registration on transport `t` that covers [addr, addr + len), for comm/p2p; NULL when there is none. */
struct wr_region *wr_mem_find(void *state, struct wr_transport *t, const void *addr, uint64_t len, uint64_t *offset);

/* The imported key of a rank's part on the transport that reaches it; NULL with `err` when there is none. */
struct wr_rkey *wr_mem_rkey(struct weir_mem *mem, int rank, weir_error *err);

#endif
