/* SPDX-License-Identifier: BSD-3-Clause */
/* Network interfaces and accelerators of a node, as cards and the topology hold them. */
#ifndef WR_TOPO_DEVICE_H
#define WR_TOPO_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "topo/wire.h"

enum {
    WR_DEVICE_BUS = 1,    /* it has a PCI address */
    WR_DEVICE_FABRIC = 2, /* a network interface with a fabric's verbs, not only the kernel's sockets */
    WR_DEVICE_DOWN = 4,   /* its link is known to be down */
    WR_DEVICE_FLAGS = 7
};

struct wr_device {
    char name[64];
    char interface[32]; /* the kernel's network interface on it, "" when there is none */
    uint32_t domain;    /* PCI address, with WR_DEVICE_BUS */
    uint8_t bus, slot, function;
    uint8_t flags;
    uint16_t vendor, device; /* PCI ids, 0 when unknown */
    uint32_t mbit_s;         /* link speed, 0 when unknown */
    int numa, package;       /* logical indices, -1 when unknown or not unique */
    uint32_t serial;         /* what tells devices without a PCI address apart */
};

enum { WR_DEVICES_MAX = 1024 }; /* of one kind on one node */

/* A growing list; zero-initialise it. */
struct wr_device_list {
    struct wr_device *items;
    size_t n, cap;
};

/* Appends a zeroed device with numa and package -1; NULL when out of memory or above WR_DEVICES_MAX. */
struct wr_device *wr_device_add(struct wr_device_list *list);
void wr_device_list_free(struct wr_device_list *list);

/* Orders by PCI address, those without one last, by name. */
void wr_device_sort(struct wr_device_list *list);

/* A list in a card. wr_device_get() marks the reader bad for anything invalid and for lack of memory. */
void wr_device_put(struct wr_buf *buf, const struct wr_device_list *list);
void wr_device_get(struct wr_reader *reader, struct wr_device_list *list);

/*
 * The distance of a binding (logical indices, -1 when not unique) to a device: 0 same NUMA domain, 1 same package, 2 same
 * host, -1 unknown.
 */
int wr_device_distance(const struct wr_device *device, int package, int numa);

#endif
