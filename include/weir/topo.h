/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The topology: where every rank of the job sits.
 *
 * A topology is immutable. Ranks are leaves of a tree of levels, from the innermost (ranks that share a cache) to the
 * outermost (the world). A level is kept only when it says something: when at least one of its groups holds several of
 * the groups below it, and when it does not equal the level below or above. Of equal levels the outer one is kept, but
 * the node rather than the switch or group that holds nothing else; the world is always kept.
 *
 * A rank whose binding spans several caches, NUMA domains or packages (or that is not bound) is a group of its own at
 * those levels: it shares only the levels above with others.
 */
#ifndef WEIR_TOPO_H
#define WEIR_TOPO_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <weir/status.h>
#include <weir/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A topology, opaque and immutable. */
typedef struct weir_topo weir_topo;

/** Kinds of levels, from the innermost to the outermost. */
typedef enum weir_level_kind {
    WEIR_LEVEL_CACHE = 0,   /**< ranks whose cores share the last-level cache */
    WEIR_LEVEL_NUMA = 1,    /**< ranks in one NUMA domain */
    WEIR_LEVEL_PACKAGE = 2, /**< ranks in one processor package (socket) */
    WEIR_LEVEL_NODE = 3,    /**< ranks that share memory: one host, or one virtual node of it */
    WEIR_LEVEL_SWITCH = 4,  /**< nodes under one switch; there may be several levels of this kind, leaves first */
    WEIR_LEVEL_GROUP = 5,   /**< nodes in one group of switches (dragonfly group, block) */
    WEIR_LEVEL_WORLD = 6    /**< all ranks */
} weir_level_kind;

/** One level of the tree. */
typedef struct weir_level {
    size_t size;          /**< set by the caller to sizeof(weir_level) */
    weir_level_kind kind; /**< what the level is */
    int ngroups;          /**< number of groups that the ranks are divided into at this level */
    int min_ranks;        /**< ranks in the smallest group */
    int max_ranks;        /**< ranks in the largest group */
} weir_level;

/** Where one rank sits. Indices are hwloc's logical indices on its host; -1 when unknown or not unique. */
typedef struct weir_rank_info {
    size_t size;      /**< set by the caller to sizeof(weir_rank_info) */
    int node;         /**< node, 0 <= node < weir_topo_nnodes() */
    int local_rank;   /**< index among the ranks of its node, ordered by rank */
    int64_t pid;      /**< process id in its own pid namespace */
    int package;      /**< processor package that holds its whole binding */
    int numa;         /**< NUMA domain that holds its whole binding */
    int cache;        /**< last-level cache that holds its whole binding */
    int core;         /**< core that holds its whole binding */
    int npus;         /**< hardware threads that it may run on */
    char host[64];    /**< host name */
    char cpuset[128]; /**< those threads as a list of OS indices, e.g. "0-3,8"; ends in "..." when it is longer */
} weir_rank_info;

/** One network interface or one accelerator of a node. */
typedef struct weir_device {
    size_t size;        /**< set by the caller to sizeof(weir_device) */
    char name[64];      /**< operating system's name, e.g. "eth0", "mlx5_0" */
    char bus[32];       /**< PCI address, e.g. "0000:3b:00.0"; empty when it has none */
    char vendor[64];    /**< PCI vendor and device, e.g. "15b3:1017"; empty when unknown */
    int numa;           /**< nearest NUMA domain (logical index), -1 when unknown */
    double gbit_s;      /**< link speed in Gbit/s, 0 when unknown */
    uint64_t address;   /**< a number that differs between the devices of a node */
    char interface[32]; /**< the kernel's network interface on it, e.g. "eth0"; empty when there is none */
} weir_device;

/**
 * @name Getting a topology
 * @{
 */

/**
 * The topology of the job. The first call fetches one card of every node through the launcher; later calls cost
 * nothing. Not collective.
 *
 * @param ctx        a context
 * @param[out] topo  owned by the context, valid until weir_finalize()
 * @return ::WEIR_OK; ::WEIR_ERR_LAUNCHER, ::WEIR_ERR_TIMEOUT, ::WEIR_ERR_PROTOCOL when a card could not be had;
 *         ::WEIR_ERR_CONFIG for a bad WEIR_TOPOLOGY_FILE; ::WEIR_ERR_NO_MEMORY
 *
 * Thread safety: safe from any thread.
 */
weir_status weir_ctx_topo(weir_ctx *ctx, const weir_topo **topo);

/**
 * An imagined machine, for planning: every node is the same.
 *
 * @param spec      levels from the outermost to the innermost with the number of children each has: "switch:2 node:4
 *                  package:2 numa:2 cache:2 core:8"; leaves are ranks. Names: group, switch, node, package, numa, cache,
 *                  core (ranks); "switch" may stand several times
 * @param[out] topo to be freed by weir_topo_free()
 * @param[out] error description of a failure; may be NULL
 * @return ::WEIR_OK; ::WEIR_ERR_INVALID with the word that was not understood; ::WEIR_ERR_NO_MEMORY
 *
 * Thread safety: safe from any thread.
 */
