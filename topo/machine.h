/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One machine as hwloc sees it: this host, or a recorded or synthetic one in its place (WEIR_HWLOC_XML,
 * WEIR_HWLOC_SYNTHETIC). Loaded once a node, by the rank that makes the node card.
 *
 * A recorded machine that is not this host (it has another number of hardware threads than are online here) cannot take
 * this host's bindings: its cores are given out in turn, core number `index modulo cores` to the rank with that index on
 * the node. A rank whose binding is not on the recorded machine gets its core in the same manner.
 */
#ifndef WR_TOPO_MACHINE_H
#define WR_TOPO_MACHINE_H

#include <hwloc.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/status.h>

#include "base/config.h"
#include "topo/device.h"

struct wr_machine {
    hwloc_topology_t topology;
    bool recorded;   /* not asked from this host's kernel */
    bool imagined;   /* bindings of this host mean nothing on it */
    int cache_depth; /* of the last-level cache, if it is shared by cores; otherwise HWLOC_TYPE_DEPTH_UNKNOWN */
    int npackages, nnumas, ncaches, ncores;
    uint64_t memory;
};

struct wr_binding {
    int package, numa, cache, core; /* logical indices, -1 when there is none or several */
};

weir_status wr_machine_open(struct wr_machine *machine, const struct wr_config *config, weir_error *err);
void wr_machine_close(struct wr_machine *machine);

/* Where a set of hardware threads lies. */
struct wr_binding wr_machine_locate(const struct wr_machine *machine, hwloc_const_bitmap_t cpus);

/*
 * Turns the binding of the rank with index `index` on the node into one on this machine, in place, as described above.
 */
void wr_machine_adopt(const struct wr_machine *machine, int index, hwloc_bitmap_t cpus);

/* The network interfaces and accelerators (topo/machine_devices.c); the lists must be empty. */
weir_status wr_machine_nics(const struct wr_machine *machine, struct wr_device_list *nics, weir_error *err);
weir_status wr_machine_gpus(const struct wr_machine *machine, struct wr_device_list *gpus, weir_error *err);

#endif
