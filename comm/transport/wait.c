/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/transport/wait.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/error.h"

enum {
    MOST_TRANSPORTS = 8,
    CONTENDED_SPIN_NS = 15000,   /* polling when others want the core: as long as it takes to block and to be woken */
    FIRST_NAP_NS = 20000,        /* of a transport that cannot wake us */
    LONGEST_NAP_NS = 1000000,
    LONGEST_BLOCK_NS = 1000000000, /* then transports look after themselves */
    EXTRA_BLOCK_NS = 250000000,    /* in block(), which does not see the descriptors of wr_waiter_add() */
    MOST_YIELDS = 1000,            /* of a serving thread to others that want the lock */
    GAP_NS = 100000,               /* between two polls or in a yield: somebody else was on this core, longer than ranks that wait */
    SHORTEST_CONTENDED_NS = 200000, /* for so long it is taken for contended then, twice as long when it is seen again soon ... */
    LONGEST_CONTENDED_NS = 100000000, /* ... up to this */
    SHORT_YIELDS = 8,              /* who stays on the core does not let so many pass */
    CROWDED_SPIN_NS = 10000,       /* of polling, with more ranks than cores, while no other rank wants this core ... */
    IDLE_YIELD_NS = 1000,          /* ... which a yield tells that takes no longer than this */
    CROWDED_YIELD_NS = 1000000     /* of yields to the other ranks of this core */
};

struct wr_waiter {
    struct wr_waiter_params params;
    struct wr_transport *transports[MOST_TRANSPORTS];
    int n;
    struct wr_transport *alone; /* waited for by its own block() */
    int events, kick;           /* epoll set, and the eventfd in it */
    bool naps;                  /* a transport has no descriptor */
    bool extra; /* there are descriptors that are not of transports */
    bool crowded;        /* there are more ranks than cores ... */
    bool wanted;         /* ... and others want this one, as far as is known */
    int64_t spin_ns, yield_ns, gap_ns;
    int64_t contended_until, contended_ns; /* somebody else has used this core of late */
    unsigned short_yields; /* since that was seen */
    unsigned polls_per_look, polls_per_pause;
    uint64_t blocked;
    /* threads */
    bool leader;        /* a thread is blocked in the transports */
    bool serving;       /* and it waits for nothing itself */
    unsigned followers; /* threads that wait for it */
    uint32_t epoch;     /* counts kicks and what followers must look at; they sleep here */
};

/* Nanoseconds that one call takes. */
static int64_t cost_of_clock(void)
{
    int64_t start = wr_clock_ns();
    for (int i = 0; i < 64; i++)
        wr_clock_ns();
    return (wr_clock_ns() - start) / 64 + 1;
}

static int64_t cost_of_pause(void)
{
    int64_t start = wr_clock_ns();
    for (int i = 0; i < 64; i++)
        wr_cpu_relax();
    return (wr_clock_ns() - start) / 64 + 1;
}

/* A poll takes some nanoseconds: looking at the clock and pausing are spread so that they add no more than that. */
static void calibrate(struct wr_waiter *w)
{
    w->polls_per_look = (unsigned)WR_MIN(WR_MAX(cost_of_clock() / 2, 8), 256);
    w->polls_per_pause = (unsigned)WR_MIN(WR_MAX(cost_of_pause() / 8, 1), 64);
}

/* How many ranks share a core. A mask of one core speaks of a rank bound to a core of its own, unless there are fewer cores than ranks. */
static int ranks_a_core(int node_size)
{
    cpu_set_t set;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int cores = sched_getaffinity(0, sizeof set, &set) ? (int)online : CPU_COUNT(&set);
    cores = cores == 1 ? (int)online : cores;
    return cores > 0 ? (node_size + cores - 1) / cores : 1;
}

static weir_status open_events(struct wr_waiter *w, weir_error *err)
{
    struct epoll_event ev = {.events = EPOLLIN};
    w->events = epoll_create1(EPOLL_CLOEXEC);
    w->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->events < 0 || w->kick < 0 || epoll_ctl(w->events, EPOLL_CTL_ADD, w->kick, &ev))
        return wr_error_errno(err, WEIR_ERR_SYSTEM, errno, "raise the limit of open files (ulimit -n)",
                              "no descriptors to wait with");
    for (int i = 0; i < w->n; i++) {
        struct wr_transport *t = w->transports[i];
        int fd = t->ops->wait_fd ? t->ops->wait_fd(t) : -1;
        if (fd < 0)
            w->naps |= t->ops->wait_fd != NULL;
        else if (epoll_ctl(w->events, EPOLL_CTL_ADD, fd, &ev))
            return wr_error_errno(err, WEIR_ERR_SYSTEM, errno, NULL, "cannot wait for the descriptor of transport %s",
                                  t->ops->name);
    }
    return WEIR_OK;
}