weir_status weir_topo_create(const char *spec, weir_topo **topo, weir_error *error);

/** Frees a topology made by weir_topo_create(); NULL does nothing. Thread safety: as free(). */
void weir_topo_free(weir_topo *topo);

/** @} */
/**
 * @name Asking
 * All are safe from any thread; ranks, nodes and levels out of range give -1 or ::WEIR_ERR_INVALID.
 * @{
 */

/** Number of ranks. */
int weir_topo_nranks(const weir_topo *topo);

/** Number of nodes: sets of ranks that share memory. */
int weir_topo_nnodes(const weir_topo *topo);

/** The node of a rank. */
int weir_topo_node(const weir_topo *topo, int rank);

/** The index of a rank among the ranks of its node, ordered by rank. */
int weir_topo_local_rank(const weir_topo *topo, int rank);

/** Number of ranks on a node. */
int weir_topo_node_size(const weir_topo *topo, int node);

/** The rank with index `local_rank` on a node. */
int weir_topo_node_rank(const weir_topo *topo, int node, int local_rank);

/** Number of levels that are kept; at least 1: the last one is the world. */
int weir_topo_nlevels(const weir_topo *topo);

/** Describes level `index`, 0 being the innermost. */
weir_status weir_topo_level(const weir_topo *topo, int index, weir_level *level);

/** The name of a kind of level: "cache", "numa", "package", "node", "switch", "group", "world". */
const char *weir_level_kind_name(weir_level_kind kind);

/** The group of a rank at level `index`, 0 <= group < ngroups; groups are numbered by their lowest rank. */
int weir_topo_group(const weir_topo *topo, int index, int rank);

/**
 * The name of a group at level `index`: that of the switch or block, e.g. "leaf0". Empty when it has none, and when an
 * index is out of range. Owned by the topology.
 */
const char *weir_topo_group_name(const weir_topo *topo, int index, int group);

/** The innermost level that holds both ranks in one group; 0 when they are in one group of level 0. */
int weir_topo_common_level(const weir_topo *topo, int rank_a, int rank_b);

/** Describes where a rank sits. */
weir_status weir_topo_rank_info(const weir_topo *topo, int rank, weir_rank_info *info);

/** Memory of a node in bytes; 0 when unknown. */
uint64_t weir_topo_node_memory(const weir_topo *topo, int node);

/**
 * Number of network interfaces of a node, in the order of their PCI addresses. The kernel's interface and the verbs of one
 * PCI function count as one. Loopback, bridges and other virtual interfaces are left out, unless a container has nothing
 * else.
 */
int weir_topo_nnics(const weir_topo *topo, int node);

/** Describes network interface `index` of a node. */
weir_status weir_topo_nic(const weir_topo *topo, int node, int index, weir_device *nic);

/**
 * The distance of a rank to network interface `index` of its node: 0 same NUMA domain, 1 same package, 2 same host,
 * -1 unknown.
 */
int weir_topo_nic_distance(const weir_topo *topo, int rank, int index);

/**
 * The network interface that a rank should use first. Interfaces whose link is down, those without a fabric's verbs where
 * others have them, and those more than four times slower than the fastest come last; among the rest the nearest is
 * chosen, and equally near ones are given in turn to the ranks of the node that prefer them, by local rank. -1 when the
 * node has none.
 */
int weir_topo_nic_choice(const weir_topo *topo, int rank);

/** Number of accelerators of a node that hwloc sees. */
int weir_topo_ngpus(const weir_topo *topo, int node);

/** Describes accelerator `index` of a node. */
weir_status weir_topo_gpu(const weir_topo *topo, int node, int index, weir_device *gpu);

/** @} */
/**
 * @name Writing
 * @{
 */

/**
 * Writes the topology as a tree of text: levels, hosts, ranks with their cores, network interfaces.
 *
 * @return ::WEIR_OK; ::WEIR_ERR_IO
 *
 * Thread safety: safe from any thread (the stream is the caller's).
 */
weir_status weir_topo_write_tree(const weir_topo *topo, FILE *stream);

/**
 * Writes the topology as one JSON object.
 *
 * @return ::WEIR_OK; ::WEIR_ERR_IO; ::WEIR_ERR_UNSUPPORTED when weir was built without jansson
 *
 * Thread safety: safe from any thread (the stream is the caller's).
 */
weir_status weir_topo_write_json(const weir_topo *topo, FILE *stream);

/** @} */

#ifdef __cplusplus
}
#endif

#endif
