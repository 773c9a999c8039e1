/* SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "tools/weirrun_launcher.h"

static bool to_text(const struct sockaddr *sa, char *address, size_t size)
{
    socklen_t len = sa->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    return !getnameinfo(sa, len, address, (socklen_t)size, NULL, 0, NI_NUMERICHOST);
}

/* The address of an interface that is up: by its name, or (name NULL) of the first that leaves this host. */
static bool interface_address(const char *name, char *address, size_t size)
{
    struct ifaddrs *all;
    bool found = false;
    if (getifaddrs(&all))
        return false;
    static const int families[] = {AF_INET, AF_INET6};
    for (size_t f = 0; f < WR_ARRAY_SIZE(families); f++)
        for (struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
            if (!i->ifa_addr || i->ifa_addr->sa_family != families[f] || !(i->ifa_flags & IFF_UP))
                continue;
            if (name ? strcmp(i->ifa_name, name) != 0 : (i->ifa_flags & IFF_LOOPBACK) != 0)
                continue;
            if (!name && families[f] == AF_INET6 &&
                IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)(const void *)i->ifa_addr)->sin6_addr))
                continue;
            found = to_text(i->ifa_addr, address, size);
        }
    freeifaddrs(all);
    return found;
}

/* The address that the kernel would send from; nothing is sent. */
static bool address_towards(const char *host, char *address, size_t size)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM}, *list;
    bool found = false;
    if (getaddrinfo(host, "22", &hints, &list))
        return false;
    for (struct addrinfo *ai = list; ai && !found; ai = ai->ai_next) {
        struct sockaddr_storage own;
        socklen_t len = sizeof own;
        int fd = socket(ai->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            continue;
        if (!connect(fd, ai->ai_addr, ai->ai_addrlen) && !getsockname(fd, (struct sockaddr *)&own, &len))
            found = to_text((struct sockaddr *)&own, address, size);
        close(fd);
    }
    freeaddrinfo(list);
    return found;
}

weir_status wr_run_address(const struct wr_run_options *o, char *address, size_t size, weir_error *err)
{
    unsigned char binary[sizeof(struct in6_addr)];
    if (o->iface) {
        if (inet_pton(AF_INET, o->iface, binary) == 1 || inet_pton(AF_INET6, o->iface, binary) == 1)
            wr_str_copy(address, size, o->iface);
        else if (!interface_address(o->iface, address, size))
            return wr_error_set(err, WEIR_ERR_INVALID, "ip address lists what there is",
                                "--iface %s is neither a numeric address nor an interface that is up", o->iface);
        return WEIR_OK;
    }
    for (int i = 0; i < o->nhosts; i++)
        if (!o->hosts[i].local && o->hosts[i].count > 0 && address_towards(o->hosts[i].name, address, size))
            return WEIR_OK;
    if (interface_address(NULL, address, size))
        return WEIR_OK;
    return wr_error_set(err, WEIR_ERR_NOT_FOUND, "give the address that the other hosts can reach with --iface",
                        "this host has no network interface that is up");
}
