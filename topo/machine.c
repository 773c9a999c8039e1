/* SPDX-License-Identifier: BSD-3-Clause */
#include "topo/machine.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/error.h"

/*
 * Backends that look for accelerators by starting a runtime or opening a display: slow, and not ours to wake. And the one
 * that lists PCI devices through libpciaccess, which loses memory: the kernel's own list in /sys says all that is needed.
 */
static const char *const unwanted_components[] = {"opencl", "gl", "cuda", "pci"};

static weir_status choose_source(struct wr_machine *machine, const struct wr_config *config, weir_error *err)
{
    hwloc_topology_t topology = machine->topology;
    if (config->hwloc_xml && config->hwloc_synthetic)
        return wr_error_set(err, WEIR_ERR_CONFIG, "unset one of them",
                            "WEIR_HWLOC_XML and WEIR_HWLOC_SYNTHETIC are both set");
    if (config->hwloc_xml && hwloc_topology_set_xml(topology, config->hwloc_xml))
        return wr_error_errno(err, WEIR_ERR_CONFIG, errno, "give the path of a file written by lstopo FILE.xml",
                              "WEIR_HWLOC_XML=%s cannot be read", config->hwloc_xml);
    if (config->hwloc_synthetic && hwloc_topology_set_synthetic(topology, config->hwloc_synthetic))
        return wr_error_set(err, WEIR_ERR_CONFIG, "hwloc(7) describes it, e.g. 'package:2 numa:4 l3:2 core:8 pu:1'",
                            "WEIR_HWLOC_SYNTHETIC=%s is not understood by hwloc", config->hwloc_synthetic);
#if HWLOC_API_VERSION >= 0x00020100
    for (size_t i = 0; i < WR_ARRAY_SIZE(unwanted_components); i++)
        hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, unwanted_components[i]);
#endif
    return WEIR_OK;
}

static weir_status load(struct wr_machine *machine, const struct wr_config *config, weir_error *err)
{
    hwloc_topology_t topology = machine->topology;
    weir_status status = choose_source(machine, config, err);
    if (status)
        return status;
        /* disallowed: other ranks may have been given threads that this one may not use */
#if HWLOC_API_VERSION >= 0x00020100
    hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
#else
    hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_WHOLE_SYSTEM);
#endif
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    if (!hwloc_topology_load(topology))
        return WEIR_OK;
    if (config->hwloc_xml)
        return wr_error_set(err, WEIR_ERR_CONFIG, "give the path of a file written by lstopo FILE.xml",
                            "WEIR_HWLOC_XML=%s does not hold a machine that hwloc understands", config->hwloc_xml);
    if (config->hwloc_synthetic)
        return wr_error_set(err, WEIR_ERR_CONFIG, "hwloc(7) describes it, e.g. 'package:2 numa:4 l3:2 core:8 pu:1'",
                            "WEIR_HWLOC_SYNTHETIC=%s is not understood by hwloc", config->hwloc_synthetic);
    return wr_error_errno(err, WEIR_ERR_SYSTEM, errno, "see whether lstopo works; WEIR_HWLOC_SYNTHETIC can replace it",
                          "hwloc could not describe this host");
}

/* The outermost cache of data that several cores share: L3 on most machines, L2 on some. */
static int last_level_cache(hwloc_topology_t topology)
{
    static const hwloc_obj_type_t outermost_first[] = {HWLOC_OBJ_L5CACHE, HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L3CACHE,
                                                       HWLOC_OBJ_L2CACHE};
    for (size_t i = 0; i < WR_ARRAY_SIZE(outermost_first); i++) {
        int depth = hwloc_get_type_depth(topology, outermost_first[i]);
        if (depth < 0)
            continue;
        for (hwloc_obj_t cache = NULL; (cache = hwloc_get_next_obj_by_depth(topology, depth, cache));)
            if (hwloc_get_nbobjs_inside_cpuset_by_type(topology, cache->cpuset, HWLOC_OBJ_CORE) > 1)
                return depth;
        return HWLOC_TYPE_DEPTH_UNKNOWN;
    }
    return HWLOC_TYPE_DEPTH_UNKNOWN;
}

static int count(hwloc_topology_t topology, hwloc_obj_type_t type)
{
    int n = hwloc_get_nbobjs_by_type(topology, type);
    return n > 0 ? n : 0;
}

