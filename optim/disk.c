/* SPDX-License-Identifier: BSD-3-Clause */
/* Files on a local disk: making, and what both engines share. */
#include "optim/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/error.h"
#include "optim/disk_impl.h"

#define PATIENCE_NS ((int64_t)300 * 1000000000) /* a disk that answers nothing for so long is taken for dead */

enum { MOST = 1 << 30 }; /* bytes of a call; the kernel takes 2 GiB less a page */

static const char advice_room[] = "make room there, or name another folder";

/* ---- making ---- */

/* A file without a name; -1 with errno. */
static int open_unnamed(const char *folder)
{
    char path[4096];
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
        return fd;
    if ((size_t)snprintf(path, sizeof path, "%s/.weir-XXXXXX", folder) >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

/* What else fits where the file is. */
static unsigned long long room_for(int fd)
{
    struct statvfs s;
    return fstatvfs(fd, &s) ? 0 : (unsigned long long)s.f_bavail * s.f_frsize;
}

/* Gives the file its size and its room on the disk. 0 or an errno. */
static int reserve(int fd, uint64_t bytes)
{
    struct rlimit limit;
    if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes)
        return EFBIG; /* to exceed it would be a signal */
    if (room_for(fd) < bytes)
        return ENOSPC; /* to try would fill the disk for all others meanwhile */
    int failed;
    do
        failed = fallocate(fd, 0, 0, (off_t)bytes) ? errno : 0;
    while (failed == EINTR);
    if (failed != EOPNOTSUPP)
        return failed;
    return ftruncate(fd, (off_t)bytes) ? errno : 0;
}

static weir_status make_file(struct wr_disk *disk, weir_error *err)
{
    disk->fd = open_unnamed(disk->folder);
    if (disk->fd < 0)
        return wr_error_errno(err, WEIR_ERR_IO, errno, "name a folder on a local disk that can be written to", "%s: no file can be made in %s",
                              disk->what, disk->folder);
    int failed = reserve(disk->fd, disk->bytes);
    if (failed)
        return wr_error_errno(err, WEIR_ERR_IO, failed, advice_room, "%s: %llu bytes cannot be had in %s, where %llu are free", disk->what,
                              (unsigned long long)disk->bytes, disk->folder, room_for(disk->fd));
    int flags = fcntl(disk->fd, F_GETFL);
    disk->direct = flags >= 0 && !fcntl(disk->fd, F_SETFL, flags | O_DIRECT);
    return WEIR_OK;
}

static weir_status choose_engine(struct wr_disk *disk, const struct wr_disk_options *options, weir_error *err)
{
    int failed = ENOSYS;
#ifdef HAVE_LIBURING
    if (options->kind != WR_DISK_THREAD) {
        disk->engine = &wr_disk_uring;
        failed = disk->engine->open(disk, options->depth);
    }
#endif
    if (failed && options->kind == WR_DISK_URING) {
        disk->engine = NULL;
        return wr_error_errno(err, WEIR_ERR_UNSUPPORTED, failed, "leave WEIR_IO at auto, and threads read and write",
                              "%s: io_uring is refused, or weir was built without liburing", disk->what);
    }
    if (failed) {
        disk->engine = &wr_disk_threads;
        failed = disk->engine->open(disk, options->depth);
    }
    if (!failed)
        return WEIR_OK;
    disk->engine = NULL;
    return wr_error_errno(err, WEIR_ERR_NO_MEMORY, failed, NULL, "%s: nothing can read and write the file in %s", disk->what, disk->folder);
}

weir_status wr_disk_open(const struct wr_disk_options *options, struct wr_disk **disk, weir_error *err)
{
    struct wr_disk *d = calloc(1, sizeof *d);
    if (!d || !(d->folder = strdup(options->folder))) {
        free(d);
        return wr_error_memory(err, sizeof *d, "a file on disk");
    }
    d->fd = -1;
    d->what = options->what;
    d->bytes = options->bytes;
    d->most = options->most ? WR_MIN(options->most, MOST) : MOST;
    d->memory = options->memory;
    d->memory_bytes = options->memory_bytes;
    weir_status status = make_file(d, err);
    if (status == WEIR_OK)
        status = choose_engine(d, options, err);
    if (status == WEIR_OK)
        *disk = d;
    else
        wr_disk_close(d);
    return status;
}

void wr_disk_close(struct wr_disk *disk)
{
    if (!disk)
        return;
    if (disk->engine)
        disk->engine->close(disk);
    if (disk->fd >= 0)
        close(disk->fd);
    free(disk->folder);
    free(disk);
}

const char *wr_disk_engine_name(const struct wr_disk *disk)
{
    return disk->engine->name;
}

bool wr_disk_direct(const struct wr_disk *disk)
{
    return disk->direct;
}

/* ---- operations ---- */

uint64_t wr_disk_next(const struct wr_disk *disk, const struct wr_disk_op *op)
{
    return WR_MIN(op->bytes - op->done, disk->most);
}

bool wr_disk_took(struct wr_disk_op *op, int64_t result)
{
    if (result == -EINTR || result == -EAGAIN)
        return true;
    /* A call that moves less is continued at a page; one that moves less than a page leads nowhere. */
    uint64_t moved = result > 0 ? (uint64_t)result : 0;
    if (moved < op->bytes - op->done)
        moved -= moved % WR_DISK_PAGE;
    op->done += moved;
    if (!moved)
        op->failed = result < 0 ? (int)-result : op->write ? ENOSPC : ENODATA;
    return !op->failed && op->done < op->bytes;
}

static weir_status failure(const struct wr_disk *disk, const struct wr_disk_op *op, int failed, weir_error *err)
{
    return wr_error_errno(err, failed == ETIMEDOUT ? WEIR_ERR_TIMEOUT : WEIR_ERR_IO, failed, op->write ? advice_room : "see whether the disk is whole",
                          "%s: %llu bytes at %llu cannot be %s the file in %s", disk->what, (unsigned long long)op->bytes,
                          (unsigned long long)op->at, op->write ? "written to" : "read from", disk->folder);
}

weir_status wr_disk_start(struct wr_disk *disk, struct wr_disk_op *op, weir_error *err)
{
    op->done = 0;
    op->failed = 0;
    op->pending = true;
    int failed = disk->engine->start(disk, op);
    if (!failed)
        return WEIR_OK;
    op->pending = false;
    return failure(disk, op, failed, err);
}

weir_status wr_disk_wait(struct wr_disk *disk, struct wr_disk_op *op, weir_error *err)
{
    int failed = disk->engine->wait(disk, op, wr_deadline(PATIENCE_NS));
    if (!failed)
        failed = op->failed;
    op->failed = 0; /* it is told once */
    return failed ? failure(disk, op, failed, err) : WEIR_OK;
}
