/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading and writing by io_uring, the memory registered where the limit of locked memory lets us. */
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>

#include "base/clock.h"
#include "optim/disk_impl.h"

enum { REGISTERED_MOST = 1 << 30 }; /* bytes of one buffer that the kernel takes */

struct uring {
    struct io_uring ring;
    unsigned under_way;
    bool registered;
};

static int uring_open(struct wr_disk *disk, unsigned depth)
{
    struct uring *u = calloc(1, sizeof *u);
    if (!u)
        return ENOMEM;
    int failed = -io_uring_queue_init(depth < 2 ? 2 : depth, &u->ring, 0);
    if (failed) {
        free(u);
        return failed;
    }
    struct iovec memory = {disk->memory, disk->memory_bytes};
    u->registered = disk->memory && disk->memory_bytes <= REGISTERED_MOST && !io_uring_register_buffers(&u->ring, &memory, 1);
    disk->engine_data = u;
    return 0;
}

/* The next call for an operation. */
static int submit(struct wr_disk *disk, struct wr_disk_op *op)
{
    struct uring *u = disk->engine_data;
    struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
    if (!sqe)
        return EBUSY;
    unsigned char *data = (unsigned char *)op->data + op->done, *memory = disk->memory;
    unsigned bytes = (unsigned)wr_disk_next(disk, op);
    uint64_t at = op->at + op->done;
    bool inside = u->registered && data >= memory && data + bytes <= memory + disk->memory_bytes;
    if (inside && op->write)
        io_uring_prep_write_fixed(sqe, disk->fd, data, bytes, at, 0);
    else if (inside)
        io_uring_prep_read_fixed(sqe, disk->fd, data, bytes, at, 0);
    else if (op->write)
        io_uring_prep_write(sqe, disk->fd, data, bytes, at);
    else
        io_uring_prep_read(sqe, disk->fd, data, bytes, at);
    io_uring_sqe_set_data(sqe, op);
    int n;
    do
        n = io_uring_submit(&u->ring);
    while (n == -EINTR || n == -EAGAIN);
    if (n < 0)
        return -n;
    u->under_way++;
    return 0;
}

/* Takes the completion of one call, when there is one before the deadline. */
static int reap(struct wr_disk *disk, int64_t deadline)
{
    struct uring *u = disk->engine_data;
    struct io_uring_cqe *cqe;
    int64_t left = deadline - wr_clock_ns();
    struct __kernel_timespec limit = {.tv_sec = left > 0 ? left / 1000000000 : 0, .tv_nsec = left > 0 ? left % 1000000000 : 0};
    int failed = -io_uring_wait_cqe_timeout(&u->ring, &cqe, &limit);
    if (failed == EINTR || failed == EAGAIN)
        return 0;
    if (failed)
        return failed == ETIME ? ETIMEDOUT : failed;
    struct wr_disk_op *op = io_uring_cqe_get_data(cqe);
    int64_t result = cqe->res;
    io_uring_cqe_seen(&u->ring, cqe);
    u->under_way--;
    if (wr_disk_took(op, result) && !(op->failed = submit(disk, op)))
        return 0;
    op->pending = false;
    return 0;
}

static int uring_wait(struct wr_disk *disk, struct wr_disk_op *op, int64_t deadline)
{
    int failed = 0;
    while (op->pending && !failed)
        failed = reap(disk, deadline);
    return failed;
}

static void uring_close(struct wr_disk *disk)
{
    struct uring *u = disk->engine_data;
    while (u->under_way && !reap(disk, wr_clock_ns() + 1000000000))
        ;
    io_uring_queue_exit(&u->ring);
    free(u);
}

const struct wr_disk_engine wr_disk_uring = {.name = "io_uring", .open = uring_open, .start = submit, .wait = uring_wait, .close = uring_close};
