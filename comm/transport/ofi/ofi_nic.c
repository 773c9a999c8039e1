/* SPDX-License-Identifier: BSD-3-Clause */
/* Which interfaces of a provider a rank uses: near its NUMA domain, and spread over the ranks of the node. */
#include "comm/transport/ofi/ofi.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads one small file of /sys; false when it is not there. */
static bool wr_ofi_sysfs(const char *path, char *buf, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, buf, size - 1);
    close(fd);
    if (n < 0)
        return false;
    while (n > 0 && (buf[n - 1] == '\n' || buf[n - 1] == ' '))
        n--;
    buf[n] = '\0';
    return true;
}

const char *wr_ofi_nic_name(const struct fi_info *info, char *buf, size_t size)
{
    const char *name = info->domain_attr->name;
    if (info->nic && info->nic->device_attr && info->nic->device_attr->name)
        name = info->nic->device_attr->name;
    wr_str_copy(buf, size, name ? name : "");
    return buf;
}

/* The NUMA domain that a device says it is attached to, -1 when it does not say. */
static int wr_ofi_nic_numa(const struct fi_info *info, const char *name)
{
    char path[256], text[32];
    int64_t value;
    const struct fi_bus_attr *bus = info->nic ? info->nic->bus_attr : NULL;
    if (bus && bus->bus_type == FI_BUS_PCI) {
        const struct fi_pci_attr *pci = &bus->attr.pci;
        snprintf(path, sizeof path, "/sys/bus/pci/devices/%04x:%02x:%02x.%x/numa_node", pci->domain_id, pci->bus_id,
                 pci->device_id, pci->function_id);
        if (wr_ofi_sysfs(path, text, sizeof text) && wr_parse_int(text, &value))
            return (int)value;
    }
    static const char *const classes[] = {"net", "infiniband"};
    for (size_t i = 0; i < WR_ARRAY_SIZE(classes) && !strchr(name, '/'); i++) {
        snprintf(path, sizeof path, "/sys/class/%s/%.64s/device/numa_node", classes[i], name);
        if (wr_ofi_sysfs(path, text, sizeof text) && wr_parse_int(text, &value))
            return (int)value;
    }
    return -1;
}

/* The kernel's distance between two NUMA domains: 10 is the same. */
static int wr_ofi_numa_distance(int from, int to)
{
    char path[96], text[1024];
    if (from < 0 || to < 0 || from == to)
        return 10; /* unknown counts as near: then nothing is preferred */
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d/distance", from);
    if (!wr_ofi_sysfs(path, text, sizeof text))
        return 20;
    char *at = text;
    for (int i = 0; i <= to; i++) {
        char *end;
        long d = strtol(at, &end, 10);
        if (end == at)
            return 20; /* nodes with holes in their numbering: the line is shorter */
        if (i == to)
            return (int)d;
        at = end;
    }
    return 20;
}

void wr_ofi_nic_describe(const struct fi_info *info, int numa, struct wr_ofi_nic *nic)
{
    char name[128], path[256], text[32];
    wr_ofi_nic_name(info, name, sizeof name);
    nic->numa = wr_ofi_nic_numa(info, name);
    nic->distance = wr_ofi_numa_distance(numa, nic->numa);
    nic->loopback = !strcmp(name, "lo");
    nic->up = true;
    if (info->nic && info->nic->link_attr)
        nic->up = info->nic->link_attr->state != FI_LINK_DOWN;
    nic->physical = info->nic != NULL;
    if (!strchr(name, '/')) {
        snprintf(path, sizeof path, "/sys/class/net/%.64s/device", name);
        if (!access(path, F_OK))
            nic->physical = true;
        snprintf(path, sizeof path, "/sys/class/net/%.64s/operstate", name);
        if (wr_ofi_sysfs(path, text, sizeof text) && !strcmp(text, "down"))
            nic->up = false;
    }
}

static bool wr_ofi_nic_called(const struct fi_info *info, const char *want, size_t len)
{
    char name[128];
    wr_ofi_nic_name(info, name, sizeof name);
    if (strlen(name) == len && !strncmp(name, want, len))
        return true;
    const char *domain = info->domain_attr->name; /* e.g. "mlx5_0-xrc" */
    return domain && strlen(domain) == len && !strncmp(domain, want, len);
}

