/* SPDX-License-Identifier: BSD-3-Clause */
#include "topo/device.h"

#include <stdlib.h>

struct wr_device *wr_device_add(struct wr_device_list *list)
{
    if (list->n == WR_DEVICES_MAX)
        return NULL;
    if (list->n == list->cap) {
        size_t cap = list->cap ? 2 * list->cap : 8;
        struct wr_device *items = realloc(list->items, cap * sizeof *items);
        if (!items)
            return NULL;
        list->items = items;
        list->cap = cap;
    }
    struct wr_device *device = &list->items[list->n++];
    memset(device, 0, sizeof *device);
    device->numa = device->package = -1;
    return device;
}

void wr_device_list_free(struct wr_device_list *list)
{
    free(list->items);
    memset(list, 0, sizeof *list);
}

static uint64_t bus_number(const struct wr_device *device)
{
    if (!(device->flags & WR_DEVICE_BUS))
        return UINT64_MAX;
    return (uint64_t)device->domain << 24 | (uint64_t)device->bus << 16 | (uint64_t)device->slot << 8 |
           device->function;
}

static int compare_devices(const void *a, const void *b)
{
    const struct wr_device *x = a, *y = b;
    uint64_t bus_x = bus_number(x), bus_y = bus_number(y);
    if (bus_x != bus_y)
        return bus_x < bus_y ? -1 : 1;
    return strcmp(x->name, y->name);
}

void wr_device_sort(struct wr_device_list *list)
{
    if (list->n)
        qsort(list->items, list->n, sizeof *list->items, compare_devices);
    for (size_t i = 0; i < list->n; i++)
        list->items[i].serial = (uint32_t)i;
}

void wr_device_put(struct wr_buf *buf, const struct wr_device_list *list)
{
    wr_put_u(buf, list->n);
    for (size_t i = 0; i < list->n; i++) {
        const struct wr_device *d = &list->items[i];
        wr_put_text(buf, d->name);
        wr_put_text(buf, d->interface);
        wr_put_u(buf, d->flags);
        if (d->flags & WR_DEVICE_BUS) {
            wr_put_u(buf, d->domain);
            wr_put_u(buf, d->bus);
            wr_put_u(buf, d->slot);
            wr_put_u(buf, d->function);
        }
        wr_put_u(buf, d->vendor);
        wr_put_u(buf, d->device);
        wr_put_u(buf, d->mbit_s);
        wr_put_index(buf, d->numa);
        wr_put_index(buf, d->package);
        wr_put_u(buf, d->serial);
    }
}

void wr_device_get(struct wr_reader *reader, struct wr_device_list *list)
{
    size_t n = (size_t)wr_get_u(reader, WR_DEVICES_MAX);
    for (size_t i = 0; i < n && !reader->bad; i++) {
        struct wr_device *d = wr_device_add(list);
        if (!d) {
            reader->bad = true;
            return;
        }
        wr_get_text(reader, d->name, sizeof d->name);
        wr_get_text(reader, d->interface, sizeof d->interface);
        d->flags = (uint8_t)wr_get_u(reader, WR_DEVICE_FLAGS);
        if (d->flags & WR_DEVICE_BUS) {
            d->domain = (uint32_t)wr_get_u(reader, UINT32_MAX);
            d->bus = (uint8_t)wr_get_u(reader, UINT8_MAX);
            d->slot = (uint8_t)wr_get_u(reader, UINT8_MAX);
            d->function = (uint8_t)wr_get_u(reader, UINT8_MAX);
        }
        d->vendor = (uint16_t)wr_get_u(reader, UINT16_MAX);
        d->device = (uint16_t)wr_get_u(reader, UINT16_MAX);
        d->mbit_s = (uint32_t)wr_get_u(reader, UINT32_MAX);
        d->numa = wr_get_index(reader, INT16_MAX);
        d->package = wr_get_index(reader, INT16_MAX);
        d->serial = (uint32_t)wr_get_u(reader, UINT32_MAX);
    }
}

int wr_device_distance(const struct wr_device *device, int package, int numa)
{
    if ((device->numa < 0 && device->package < 0) || (numa < 0 && package < 0))
        return -1;
    if (numa >= 0 && numa == device->numa)
        return 0;
    if (package >= 0 && package == device->package)
        return 1;
    return 2;
}
