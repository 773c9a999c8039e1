/* SPDX-License-Identifier: BSD-3-Clause */
/* How well the ranks fit the processors of their hosts, judged from the topology. */
#ifndef WR_TOOLS_PLACEMENT_H
#define WR_TOOLS_PLACEMENT_H

#include <stdbool.h>

#include <weir/topo.h>

struct placement {
    int crowded_ranks, crowded_cpus; /* of the host with most ranks a hardware thread */
    char crowded_host[64];
    int same_core[2];                /* two ranks of a host that are bound to one and the same core; -1 when none */
    char same_core_host[64];
    bool unbound;                    /* on some host all of several ranks may run on the same several threads */
    char unbound_host[64];
    int spread; /* the first bound rank whose binding crosses NUMA domains; -1 when none */
};

/* False when memory ran out. */
bool placement_of(const weir_topo *topo, struct placement *placement);

#endif
