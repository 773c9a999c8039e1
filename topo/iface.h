/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel's network interfaces as this process sees them, in its own network namespace. */
#ifndef WR_TOPO_IFACE_H
#define WR_TOPO_IFACE_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/status.h>

struct wr_iface {
    char name[IF_NAMESIZE];
    char mac[24];      /* hardware address "aa:bb:..." in lower case, at most 6 bytes; "" when it has none */
    bool loopback, up; /* up: enabled and with a carrier */
    bool has_address;  /* an IPv4 or a global IPv6 address */
    uint32_t mbit_s;   /* 0 when unknown */
};

struct wr_iface_list {
    struct wr_iface *items;
    size_t n;
};

/* Asks the kernel; an empty list is no error. */
weir_status wr_iface_list(struct wr_iface_list *list, weir_error *err);
void wr_iface_list_free(struct wr_iface_list *list);

/* The interface of that name, or NULL. */
const struct wr_iface *wr_iface_find(const struct wr_iface_list *list, const char *name);

/* Whether the name is one that bridges, containers and virtual machines give to their ends of virtual cables. */
bool wr_iface_name_is_virtual(const char *name);

#endif
