/* SPDX-License-Identifier: BSD-3-Clause */
/* Network interfaces and accelerators of a machine. */
#include "topo/machine.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/error.h"
#include "topo/iface.h"

static hwloc_obj_t pci_parent(hwloc_obj_t obj)
{
    while (obj && obj->type != HWLOC_OBJ_PCI_DEVICE)
        obj = obj->parent;
    return obj;
}

static void set_pci(struct wr_device *device, hwloc_obj_t pci)
{
    const struct hwloc_pcidev_attr_s *attr = &pci->attr->pcidev;
    device->flags |= WR_DEVICE_BUS;
    device->domain = attr->domain;
    device->bus = attr->bus;
    device->slot = attr->dev;
    device->function = attr->func;
    device->vendor = attr->vendor_id;
    device->device = attr->device_id;
}

static void set_locality(const struct wr_machine *machine, struct wr_device *device, hwloc_obj_t obj)
{
    hwloc_obj_t holder = hwloc_get_non_io_ancestor_obj(machine->topology, obj);
    if (!holder || !holder->cpuset)
        return;
    struct wr_binding binding = wr_machine_locate(machine, holder->cpuset);
    device->numa = binding.numa;
    device->package = binding.package;
}

static struct wr_device *find_by_pci(const struct wr_device_list *list, hwloc_obj_t pci)
{
    for (size_t i = 0; pci && i < list->n; i++) {
        struct wr_device *d = &list->items[i];
        if ((d->flags & WR_DEVICE_BUS) && d->domain == pci->attr->pcidev.domain && d->bus == pci->attr->pcidev.bus &&
            d->slot == pci->attr->pcidev.dev && d->function == pci->attr->pcidev.func)
            return d;
    }
    return NULL;
}

/* "100 Gb/sec (4X EDR)" of the fastest port */
static uint32_t fabric_speed(const char *name)
{
    uint32_t best = 0;
    for (int port = 1; port <= 8; port++) {
        char path[160], text[64];
        double gbit_s;
        snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/%d/rate", name, port);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            break;
        ssize_t len = read(fd, text, sizeof text - 1);
        close(fd);
        if (len <= 0)
            continue;
        text[len] = '\0';
        if (sscanf(text, "%lf Gb/sec", &gbit_s) == 1 && gbit_s > 0 && gbit_s < 1e6)
            best = WR_MAX(best, (uint32_t)(gbit_s * 1000));
    }
    return best;
}

/* hwloc gives a fabric's port states as numbers, 4 being active. Down: it has ports, and none is active. */
static bool all_ports_down(hwloc_obj_t osdev)
{
    bool any = false;
    for (int port = 1; port <= 8; port++) {
        char key[24];
        snprintf(key, sizeof key, "Port%dState", port);
        const char *state = hwloc_obj_get_info_by_name(osdev, key);
        if (state && atoi(state) == 4)
            return false;
        any = any || state;
    }
    return any;
}

/*
 * hwloc reads /sys, which can be that of another network namespace: an interface counts only when this process has one
 * of that name and hardware address.
 */
static const struct wr_iface *own_interface(const struct wr_iface_list *ifaces, hwloc_obj_t osdev)
{
    const struct wr_iface *iface = wr_iface_find(ifaces, osdev->name);
    const char *mac = hwloc_obj_get_info_by_name(osdev, "Address");
    if (iface && mac && iface->mac[0] && strcasecmp(mac, iface->mac))
        return NULL;
    return iface;
}

static weir_status add_nic(const struct wr_machine *machine, const struct wr_iface_list *ifaces, hwloc_obj_t osdev,
                           struct wr_device_list *nics, weir_error *err)
{
    bool fabric = osdev->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS;
    const struct wr_iface *iface = NULL;
    hwloc_obj_t pci = pci_parent(osdev);
    if (!osdev->name || (!fabric && osdev->attr->osdev.type != HWLOC_OBJ_OSDEV_NETWORK))
        return WEIR_OK;
    if (!fabric && !pci && wr_iface_name_is_virtual(osdev->name))
        return WEIR_OK;
    if (!fabric && !machine->recorded && !(iface = own_interface(ifaces, osdev)))
        return WEIR_OK;
    /* the interface and the verbs of one PCI function are one network interface, named by the verbs */
    struct wr_device *device = find_by_pci(nics, pci);
    bool known = device != NULL;
    if (!known && !(device = wr_device_add(nics)))
        return wr_error_memory(err, sizeof *device, "the network interfaces");
    if (!known && pci)
        set_pci(device, pci);
    if (!known)
        set_locality(machine, device, osdev);
    if (fabric && !(device->flags & WR_DEVICE_FABRIC)) {
        device->flags = (uint8_t)(WR_DEVICE_FABRIC | (device->flags & WR_DEVICE_BUS));
        if (all_ports_down(osdev))
            device->flags |= WR_DEVICE_DOWN;
    }
    if (fabric || !known)
        wr_str_copy(device->name, sizeof device->name, osdev->name);
    if (!fabric && !device->interface[0])
        wr_str_copy(device->interface, sizeof device->interface, osdev->name);
    if (iface && !iface->up && !(device->flags & WR_DEVICE_FABRIC))
        device->flags |= WR_DEVICE_DOWN;
    uint32_t mbit_s = machine->recorded ? 0 : fabric ? fabric_speed(osdev->name) : iface->mbit_s;
    device->mbit_s = WR_MAX(device->mbit_s, mbit_s);
    return WEIR_OK;
}

