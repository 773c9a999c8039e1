/* SPDX-License-Identifier: BSD-3-Clause */
/* Processors: what this process may use of its host, and how the ranks share them. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/placement.h"
#include "tools/sysfile.h"
#include "tools/weir-doctor.h"

/* The share of processor time that control groups grant, in processors; 0 when there is no limit. */
static double cpu_quota(void)
{
    char dirs[CGROUP_DEPTH_MAX][CGROUP_PATH_MAX], text[64];
    double least = 0;
    int n = sys_cgroup_dirs("cpu", dirs);
    for (int i = 0; i < n; i++) {
        double quota = 0, period = 0;
        char *end;
        if (sys_read_in(dirs[i], "cpu.max", text, sizeof text)) {
            quota = strtod(text, &end); /* "max" gives 0 */
            period = strtod(end, NULL);
        } else {
            quota = sys_read_in(dirs[i], "cpu.cfs_quota_us", text, sizeof text) ? strtod(text, NULL) : 0;
            period = sys_read_in(dirs[i], "cpu.cfs_period_us", text, sizeof text) ? strtod(text, NULL) : 0;
        }
        if (quota > 0 && period > 0 && (least <= 0 || quota / period < least))
            least = quota / period;
    }
    return least;
}

void doctor_check_cpus(struct doctor *d)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    char usable[128] = "unknown";
    cpu_set_t set;
    int allowed = 0;
    sys_field("/proc/self/status", "Cpus_allowed_list:", usable, sizeof usable);
    /* more than 1024 processors do not fit the plain set; the list above is right in any case */
    if (!sched_getaffinity(0, sizeof set, &set))
        allowed = CPU_COUNT(&set);
    doctor_say(d, LEVEL_OK, SCOPE_RANK, "cpus", NULL, "this process may use cpus %s (%d of %ld online)", usable,
               allowed ? allowed : (int)online, online);
    double quota = cpu_quota();
    if (quota > 0 && quota < (double)WR_MAX(allowed, 1))
        doctor_say(d, LEVEL_WARNING, SCOPE_NODE, "cpus", "ask for whole cpus (sbatch --cpus-per-task, docker --cpuset-cpus) instead of a quota",
                   "a control group grants the time of %.1f cpus but lets processes run on %d: they will be stopped for "
                   "milliseconds at a time", quota, allowed);
}

static void say_crowd(struct doctor *d, const struct placement *p)
{
    char fix[200];
    if (p->crowded_ranks > p->crowded_cpus) {
        snprintf(fix, sizeof fix, "start at most %d ranks on each such host, or more hosts; weir itself works with more, only slower",
                 p->crowded_cpus);
        doctor_say(d, LEVEL_WARNING, SCOPE_JOB, "ranks and cpus", fix, "%d ranks share the %d cpu%s of host %s",
                   p->crowded_ranks, p->crowded_cpus, p->crowded_cpus == 1 ? "" : "s", p->crowded_host);
    } else {
        doctor_say(d, LEVEL_OK, SCOPE_JOB, "ranks and cpus", NULL, "no host has more ranks than cpus (at most %d for %d, on %s)",
                   p->crowded_ranks, p->crowded_cpus, p->crowded_host);
    }
}

void doctor_check_binding(struct doctor *d)
{
    struct placement p;
    if (!d->topo || !placement_of(d->topo, &p))
        return;
    if (p.crowded_cpus > 0)
        say_crowd(d, &p);
    if (p.same_core[1] >= 0)
        doctor_say(d, LEVEL_WARNING, SCOPE_JOB, "binding", "weirrun --bind core, srun --cpu-bind=cores, or fewer ranks",
                   "ranks %d and %d are bound to the same core of host %s", p.same_core[0], p.same_core[1], p.same_core_host);
    if (p.unbound && p.crowded_ranks <= p.crowded_cpus)
        doctor_say(d, LEVEL_NOTE, SCOPE_JOB, "binding", "weirrun --bind core, or srun --cpu-bind=cores",
                   "the ranks of host %s are not bound: the kernel may move them, and their memory stays behind", p.unbound_host);
    if (p.spread >= 0 && weir_topo_nranks(d->topo) > 1)
        doctor_say(d, LEVEL_NOTE, SCOPE_JOB, "binding", "weirrun --bind numa, or srun --cpu-bind=ldoms",
                   "rank %d may run in several NUMA domains", p.spread);
    if (p.same_core[1] < 0 && !p.unbound && p.spread < 0)
        doctor_say(d, LEVEL_OK, SCOPE_JOB, "binding", NULL, weir_topo_nranks(d->topo) > 1 ? "no two ranks are bound to one core"
                                                                                       : "one rank");
}
