/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/weirrun_bind.h"

#include <errno.h>
#include <hwloc.h>
#include <sched.h>
#include <stdlib.h>

#include "base/error.h"

struct wr_binding {
    hwloc_topology_t topology;
    hwloc_cpuset_t *sets; /* of each domain that this process may use */
    int64_t nsets, count;
};

/* Processors that this process may use; cheaper than hwloc, for the usual case of more ranks than that. */
static int64_t allowed_processors(void)
{
    int64_t n = 0;
    for (size_t max = 1024; max <= 1 << 20; max *= 4) {
        cpu_set_t *set = CPU_ALLOC(max);
        if (!set)
            break;
        if (!sched_getaffinity(0, CPU_ALLOC_SIZE(max), set))
            n = CPU_COUNT_S(CPU_ALLOC_SIZE(max), set);
        CPU_FREE(set);
        if (n > 0)
            break;
    }
    return n;
}

/* Collects what is allowed of each object of a type; objects of which nothing is allowed are left out. */
static weir_status collect_sets(struct wr_binding *b, hwloc_obj_type_t type, hwloc_const_cpuset_t allowed,
                                weir_error *err)
{
    int n = hwloc_get_nbobjs_by_type(b->topology, type);
    if (n <= 0)
        return WEIR_OK;
    b->sets = calloc((size_t)n, sizeof *b->sets);
    if (!b->sets)
        return wr_error_memory(err, (size_t)n * sizeof *b->sets, "the binding");
    for (hwloc_obj_t obj = NULL; (obj = hwloc_get_next_obj_by_type(b->topology, type, obj));) {
        if (!obj->cpuset || !hwloc_bitmap_intersects(obj->cpuset, allowed))
            continue;
        hwloc_cpuset_t set = hwloc_bitmap_dup(obj->cpuset);
        if (!set)
            return wr_error_memory(err, sizeof *b->sets, "the binding");
        hwloc_bitmap_and(set, set, allowed);
        b->sets[b->nsets++] = set;
    }
    return WEIR_OK;
}

static weir_status load(struct wr_binding *b, enum wr_bind bind, weir_error *err)
{
    if (hwloc_topology_init(&b->topology)) {
        b->topology = NULL;
        return wr_error_memory(err, sizeof b, "hwloc");
    }
    if (hwloc_topology_load(b->topology))
        return wr_error_set(err, WEIR_ERR_SYSTEM, "run with --bind none", "hwloc cannot describe this host");
    hwloc_cpuset_t allowed = hwloc_bitmap_alloc();
    if (!allowed)
        return wr_error_memory(err, sizeof allowed, "the binding");
    if (hwloc_get_cpubind(b->topology, allowed, HWLOC_CPUBIND_PROCESS) || hwloc_bitmap_iszero(allowed))
        hwloc_bitmap_copy(allowed, hwloc_topology_get_allowed_cpuset(b->topology));
    weir_status status = collect_sets(b, bind == WR_BIND_NUMA ? HWLOC_OBJ_NUMANODE : HWLOC_OBJ_CORE, allowed, err);
    if (!status && b->nsets == 0) { /* virtual machines without cores listed */
        free(b->sets);
        b->sets = NULL;
        status = collect_sets(b, HWLOC_OBJ_PU, allowed, err);
    }
    hwloc_bitmap_free(allowed);
    if (!status && b->nsets == 0)
        status = wr_error_set(err, WEIR_ERR_SYSTEM, "run with --bind none", "hwloc lists no core of this host");
    return status;
}

weir_status wr_binding_create(enum wr_bind bind, int64_t count, struct wr_binding **binding, weir_error *err)
{
    *binding = NULL;
    if (bind == WR_BIND_NONE || (bind == WR_BIND_AUTO && count > allowed_processors()))
        return WEIR_OK;
    struct wr_binding *b = calloc(1, sizeof *b);
    if (!b)
        return wr_error_memory(err, sizeof *b, "the binding");
    b->count = count;
    weir_status status = load(b, bind, err);
    if (bind == WR_BIND_AUTO && (status || count > b->nsets)) { /* nobody asked for it: go without */
        wr_binding_destroy(b);
        return WEIR_OK;
    }
    if (status) {
        wr_binding_destroy(b);
        return status;
    }
    *binding = b;
    return WEIR_OK;
}

int wr_binding_apply(const struct wr_binding *binding, int64_t local)
{
    if (!binding)
        return 0;
    /* spread over all domains, neighbours close together, and as many ranks on each as on any other, give or
     * take one */
    hwloc_const_cpuset_t set = binding->sets[local * binding->nsets / binding->count];
    return hwloc_set_cpubind(binding->topology, set, HWLOC_CPUBIND_PROCESS) ? errno : 0;
}

void wr_binding_destroy(struct wr_binding *binding)
{
    if (!binding)
        return;
    for (int64_t i = 0; i < binding->nsets; i++)
        hwloc_bitmap_free(binding->sets[i]);
    free(binding->sets);
    if (binding->topology)
        hwloc_topology_destroy(binding->topology);
    free(binding);
}
