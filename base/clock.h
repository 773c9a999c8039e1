/* SPDX-License-Identifier: BSD-3-Clause */
/* Time: a monotonic clock for measuring and deadlines, and the wall clock for people. */
#ifndef WR_CLOCK_H
#define WR_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/str.h"

static inline int64_t wr_clock_read(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Nanoseconds since some fixed moment; never goes back. About 20 ns a call (vDSO, no system call). */
static inline int64_t wr_clock_ns(void)
{
    return wr_clock_read(CLOCK_MONOTONIC);
}

/* Nanoseconds since 1970. */
static inline int64_t wr_clock_wall_ns(void)
{
    return wr_clock_read(CLOCK_REALTIME);
}

/* The moment `after_ns` from now; WR_TIME_INF stays infinite. */
static inline int64_t wr_deadline(int64_t after_ns)
{
    int64_t now = wr_clock_ns();
    return after_ns >= WR_TIME_INF - now ? WR_TIME_INF : now + after_ns;
}

static inline bool wr_deadline_passed(int64_t deadline)
{
    return deadline != WR_TIME_INF && wr_clock_ns() >= deadline;
}

/* Milliseconds to a deadline for poll(2) and epoll_wait(2): -1 for never, rounded up, at most a day. */
static inline int wr_deadline_poll_ms(int64_t deadline)
{
    if (deadline == WR_TIME_INF)
        return -1;
    int64_t left = deadline - wr_clock_ns();
    if (left <= 0)
        return 0;
    int64_t ms = (left + 999999) / 1000000;
    return ms > 86400000 ? 86400000 : (int)ms;
}

#endif
