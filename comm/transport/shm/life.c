/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes of peers: their end, their memory, and how this one sleeps until they send. */
#include "comm/transport/shm/impl.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

enum { LONGEST_SLEEP_MS = 250 }; /* in a futex, which does not see the end of a peer */

weir_status wr_shm_error_lost(const struct wr_shm_peer *p, weir_error *err)
{
    weir_status status = p->lost
                             ? wr_error_set(err, WEIR_ERR_PEER_LOST, "look at that rank's output", "rank %d has ended", p->rank)
                             : wr_error_set(err, WEIR_ERR_INVALID, NULL, "rank %d is not connected", p->rank);
    wr_error_at(err, p->rank, NULL);
    return status;
}

void wr_shm_lose(struct wr_shm *s, struct wr_shm_peer *p, const char *reason)
{
    const struct wr_transport_params *params = &s->base.params;
    if (p->lost)
        return;
    if (p->active && !p->receiving) /* what it said before it ended still counts */
        while (wr_shm_receive(s, p, 64))
            ;
    p->lost = true;
    if (p->life >= 0)
        close(p->life);
    p->life = -1;
    s->nreplying -= p->nreplies > 0;
    p->nreplies = 0;
    wr_shm_fail_pending(s, p);
    if (p->block && wr_load_acquire(&p->block->closed)) {
        wr_debug(params->log, TRANSPORT, "shm: rank %d has left", p->rank);
        return;
    }
    wr_info(params->log, TRANSPORT, "shm: rank %d is lost: %s", p->rank, reason);
    if (params->on_peer_lost)
        params->on_peer_lost(params->arg, p->rank, reason);
}

static int open_pidfd(pid_t pid)
{
#ifdef SYS_pidfd_open
    return pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
#else
    (void)pid;
    return -1;
#endif
}

/*
 * A pidfd where the peer is visible by its number: it ends with the process even when a child of it holds copies of its
 * descriptors. The tie, a local connection, serves across pid namespaces and on old kernels; while it is open it also
 * proves that the number was not given to another process.
 */
weir_status wr_shm_watch(struct wr_shm *s, struct wr_shm_peer *p, weir_error *err)
{
    int tie;
    if (p->life >= 0 || p->same_process)
        return WEIR_OK;
    if (p->lost)
        return wr_shm_error_lost(p, err);
    weir_status status = wr_mail_tie(&p->address.mail, s->base.params.rank, &tie, &p->pid, err);
    if (status != WEIR_OK) {
        wr_error_at(err, p->rank, NULL);
        if (status == WEIR_ERR_PEER_LOST)
            wr_shm_lose(s, p, "its local socket is gone");
        return status;
    }
    int pidfd = open_pidfd(p->pid);
    struct pollfd end = {.fd = tie};
    if (pidfd >= 0 && poll(&end, 1, 0) == 0) {
        close(tie);
        p->life = pidfd;
    } else {
        if (pidfd >= 0)
            close(pidfd);
        p->life = tie;
    }
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = (uint64_t)(p - s->peers)};
    if (epoll_ctl(s->events, EPOLL_CTL_ADD, p->life, &ev))
        return wr_error_errno(err, WEIR_ERR_SYSTEM, errno, "raise fs.epoll.max_user_watches",
                              "cannot watch the process of rank %d", p->rank);
    return WEIR_OK;
}

int wr_shm_check_lives(struct wr_shm *s)
{
    struct epoll_event ev[16];
    int found = 0, n = epoll_wait(s->events, ev, (int)WR_ARRAY_SIZE(ev), 0);
    for (int i = 0; i < n; i++) {
        if (ev[i].data.u64 == (uint64_t)s->n)
            wr_mail_silence(&s->mail);
        else if (ev[i].data.u64 == (uint64_t)s->n + 1)
            wr_mail_collect(&s->mail);
        else if (!s->peers[ev[i].data.u64].lost) {
            wr_shm_lose(s, &s->peers[ev[i].data.u64], "its process has ended");
            found++;
        }
    }
    return found;
}

void wr_shm_probe_attach(struct wr_shm *s, struct wr_shm_peer *p)
{
    uint8_t got[sizeof p->block->nonce] = {0};
    struct iovec local = {got, sizeof got}, remote = {(void *)(uintptr_t)p->block->probe, sizeof got};
    p->attach = WR_SHM_ATTACH_NONE;
    if (s->attach_off)
        return;
    if (p->same_process)
        p->attach = WR_SHM_ATTACH_DIRECT;
    else if (p->pid > 0 && process_vm_readv(p->pid, &local, 1, &remote, 1, 0) == (ssize_t)sizeof got &&
             !memcmp(got, p->block->nonce, sizeof got))
        p->attach = WR_SHM_ATTACH_CMA;
    else
        wr_info(s->base.params.log, TRANSPORT,
                "shm: no cross-memory attach to rank %d (see kernel.yama.ptrace_scope): memory that is not shared is staged",
                p->rank);
}

