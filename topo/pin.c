/* SPDX-License-Identifier: BSD-3-Clause */
/* Binding a helping thread to a core that the ranks leave free. */
#include <errno.h>
#include <hwloc.h>

#include "base/error.h"
#include "topo/topo.h"

static weir_status load(hwloc_topology_t *topology, weir_error *err)
{
    if (hwloc_topology_init(topology))
        return wr_error_memory(err, 0, "hwloc");
    if (!hwloc_topology_load(*topology))
        return WEIR_OK;
    hwloc_topology_destroy(*topology);
    return wr_error_set(err, WEIR_ERR_SYSTEM, NULL, "hwloc could not describe this host");
}

/* The core, NULL when the ranks need all that there are. */
static hwloc_obj_t choose(hwloc_topology_t topology, int core, int ranks, int index)
{
    hwloc_obj_t found = NULL;
    if (core >= 0)
        return hwloc_get_obj_by_type(topology, HWLOC_OBJ_CORE, (unsigned)core);
    hwloc_bitmap_t binding = hwloc_bitmap_alloc();
    if (binding && !hwloc_get_cpubind(topology, binding, HWLOC_CPUBIND_THREAD)) {
        int cores = hwloc_get_nbobjs_inside_cpuset_by_type(topology, binding, HWLOC_OBJ_CORE);
        if (cores > ranks)
            found = hwloc_get_obj_inside_cpuset_by_type(topology, binding, HWLOC_OBJ_CORE,
                                                        (unsigned)(ranks + index % (cores - ranks)));
    }
    hwloc_bitmap_free(binding);
    return found;
}

weir_status wr_host_pin_thread(int core, int ranks, int index, int *pinned, weir_error *err)
{
    hwloc_topology_t topology;
    weir_status status = load(&topology, err);
    if (status)
        return status;
    hwloc_obj_t obj = choose(topology, core, ranks, index);
    *pinned = -1;
    if (!obj && core >= 0)
        status = wr_error_set(err, WEIR_ERR_CONFIG, "give the logical index of a core, as lstopo shows it",
                              "WEIR_PROGRESS_CORE=%d: this host has %d cores", core,
                              hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE));
    else if (obj && hwloc_set_cpubind(topology, obj->cpuset, HWLOC_CPUBIND_THREAD))
        status = wr_error_errno(err, WEIR_ERR_SYSTEM, errno, NULL, "a thread cannot be bound to core %u", obj->logical_index);
    else if (obj)
        *pinned = (int)obj->logical_index;
    hwloc_topology_destroy(topology);
    return status;
}