/* In a container or network namespace the only interfaces may be virtual ones, which hwloc does not list. */
static weir_status add_virtual_nics(const struct wr_iface_list *ifaces, struct wr_device_list *nics, weir_error *err)
{
    for (int pass = 0; pass < 2 && !nics->n; pass++)
        for (size_t i = 0; i < ifaces->n; i++) {
            const struct wr_iface *iface = &ifaces->items[i];
            if (iface->loopback || !iface->up || !iface->has_address ||
                (pass == 0 && wr_iface_name_is_virtual(iface->name)))
                continue;
            struct wr_device *device = wr_device_add(nics);
            if (!device)
                return wr_error_memory(err, sizeof *device, "the network interfaces");
            wr_str_copy(device->name, sizeof device->name, iface->name);
            wr_str_copy(device->interface, sizeof device->interface, iface->name);
            device->mbit_s = iface->mbit_s;
        }
    return WEIR_OK;
}

weir_status wr_machine_nics(const struct wr_machine *machine, struct wr_device_list *nics, weir_error *err)
{
    struct wr_iface_list ifaces = {NULL, 0};
    weir_status status = WEIR_OK;
    if (!machine->recorded && (status = wr_iface_list(&ifaces, err)))
        return status;
    for (hwloc_obj_t osdev = NULL; !status && (osdev = hwloc_get_next_osdev(machine->topology, osdev));)
        status = add_nic(machine, &ifaces, osdev, nics, err);
    if (!status && !machine->recorded)
        status = add_virtual_nics(&ifaces, nics, err);
    wr_iface_list_free(&ifaces);
    if (status) {
        wr_device_list_free(nics);
        return status;
    }
    wr_device_sort(nics);
    return WEIR_OK;
}

/* Display controllers of a server's management processor and of emulators compute nothing. */
static bool is_accelerator(hwloc_obj_t pci)
{
    static const unsigned short displays[] = {0x1a03, 0x102b, 0x1234, 0x1013, 0x15ad, 0x1af4, 0x1b36, 0x1414};
    unsigned short class_id = pci->attr->pcidev.class_id;
    if (class_id == 0x1200)
        return true;
    if (class_id >> 8 != 0x03)
        return false;
    for (size_t i = 0; i < WR_ARRAY_SIZE(displays); i++)
        if (pci->attr->pcidev.vendor_id == displays[i])
            return false;
    return true;
}

/* The name by which people know it: a compute runtime's rather than the graphics driver's. */
static void name_accelerator(struct wr_device *device, hwloc_obj_t pci)
{
    int best = 0;
    snprintf(device->name, sizeof device->name, "%04x:%02x:%02x.%x", pci->attr->pcidev.domain, pci->attr->pcidev.bus,
             pci->attr->pcidev.dev, pci->attr->pcidev.func);
    for (hwloc_obj_t osdev = pci->io_first_child; osdev; osdev = osdev->next_sibling) {
        if (osdev->type != HWLOC_OBJ_OS_DEVICE || !osdev->name)
            continue;
        int value = osdev->attr->osdev.type == HWLOC_OBJ_OSDEV_COPROC                                     ? 3
                    : osdev->attr->osdev.type == HWLOC_OBJ_OSDEV_GPU && strncmp(osdev->name, "render", 6) ? 2
                                                                                                          : 1;
        if (osdev->attr->osdev.type != HWLOC_OBJ_OSDEV_COPROC && osdev->attr->osdev.type != HWLOC_OBJ_OSDEV_GPU)
            continue;
        if (value > best) {
            best = value;
            wr_str_copy(device->name, sizeof device->name, osdev->name);
        }
    }
}

weir_status wr_machine_gpus(const struct wr_machine *machine, struct wr_device_list *gpus, weir_error *err)
{
    for (hwloc_obj_t pci = NULL; (pci = hwloc_get_next_pcidev(machine->topology, pci));) {
        if (!is_accelerator(pci))
            continue;
        struct wr_device *device = wr_device_add(gpus);
        if (!device) {
            wr_device_list_free(gpus);
            return wr_error_memory(err, sizeof *device, "the accelerators");
        }
        set_pci(device, pci);
        set_locality(machine, device, pci);
        name_accelerator(device, pci);
    }
    wr_device_sort(gpus);
    return WEIR_OK;
}
