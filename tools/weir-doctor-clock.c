/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How far the clocks of the nodes are apart. Nobody leaves a barrier before everybody has entered it. So with the clock
 * of rank r ahead of rank 0's by s: enter_r - s <= exit_0 and enter_0 <= exit_r - s, which puts s between
 * enter_r - exit_0 and exit_r - enter_0. Several barriers narrow the interval to about the time of the fastest one.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "tools/weir-doctor.h"

enum { ROUNDS = 8 };

struct stamps {
    int64_t enter[ROUNDS], exit[ROUNDS];
};

static void say_skew(struct doctor *d, int rank, int64_t low, int64_t high)
{
    char least[32], resolution[32];
    int64_t apart = low > 0 ? low : high < 0 ? -high : 0; /* the clocks differ by at least this */
    enum level level = apart > 100000000 ? LEVEL_WARNING : apart > 1000000 ? LEVEL_NOTE : LEVEL_OK;
    if (level == LEVEL_OK)
        return;
    wr_format_time(apart, least, sizeof least);
    wr_format_time(high - low, resolution, sizeof resolution);
    doctor_say(d, level, SCOPE_JOB, "clocks", "run chronyd or ntpd on all nodes; weir does not depend on it, but logs and traces of "
                                              "several nodes cannot be compared",
               "the clock of node %d is %s of rank 0's by at least %s (measured to %s)", weir_topo_node(d->topo, rank),
               low > 0 ? "ahead" : "behind", least, resolution);
}

static void judge(struct doctor *d, const struct stamps *all)
{
    int64_t widest = 0;
    size_t before = d->n;
    int nodes = weir_topo_nnodes(d->topo);
    for (int node = 0; node < nodes; node++) {
        int rank = weir_topo_node_rank(d->topo, node, 0);
        int64_t low = INT64_MIN, high = INT64_MAX;
        if (rank <= 0)
            continue;
        for (int i = 0; i < ROUNDS; i++) {
            low = WR_MAX(low, all[rank].enter[i] - all[0].exit[i]);
            high = WR_MIN(high, all[rank].exit[i] - all[0].enter[i]);
        }
        widest = WR_MAX(widest, WR_MAX(high, -low));
        say_skew(d, rank, low, high);
    }
    char text[32];
    if (d->n == before)
        doctor_say(d, LEVEL_OK, SCOPE_JOB, "clocks", NULL, "the nodes' clocks agree within %s", wr_format_time(widest, text, sizeof text));
}

weir_status doctor_check_clocks(struct doctor *d)
{
    struct stamps mine;
    weir_status status = WEIR_OK;
    struct stamps *all = malloc((size_t)d->size * sizeof *all);
    if (!all)
        return wr_error_memory(&d->error, (size_t)d->size * sizeof *all, "the clocks of all ranks");
    /* the first barrier brings together who comes late from longer checks */
    status = weir_boot_barrier(d->ctx);
    for (int i = 0; i < ROUNDS && !status; i++) {
        mine.enter[i] = wr_clock_wall_ns();
        status = weir_boot_barrier(d->ctx);
        mine.exit[i] = wr_clock_wall_ns();
    }
    if (!status)
        status = weir_boot_allgather(d->ctx, &mine, all, sizeof mine);
    if (!status && d->rank == 0 && d->topo && weir_topo_nnodes(d->topo) > 1)
        judge(d, all);
    if (status)
        d->error = *weir_last_error(d->ctx);
    free(all);
    return status;
}
