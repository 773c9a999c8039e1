/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The layout of cards, shared by those who write and those who read them. A card starts with three letters and a version;
 * a reader refuses other versions. Numbers as in topo/wire.h.
 *
 * Rank card:  "wrc" version, rank, host identity, host name, pid, pid namespace, switch address, its pattern, cpus.
 * Node card:  "wnc" version, number of nodes, then for each of them (one, unless the launcher was wrong about who shares a
 *             host): host identity, host name, switch address, its pattern, memory, flags (what the machine describes),
 *             interfaces, accelerators, number of pid namespaces, those, number of ranks, and for each rank: distance from
 *             the rank before, pid, index of its pid namespace, package, numa, cache, core, cpus.
 */
#ifndef WR_TOPO_CARD_H
#define WR_TOPO_CARD_H

#include "topo/topo.h"
#include "topo/wire.h"

#define WR_RANK_CARD_MAGIC "wrc"
#define WR_NODE_CARD_MAGIC "wnc"
enum {
    WR_CARD_VERSION = 1,
    WR_CARD_NODE_RANKS_MAX = 1 << 20, /* ranks of one node */
    WR_ADDRESS_MAX = 1024,            /* a switch address with its terminator */
    WR_PATTERN_MAX = 512
};

/* Flags of a node: its machine has such objects, so that a rank's -1 means "several", not "unknown". */
enum { WR_NODE_HAS_PACKAGES = 1, WR_NODE_HAS_NUMAS = 2, WR_NODE_HAS_CACHES = 4, WR_NODE_FLAGS = 7 };

struct wr_rank_card {
    int rank;
    struct wr_host_id host_id;
    char host[64];
    int64_t pid;
    uint64_t pid_namespace;
    char address[WR_ADDRESS_MAX], pattern[WR_PATTERN_MAX];
    const void *cpus; /* topo/cpus.h; in place in the card when decoded */
    size_t cpus_len;
};

void wr_rank_card_encode(const struct wr_rank_card *card, struct wr_buf *buf);

/* Checks everything; false when the bytes are no valid rank card. Needs `data` to stay for card->cpus. */
bool wr_rank_card_decode(const void *data, size_t len, struct wr_rank_card *card);

void wr_host_id_put(struct wr_buf *buf, const struct wr_host_id *id);
void wr_host_id_get(struct wr_reader *reader, struct wr_host_id *id);

struct wr_machine;

/*
 * wr_topo_node_card() with the machine given. Ranks whose boot id differs from that of `self` (NULL: the first rank's) sit
 * on another machine, of which nothing is known.
 */
weir_status wr_node_card_encode(const struct wr_machine *machine, const struct wr_host_id *self,
                                const struct wr_card *rank_cards, size_t n, struct wr_buf *buf, weir_error *err);

#endif
