/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers to which nothing leaves. Where a device's buffers cannot be registered, UCX keeps what is to be sent and tries again for
 * ever, without a word. The usual reason is a small limit of locked memory, so under such a limit the first message to a peer over
 * a device that locks memory has as long as the start of a job; then the peer counts as lost, for a reason that names the limit.
 * Anything that has left proves that there are buffers, and without a limit nobody is looked after: a peer that computes may take
 * its time.
 */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "comm/transport/ucx/ucx.h"

uint64_t wr_ucx_locked_limit(void)
{
    struct rlimit limit;
    if (!geteuid() || getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    return limit.rlim_cur;
}

bool wr_ucx_locks_memory(const char *transport)
{
    static const char *const devices[] = {"rc", "ud", "dc"};
    for (size_t i = 0; i < WR_ARRAY_SIZE(devices); i++)
        if (!strncmp(transport, devices[i], 2))
            return true;
    return false;
}

void wr_ucx_note_sent(struct ucx_peer *p, bool left)
{
    if (p->silent_since)
        p->u->nsilent--;
    p->silent_since = 0;
    p->proven |= left;
    if (left || !p->locks || p->u->locked_limit == UINT64_MAX || p->lost)
        return;
    p->silent_since = wr_clock_ns();
    p->u->nsilent++;
}

int wr_ucx_look_for_silent(struct ucx *u)
{
    struct ucx_peer *p, *next;
    int64_t now = wr_clock_ns(), patience = u->base.params.timeout_ns;
    int found = 0;
    wr_list_for_each_safe (p, next, &u->connected, link) {
        char reason[192], limit[32], time[32];
        if (!p->silent_since || patience == WR_TIME_INF || now - p->silent_since < patience)
            continue;
        snprintf(reason, sizeof reason,
                 "its first message has not left UCX for %s; %s of locked memory (RLIMIT_MEMLOCK) may be too little for UCX's "
                 "buffers: raise it with ulimit -l unlimited",
                 wr_format_time(patience, time, sizeof time), wr_format_bytes(u->locked_limit, limit, sizeof limit));
        wr_ucx_note_sent(p, true); /* it is told once */
        wr_ucx_peer_fail(p, reason);
        found++;
    }
    return found;
}
