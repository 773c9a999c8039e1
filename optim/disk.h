/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file on a local disk that belongs to this process alone: read and written asynchronously in whole pages, past the page cache where
 * the file system allows it. It has no name, so nothing is left of it when the process ends, however that happens.
 *
 * Two engines do the work: io_uring, and threads that call pread() and pwrite() where the kernel refuses io_uring (it is too old, or a
 * seccomp filter or a sysctl says no) or weir was built without liburing.
 *
 * Thread safety: one thread at a time on a file.
 */
#ifndef WR_DISK_H
#define WR_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/status.h>

/* Memory, sizes and places are multiples of it. */
enum { WR_DISK_PAGE = 4096 };

enum wr_disk_kind { WR_DISK_AUTO, WR_DISK_URING, WR_DISK_THREAD };

/* A read or write. It and its data are the caller's, and untouched by him from wr_disk_start() to wr_disk_wait(). */
struct wr_disk_op {
    void *data;
    uint64_t bytes, at; /* how many, and where in the file */
    bool write;
    /* the rest is the engine's */
    bool pending;
    int failed;         /* errno; 0: not yet */
    uint64_t done;      /* bytes */
    struct wr_disk_op *next;
};

struct wr_disk_options {
    const char *folder;     /* where the file is to be; copied */
    const char *what;       /* what it holds, for sentences, e.g. "optimizer states"; a literal */
    uint64_t bytes;         /* of the file, reserved at once */
    enum wr_disk_kind kind; /* WR_DISK_URING insists on it */
    unsigned depth;         /* most operations under way */
    void *memory;           /* what operations move, made known to the kernel if it lets us; NULL: anything */
    uint64_t memory_bytes;
    uint64_t most;          /* bytes that one call of the system moves at most; 0: as many as it takes */
};

struct wr_disk;

/*
 * Makes the file. WEIR_ERR_IO with a sentence that names the folder: it is not there, cannot be written to, or has not enough room;
 * WEIR_ERR_UNSUPPORTED when io_uring is insisted on and refused; WEIR_ERR_NO_MEMORY.
 */
weir_status wr_disk_open(const struct wr_disk_options *options, struct wr_disk **disk, weir_error *err);

/* Waits for what is under way, and gives the room back. NULL does nothing. */
void wr_disk_close(struct wr_disk *disk);

/* "io_uring" or "threads"; whether the page cache is passed by. */
const char *wr_disk_engine_name(const struct wr_disk *disk);
bool wr_disk_direct(const struct wr_disk *disk);

/* Starts an operation whose data, bytes, at and write are set. WEIR_ERR_IO when the kernel does not take it. */
weir_status wr_disk_start(struct wr_disk *disk, struct wr_disk_op *op, weir_error *err);

/*
 * Until it is complete, with all of its bytes; one that was never started is. WEIR_ERR_IO with what the system says, e.g. that the disk
 * is full; WEIR_ERR_TIMEOUT when the disk gives no answer for minutes, and then the operation is still under way.
 */
weir_status wr_disk_wait(struct wr_disk *disk, struct wr_disk_op *op, weir_error *err);

#endif