/* The transport that can be waited for by itself: the only one to which something comes from outside. */
static struct wr_transport *find_alone(const struct wr_waiter *w)
{
    struct wr_transport *alone = NULL;
    for (int i = 0; i < w->n; i++) {
        if (!w->transports[i]->ops->wait_fd)
            continue;
        if (alone || !w->transports[i]->ops->block)
            return NULL;
        alone = w->transports[i];
    }
    return alone;
}

weir_status wr_waiter_create(const struct wr_waiter_params *params, struct wr_waiter **waiter, weir_error *err)
{
    if (params->ntransports < 0 || params->ntransports > MOST_TRANSPORTS || !params->release != !params->acquire)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "a waiter for %d transports", params->ntransports);
    struct wr_waiter *w = calloc(1, sizeof *w);
    if (!w)
        return wr_error_memory(err, sizeof *w, "a waiter");
    w->params = *params;
    w->n = params->ntransports;
    for (int i = 0; i < w->n; i++)
        w->transports[i] = params->transports[i];
    w->events = w->kick = -1;
    int ranks = ranks_a_core(params->node_size);
    w->crowded = w->wanted = ranks > 1;
    w->spin_ns = params->config ? params->config->spin : 50000;
    if (w->crowded)
        w->spin_ns = WR_MIN(w->spin_ns, CROWDED_SPIN_NS);
    w->yield_ns = w->crowded && w->spin_ns ? WR_MAX(w->spin_ns, CROWDED_YIELD_NS) : w->spin_ns;
    w->gap_ns = GAP_NS * WR_MAX(ranks, 1);
    calibrate(w);
    w->alone = find_alone(w);
    weir_status status = open_events(w, err);
    if (status != WEIR_OK) {
        wr_waiter_destroy(w);
        return status;
    }
    *waiter = w;
    return WEIR_OK;
}

weir_status wr_waiter_add(struct wr_waiter *w, int fd, weir_error *err)
{
    struct epoll_event ev = {.events = EPOLLIN};
    if (epoll_ctl(w->events, EPOLL_CTL_ADD, fd, &ev))
        return wr_error_errno(err, WEIR_ERR_SYSTEM, errno, NULL, "cannot wait for descriptor %d", fd);
    w->extra = true;
    return WEIR_OK;
}

void wr_waiter_destroy(struct wr_waiter *w)
{
    if (!w)
        return;
    if (w->events >= 0)
        close(w->events);
    if (w->kick >= 0)
        close(w->kick);
    free(w);
}

static void ring(struct wr_waiter *w)
{
    uint64_t one = 1;
    if (w->alone) {
        w->alone->ops->unblock(w->alone);
        return;
    }
    ssize_t n = write(w->kick, &one, sizeof one);
    (void)n; /* a counter that is full is rung already */
}

