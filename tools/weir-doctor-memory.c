/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory: locked memory, shared memory, huge pages, the limit of the control group. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/str.h"
#include "tools/sysfile.h"
#include "tools/weir-doctor.h"

#define MIB (1024ull * 1024)
#define GIB (1024ull * MIB)
#define TMPFS_MAGIC_NUMBER 0x01021994

static bool has_rdma_device(void)
{
    return sys_has_entries("/sys/class/infiniband") || sys_has_entries("/sys/class/cxi") ||
           !access("/dev/hfi1_0", F_OK);
}

/* CAP_IPC_LOCK: such a process may lock more than the limit. */
static bool may_exceed_memlock(void)
{
    char text[32];
    return sys_field("/proc/self/status", "CapEff:", text, sizeof text) && (strtoull(text, NULL, 16) >> 14 & 1);
}

static void check_memlock(struct doctor *d)
{
    static const char fix[] = "set 'memlock unlimited' in /etc/security/limits.conf; under Slurm also LimitMEMLOCK=infinity "
                              "in slurmd's unit and PropagateResourceLimitsExcept=MEMLOCK in slurm.conf";
    struct rlimit limit;
    char size[32];
    if (getrlimit(RLIMIT_MEMLOCK, &limit))
        return;
    if (limit.rlim_cur == RLIM_INFINITY) {
        doctor_say(d, LEVEL_OK, SCOPE_RANK, "locked memory", NULL, "unlimited");
        return;
    }
    wr_format_bytes(limit.rlim_cur, size, sizeof size);
    if (may_exceed_memlock())
        doctor_say(d, LEVEL_OK, SCOPE_RANK, "locked memory", NULL, "the limit is %s, which this process may exceed (CAP_IPC_LOCK)",
                   size);
    else if (!has_rdma_device())
        doctor_say(d, LEVEL_NOTE, SCOPE_RANK, "locked memory", NULL,
                   "limited to %s; harmless here, because there is no RDMA device that memory is registered with", size);
    else
        doctor_say(d, limit.rlim_cur < GIB ? LEVEL_PROBLEM : LEVEL_WARNING, SCOPE_RANK, "locked memory", fix,
                   "limited to %s, and an RDMA device can only use locked memory: registering more fails", size);
}