/* WEIR_NIC is a list, in the order of use: the first is the main interface. */
static weir_status wr_ofi_nics_named(const char *list, struct fi_info *const *info, size_t n, struct fi_info *chosen[],
                                     unsigned *nchosen, weir_error *err)
{
    *nchosen = 0;
    for (const char *at = list; *at;) {
        size_t len = strcspn(at, ",");
        size_t i = 0;
        while (i < n && !wr_ofi_nic_called(info[i], at, len))
            i++;
        if (i == n) {
            char text[256] = "", name[128];
            for (size_t k = 0; k < n; k++) {
                wr_str_append(text, sizeof text, k ? ", " : "");
                wr_str_append(text, sizeof text, wr_ofi_nic_name(info[k], name, sizeof name));
            }
            return wr_error_set(err, WEIR_ERR_CONFIG, "choose one of these, or unset WEIR_NIC",
                                "WEIR_NIC=%s: provider %s has no interface \"%.*s\"; there are: %s", list,
                                info[0]->fabric_attr->prov_name, (int)len, at, text);
        }
        if (*nchosen < WR_OFI_RAILS)
            chosen[(*nchosen)++] = info[i];
        at += len + (at[len] == ',');
    }
    return WEIR_OK;
}

struct wr_ofi_ranked {
    struct fi_info *info;
    struct wr_ofi_nic nic;
    bool wanted; /* params->nic */
    unsigned order;
};

/* Working before loopback, physical before virtual, the topology's choice, near before far, then libfabric's order. */
static int wr_ofi_ranked_compare(const void *pa, const void *pb)
{
    const struct wr_ofi_ranked *a = pa, *b = pb;
    if (a->nic.up != b->nic.up)
        return a->nic.up ? -1 : 1;
    if (a->nic.loopback != b->nic.loopback)
        return a->nic.loopback ? 1 : -1;
    if (a->nic.physical != b->nic.physical)
        return a->nic.physical ? -1 : 1;
    if (a->wanted != b->wanted)
        return a->wanted ? -1 : 1;
    if (a->nic.distance != b->nic.distance)
        return a->nic.distance < b->nic.distance ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

/* How many, from the front, are as good as the first and on the same network, so that ranks can be spread over them. */
static unsigned wr_ofi_equals(const struct wr_ofi_ranked *r, size_t n)
{
    unsigned equal = 1;
    while (equal < n && r[equal].nic.up == r[0].nic.up && r[equal].nic.loopback == r[0].nic.loopback &&
           r[equal].nic.physical == r[0].nic.physical && r[equal].nic.distance == r[0].nic.distance &&
           !strcmp(r[equal].info->fabric_attr->name, r[0].info->fabric_attr->name))
        equal++;
    return equal;
}

/* Puts the topology's choice, which stands in front, back to its place among its equals; returns that place. */
static unsigned wr_ofi_place_wanted(struct wr_ofi_ranked *r, unsigned equal)
{
    struct wr_ofi_ranked wanted = r[0];
    unsigned place = 0;
    while (place + 1 < equal && r[place + 1].order < wanted.order) {
        r[place] = r[place + 1];
        place++;
    }
    r[place] = wanted;
    return place;
}

weir_status wr_ofi_nics_choose(const struct wr_transport_params *params, struct fi_info *const *info, size_t n,
                               struct fi_info *chosen[WR_OFI_RAILS], unsigned *nchosen, weir_error *err)
{
    if (params->config->nic)
        return wr_ofi_nics_named(params->config->nic, info, n, chosen, nchosen, err);
    struct wr_ofi_ranked *r = calloc(n, sizeof *r);
    if (!r)
        return wr_error_memory(err, n * sizeof *r, "the interfaces of libfabric");
    for (size_t i = 0; i < n; i++) {
        r[i].info = info[i];
        r[i].order = (unsigned)i;
        r[i].wanted = params->nic && wr_ofi_nic_called(info[i], params->nic, strlen(params->nic));
        wr_ofi_nic_describe(info[i], params->numa, &r[i].nic);
    }
    qsort(r, n, sizeof *r, wr_ofi_ranked_compare);
    unsigned equal = wr_ofi_equals(r, n), usable = 1;
    while (usable < n && r[usable].nic.up && r[usable].nic.loopback == r[0].nic.loopback)
        usable++;
    unsigned ranks = params->node_size > 0 ? (unsigned)params->node_size : 1;
    unsigned me = params->node_rank > 0 ? (unsigned)params->node_rank : 0;
    /* With fewer ranks than interfaces each rank stripes over its share of them. */
    unsigned rails = params->config->rails > 0 ? (unsigned)params->config->rails : WR_MAX(equal / ranks, 1u);
    rails = WR_MIN(rails, WR_MIN(usable, (unsigned)WR_OFI_RAILS));
    unsigned share = WR_MAX(WR_MIN(rails, equal / ranks), 1u), first = me * share % equal, step = 1;
    if (r[0].wanted) { /* the topology has spread the ranks already, one after the other */
        first = wr_ofi_place_wanted(r, equal);
        step = rails <= equal / ranks ? ranks : 1;
    }
    *nchosen = 0;
    for (unsigned i = 0; i < rails; i++)
        chosen[(*nchosen)++] = r[i < equal ? (first + i * step) % equal : i].info;
    free(r);
    return WEIR_OK;
}
