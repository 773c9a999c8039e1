/* SPDX-License-Identifier: BSD-3-Clause */
/* --bind: which cores or NUMA domains each rank of a host may run on. */
#ifndef WEIRRUN_BIND_H
#define WEIRRUN_BIND_H

#include <stdint.h>

#include <weir/status.h>

#include "tools/weirrun_order.h"

struct wr_binding;

/*
 * Asks hwloc for the cores or NUMA domains that this process may use, for `count` ranks. *binding is NULL
 * when ranks are not to be bound: WR_BIND_NONE, or WR_BIND_AUTO with more ranks than cores. WEIR_ERR_SYSTEM
 * when hwloc fails.
 */
weir_status wr_binding_create(enum wr_bind bind, int64_t count, struct wr_binding **binding, weir_error *err);

/* Binds the calling process as the rank `local` of 0..count-1; 0 or an errno. With binding NULL nothing
 * happens. */
int wr_binding_apply(const struct wr_binding *binding, int64_t local);

void wr_binding_destroy(struct wr_binding *binding);

#endif