weir_status wr_machine_open(struct wr_machine *machine, const struct wr_config *config, weir_error *err)
{
    memset(machine, 0, sizeof *machine);
    if (hwloc_topology_init(&machine->topology))
        return wr_error_memory(err, 0, "hwloc's topology");
    weir_status status = load(machine, config, err);
    if (status)
        goto destroy;
    hwloc_topology_t topology = machine->topology;
    machine->recorded = !hwloc_topology_is_thissystem(topology);
    machine->imagined = machine->recorded && count(topology, HWLOC_OBJ_PU) != sysconf(_SC_NPROCESSORS_ONLN);
    machine->cache_depth = last_level_cache(topology);
    machine->npackages = count(topology, HWLOC_OBJ_PACKAGE);
    machine->nnumas = count(topology, HWLOC_OBJ_NUMANODE);
    machine->ncores = count(topology, HWLOC_OBJ_CORE);
    if (machine->cache_depth != HWLOC_TYPE_DEPTH_UNKNOWN)
        machine->ncaches = (int)hwloc_get_nbobjs_by_depth(topology, machine->cache_depth);
    machine->memory = hwloc_get_root_obj(topology)->total_memory;
    if (machine->npackages > INT16_MAX || machine->nnumas > INT16_MAX || machine->ncaches > INT16_MAX) {
        status = wr_error_set(err, WEIR_ERR_LIMIT, "describe a smaller machine",
                              "the machine has more than %d packages, NUMA domains or caches", INT16_MAX);
        goto destroy;
    }
    return WEIR_OK;

destroy:
    hwloc_topology_destroy(machine->topology);
    return status;
}

void wr_machine_close(struct wr_machine *machine)
{
    hwloc_topology_destroy(machine->topology);
}

static int holder_at_depth(hwloc_topology_t topology, int depth, hwloc_const_bitmap_t cpus)
{
    for (hwloc_obj_t obj = NULL; (obj = hwloc_get_next_obj_by_depth(topology, depth, obj));)
        if (hwloc_bitmap_isincluded(cpus, obj->cpuset))
            return (int)obj->logical_index;
    return -1;
}

static int holder_of_type(hwloc_topology_t topology, hwloc_obj_type_t type, hwloc_const_bitmap_t cpus)
{
    int depth = hwloc_get_type_depth(topology, type);
    return depth < 0 ? -1 : holder_at_depth(topology, depth, cpus);
}

/* Memory can be attached to sets of different sizes (and to none, on an accelerator): the smallest that holds all. */
static int holding_numa(hwloc_topology_t topology, hwloc_const_bitmap_t cpus)
{
    int best = -1, best_weight = 0;
    for (hwloc_obj_t obj = NULL; (obj = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, obj));) {
        if (!hwloc_bitmap_isincluded(cpus, obj->cpuset))
            continue;
        int weight = hwloc_bitmap_weight(obj->cpuset);
        if (best < 0 || weight < best_weight) {
            best = (int)obj->logical_index;
            best_weight = weight;
        }
    }
    return best;
}

struct wr_binding wr_machine_locate(const struct wr_machine *machine, hwloc_const_bitmap_t cpus)
{
    struct wr_binding binding = {-1, -1, -1, -1};
    hwloc_topology_t topology = machine->topology;
    hwloc_bitmap_t here = hwloc_bitmap_alloc();
    if (!here)
        return binding;
    /* threads that went offline do not count */
    hwloc_bitmap_and(here, cpus, hwloc_topology_get_topology_cpuset(topology));
    if (!hwloc_bitmap_iszero(here)) {
        binding.package = holder_of_type(topology, HWLOC_OBJ_PACKAGE, here);
        binding.numa = holding_numa(topology, here);
        binding.core = holder_of_type(topology, HWLOC_OBJ_CORE, here);
        if (machine->cache_depth != HWLOC_TYPE_DEPTH_UNKNOWN)
            binding.cache = holder_at_depth(topology, machine->cache_depth, here);
    }
    hwloc_bitmap_free(here);
    return binding;
}

void wr_machine_adopt(const struct wr_machine *machine, int index, hwloc_bitmap_t cpus)
{
    hwloc_topology_t topology = machine->topology;
    if (!machine->recorded)
        return;
    /* an affinity mask may hold threads that are offline, beside one that is not */
    if (!machine->imagined && hwloc_bitmap_intersects(cpus, hwloc_topology_get_topology_cpuset(topology)) &&
        hwloc_bitmap_isincluded(cpus, hwloc_topology_get_complete_cpuset(topology)))
        return;
    hwloc_obj_type_t type = machine->ncores ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
    int n = hwloc_get_nbobjs_by_type(topology, type);
    hwloc_obj_t obj = n > 0 ? hwloc_get_obj_by_type(topology, type, (unsigned)(index % n)) : NULL;
    if (obj)
        hwloc_bitmap_copy(cpus, obj->cpuset);
}