/* Whether a file can be made in /dev/shm; leaves nothing behind. */
static bool can_create_shm(void)
{
    char name[64];
    snprintf(name, sizeof name, "/weir-doctor-%ld", (long)getpid());
    int fd = shm_open(name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    shm_unlink(name);
    close(fd);
    return true;
}

static void check_shm(struct doctor *d)
{
    static const char fix[] = "mount -o remount,size=50% /dev/shm; in a container start it with --shm-size=8g or --ipc=host";
    struct statfs fs;
    char total[32], available[32];
    if (statfs("/dev/shm", &fs)) {
        doctor_say(d, LEVEL_PROBLEM, SCOPE_NODE, "/dev/shm", "mount -t tmpfs tmpfs /dev/shm", "there is no /dev/shm");
        return;
    }
    uint64_t unit = (uint64_t)fs.f_bsize, size = unit * fs.f_blocks, left = unit * fs.f_bavail;
    wr_format_bytes(size, total, sizeof total);
    wr_format_bytes(left, available, sizeof available);
    if (fs.f_type != TMPFS_MAGIC_NUMBER)
        doctor_say(d, LEVEL_WARNING, SCOPE_NODE, "/dev/shm", "mount -t tmpfs tmpfs /dev/shm",
                   "is not a tmpfs: shared memory would be written to a disk");
    else if (!can_create_shm())
        doctor_say(d, LEVEL_PROBLEM, SCOPE_NODE, "/dev/shm", "chmod 1777 /dev/shm", "no file can be made in it");
    else if (size <= 64 * MIB || left < 64 * MIB)
        doctor_say(d, LEVEL_PROBLEM, SCOPE_NODE, "/dev/shm", fix, "has only %s, %s of it free: a process that touches more dies of "
                                                                  "SIGBUS", total, available);
    else if (left < GIB)
        doctor_say(d, LEVEL_WARNING, SCOPE_NODE, "/dev/shm", fix, "has only %s free of %s", available, total);
    else
        doctor_say(d, LEVEL_OK, SCOPE_NODE, "/dev/shm", NULL, "%s, files can be made in it", total);
}

/* The word in brackets of "always [madvise] never". */
static void chosen(const char *path, char *buf, size_t size)
{
    char line[160];
    wr_str_copy(buf, size, "unknown");
    char *open = sys_read(path, line, sizeof line) ? strchr(line, '[') : NULL, *end = open ? strchr(open, ']') : NULL;
    if (end) {
        *end = '\0';
        wr_str_copy(buf, size, open + 1);
    }
}

static void check_huge_pages(struct doctor *d)
{
    char thp[32], shmem[32], total[32] = "0", available[32] = "0", size[32] = "";
    chosen("/sys/kernel/mm/transparent_hugepage/enabled", thp, sizeof thp);
    chosen("/sys/kernel/mm/transparent_hugepage/shmem_enabled", shmem, sizeof shmem);
    sys_field("/proc/meminfo", "HugePages_Total:", total, sizeof total);
    sys_field("/proc/meminfo", "HugePages_Free:", available, sizeof available);
    sys_field("/proc/meminfo", "Hugepagesize:", size, sizeof size);
    bool pool = strtoull(total, NULL, 10) > 0;
    bool shared = !strcmp(shmem, "always") || !strcmp(shmem, "advise") || !strcmp(shmem, "within_size") ||
                  !strcmp(shmem, "force");
    doctor_say(d, strcmp(thp, "never") ? LEVEL_OK : LEVEL_NOTE, SCOPE_NODE, "huge pages",
               strcmp(thp, "never") ? NULL : "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
               "transparent huge pages for private memory: %s", thp);
    if (shared)
        doctor_say(d, LEVEL_OK, SCOPE_NODE, "huge pages", NULL, "transparent huge pages for shared memory: %s", shmem);
    else if (!pool)
        doctor_say(d, LEVEL_NOTE, SCOPE_NODE, "huge pages",
                   "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled makes the first touch of shared memory "
                   "faster",
                   "shared memory gets small pages only (shmem_enabled is %s, the hugetlb pool is empty)", shmem);
    if (pool)
        doctor_say(d, LEVEL_OK, SCOPE_NODE, "huge pages", NULL, "hugetlb pool: %s pages of %s, %s free", total, size, available);
}

static uint64_t memory_total(void)
{
    char text[32];
    return sys_field("/proc/meminfo", "MemTotal:", text, sizeof text) ? strtoull(text, NULL, 10) * 1024 : 0;
}

static bool read_number(const char *dir, const char *name, uint64_t *value)
{
    char text[64];
    if (!sys_read_in(dir, name, text, sizeof text) || *text < '0' || *text > '9') /* "max" is no limit */
        return false;
    *value = strtoull(text, NULL, 10);
    return true;
}

static void check_memory_limit(struct doctor *d)
{
    char dirs[CGROUP_DEPTH_MAX][CGROUP_PATH_MAX], limit_text[32], left_text[32];
    uint64_t limit = UINT64_MAX, used = 0, total = memory_total();
    int n = sys_cgroup_dirs("memory", dirs);
    for (int i = 0; i < n; i++) {
        uint64_t l, u = 0;
        if (!read_number(dirs[i], "memory.max", &l) && !read_number(dirs[i], "memory.limit_in_bytes", &l))
            continue;
        if (!read_number(dirs[i], "memory.current", &u))
            read_number(dirs[i], "memory.usage_in_bytes", &u);
        if (l < limit) {
            limit = l;
            used = u;
        }
    }
    wr_format_bytes(WR_MIN(limit, total), limit_text, sizeof limit_text);
    if (total && limit >= total) {
        doctor_say(d, LEVEL_OK, SCOPE_NODE, "memory limit", NULL, "no control group limits memory below the host's %s",
                   limit_text);
        return;
    }
    uint64_t left = limit > used ? limit - used : 0;
    int ranks = d->topo ? weir_topo_node_size(d->topo, weir_topo_node(d->topo, d->rank)) : 1;
    wr_format_bytes(left, left_text, sizeof left_text);
    if (left / (uint64_t)WR_MAX(ranks, 1) < 256 * MIB)
        doctor_say(d, LEVEL_WARNING, SCOPE_NODE, "memory limit", "ask the batch system for more memory (sbatch --mem=...)",
                   "a control group limits memory to %s, about %s of it left for %d rank%s; the kernel kills who goes beyond",
                   limit_text, left_text, ranks, ranks == 1 ? "" : "s");
    else
        doctor_say(d, LEVEL_NOTE, SCOPE_NODE, "memory limit", NULL,
                   "a control group limits memory to %s; shared memory counts towards it", limit_text);
}

void doctor_check_memory_host(struct doctor *doctor)
{
    check_shm(doctor);
    check_huge_pages(doctor);
    check_memory_limit(doctor);
}

void doctor_check_memory_process(struct doctor *doctor)
{
    check_memlock(doctor);
}
