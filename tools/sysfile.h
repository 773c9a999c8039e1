/* SPDX-License-Identifier: BSD-3-Clause */
/* Small files of /proc and /sys, and control groups. */
#ifndef WR_TOOLS_SYSFILE_H
#define WR_TOOLS_SYSFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first line of a file without its end; false when it cannot be read. */
bool sys_read(const char *path, char *buf, size_t size);

/* The same for file `name` of a directory. */
bool sys_read_in(const char *dir, const char *name, char *buf, size_t size);

/* The rest of the first line that starts with `field`, blanks skipped; false when there is none. */
bool sys_field(const char *path, const char *field, char *buf, size_t size);

/* Whether a directory exists and has an entry. */
bool sys_has_entries(const char *path);

/* The directories of this process's control group for a controller ("memory", "cpu"), its own first, then those above it,
 * of control groups version 1 or 2. Returns their number. */
enum { CGROUP_PATH_MAX = 512, CGROUP_DEPTH_MAX = 16 };
int sys_cgroup_dirs(const char *controller, char dirs[CGROUP_DEPTH_MAX][CGROUP_PATH_MAX]);

#endif