static void wake_followers(struct wr_waiter *w)
{
    __atomic_fetch_add(&w->epoch, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &w->epoch, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void wr_waiter_kick(struct wr_waiter *w)
{
    wake_followers(w);
    ring(w);
}

/* Something moved: perhaps what another thread waits for has come. */
static int moved(struct wr_waiter *w, int n)
{
    if (n && WR_UNLIKELY(w->leader && !w->serving))
        ring(w);
    if (n && WR_UNLIKELY(w->followers))
        wake_followers(w);
    return n;
}

int wr_waiter_progress(struct wr_waiter *w)
{
    int n = 0;
    if (w->params.progress)
        n = w->params.progress(w->params.arg);
    else
        for (int i = 0; i < w->n; i++)
            n += w->transports[i]->ops->progress(w->transports[i]);
    return moved(w, n);
}

static inline int poll_once(struct wr_waiter *w)
{
    return w->params.poll ? moved(w, w->params.poll(w->params.arg)) : wr_waiter_progress(w);
}

static void release(struct wr_waiter *w)
{
    if (w->params.release)
        w->params.release(w->params.arg);
}

static void acquire(struct wr_waiter *w)
{
    if (w->params.acquire)
        w->params.acquire(w->params.arg);
}

static struct timespec timespec_of(int64_t ns)
{
    return (struct timespec){ns / 1000000000, ns % 1000000000};
}

/* Behind the thread that is blocked in the transports. */
static void follow(struct wr_waiter *w, uint32_t epoch, int64_t ns)
{
    struct timespec ts = timespec_of(ns);
    w->followers++;
    release(w);
    syscall(SYS_futex, &w->epoch, FUTEX_WAIT_PRIVATE, epoch, &ts, NULL, 0);
    acquire(w);
    w->followers--;
}

/* Arms all transports; on false, none is armed. */
static bool arm_all(struct wr_waiter *w)
{
    for (int i = 0; i < w->n; i++) {
        if (!w->transports[i]->ops->arm || w->transports[i]->ops->arm(w->transports[i]))
            continue;
        while (--i >= 0)
            if (w->transports[i]->ops->disarm)
                w->transports[i]->ops->disarm(w->transports[i]);
        return false;
    }
    return true;
}

static void disarm_all(struct wr_waiter *w)
{
    for (int i = 0; i < w->n; i++)
        if (w->transports[i]->ops->disarm)
            w->transports[i]->ops->disarm(w->transports[i]);
}

/* In the transports' descriptors. */
static void lead(struct wr_waiter *w, uint32_t epoch, int64_t ns)
{
    struct pollfd set = {.fd = w->events, .events = POLLIN};
    struct timespec ts = timespec_of(ns);
    uint64_t count;
    if (!arm_all(w))
        return;
    w->blocked++;
    w->leader = true;
    release(w);
    if (wr_load_acquire(&w->epoch) == epoch) /* a kick that comes later has rung */
        ppoll(&set, 1, &ts, NULL);
    acquire(w);
    w->leader = false;
    disarm_all(w);
    ssize_t n = read(w->kick, &count, sizeof count);
    (void)n;
    if (w->followers)
        wake_followers(w);
}

static void lead_alone(struct wr_waiter *w, int64_t ns)
{
    for (int i = 0; i < w->n; i++) /* the others decide alone whether they have something */
        if (w->transports[i] != w->alone && w->transports[i]->ops->arm &&
            !w->transports[i]->ops->arm(w->transports[i]))
            return;
    w->blocked++;
    w->leader = true;
    w->alone->ops->block(w->alone, w->extra ? WR_MIN(ns, EXTRA_BLOCK_NS) : ns, w->params.release, w->params.acquire,
                         w->params.arg);
    w->leader = false;
    if (w->followers)
        wake_followers(w);
}

/* Unless something was said since `epoch` was read. */
static void block(struct wr_waiter *w, uint32_t epoch, int64_t deadline, int64_t *nap)
{
    int64_t ns = LONGEST_BLOCK_NS;
    if (deadline != WR_TIME_INF)
        ns = WR_MIN(ns, WR_MAX(deadline - wr_clock_ns(), 0));
    if (w->naps) {
        ns = WR_MIN(ns, *nap);
        *nap = WR_MIN(*nap * 2, LONGEST_NAP_NS);
    }
    if (wr_load_acquire(&w->epoch) != epoch)
        return;
    if (w->leader)
        follow(w, epoch, ns);
    else if (w->alone)
        lead_alone(w, ns);
    else
        lead(w, epoch, ns);
}

/*
 * Whether between two looks at the clock somebody else has used the core. A rank that does so only now and then should not make the
 * others sleep for long, for one that is woken costs its waker more than one that yields: only when yields have not been short
 * meanwhile, it is somebody who stays.
 */
static bool look_for_gap(struct wr_waiter *w, int64_t before, int64_t now)
{
    if (now - before <= w->gap_ns)
        return false;
    bool again = w->short_yields < SHORT_YIELDS && before < w->contended_until + w->contended_ns;
    w->contended_ns = again ? WR_MIN(2 * w->contended_ns, LONGEST_CONTENDED_NS) : SHORTEST_CONTENDED_NS;
    w->contended_until = now + w->contended_ns;
    w->short_yields = 0;
    return true;
}

/* Polls for `ns`: 1 when it has ended, 0 when something moved, -1 when nothing did. */
static int poll_for(struct wr_waiter *w, bool (*ended)(void *arg), void *arg, int64_t ns)
{
    int64_t start = 0, last = 0;
    for (unsigned to_pause = w->polls_per_pause, to_look = w->polls_per_look;;) {
        if (poll_once(w))
            return ended(arg);
        if (ended(arg))
            return 1;
        if (!--to_pause) {
            wr_cpu_relax();
            to_pause = w->polls_per_pause;
        }
        if (--to_look)
            continue;
        to_look = w->polls_per_look;
        int64_t now = wr_clock_ns();
        if (!start)
            start = last = now;
        look_for_gap(w, last, now);
        last = now;
        if (now - start >= (now < w->contended_until ? WR_MIN(ns, CONTENDED_SPIN_NS) : ns))
            return -1;
    }
}

/* Likewise, but once. */
static int poll_now(struct wr_waiter *w, bool (*ended)(void *arg), void *arg)
{
    if (poll_once(w))
        return ended(arg);
    return ended(arg) ? 1 : -1;
}

/*
 * Gives the core to whoever wants it, for a while: to other waiting ranks, which give it back at once. A program that
 * computes does not; then blocking is better, because a thread that wakes up comes before one that only yields.
 */
static int yield_for(struct wr_waiter *w, bool (*ended)(void *arg), void *arg)
{
    int64_t now = wr_clock_ns(), end = now + w->yield_ns;
    while (now < end && now >= w->contended_until) {
        int64_t before = now;
        release(w);
        sched_yield();
        acquire(w);
        now = wr_clock_ns();
        w->short_yields += !look_for_gap(w, before, now);
        w->wanted = w->crowded && now - before > IDLE_YIELD_NS;
        if (ended(arg)) /* others have had their turn */
            return 1;
        if (w->crowded ? poll_once(w) : wr_waiter_progress(w))
            return ended(arg);
    }
    return -1;
}

weir_status wr_waiter_wait(struct wr_waiter *w, bool (*ended)(void *arg), void *arg, int64_t deadline)
{
    int64_t nap = FIRST_NAP_NS;
    if (ended(arg))
        return WEIR_OK;
    for (;;) {
        uint32_t epoch = wr_load_acquire(&w->epoch); /* before ended() */
        /* who is waited for may be who wants this core: each moment of polling is taken from it then */
        int rc = w->wanted ? poll_now(w, ended, arg) : poll_for(w, ended, arg, w->spin_ns);
        if (rc < 0)
            rc = yield_for(w, ended, arg);
        if (rc > 0)
            return WEIR_OK;
        if (wr_deadline_passed(deadline))
            return WEIR_ERR_TIMEOUT;
        if (rc == 0) {
            nap = FIRST_NAP_NS;
            if (WR_UNLIKELY(w->followers)) { /* what moved may be theirs */
                release(w);
                sched_yield();
                acquire(w);
            }
            continue;
        }
        block(w, epoch, deadline, &nap);
        if (ended(arg))
            return WEIR_OK;
    }
}

/* Gives up the lock; who calls comes first. */
static void give_way(struct wr_waiter *w, int64_t ns)
{
    struct timespec ts = timespec_of(ns);
    release(w);
    if (ns)
        nanosleep(&ts, NULL);
    for (int i = 0; i < MOST_YIELDS; i++) {
        sched_yield();
        if (!w->params.wanted || !w->params.wanted(w->params.arg))
            break;
    }
    acquire(w);
}

void wr_waiter_serve(struct wr_waiter *w, bool (*ended)(void *arg), void *arg)
{
    int64_t nap = FIRST_NAP_NS;
    for (;;) {
        uint32_t epoch = wr_load_acquire(&w->epoch);
        if (ended(arg))
            return;
        if (wr_waiter_progress(w)) {
            nap = FIRST_NAP_NS;
            give_way(w, 0);
            continue;
        }
        int64_t before = wr_clock_ns();
        w->serving = !w->leader;
        block(w, epoch, WR_TIME_INF, &nap);
        w->serving = false;
        if (wr_clock_ns() - before < FIRST_NAP_NS) /* it hardly slept: there is something that another thread has to take */
            give_way(w, FIRST_NAP_NS);
    }
}

uint64_t wr_waiter_blocked(const struct wr_waiter *w)
{
    return w->blocked;
}

bool wr_waiter_crowded(const struct wr_waiter *w)
{
    return w->crowded;
}

bool wr_waiter_wanted(const struct wr_waiter *w)
{
    return w->wanted;
}
