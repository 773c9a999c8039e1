/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The topology inside the library. This folder knows what one machine looks like and how a set of gathered machine cards
 * becomes the tree of levels; it gathers nothing itself.
 *
 * Life: every rank makes a small *rank card* (who it is, what it is bound to). The lowest rank of each node collects the
 * rank cards of its node, asks hwloc once for all of them and makes the *node card*. Who needs the topology fetches one
 * node card a node and builds the tree.
 */
#ifndef WR_TOPO_H
#define WR_TOPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/topo.h>

#include "base/config.h"
#include "base/log.h"
#include "base/str.h"

/*
 * What tells hosts apart. Two processes share memory only when all three agree: host names can repeat (containers), and
 * one host can hold several IPC namespaces. Plain data, compared with memcmp().
 */
struct wr_host_id {
    uint8_t boot_id[16];    /* /proc/sys/kernel/random/boot_id */
    uint64_t ipc_namespace; /* inode of /proc/self/ns/ipc */
    uint64_t shm_device;    /* st_dev of /dev/shm */
};

/* Fills in this process's host identity; parts that cannot be read stay zero. */
void wr_host_id_self(struct wr_host_id *id);

/*
 * The kernel's number of the NUMA domain that holds all hardware threads which the calling thread may run on, -1 when there
 * is none or it is unknown. `root` is where the kernel describes domains, NULL for "/sys/devices/system/node".
 */
int wr_host_numa(const char *root);

/*
 * Binds the calling thread to hwloc's core `core`; or, when that is negative, to a core of its present binding that `ranks` ranks
 * which share that binding leave free, another one for each `index`. *pinned: the core, -1 when there is none to spare.
 * WEIR_ERR_CONFIG when there is no such core.
 */
weir_status wr_host_pin_thread(int core, int ranks, int index, int *pinned, weir_error *err);

/* ---- virtual nodes (topo/placement.c) ---- */

/*
 * The virtual node of each of `size` ranks for WEIR_NODES=nodes and WEIR_PLACEMENT=placement: node_of gets `size`
 * numbers in 0..nodes-1. WEIR_ERR_CONFIG when the placement is not understood, or when a node would be empty.
 */
weir_status wr_placement_nodes(int64_t nodes, const char *placement, int size, int *node_of, weir_error *err);

/* ---- cards (topo/card.c) ---- */

/* Appends this process's rank card to `buf`. */
weir_status wr_topo_rank_card(const struct wr_config *config, const struct wr_env *env, int rank, struct wr_buf *buf,
                              weir_error *err);

struct wr_card {
    int rank;
    const void *data;
    size_t len;
};

/*
 * Makes the node card from the rank cards of the ranks that are said to be on this node (ordered by rank) and appends it
 * to `buf`. Ranks whose host identity differs (the launcher was wrong, or containers) are kept apart in it.
 */
weir_status wr_topo_node_card(const struct wr_config *config, const struct wr_env *env, const struct wr_log *log,
                              const struct wr_card *rank_cards, size_t n, struct wr_buf *buf, weir_error *err);

/* ---- the tree (topo/build.c) ---- */

/*
 * Builds the topology of `size` ranks from all node cards (any order), seen from `rank`. Cards come from the network:
 * every length and index is checked (WEIR_ERR_PROTOCOL).
 */
weir_status wr_topo_build(const struct wr_config *config, const struct wr_log *log, int rank, int size,
                          const struct wr_card *node_cards, size_t n, weir_topo **topo, weir_error *err);

/*
 * The topology of `n` (at least 1) of the ranks of another, in this order; it does not outlive that one. To be freed by
 * weir_topo_free().
 */
weir_status wr_topo_restrict(const weir_topo *whole, const int *ranks, int n, weir_topo **topo, weir_error *err);

/* What a rank needs to know of its own node before it opens devices. */
struct wr_topo_local {
    char nic[64]; /* the interface that weir_topo_nic_choice() gives it; "" when there is none, or its link is down */
};

/* From the card of a rank's own node alone, so that nobody has to fetch all cards. WEIR_ERR_PROTOCOL as wr_topo_build(). */
weir_status wr_topo_local(const struct wr_card *node_card, int rank, int size, struct wr_topo_local *local,
                          weir_error *err);

/* What tells the host of a node from others (owned by the topology), NULL for a node out of range. */
const struct wr_host_id *wr_topo_host_id(const weir_topo *topo, int node);

/* The inode of a rank's pid namespace, 0 when unknown: pids of ranks mean the same only when these are equal. */
uint64_t wr_topo_pid_namespace(const weir_topo *topo, int rank);

/* ---- devices ---- */

/* The index of the network interface of `node` at a PCI address, or -1: maps libfabric's fi_info->nic to ours. */
int wr_topo_nic_by_bus(const weir_topo *topo, int node, unsigned domain, unsigned bus, unsigned device,
                       unsigned function);

#endif
