/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sets of hardware threads in their compact form: the number of ranges, then for each the gap since the one before and
 * its length less one (LEB128). One core takes three or four bytes, whatever the size of the machine.
 */
#ifndef WR_TOPO_CPUS_H
#define WR_TOPO_CPUS_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "topo/wire.h"

enum { WR_CPUS_MAX = 1 << 20 }; /* OS indices are below this */

/* Appends the set of all i < ncpus with `test(arg, i)`. */
void wr_cpus_put(struct wr_buf *buf, bool (*test)(const void *arg, unsigned cpu), const void *arg, unsigned ncpus);

/* Appends the set that the calling thread may run on; false when the kernel does not say. */
bool wr_cpus_put_affinity(struct wr_buf *buf);

/* Whether the bytes are one complete valid set; *count (may be NULL) gets the number of threads. */
bool wr_cpus_check(const void *data, size_t len, unsigned *count);

/* Walks over the ranges of a set that wr_cpus_check() has passed. */
struct wr_cpus_walk {
    struct wr_reader reader;
    uint64_t left, next;
};
struct wr_cpus_walk wr_cpus_walk(const void *data, size_t len);
bool wr_cpus_next(struct wr_cpus_walk *walk, unsigned *first, unsigned *last);

/* Writes the set as "0-3,8"; ends in "..." when cut. Returns buf. */
const char *wr_cpus_format(const void *data, size_t len, char *buf, size_t size);

#endif
