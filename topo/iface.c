/* SPDX-License-Identifier: BSD-3-Clause */
#include "topo/iface.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/error.h"
#include "base/str.h"

bool wr_iface_name_is_virtual(const char *name)
{
    static const char *const prefixes[] = {"docker", "veth", "virbr", "br-", "vnet", "cni",   "flannel", "cali",
                                           "tunl",   "tun",  "tap",   "lxc", "lxd",  "vmnet", "vxlan",   "podman",
                                           "dummy",  "ifb",  "sit",   "gre", "wg",   "ovs",   "kube"};
    for (size_t i = 0; i < WR_ARRAY_SIZE(prefixes); i++)
        if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
            return true;
    /* br0, but not brocade's or others that only start alike */
    return !strcmp(name, "lo") || (!strncmp(name, "br", 2) && name[2] >= '0' && name[2] <= '9');
}

const struct wr_iface *wr_iface_find(const struct wr_iface_list *list, const char *name)
{
    for (size_t i = 0; i < list->n; i++)
        if (!strcmp(list->items[i].name, name))
            return &list->items[i];
    return NULL;
}

static bool read_sysfs(const char *iface, const char *attribute, char *buf, size_t size)
{
    char path[128];
    snprintf(path, sizeof path, "/sys/class/net/%s/%s", iface, attribute);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t len = read(fd, buf, size - 1);
    close(fd);
    if (len <= 0)
        return false;
    buf[len] = '\0';
    buf[strcspn(buf, "\n")] = '\0';
    return true;
}

/* /sys can be that of another network namespace: it is believed when the hardware address agrees. */
static void read_speed(struct wr_iface *iface)
{
    char text[64];
    int64_t mbit_s;
    if (!iface->mac[0] || !read_sysfs(iface->name, "address", text, sizeof text) || strcmp(text, iface->mac))
        return;
    if (read_sysfs(iface->name, "speed", text, sizeof text) && wr_parse_int(text, &mbit_s) && mbit_s > 0 &&
        mbit_s < UINT32_MAX)
        iface->mbit_s = (uint32_t)mbit_s;
}

static void note_address(struct wr_iface *iface, const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        iface->has_address = true;
    } else if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const void *)address;
        if (!IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
            iface->has_address = true;
    } else if (address->sa_family == AF_PACKET) {
        const struct sockaddr_ll *link = (const void *)address;
        if (link->sll_halen == 6)
            snprintf(iface->mac, sizeof iface->mac, "%02x:%02x:%02x:%02x:%02x:%02x", link->sll_addr[0],
                     link->sll_addr[1], link->sll_addr[2], link->sll_addr[3], link->sll_addr[4], link->sll_addr[5]);
    }
}

static struct wr_iface *find_or_add(struct wr_iface_list *list, size_t *cap, const char *name)
{
    struct wr_iface *known = (struct wr_iface *)wr_iface_find(list, name);
    if (known)
        return known;
    if (list->n == *cap) {
        size_t more = *cap ? 2 * *cap : 8;
        struct wr_iface *items = realloc(list->items, more * sizeof *items);
        if (!items)
            return NULL;
        list->items = items;
        *cap = more;
    }
    struct wr_iface *iface = &list->items[list->n++];
    memset(iface, 0, sizeof *iface);
    wr_str_copy(iface->name, sizeof iface->name, name);
    return iface;
}

weir_status wr_iface_list(struct wr_iface_list *list, weir_error *err)
{
    struct ifaddrs *all;
    size_t cap = 0;
    memset(list, 0, sizeof *list);
    if (getifaddrs(&all))
        return wr_error_errno(err, WEIR_ERR_SYSTEM, errno, NULL, "the network interfaces could not be listed");
    for (const struct ifaddrs *entry = all; entry; entry = entry->ifa_next) {
        char name[IF_NAMESIZE];
        wr_str_copy(name, sizeof name, entry->ifa_name);
        name[strcspn(name, ":")] = '\0'; /* an old alias such as eth0:1 */
        struct wr_iface *iface = find_or_add(list, &cap, name);
        if (!iface) {
            freeifaddrs(all);
            wr_iface_list_free(list);
            return wr_error_memory(err, 2 * cap * sizeof *iface, "the network interfaces");
        }
        iface->loopback = entry->ifa_flags & IFF_LOOPBACK;
        iface->up = (entry->ifa_flags & IFF_UP) && (entry->ifa_flags & IFF_RUNNING);
        if (entry->ifa_addr)
            note_address(iface, entry->ifa_addr);
    }
    freeifaddrs(all);
    for (size_t i = 0; i < list->n; i++)
        read_speed(&list->items[i]);
    return WEIR_OK;
}

void wr_iface_list_free(struct wr_iface_list *list)
{
    free(list->items);
    memset(list, 0, sizeof *list);
}