/* Whether there is something to do: seen after this rank's sleeper word is visible to all. */
static bool is_work(struct wr_shm *s)
{
    if (s->user_pending && s->user_pending(s->user_pending_arg))
        return true;
    if (s->restless || s->look || __atomic_exchange_n(&s->kicked, 0, __ATOMIC_ACQ_REL))
        return true;
    for (int w = 0; w * 64 < s->n; w++)
        if (wr_load_acquire(&s->block->callers[w]) != s->known[w])
            return true;
    for (int i = 0; i < s->nactive; i++)
        if (wr_shm_has_record(s, s->active[i]))
            return true;
    for (int i = 0; i < s->n; i++)
        if (s->peers[i].starved && !s->peers[i].lost && wr_shm_has_credit(s, &s->peers[i]))
            return true;
    return false;
}

void wr_shm_set_pending(struct wr_transport *t, bool (*pending)(void *arg), void *arg)
{
    struct wr_shm *s = wr_shm_of(t);
    s->user_pending = pending;
    s->user_pending_arg = arg;
}

const uint32_t *wr_shm_sleeper(const struct wr_transport *t, int rank, bool *fence)
{
    const struct wr_shm_peer *p = wr_shm_peer_of(wr_shm_of(t), rank);
    *fence = p && p->fence;
    return p && p->block ? &p->block->sleeping : NULL;
}

void wr_shm_wake_rank(struct wr_transport *t, int rank)
{
    struct wr_shm *s = wr_shm_of(t);
    struct wr_shm_peer *p = wr_shm_peer_of(s, rank);
    if (p && p->block)
        wr_shm_wake(s, p);
}

/* Announces that this rank sleeps; false when it must not. */
static bool fall_asleep(struct wr_shm *s, uint32_t how)
{
    if (!s->block)
        return true;
    __atomic_store_n(&s->block->sleeping, how, __ATOMIC_SEQ_CST);
    /* Senders that take part in such barriers use no fence of their own; the others look at `barriers` and fence. */
    if (s->barriers && syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0)) {
        wr_store_relaxed(&s->block->sleeping, WR_SHM_AWAKE); /* cannot happen once registered; then poll for ever */
        return false;
    }
    wr_fence_full();
    if (!is_work(s))
        return true;
    wr_store_relaxed(&s->block->sleeping, WR_SHM_AWAKE);
    return false;
}

int wr_shm_wait_fd(struct wr_transport *t)
{
    return wr_shm_of(t)->events;
}

bool wr_shm_arm(struct wr_transport *t)
{
    return fall_asleep(wr_shm_of(t), WR_SHM_IN_EPOLL);
}

void wr_shm_disarm(struct wr_transport *t)
{
    struct wr_shm *s = wr_shm_of(t);
    if (!s->block)
        return;
    wr_exchange_acq_rel(&s->block->sleeping, WR_SHM_AWAKE);
    wr_mail_silence(&s->mail);
    s->look = true;
}

void wr_shm_block_on(struct wr_transport *t, int64_t timeout_ns, void (*release)(void *arg), void (*acquire)(void *arg),
                     void *arg)
{
    struct wr_shm *s = wr_shm_of(t);
    int64_t ns = WR_MIN(timeout_ns, LONGEST_SLEEP_MS * INT64_C(1000000));
    struct timespec ts = {ns / 1000000000, ns % 1000000000};
    if (ns <= 0 || !s->block || !fall_asleep(s, WR_SHM_IN_FUTEX))
        return;
    if (release)
        release(arg);
    long rc = syscall(SYS_futex, &s->block->sleeping, FUTEX_WAIT, WR_SHM_IN_FUTEX, &ts, NULL, 0);
    bool over = rc && errno == ETIMEDOUT;
    if (acquire)
        acquire(arg);
    s->look |= over;
    wr_exchange_acq_rel(&s->block->sleeping, WR_SHM_AWAKE);
}

void wr_shm_unblock(struct wr_transport *t)
{
    struct wr_shm *s = wr_shm_of(t);
    __atomic_store_n(&s->kicked, 1, __ATOMIC_SEQ_CST);
    if (!s->block)
        return;
    switch (__atomic_exchange_n(&s->block->sleeping, WR_SHM_AWAKE, __ATOMIC_SEQ_CST)) {
    case WR_SHM_IN_FUTEX:
        syscall(SYS_futex, &s->block->sleeping, FUTEX_WAKE, 1, NULL, NULL, 0);
        break;
    case WR_SHM_IN_EPOLL:
        wr_mail_ring(&s->mail, &s->mail.address);
        break;
    default:
        break;
    }
}
