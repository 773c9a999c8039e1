/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeping until libfabric has something.
 *
 * The provider "net" of libfabric 1.17 makes its descriptor readable with the first completion and never takes that back:
 * its fi_trywait() does nothing. Who sleeps on it does not sleep, and with more ranks than cores keeps those from working who
 * would wake him. Such a queue is told by a trial when it is opened. Its descriptor is an epoll set in which one entry, which
 * stays ready, stands for completions, and the others for sockets. They are what is looked at before sleeping; what comes
 * later is noticed because the descriptor is watched for changes (edges), not for its state.
 */
#include "comm/transport/ofi/ofi.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { MOST_EVENTS = 8 };

static bool wr_ofi_is_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) > 0;
}

/* Finds out whether the descriptor of a rail stays readable; before anything comes from other ranks. */
static void wr_ofi_try_stuck(struct wr_ofi_rail *rail)
{
    struct fid *fid = &rail->cq->fid;
    struct epoll_event event = {0};
    rail->stuck = false;
    if (fi_cq_signal(rail->cq) || fi_trywait(rail->fabric, &fid, 1) != FI_SUCCESS || !wr_ofi_is_readable(rail->wait_fd))
        return;
    rail->stuck = epoll_wait(rail->wait_fd, &event, 1, 0) == 1;
    rail->stuck_event = event.data.u64;
}

/* Whether anything but the entry that stays ready is ready. */
static bool wr_ofi_has_more(const struct wr_ofi_rail *rail)
{
    struct epoll_event events[MOST_EVENTS];
    int n = epoll_wait(rail->wait_fd, events, MOST_EVENTS, 0);
    for (int i = 0; i < n; i++)
        if (events[i].data.u64 != rail->stuck_event)
            return true;
    return false;
}

/* One descriptor over those of all rails. Without a descriptor on one of them there is none for all. */
weir_status wr_ofi_wait_open(struct wr_ofi *ofi, weir_error *err)
{
    for (unsigned i = 0; i < ofi->nrails; i++)
        if (ofi->rail[i].wait_fd < 0)
            return WEIR_OK;
    for (unsigned i = 0; i < ofi->nrails; i++) {
        wr_ofi_try_stuck(&ofi->rail[i]);
        ofi->stuck |= ofi->rail[i].stuck;
    }
    if (ofi->nrails == 1 && !ofi->stuck)
        return WEIR_OK;
    ofi->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (ofi->epoll_fd < 0)
        return wr_error_errno(err, WEIR_ERR_SYSTEM, errno, "raise the limit of open files (ulimit -n)",
                              "epoll_create1");
    for (unsigned i = 0; i < ofi->nrails; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};
        if (ofi->rail[i].stuck)
            event.events |= EPOLLET;
        if (epoll_ctl(ofi->epoll_fd, EPOLL_CTL_ADD, ofi->rail[i].wait_fd, &event))
            return wr_error_errno(err, WEIR_ERR_SYSTEM, errno, NULL, "epoll_ctl on libfabric's descriptor");
    }
    return WEIR_OK;
}

void wr_ofi_wait_close(struct wr_ofi *ofi)
{
    if (ofi->epoll_fd >= 0)
        close(ofi->epoll_fd);
    ofi->epoll_fd = -1;
}

int wr_ofi_wait_fd(struct wr_transport *t)
{
    struct wr_ofi *ofi = wr_ofi_of(t);
    return ofi->epoll_fd < 0 && ofi->nrails == 1 ? ofi->rail[0].wait_fd : ofi->epoll_fd;
}

/* Whether some step of ours is due that no completion will announce. */
static bool wr_ofi_work_left(const struct wr_ofi *ofi)
{
    const struct wr_ofi_bulk *bulk;
    const struct wr_ofi_peer *peer;
    if (!wr_list_empty(&ofi->rx_idle) && ofi->rx_posted < ofi->rx_target)
        return true;
    wr_list_for_each (bulk, &ofi->bulks, link) {
        if (!bulk->inflight)
            return true;
    }
    wr_list_for_each (peer, &ofi->syncing, sync_link) {
        if (!peer->round_reads && !peer->open_puts[peer->epoch ^ 1])
            return true;
    }
    return false;
}

bool wr_ofi_arm(struct wr_transport *t)
{
    struct wr_ofi *ofi = wr_ofi_of(t);
    struct epoll_event seen[WR_OFI_RAILS];
    if (wr_ofi_wait_fd(t) < 0 || wr_ofi_work_left(ofi))
        return false;
    if (ofi->stuck) /* edges up to now: their cause is looked at below */
        epoll_wait(ofi->epoll_fd, seen, WR_OFI_RAILS, 0);
    for (unsigned i = 0; i < ofi->nrails; i++) {
        struct fid *fid = &ofi->rail[i].cq->fid;
        if (fi_trywait(ofi->rail[i].fabric, &fid, 1) != FI_SUCCESS)
            return false;
        if (ofi->rail[i].stuck && wr_ofi_has_more(&ofi->rail[i]))
            return false;
    }
    return true;
}

void wr_ofi_disarm(struct wr_transport *t)
{
    (void)t; /* fi_trywait leaves nothing behind */
}
