/* SPDX-License-Identifier: BSD-3-Clause */
/* Asking a topology about network interfaces and accelerators. */
#include "topo/tree.h"

#include <stdio.h>
#include <string.h>

#include "base/compiler.h"

static const struct wr_devices no_devices;

static const struct wr_devices *devices_of(const weir_topo *topo, int node)
{
    if (!topo || node < 0 || node >= topo->nnodes)
        return NULL;
    return topo->ndevices ? &topo->devices[topo->nodes[node].devices] : &no_devices;
}

/* Differs between the devices of a node: the PCI address, or the place in the list above all PCI addresses. */
static uint64_t device_address(const struct wr_device *device)
{
    if (device->flags & WR_DEVICE_BUS)
        return (uint64_t)device->domain << 24 | (uint64_t)device->bus << 16 | (uint64_t)device->slot << 8 |
               device->function;
    return (uint64_t)1 << 56 | device->serial;
}

static weir_status describe(const struct wr_device_list *list, int index, weir_device *device)
{
    if (index < 0 || (size_t)index >= list->n || !device || device->size < sizeof device->size)
        return WEIR_ERR_INVALID;
    const struct wr_device *d = &list->items[index];
    weir_device full = {.size = device->size,
                        .numa = d->numa,
                        .gbit_s = d->mbit_s / 1000.0,
                        .address = device_address(d)};
    wr_str_copy(full.name, sizeof full.name, d->name);
    wr_str_copy(full.interface, sizeof full.interface, d->interface);
    if (d->flags & WR_DEVICE_BUS)
        snprintf(full.bus, sizeof full.bus, "%04x:%02x:%02x.%x", d->domain, d->bus, d->slot, d->function);
    if (d->vendor)
        snprintf(full.vendor, sizeof full.vendor, "%04x:%04x", d->vendor, d->device);
    memcpy(device, &full, WR_MIN(device->size, sizeof full));
    return WEIR_OK;
}

int weir_topo_nnics(const weir_topo *topo, int node)
{
    const struct wr_devices *devices = devices_of(topo, node);
    return devices ? (int)devices->nics.n : -1;
}

weir_status weir_topo_nic(const weir_topo *topo, int node, int index, weir_device *nic)
{
    const struct wr_devices *devices = devices_of(topo, node);
    return devices ? describe(&devices->nics, index, nic) : WEIR_ERR_INVALID;
}

int weir_topo_ngpus(const weir_topo *topo, int node)
{
    const struct wr_devices *devices = devices_of(topo, node);
    return devices ? (int)devices->gpus.n : -1;
}

weir_status weir_topo_gpu(const weir_topo *topo, int node, int index, weir_device *gpu)
{
    const struct wr_devices *devices = devices_of(topo, node);
    return devices ? describe(&devices->gpus, index, gpu) : WEIR_ERR_INVALID;
}

static int place_distance(const struct wr_place *place, const struct wr_device *nic)
{
    return wr_device_distance(nic, place->package, place->numa);
}

int weir_topo_nic_distance(const weir_topo *topo, int rank, int index)
{
    const struct wr_devices *devices = devices_of(topo, weir_topo_node(topo, rank));
    if (!devices || index < 0 || (size_t)index >= devices->nics.n)
        return -1;
    return place_distance(&topo->places[rank], &devices->nics.items[index]);
}

/* What makes an interface less wanted, apart from distance. Link speeds within a factor of four count as equal. */
static int unfitness(const struct wr_device_list *nics, const struct wr_device *nic)
{
    bool any_fabric = false;
    uint32_t fastest = 0;
    for (size_t i = 0; i < nics->n; i++)
        if (!(nics->items[i].flags & WR_DEVICE_DOWN)) {
            any_fabric = any_fabric || (nics->items[i].flags & WR_DEVICE_FABRIC);
            fastest = WR_MAX(fastest, nics->items[i].mbit_s);
        }
    if (nic->flags & WR_DEVICE_DOWN)
        return 4;
    return (any_fabric && !(nic->flags & WR_DEVICE_FABRIC) ? 2 : 0) +
           (nic->mbit_s && nic->mbit_s < fastest / 4 ? 1 : 0);
}

/*
 * The interfaces that a rank likes best, in order, as indices in `best`; returns how many. Ranks of the same place get
 * the same list.
 */
static int best_nics(const struct wr_device_list *nics, const struct wr_place *place, uint16_t best[WR_DEVICES_MAX])
{
    int n = 0, best_cost = 0;
    for (size_t i = 0; i < nics->n; i++) {
        int distance = place_distance(place, &nics->items[i]);
        int cost = 4 * unfitness(nics, &nics->items[i]) + (distance < 0 ? 3 : distance);
        if (n && cost > best_cost)
            continue;
        if (!n || cost < best_cost)
            n = 0;
        best_cost = cost;
        best[n++] = (uint16_t)i;
    }
    return n;
}

int weir_topo_nic_choice(const weir_topo *topo, int rank)
{
    const struct wr_devices *devices = devices_of(topo, weir_topo_node(topo, rank));
    uint16_t best[WR_DEVICES_MAX], theirs[WR_DEVICES_MAX];
    if (!devices || !devices->nics.n)
        return -1;
    const struct wr_node *node = &topo->nodes[topo->node_of[rank]];
    const struct wr_place *mine = &topo->places[rank];
    int n = best_nics(&devices->nics, mine, best), turn = 0;
    if (n == 1)
        return best[0];
    /* count the ranks before this one that share its choice, so that all of the interfaces get used */
    for (int i = 0; i < topo->local_rank[rank]; i++) {
        const struct wr_place *place = &topo->places[topo->node_ranks[node->first + i]];
        bool same = place->numa == mine->numa && place->package == mine->package;
        if (same || (best_nics(&devices->nics, place, theirs) == n && !memcmp(best, theirs, (size_t)n * sizeof *best)))
            turn++;
    }
    return best[turn % n];
}

int wr_topo_nic_by_bus(const weir_topo *topo, int node, unsigned domain, unsigned bus, unsigned device,
                       unsigned function)
{
    const struct wr_devices *devices = devices_of(topo, node);
    for (size_t i = 0; devices && i < devices->nics.n; i++) {
        const struct wr_device *d = &devices->nics.items[i];
        if ((d->flags & WR_DEVICE_BUS) && d->domain == domain && d->bus == bus && d->slot == device &&
            d->function == function)
            return (int)i;
    }
    return -1;
}
