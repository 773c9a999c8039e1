/* SPDX-License-Identifier: BSD-3-Clause */
/* The network: interfaces near the ranks, and what libfabric and UCX really open. */
#include <string.h>

#include "base/str.h"
#include "tools/fabrics.h"
#include "tools/weir-doctor.h"

/* What the node has; said by its first rank. */
static void check_nics_of_node(struct doctor *d, int node)
{
    int n = weir_topo_nnics(d->topo, node), unknown = 0;
    char names[200] = "";
    for (int i = 0; i < n; i++) {
        weir_device nic = {.size = sizeof nic};
        if (weir_topo_nic(d->topo, node, i, &nic))
            continue;
        wr_str_append(names, sizeof names, *names ? ", " : "");
        wr_str_append(names, sizeof names, nic.name);
        unknown += weir_topo_nic_distance(d->topo, d->rank, i) < 0;
    }
    if (n <= 0)
        doctor_say(d, weir_topo_nnodes(d->topo) > 1 ? LEVEL_WARNING : LEVEL_NOTE, SCOPE_NODE, "network interface",
                   "see whether the interface is up (ip link) and visible in this container",
                   "there is no network interface but loopback");
    else
        doctor_say(d, LEVEL_OK, SCOPE_NODE, "network interface", NULL, "has %s%s", names,
                   unknown ? "; the host does not say which NUMA domain is near" : "");
}

void doctor_check_nics(struct doctor *d)
{
    weir_device nic = {.size = sizeof nic};
    if (!d->topo)
        return;
    int node = weir_topo_node(d->topo, d->rank), choice = weir_topo_nic_choice(d->topo, d->rank);
    if (weir_topo_local_rank(d->topo, d->rank) == 0)
        check_nics_of_node(d, node);
    if (choice >= 0 && !weir_topo_nic(d->topo, node, choice, &nic) && weir_topo_nic_distance(d->topo, d->rank, choice) >= 2)
        doctor_say(d, LEVEL_WARNING, SCOPE_RANK, "network interface",
                   "bind the rank to cores near the interface (weir-info --topo shows them)",
                   "the nearest interface, %s, is in another package (near NUMA domain %d)", nic.name, nic.numa);
}

static bool is_rdma(const struct fabric *f)
{
    static const char *const names[] = {"verbs", "cxi", "efa", "opx", "psm", "gni", "rc_", "dc_", "ud_", "bgq"};
    for (size_t i = 0; i < WR_ARRAY_SIZE(names); i++)
        if (!strncmp(f->name, names[i], strlen(names[i])))
            return true;
    return false;
}

static void say_library(struct doctor *d, const struct fabrics *fabrics, int which)
{
    static const char *const libraries[] = {"libfabric", "ucx"};
    static const char *const exclude[] = {"FI_PROVIDER=^", "UCX_TLS=^"};
    const char *subject = libraries[which];
    char names[300] = "", fix[160];
    int opened = 0;
    for (size_t i = 0; i < fabrics->n; i++) {
        const struct fabric *f = &fabrics->list[i];
        if (strcmp(f->library, subject))
            continue;
        if (f->opens) {
            wr_str_append(names, sizeof names, opened++ ? ", " : "");
            wr_str_append(names, sizeof names, f->name);
        }
        if (!*f->why)
            continue;
        snprintf(fix, sizeof fix, "%s%s keeps programs away from it", exclude[which], f->name);
        doctor_say(d, f->opens ? LEVEL_NOTE : LEVEL_WARNING, SCOPE_NODE, subject, fix, "%s is offered, but %s%s", f->name,
                   f->opens ? "not everywhere: " : "does not open: ", f->why);
    }
    if (opened)
        doctor_say(d, LEVEL_OK, SCOPE_NODE, subject, NULL, "opens %s", names);
    else if (*fabrics->failure[which])
        doctor_say(d, LEVEL_PROBLEM, SCOPE_NODE, subject, "reinstall it, or configure weir with --without-libfabric or --without-ucx",
                   "%s", fabrics->failure[which]);
}

void doctor_check_fabrics(struct doctor *d)
{
    struct fabrics fabrics;
    bool rdma = false;
    int opened = 0;
    fabrics_find(&fabrics);
    say_library(d, &fabrics, 0);
    say_library(d, &fabrics, 1);
    for (size_t i = 0; i < fabrics.n; i++) {
        rdma |= fabrics.list[i].opens && is_rdma(&fabrics.list[i]);
        opened += fabrics.list[i].opens;
    }
    if (!opened)
        doctor_say(d, LEVEL_PROBLEM, SCOPE_NODE, "network", "install a provider for the network of this machine (fi_info, ucx_info -d)",
                   "neither libfabric nor UCX opens anything: only ranks of one node can talk");
    else if (!rdma)
        doctor_say(d, LEVEL_NOTE, SCOPE_NODE, "network", NULL,
                   "nothing that opens has RDMA (verbs, cxi, efa, opx, psm, rc, ud): between nodes data goes by TCP");
    fabrics_free(&fabrics);
}
