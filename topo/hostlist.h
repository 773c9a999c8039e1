/* SPDX-License-Identifier: BSD-3-Clause */
/* Host lists as Slurm writes them: "h[0-3,7],x1,rack[1-2]n[01-16]". */
#ifndef WR_TOPO_HOSTLIST_H
#define WR_TOPO_HOSTLIST_H

#include <stdbool.h>
#include <stddef.h>

enum {
    WR_HOSTLIST_MAX = 1 << 18,  /* names in one list */
    WR_HOSTLIST_NAME_MAX = 255, /* longest name */
    WR_HOSTLIST_BRACKETS = 8    /* brackets in one name */
};

/*
 * Calls `visit` with each name in turn until it returns false. Zeros in front are kept: [08-10] gives 08, 09, 10.
 * Returns NULL when all names were visited, otherwise a phrase about the fault (a constant string); when `visit`
 * returned false, the empty string. The text may hold anything; it need not be terminated.
 */
const char *wr_hostlist_each(const char *text, size_t len, bool (*visit)(void *arg, const char *name, size_t len),
                             void *arg);

#endif
