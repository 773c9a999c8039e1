/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WR_TEST_DESCRIPTORS_H
#define WR_TEST_DESCRIPTORS_H

#include <dirent.h>
#include <stddef.h>

/* How many this process has open. */
static inline long count_descriptors(void)
{
    long n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

#endif
