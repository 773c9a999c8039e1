/* SPDX-License-Identifier: BSD-3-Clause */
/* The network libraries of this host: what libfabric and UCX offer, and what of it really opens. */
#ifndef WR_TOOLS_FABRICS_H
#define WR_TOOLS_FABRICS_H

#include <stdbool.h>
#include <stddef.h>

struct fabric {
    char library[12]; /* "libfabric" or "ucx" */
    char name[48];    /* provider or transport */
    char kind[24];    /* libfabric: kinds of endpoints, "msg", "rdm", "dgram", with commas between */
    char devices[96]; /* network interfaces, with commas between; ends in "..." when cut */
    bool opens;       /* an endpoint or worker of it could be made */
    char why[160];    /* why not, or on which device not */
};

struct fabrics {
    struct fabric *list;
    size_t n;
    char failure[2][160]; /* why libfabric, UCX could not be asked at all; "" otherwise */
};

/* Lists everything and tries to open it, in probes. Never hangs. An empty list with an empty failure is a valid answer. */
void fabrics_find(struct fabrics *fabrics);
void fabrics_free(struct fabrics *fabrics);

/* Version of the library that is in use; "not built in" when weir was built without it. Returns buf. */
const char *fabrics_version_ofi(char *buf, size_t size);
const char *fabrics_version_ucx(char *buf, size_t size);

/* The probe's side: "ofi", "ofi:PROVIDER", "ucx", "ucx:TRANSPORT". Returns an exit code, -1 when `name` is none of these. */
int fabrics_probe(const char *name);

#endif
