/* SPDX-License-Identifier: BSD-3-Clause */
#include "topo/cpus.h"

#include <errno.h>
#include <stdio.h>

#include "base/compiler.h"

void wr_cpus_put(struct wr_buf *buf, bool (*test)(const void *arg, unsigned cpu), const void *arg, unsigned ncpus)
{
    unsigned nranges = 0, next = 0;
    for (unsigned i = 0; i < ncpus; i++)
        nranges += test(arg, i) && (i == 0 || !test(arg, i - 1));
    wr_put_u(buf, nranges);
    for (unsigned i = 0; i < ncpus; i++) {
        if (!test(arg, i))
            continue;
        unsigned first = i;
        while (i + 1 < ncpus && test(arg, i + 1))
            i++;
        wr_put_u(buf, first - next);
        wr_put_u(buf, i - first);
        next = i + 1;
    }
}

struct mask {
    const cpu_set_t *set;
    size_t size;
};

static bool in_mask(const void *arg, unsigned cpu)
{
    const struct mask *mask = arg;
    return CPU_ISSET_S(cpu, mask->size, mask->set);
}

bool wr_cpus_put_affinity(struct wr_buf *buf)
{
    /* the kernel refuses a mask that is smaller than its own */
    for (unsigned ncpus = 1024; ncpus <= WR_CPUS_MAX; ncpus *= 2) {
        struct mask mask = {.size = CPU_ALLOC_SIZE(ncpus)};
        cpu_set_t *set = CPU_ALLOC(ncpus);
        if (!set)
            return false;
        int rc = sched_getaffinity(0, mask.size, set);
        int errnum = errno;
        mask.set = set;
        if (!rc)
            wr_cpus_put(buf, in_mask, &mask, ncpus);
        CPU_FREE(set);
        if (!rc)
            return !buf->failed;
        if (errnum != EINVAL)
            return false;
    }
    return false;
}

struct wr_cpus_walk wr_cpus_walk(const void *data, size_t len)
{
    struct wr_cpus_walk walk = {.reader = wr_reader(data, len)};
    if (len)
        walk.left = wr_get_u(&walk.reader, WR_CPUS_MAX);
    return walk;
}

bool wr_cpus_next(struct wr_cpus_walk *walk, unsigned *first, unsigned *last)
{
    if (!walk->left)
        return false;
    uint64_t from = walk->next + wr_get_u(&walk->reader, WR_CPUS_MAX);
    uint64_t to = from + wr_get_u(&walk->reader, WR_CPUS_MAX);
    if (walk->reader.bad || to >= WR_CPUS_MAX) {
        walk->reader.bad = true;
        walk->left = 0;
        return false;
    }
    *first = (unsigned)from;
    *last = (unsigned)to;
    walk->next = to + 1;
    walk->left--;
    return true;
}

bool wr_cpus_check(const void *data, size_t len, unsigned *count)
{
    struct wr_cpus_walk walk = wr_cpus_walk(data, len);
    unsigned first, last, n = 0;
    while (wr_cpus_next(&walk, &first, &last))
        n += last - first + 1;
    if (count)
        *count = n;
    return !walk.reader.bad && wr_get_left(&walk.reader) == 0;
}

const char *wr_cpus_format(const void *data, size_t len, char *buf, size_t size)
{
    struct wr_cpus_walk walk = wr_cpus_walk(data, len);
    unsigned first, last;
    size_t used = 0;
    if (size)
        buf[0] = '\0';
    for (bool more = wr_cpus_next(&walk, &first, &last); more;) {
        char item[32];
        if (first == last)
            snprintf(item, sizeof item, "%s%u", used ? "," : "", first);
        else
            snprintf(item, sizeof item, "%s%u-%u", used ? "," : "", first, last);
        size_t n = strlen(item);
        more = wr_cpus_next(&walk, &first, &last);
        if (used + n + (more ? 4 : 1) > size) {
            if (used + 4 <= size)
                memcpy(buf + used, "...", 4);
            return buf;
        }
        memcpy(buf + used, item, n + 1);
        used += n;
    }
    return buf;
}
